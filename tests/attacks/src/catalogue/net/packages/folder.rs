//! The folder of the cache, which is the host's alone.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_domain::{Bind, User};
use belljar_node::{Defence, Sandbox};

use super::{
    FILES, INDEX, PAGE, expect_honest, install, is_right, kept, packages, path, promise, reads,
    right, serve, tenant,
};
use crate::attack::{Seen, verdict};
use crate::harness::findings::Findings;
use crate::harness::say::{Script, get};
use crate::harness::stage::Stage;
use crate::harness::world::World;

/// Where a control shows the folder inside.
const SHOWN: &str = "/mnt";

/// Looks for a kept file inside, as both users.
async fn look(
    stage: &Stage,
    world: &World,
    sandbox: &Sandbox,
    name: &str,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let folder = world.packages().display().to_string();
    for user in [User::User, User::Root] {
        let mut command = stage.place(sandbox, "net/net_33.py", &[&*folder, name]).await?;
        command.user = user;
        command.wall = Some(Duration::from_secs(20));
        let ran = stage.exec(sandbox, &command).await?;
        findings.add(verdict(&ran)?);
    }
    Ok(())
}

/// To list, read and write it from inside, and to have the gateway do so.
pub(in super::super) async fn reached(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let names = ["kept".to_owned()];
    promise(&world, &names);
    serve(&world, &names);
    let sandbox = tenant(&stage, &world, "tenant", packages(&[INDEX])).await?;
    let file = Script::gateway("kept").ask(get(FILES, &path("kept")));
    let (_, said) = stage.say(&sandbox, &[reads(INDEX, PAGE), file]).await?;
    ensure!(is_right(&said[1], "kept"), "not fetched: {}", said[1].brief());
    let before = kept(&world)?;
    let (digits, _) = before.first().context("nothing is kept")?;
    let mut findings = Findings::default();
    if control {
        // What would be so if the cache were shared as a folder.
        let stage = stage.without(&[Defence::ReadOnlyLower]);
        let shared = Bind::of_sandboxes(world.packages(), SHOWN);
        let sandbox = stage.sandbox(|spec| spec.root.binds.push(shared)).await?;
        look(&stage, &world, &sandbox, digits, &mut findings).await?;
        let seen = findings.seen();
        let told = matches!(&seen, Seen::Breach(text) if ["read", "changed", "added to"]
            .iter().all(|what| text.contains(what)));
        let changed = kept(&world)? != before;
        ensure!(told && changed, "a folder that is shown is not used: {seen:?}");
        return Ok(seen);
    }
    look(&stage, &world, &sandbox, digits, &mut findings).await?;
    let folder = world.packages().display().to_string();
    let place = format!("files/shared/sha256/{}/{digits}", &digits[..2]);
    let targets = [
        format!("file://{folder}/{place}"),
        format!("{folder}/{place}"),
        format!("/{place}"),
        format!("/packages/{place}"),
        format!("/operations/plain/../../packages/{place}"),
        format!("http://{INDEX}/simple/../../../../../../../..{folder}/{place}"),
        format!("http://{INDEX}/simple/..%2f..%2f..%2f..%2f..%2f..{folder}/{place}"),
        format!("http://{FILES}/files/{digits}"),
        format!("http://localhost/{place}"),
    ];
    let ask = |target: &String| {
        let head = format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        Script::gateway(target.as_str()).ask(head)
    };
    let scripts: Vec<Script> = targets.iter().map(ask).collect();
    let (_, said) = stage.say(&sandbox, &scripts).await?;
    let bytes = String::from_utf8_lossy(&right("kept")).into_owned();
    for said in &said {
        let refused = said.status() >= 400 && !said.has(&bytes);
        findings.expect(refused, "and the gateway hands out no path", said.brief());
    }
    findings.expect(kept(&world)? == before, "the folder is as it was", "it is not");
    install(&stage, &world, &names, 1, &mut findings).await?;
    expect_honest(&world, 1, &mut findings)?;
    Ok(findings.seen())
}

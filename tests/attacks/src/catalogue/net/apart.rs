//! Sessions of the gateway, kept apart: their authorities, their listeners, their connections.

use anyhow::ensure;
use belljar_domain::network::{Decision, Policy, Subject};
use belljar_node::{Command, Sandbox};
use belljar_peer_proto::gateway::Session;

use super::carrying::read;
use super::{served, works};
use crate::attack::{Seen, verdict};
use crate::harness::findings::Findings;
use crate::harness::say::{Script, get};
use crate::harness::stage::Stage;
use crate::harness::world::{World, allow, open};

/// Connects a sandbox whose rule needs content, and returns its authority's certificate.
async fn authority(world: &World, sandbox: &Sandbox) -> anyhow::Result<String> {
    let subject = Subject {
        tenant: "tenant".to_owned(),
        sandbox: sandbox.id().clone(),
        run: None,
        turn: None,
        call: None,
        process: None,
    };
    let session = Session {
        subject,
        policy: read("allowed.test")?,
        operations: Default::default(),
        charged: None,
    };
    Ok(sandbox.connect_gateway(&world.gateway, session).await?.authority)
}

/// The authority of another sandbox, and the host's own roots, for a host whose TLS is ended.
pub(super) async fn authorities(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let one = stage.sandbox(|_| {}).await?;
    let two = stage.sandbox(|_| {}).await?;
    let (of_one, of_two) = (authority(&world, &one).await?, authority(&world, &two).await?);
    stage.write(&one, "/tmp/own.pem", of_one.clone().into_bytes()).await?;
    stage.write(&one, "/tmp/other.pem", of_two.clone().into_bytes()).await?;
    if control {
        return verdict(&stage.run(&one, "net/net_29.py", &["/tmp/own.pem"]).await?);
    }
    let mut findings = Findings::default();
    findings.expect(of_one != of_two, "each sandbox has its own", "they are the same");
    findings.verdict(&stage.run(&one, "net/net_29.py", &["/tmp/other.pem"]).await?)?;
    let roots = "/etc/ssl/certs/ca-certificates.crt";
    if std::path::Path::new(roots).exists() {
        let trusted = std::fs::read_to_string(roots)?;
        let lines = |pem: &str| pem.lines().nth(1).unwrap_or_default().to_owned();
        let is_trusted = [&of_one, &of_two].iter().any(|pem| trusted.contains(&lines(pem)));
        findings.expect(!is_trusted, "the host trusts neither", "it does");
    }
    // The key is in the gateway's memory and in no file of either side.
    let search =
        "grep -rlsE 'BEGIN [A-Z ]*PRIVATE KEY' /tmp /home /etc/ssl /run /var 2>/dev/null | head -3";
    let found = stage.exec(&one, &Command::shell(search)).await?.text();
    findings.expect(found.is_empty(), "no key is inside", found);
    let on_disk = std::process::Command::new("grep")
        .args(["-rlsE", "BEGIN [A-Z ]*PRIVATE KEY"])
        .arg(stage.engines.state())
        .output()?;
    findings.expect(
        on_disk.stdout.is_empty(),
        "nor in the engine's state",
        String::from_utf8_lossy(&on_disk.stdout),
    );
    Ok(findings.seen())
}

/// What a sandbox began to say is over with it, and nothing of it reaches the world in the name
/// of the next one.
pub(super) async fn recycled(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    const ROUNDS: usize = 6;
    let world = World::start().await?;
    let late = |wait: f32| {
        Script::gateway("late")
            .send("GET http://allowed.test/hel")
            .mark("open")
            .sleep(wait)
            .ask("lo HTTP/1.1\r\nhost: allowed.test\r\n\r\n")
    };
    if control {
        let old = served(&stage, &world, open()).await?;
        let (_, said) = stage.say(&old, &[late(0.5)]).await?;
        return Ok(works(said[0].has("hello"), "while it lives, a late word arrives", &said));
    }
    let mut findings = Findings::default();
    for _ in 0..ROUNDS {
        let old = served(&stage, &world, open()).await?;
        let mut running = stage.saying(&old, &[late(0.3)], false).await?;
        running.until("MARK open").await?;
        // Its listener and its slot are free from here on.
        let ending = tokio::spawn(running.finish());
        stage.destroy(old).await?;
        let next = served(&stage, &world, Policy::default()).await?;
        let (_, said) =
            stage.say(&next, &[Script::gateway("next").ask(get("allowed.test", "/hello"))]).await?;
        findings.expect(said[0].status() == 403, "the next has its own policy", said[0].brief());
        let rows = world.rows(next.id());
        let allowed = rows.iter().filter(|row| row.decision == Decision::Allowed).count();
        findings.expect(allowed == 0, "and its own rows", allowed);
        let _ = ending.await?;
        stage.destroy(next).await?;
    }
    let total = world.web.record().total();
    findings.expect(total == 0, "no late word reached the world", total);
    Ok(findings.seen())
}

/// Connections, cookies and look-ups of one tenant, for the next.
pub(crate) async fn reused(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let cookie =
        "HTTP/1.1 200 OK\r\nset-cookie: session=of-tenant-one\r\ncontent-length: 5\r\n\r\nhello";
    world.web.place_raw("/cookie", cookie.as_bytes());
    let one = stage.sandbox(|_| {}).await?;
    world.connect_as("one", &one, allow(&["allowed.test"])?).await?;
    let echo = || Script::gateway("echo").ask(get("allowed.test", "/echo"));
    let set = Script::gateway("cookie").ask(get("allowed.test", "/cookie"));
    let (_, said) = stage.say(&one, &[set, echo()]).await?;
    ensure!(said.iter().all(|said| said.status() == 200), "{}", said[0].brief());
    let before = (world.web.connections(), world.names.queries().len());
    if control {
        // The same session has its connection again.
        let (_, said) = stage.say(&one, &[echo()]).await?;
        let same = world.web.connections() == before.0;
        return Ok(works(same, "a session's own connection is used again", &said));
    }
    let two = stage.sandbox(|_| {}).await?;
    world.connect_as("two", &two, allow(&["allowed.test"])?).await?;
    let (_, said) = stage.say(&two, &[echo()]).await?;
    let mut findings = Findings::default();
    ensure!(said[0].status() == 200, "{}", said[0].brief());
    findings.expect(!said[0].has("of-tenant-one"), "no cookie is kept", said[0].brief());
    let now = world.web.connections();
    findings.expect(now > before.0, "the next tenant has a connection of its own", now);
    let asked = world.names.queries().len();
    findings.expect(asked > before.1, "and a look-up of its own", asked);
    Ok(findings.seen())
}

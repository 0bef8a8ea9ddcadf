//! Template builds run tenants' code: floors hold for them as for sandboxes.

mod disk;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, ensure};
use belljar_domain::{Runtime, Tier};
use belljar_sandboxes::Tiers;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) use disk::steps_are_bounded;

use crate::client::Client;
use crate::small::{Built, SmallServer, make_base, until};
use crate::world::World;

/// Commands whose result differs if a tier keeps a directory wrongly: names that are removed,
/// directories that are replaced, links, modes.
const CHANGES: &str = "set -e; rm /usr/bin/touch; mv /usr/bin/stat /usr/bin/status; \
    mkdir -p /opt/d/e; echo one > /opt/d/e/f; ln /opt/d/e/f /opt/d/hard; \
    ln -s ../d/e /opt/d/soft; chmod 0640 /opt/d/e/f; rm -r /opt/old; mkdir /opt/old; \
    echo new > /opt/old/only";

/// What a sandbox sees of them.
const SEEN: &str = "[ -e /usr/bin/touch ] || echo removed; \
    status -c '%F %a %u %h %s' /opt/d/e/f /opt/d/hard /opt/d/soft; \
    cat /opt/d/soft/f; cat /opt/d/hard; echo /opt/old/*";

/// API-16/floor/builds: neither a command of a build nor its rehearsal gets below a floor.
pub(crate) async fn floors_hold(_: &World) -> anyhow::Result<String> {
    let dir = new_directory()?;
    make_base(dir.path(), &dir.path().join("one-store"))?;
    let server = SmallServer::start(dir.path(), "one", |_, _| Ok(())).await?;
    let seen = Box::pin(hold(&server)).await;
    server.stop().await?;
    let (want, said) = seen?;
    // The operator's choice for builds, where sandboxes have another.
    let dir = new_directory()?;
    make_base(dir.path(), &dir.path().join("two-store"))?;
    let crun = Tier::Oci(Runtime::Crun);
    let server = SmallServer::start(dir.path(), "two", |_, config| {
        config.tiers = Tiers::new(Tier::GVISOR, Tier::Jail, None)?.with_builds(Some(crun))?;
        Ok(())
    });
    let server = server.await?;
    let built = server.a.build_as("plain:v1", &plain()).await;
    let seen = match &built {
        Ok(built) if built.said.contains("cannot run the tier") => Ok("not here".to_owned()),
        _ => seen_in(&server.a, "plain:v1", "jail").await,
    };
    server.stop().await?;
    let got = seen.with_context(|| format!("{built:?}"))?;
    ensure!(got == want || got == "not here", "in a jail:\n{want}\nin crun:\n{got}");
    Ok(format!("{said}; crun by --build-tier"))
}

pub(super) fn new_directory() -> anyhow::Result<TempDir> {
    let dir = tempfile::tempdir()?;
    // The user ids of sandboxes must be able to pass through.
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o711))?;
    Ok(dir)
}

/// Answers what a build kept, too.
async fn hold(server: &SmallServer) -> anyhow::Result<(String, String)> {
    let b = &server.b;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let kernel = kernel.trim();
    let told = told(kernel);
    // The control: without a floor, commands see the host's kernel.
    let built = b.build_as("free:v1", &told).await?;
    ensure!(built.said.contains(&on(kernel)), "{built:?}");
    ensure!(built.status == "error" && built.said.contains("exit status 7"), "{built:?}");
    b.build_as("plain:v1", &plain()).await?.expect("ready")?;
    let want = seen_in(b, "plain:v1", "jail").await?;

    server.raise("oci/runsc").await?;
    let built = b.build_as("low:v1", &told).await?;
    ensure!(!built.said.contains(&on(kernel)), "a command ran on the host's kernel: {built:?}");
    let given = if built.status == "ready" {
        ensure!(
            built.said.contains("[stdout]: kernel of this step: "),
            "no command ran: {built:?}"
        );
        // What a build keeps is the same whatever it ran in.
        b.build_as("plain:v2", &plain()).await?.expect("ready")?;
        let got = seen_in(b, "plain:v2", "oci/runsc").await?;
        ensure!(got == want, "in a jail:\n{want}\nin gVisor:\n{got}");
        "given"
    } else {
        ensure!(built.said.contains("cannot run the tier `oci/runsc`"), "{built:?}");
        "refused"
    };

    // A floor that is raised while a build runs holds for what is left of it.
    let slow = json!({ "fromTemplate": "small", "force": true, "steps": [
        run("echo begun; sleep 4"),
        run("echo kernel of this step: $(uname -r)"),
    ] });
    if given == "given" {
        let (id, path) = b.ask_build("slow:v1").await?;
        b.json("POST", &path, &slow).await?.expect(202)?;
        let status = format!("{}/status", path.trim_start_matches("/v2"));
        until("the first step", async || Ok(b.get(&status).await?.text().contains("begun")))
            .await?;
        server.raise("microvm").await?;
        let built = b.built(id, &path).await?.expect("error")?;
        ensure!(built.said.contains("tier_too_weak"), "{built:?}");
        ensure!(!built.said.contains("[stdout]: kernel of this step: "), "{built:?}");
    } else {
        server.raise("microvm").await?;
    }

    // No command can be kept from a machine: refused before it begins, with the next step.
    for told in [told, plain(), slow] {
        let (_, path) = b.ask_build("machine:v1").await?;
        let refused = b.json("POST", &path, &told).await?;
        let text = refused.text();
        ensure!(refused.status == 400 && text.contains("tier_too_weak"), "{text}");
        ensure!(text.contains("microvm") && text.contains("copy files"), "{text}");
    }
    // It is not everybody's floor.
    server.a.build("small", "others:v1", "echo so > /home/user/so").await?;
    Ok((want, format!("commands and rehearsals; gVisor {given}, machines refused")))
}

/// Two commands that tell their kernel: a step, and the one that sandboxes start with. The
/// latter fails on the host's.
fn told(kernel: &str) -> Value {
    json!({
        "fromTemplate": "small",
        "force": true,
        "steps": [run("echo kernel of this step: $(uname -r)")],
        "startCmd": format!("[ $(uname -r) != {kernel} ] || exit 7"),
    })
}

fn on(kernel: &str) -> String {
    format!("kernel of this step: {kernel}")
}

fn plain() -> Value {
    let first = "mkdir -p /opt/old; echo old > /opt/old/gone";
    json!({ "fromTemplate": "small", "steps": [run(first), run(CHANGES)], "force": true })
}

fn run(command: &str) -> Value {
    json!({ "type": "RUN", "args": [command, "root"] })
}

/// What a sandbox of the template finds.
async fn seen_in(client: &Client, template: &str, tier: &str) -> anyhow::Result<String> {
    let sandbox = client.sandbox(&json!({ "template": template, "tier": tier })).await?;
    let seen = client.run(&sandbox, SEEN).await?;
    ensure!(seen["end"]["reason"] == "done", "{seen}");
    Ok(seen["stdout"]["data"].as_str().context("no output")?.to_owned())
}

impl Built {
    fn expect(self, status: &str) -> anyhow::Result<Self> {
        ensure!(self.status == status, "not {status}: {self:?}");
        Ok(self)
    }
}

//! LNG: languages and the supply chain, where nothing is a boundary.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use belljar_domain::{Bind, User};
use belljar_node::Defence::{NetNamespace, ReadOnlyLower, Seccomp};
use belljar_node::{Command, Leftovers};

use crate::attack::{Act, Attack, Control, Payload, Seen, payload, verdict, verdict_in};
use crate::harness::stage::Stage;

pub(crate) fn attacks() -> Vec<Attack> {
    let one = |id, payload: Payload, control| Attack::new(id, Act::Payload(payload), control);
    let driven = |id, act, control| Attack::new(id, Act::Driven(act), control);
    vec![
        one("LNG-01", payload("lng/lng_01.py"), Control::Without(&[Seccomp])),
        one("LNG-02", payload("lng/lng_02.py"), Control::Own(|stage| Box::pin(with_bridge(stage)))),
        one(
            "LNG-03",
            payload("lng/lng_03.py").args_from(targets),
            Control::Without(&[NetNamespace]),
        ),
        driven(
            "LNG-04",
            |stage| Box::pin(repository(stage, None)),
            Control::Own(|stage| {
                Box::pin(repository(stage, Some("cd /tmp/repo/lng04/clone && git status")))
            }),
        ),
        one(
            "LNG-05",
            payload("lng/lng_05.c"),
            Control::Own(|stage| Box::pin(with_listener(stage))),
        ),
        one(
            "LNG-06",
            payload("lng/lng_06.c"),
            Control::Own(|stage| Box::pin(writable_libraries(stage))),
        ),
        driven(
            "LNG-07",
            |_| Box::pin(async { advisories(Path::new(env!("CARGO_MANIFEST_DIR"))) }),
            Control::Own(|_| Box::pin(async { advisories(tempfile::tempdir()?.path()) })),
        ),
    ]
}

/// A module that looks like a bridge must be noticed.
async fn with_bridge(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    stage.write(&sandbox, "/tmp/js.py", b"process = None\n".to_vec()).await?;
    let mut command = stage.place(&sandbox, "lng/lng_02.py", &[""; 0]).await?;
    command.env.push((b"PYTHONPATH".to_vec(), b"/tmp".to_vec()));
    verdict(&stage.exec(&sandbox, &command).await?)
}

/// Places that a package must not reach: a listener on the host and, where
/// there is no route, addresses that nobody has.
fn targets(stage: &Stage) -> Vec<String> {
    let mut list = vec![format!("to=127.0.0.1:{}", stage.canaries().port())];
    if !stage.is_control() {
        list.extend(
            ["192.0.2.1:443", "198.51.100.1:80", "203.0.113.1:53"].map(|to| format!("to={to}")),
        );
    }
    list
}

/// Leaves a hostile repository and reads it as the host does. Its programs must
/// not run again; `careless` is what would make them.
async fn repository(stage: Stage, careless: Option<&str>) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut command = stage.place(&sandbox, "lng/lng_04.sh", &["/tmp/repo"]).await?;
    command.wall = Some(std::time::Duration::from_secs(20));
    let seen = verdict(&stage.exec(&sandbox, &command).await?)?;
    let before = stage.download(&sandbox, "/tmp/repo/lng04/marker").await?;
    let listing = sandbox.list(User::User, b"/tmp/repo", 8).await.context("cannot list")?;
    ensure!(listing.entries.len() > 10, "no repository was left");
    for entry in listing.entries {
        // Most of it may be refused; none of it may run.
        let _ = sandbox.download(User::User, &entry.path, 1 << 20, &mut tokio::io::sink()).await;
    }
    if let Some(script) = careless {
        stage.exec(&sandbox, &Command::shell(script)).await?;
    }
    let after = stage.download(&sandbox, "/tmp/repo/lng04/marker").await?;
    if before == after {
        Ok(seen)
    } else {
        Ok(Seen::Breach("a program of the repository ran while it was read".to_owned()))
    }
}

/// A listener inside the session is what the attack would find.
async fn with_listener(stage: Stage) -> anyhow::Result<Seen> {
    const LISTEN: &str = "import socket, time
server = socket.create_server(('127.0.0.1', 8888))
print('ready', flush=True)
time.sleep(30)";
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut listener = Command::new(["/usr/bin/python3", "-c", LISTEN]);
    listener.leftovers = Leftovers::Keep;
    let mut listener = stage.start(&sandbox, &listener).await?;
    listener.until("ready").await?;
    let ran = stage.run(&sandbox, "lng/lng_05.c", &[""; 0]).await?;
    listener.call.kill();
    listener.finish().await?;
    verdict(&ran)
}

/// Throw-away libraries, writable and owned by the code's user. Never the
/// host's own.
async fn writable_libraries(stage: Stage) -> anyhow::Result<Seen> {
    let stage = stage.without(&[ReadOnlyLower]);
    let usr = tempfile::tempdir()?;
    for dir in ["bin", "lib/x86_64-linux-gnu", "lib64"] {
        fs::create_dir_all(usr.path().join(dir))?;
    }
    fs::copy(stage.programs.path("lng/lng_06.c")?, usr.path().join("bin/lng_06"))?;
    fs::write(usr.path().join("lib/x86_64-linux-gnu/libc.so.6"), "not a library")?;
    let source = usr.path().to_owned();
    let sandbox = stage
        .sandbox(|spec| {
            spec.root.binds = vec![Bind::of_sandboxes(source, "/usr")];
        })
        .await?;
    let mut command = Command::new(["/usr/bin/lng_06"]);
    command.user = User::Root;
    verdict(&stage.exec(&sandbox, &command).await?)
}

/// The gate on this repository's own dependencies, which runs on the host.
fn advisories(tree: &Path) -> anyhow::Result<Seen> {
    let installed = |tool: &str| {
        let found =
            std::process::Command::new("sh").args(["-c", "command -v \"$0\"", tool]).output();
        found.is_ok_and(|output| output.status.success())
    };
    let workspace = tree.ancestors().find(|dir| dir.join("Cargo.lock").exists());
    if workspace.is_some() && !installed("cargo-deny") && !installed("cargo-audit") {
        let why = "neither cargo-deny nor cargo-audit is installed on this host";
        return Ok(Seen::NotHere(why.to_owned()));
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("payloads/lng/lng_07.sh");
    let output = std::process::Command::new("/bin/sh")
        .arg(script)
        .arg(workspace.unwrap_or(tree))
        .output()
        .context("cannot run the gate")?;
    verdict_in(&output.stdout)
}

//! What a container finds of those who made it and of those who serve it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_domain::{Bind, Runtime, Tier, User};
use belljar_node::Command;
use belljar_testkit::Processes;

use super::worst;
use crate::attack::{Seen, full, verdict};
use crate::catalogue::proc;
use crate::harness::files::{self, LIMIT};
use crate::harness::findings::Findings;
use crate::harness::stage::Stage;

/// CVE-2016-9962: a process that joins a container is attacked before it is a program of it.
/// No runtime joins one here: calls are children of the guest, which cannot be traced.
pub(super) async fn joining(stage: Stage, own: bool) -> anyhow::Result<Seen> {
    let args: &[&str] = if own { &["own"] } else { &[] };
    let mut said = Vec::new();
    for user in [User::User, User::Root] {
        let sandbox = stage.sandbox(|_| {}).await?;
        let mut command = stage.place(&sandbox, "oci/oci_10.py", args).await?;
        command.user = user;
        let mut watching = stage.start(&sandbox, &command).await?;
        watching.until("NOTE watching").await?;
        let calls = if own { 0 } else { 12 };
        for number in 0..calls {
            let user = if number % 2 == 0 { User::User } else { User::Root };
            let ran = stage.exec(&sandbox, &Command { user, ..Command::shell("true") }).await?;
            ensure!(ran.end.exit_code == Some(0), "a call: {}", ran.ending());
        }
        said.push(verdict(&watching.finish().await?)?);
        if own {
            break;
        }
    }
    Ok(worst(said))
}

/// CVE-2019-14271: libraries of the image that a helper of the host would load. The guest
/// is one program without any, so transfers work where no program of the image does.
pub(super) async fn libraries(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let usr = tempfile::tempdir()?;
    for dir in ["bin", "lib/x86_64-linux-gnu", "lib64"] {
        fs::create_dir_all(usr.path().join(dir))?;
    }
    fs::set_permissions(usr.path(), fs::Permissions::from_mode(0o755))?;
    for name in ["libc.so.6", "libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"] {
        let path = usr.path().join("lib/x86_64-linux-gnu").join(name);
        fs::write(path, "not a library")?;
    }
    fs::copy("/usr/lib64/ld-linux-x86-64.so.2", usr.path().join("lib64/ld-linux-x86-64.so.2"))?;
    fs::copy("/usr/bin/true", usr.path().join("bin/true"))?;
    let source = usr.path().to_owned();
    let sandbox =
        stage.sandbox(|spec| spec.root.binds = vec![Bind::of_sandboxes(source, "/usr")]).await?;
    if control {
        let ran = stage.exec(&sandbox, &Command::new(["/usr/bin/true"])).await?;
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        return Ok(match said.contains("libc.so.6") {
            true => Seen::Breach(format!("a program of the image loads it: {}", said.trim())),
            false => Seen::Held(format!("no program loads it: {}", ran.ending())),
        });
    }
    let mut findings = Findings::default();
    let up = files::upload(&sandbox, b"/tmp/oci11", b"content").await?;
    findings.expect(up.is_ok(), "uploads work without the image's libraries", format!("{up:?}"));
    let down = files::download(&sandbox, b"/tmp/oci11", LIMIT).await?;
    let same = down.as_ref().is_ok_and(|bytes| bytes == b"content");
    findings.expect(same, "so do downloads", format!("{down:?}"));
    let listed = files::list(&sandbox, b"/tmp").await?;
    findings.expect(listed.is_ok(), "and lists", format!("{listed:?}"));
    let loaded = mapped(&usr.path().display().to_string());
    findings.expect(loaded.is_empty(), "no process of the host has them", format!("{loaded:?}"));
    Ok(findings.seen())
}

/// Processes with files below this directory of the host in their memory.
fn mapped(dir: &str) -> Vec<u32> {
    let all = Processes::now();
    let has = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains(dir))
    };
    all.iter().map(|process| process.pid).filter(has).collect()
}

/// Flags of runsc with which a sandbox would share something with the host.
fn shares(words: &[String]) -> Vec<String> {
    let allowed = [
        ("--network=", &["none"][..]),
        ("--host-uds=", &["none"]),
        ("--host-fifo=", &["none"]),
        ("--overlay2=", &["none"]),
        ("--net-raw=", &["false"]),
        ("--allow-packet-socket-write=", &["false"]),
        ("--host-settings=", &["check", "ignore"]),
    ];
    let is_shared = |word: &&String| {
        let named =
            allowed.iter().find_map(|(flag, values)| Some((word.strip_prefix(flag)?, values)));
        let bare = [
            "--rootless",
            "--TESTONLY",
            "--debug",
            "--fsgofer-host-uds",
            "--nvproxy",
            "--tpuproxy",
        ];
        match named {
            Some((value, values)) => !values.contains(&value),
            None => bare.iter().any(|flag| word.starts_with(flag) && !word.ends_with("=false")),
        }
    };
    words.iter().filter(is_shared).cloned().collect()
}

/// The flags of the runtime that a sandbox runs in, as the host shows them.
pub(super) async fn flags(stage: Stage) -> anyhow::Result<Seen> {
    if stage.tier != Tier::Oci(Runtime::Runsc) {
        return Ok(Seen::NotHere("this runtime leaves no process that shares anything".to_owned()));
    }
    let sandbox = stage.sandbox(|_| {}).await?;
    let id = sandbox.id().as_str().to_owned();
    let all = Processes::now();
    let lines = all.iter().filter_map(|process| {
        let line = fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?;
        let words =
            line.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        let words: Vec<String> = words.collect();
        let is_its = words.first().is_some_and(|first| first.contains("runsc"))
            && words.iter().any(|word| word.contains(&id));
        is_its.then_some(words)
    });
    let lines: Vec<Vec<String>> = lines.collect();
    ensure!(!lines.is_empty(), "no process of the runtime names its sandbox");
    let mut findings = Findings::default();
    for words in &lines {
        let shared = shares(words);
        findings.expect(shared.is_empty(), "nothing is shared", format!("{shared:?}"));
        let none = words.iter().any(|word| word == "--network=none");
        findings.expect(none, "its network is none", words.join(" "));
    }
    let socket = stage.canaries().socket().display().to_string();
    let connect = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\n\
        try:\n    s.connect(sys.argv[1]); print('BREACH a socket of the host answers')\n\
        except OSError as e:\n    print('HELD', e)";
    let command = Command::new(["/usr/bin/python3", "-c", connect, &socket]);
    findings.verdict(&stage.exec(&sandbox, &command).await?)?;
    Ok(findings.seen())
}

/// The same judgement of flags that do share.
pub(super) async fn sharing_flags(_: Stage) -> anyhow::Result<Seen> {
    let flags = ["--network=host", "--host-uds=all", "--overlay2=root:self", "--nvproxy=true"];
    for flag in flags {
        let found = shares(&["runsc".to_owned(), flag.to_owned()]);
        if found.is_empty() {
            return Ok(Seen::Held(format!("{flag} passes")));
        }
    }
    Ok(Seen::Breach("each of these is found".to_owned()))
}

/// The time limit for a search of the whole tree.
const SEARCH: Duration = Duration::from_secs(120);

/// Looks for the sockets of container engines.
pub(super) async fn sockets(stage: Stage, own: bool) -> anyhow::Result<Seen> {
    let args: &[&str] = if own { &["own"] } else { &[] };
    // Every name of a template, by way of gVisor's file server.
    let sandbox = stage.sandbox(|spec| spec.limits.wall = SEARCH).await?;
    let mut command = stage.place(&sandbox, "oci/oci_16.py", args).await?;
    command.user = User::Root;
    command.wall = Some(SEARCH);
    let ran = stage.exec(&sandbox, &command).await?;
    verdict(&ran).context("the search")
}

/// Root with the profile `full` looks for a way to the guest, and to the groups by which calls
/// are counted and ended: gVisor's are mounted inside.
pub(super) async fn groups(stage: Stage) -> anyhow::Result<Seen> {
    let guest = proc::guest_and_root(stage.clone()).await?;
    Ok(worst(vec![guest, within_reach(&stage, &[]).await?]))
}

/// The same search where groups are in a directory of root's.
pub(super) async fn groups_in_reach(stage: Stage) -> anyhow::Result<Seen> {
    within_reach(&stage, &["own"]).await
}

async fn within_reach(stage: &Stage, args: &[&str]) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(full).await?;
    let mut command = stage.place(&sandbox, "oci/oci_17.py", args).await?;
    command.user = User::Root;
    verdict(&stage.exec(&sandbox, &command).await?)
}

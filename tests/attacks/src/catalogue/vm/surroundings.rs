//! What a machine is made in, and what it costs the host.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use anyhow::{Context as _, ensure};
use belljar_node::Node;

use crate::attack::{Seen, verdict};
use crate::harness::findings::Findings;
use crate::harness::host::Groups;
use crate::harness::stage::Stage;

/// CVE-2026-1386: links that wait where the engine makes the directories of machines.
pub(super) async fn waiting_links(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for link in ["vm", "vm/root", "vm/root/usr"] {
        let dir = tempfile::tempdir()?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711))?;
        let (state, outside) = (dir.path().join("state"), dir.path().join("outside"));
        fs::create_dir(&outside)?;
        let place = state.join(link);
        fs::create_dir_all(place.parent().context("no directory")?)?;
        symlink(&outside, &place)?;
        let node = Node::start(Some(&state)).await?;
        let made = node.create(&stage.spec()).await;
        let refused = made.is_err();
        if let Ok(sandbox) = made {
            sandbox.destroy().await?;
        }
        node.stop().await;
        findings.expect(refused, "refused", format!("{link} was followed"));
        let count = fs::read_dir(&outside)?.count();
        findings.expect(count == 0, "nothing is written behind the link", count);
    }
    Ok(findings.seen())
}

/// A program that makes directories without a look follows the link.
pub(super) async fn followed_links(_: Stage) -> anyhow::Result<Seen> {
    let dir = tempfile::tempdir()?;
    let (state, outside) = (dir.path().join("state"), dir.path().join("outside"));
    fs::create_dir(&outside)?;
    fs::create_dir(&state)?;
    symlink(&outside, state.join("vm"))?;
    fs::create_dir_all(state.join("vm/root"))?;
    Ok(match outside.join("root").is_dir() {
        true => Seen::Breach("a directory was made behind the link".to_owned()),
        false => Seen::Held("the link was not followed".to_owned()),
    })
}

/// A storm of timers. The monitor's work is the machine's: it is charged to its group.
pub(super) async fn timers(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let groups = Groups::of(&sandbox);
    let used = || groups.number("cpuacct.usage");
    let before = used();
    let ran = stage.run(&sandbox, "vm/vm_10.py", &["6"]).await?;
    let seen = verdict(&ran)?;
    if let (Some(before), Some(after)) = (before, used()) {
        let seconds = after.saturating_sub(before) / 1_000_000_000;
        ensure!(seconds >= 1, "only {seconds} s of CPU are charged to the machine");
    }
    Ok(seen)
}

/// The same search for a device that is there.
pub(super) async fn nested(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    verdict(&stage.run(&sandbox, "vm/vm_12.c", &["/dev/null"]).await?)
}

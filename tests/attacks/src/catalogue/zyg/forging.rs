//! Attacks on the zygote and on the host, by the only descriptor there is.

use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_domain::{EndReason, Spec};
use belljar_node::Origin;

use crate::attack::{Seen, verdict};
use crate::harness::findings::Findings;
use crate::harness::host::{self, Groups};
use crate::harness::stage::Stage;
use crate::harness::warm::Made;

/// What is written to descriptor 3, and whether the context must end of it.
const FORGERIES: [(&str, &str, Forged); 7] = [
    ("no frame", "b'\\xff' * 64", Forged::Ends),
    ("a frame that is not JSON", "frame(b'not json')", Forged::Ends),
    ("a frame without end", "(0xffffffff).to_bytes(4, 'little')", Forged::Ends),
    ("deep JSON", "frame(b'[' * 200000)", Forged::Ends),
    ("an unknown message", "frame(b'{\"ev\": \"fork\", \"target\": 1}')", Forged::Ends),
    (
        "messages of another time",
        "frame(b'{\"ev\": \"ready\", \"version\": \"9\"}') + \
        frame(b'{\"ev\": \"parked\", \"cwd\": \"/\"}')",
        Forged::Nothing,
    ),
    (
        "the end of another cell",
        "frame(b'{\"ev\": \"done\", \"id\": 999, \"ok\": true}')",
        Forged::Nothing,
    ),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forged {
    Ends,
    Nothing,
}

pub(super) async fn all(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.warm_sandbox(Made::Forked, |_| {}).await?;
    let context = stage.python(&sandbox).await?;
    let groups = Groups::of(&sandbox);
    let zygotes = groups.zygotes();
    let mut pids = zygotes.clone();
    pids.push(stage.engines.spawner());
    pids.push(std::process::id());
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    findings.verdict(&stage.cell(&context, "zyg/zyg_06.py", &pids).await?)?;
    let beside = sandbox.context(stage.warm()?.options()?).await?;
    stage.code(&beside, "kept = 41").await?;
    for (what, bytes, forged) in FORGERIES {
        let context = sandbox.context(stage.warm()?.options()?).await?;
        let code = format!(
            "import os\ndef frame(body): return len(body).to_bytes(4, 'little') + body\n\
             text = {bytes}\nwhile text: text = text[os.write(3, text):]\nprint('went on')"
        );
        let ran = context.execute(code, Some(Duration::from_secs(5))).await;
        let told = match forged {
            Forged::Ends => ran.end.reason == EndReason::Policy && !ran.end.alive,
            Forged::Nothing => ran.end.reason == EndReason::Done && ran.end.alive,
        };
        let instead = format!("{what}: {} alive {}", ran.end.reason, ran.end.alive);
        findings.expect(told, "a forger hurts itself at most", instead);
        let ran = stage.code(&beside, "print(kept + 1)").await?;
        let serves = ran.text().trim() == "42";
        findings.expect(serves, "other contexts go on", format!("{what}: {}", ran.ending()));
    }
    let after = stage.warm_sandbox(Made::Forked, |_| {}).await?;
    let origin = stage.python(&after).await?.facts().origin;
    findings.expect(origin == Origin::Forked, "the zygote forks on", origin.as_str());
    let now = groups.zygotes();
    // A child that is just being forked is in its group for a moment, too.
    let same = zygotes.iter().any(|zygote| now.contains(zygote));
    findings.expect(same, "and is the same", format!("{zygotes:?}, now {now:?}"));
    let victim = Victim::start()?;
    let before = host::groups_of_process(victim.pid());
    let seen = with_descriptors(&stage, &format!("pid={}", victim.pid())).await?;
    let after = host::groups_of_process(victim.pid());
    findings.expect(before == after, "a process of the host stays in its groups", after);
    findings.add(seen);
    Ok(findings.seen())
}

/// A process of the host's that nobody else needs.
struct Victim(Child);

impl Victim {
    fn start() -> anyhow::Result<Self> {
        Ok(Self(Command::new("sleep").arg("120").spawn()?))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a poisoned zygote does with the descriptors that it is sent for a fork.
async fn with_descriptors(stage: &Stage, wish: &str) -> anyhow::Result<Seen> {
    let source = std::fs::read_to_string(stage.programs.path("zyg/zyg_06_groups.py")?)?;
    let node = stage.start_node().await?;
    let mut warmth = stage.warm()?.warmth()?;
    warmth.code = format!("import sys\nsys.argv = ['zyg_06', '{wish}']\n{source}");
    node.warm_up(warmth, None).await.context("the hostile warm-up did not even start")?;
    let spec = Spec { root: stage.warm()?.root(), ..stage.spec() };
    let sandbox = stage.keep(node.create(&spec).await?)?;
    // The first comes with the sandbox, by way of the spawner; the second is asked for.
    let mut seen = Seen::NotHere("no interpreter was forked".to_owned());
    for _ in 0..2 {
        let context = sandbox.context(stage.warm()?.options()?).await?;
        ensure!(context.facts().origin == Origin::Forked, "it was not forked");
        let ran = stage.code(&context, "import sys; print(sys.zyg06)").await?;
        seen = verdict(&ran)?;
        if matches!(seen, Seen::Breach(_)) {
            break;
        }
    }
    stage.destroy(sandbox).await?;
    node.stop().await;
    Ok(seen)
}

/// A process that it may do all that to: itself, or one that it has forked.
pub(super) async fn itself(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.warm_sandbox(Made::Forked, |_| {}).await?;
    let context = stage.python(&sandbox).await?;
    let ran = stage.cell(&context, "zyg/zyg_06.py", &["self"]).await?;
    let signalled = verdict(&ran).context("it did not find itself")?;
    let has_v1 = std::fs::read_to_string("/proc/self/cgroup")?.lines().any(|line| {
        let mut parts = line.split(':');
        parts.next() != Some("0") && parts.next().is_some_and(|name| name.contains("pids"))
    });
    if !has_v1 {
        // Version 2 has no descriptor that a number could be written to.
        return Ok(signalled);
    }
    match with_descriptors(&stage, "own").await? {
        Seen::Breach(_) => Ok(signalled),
        other => Ok(other),
    }
}

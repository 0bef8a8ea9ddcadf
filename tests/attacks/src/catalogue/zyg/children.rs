//! What a child of the zygote is, has and sees.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_domain::Spec;
use belljar_domain::limits::MIB;
use belljar_node::{Command, Context, Leftovers, Origin, Weakened};

use crate::attack::{Seen, verdict};
use crate::harness::findings::Findings;
use crate::harness::golden;
use crate::harness::host::{self, Groups};
use crate::harness::stage::Stage;
use crate::harness::warm::Made;

/// Scans the memory of a forked and of a copied interpreter, while another
/// session has a secret.
pub(super) async fn memory(stage: Stage, args: &[&str]) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let other = stage.warm_sandbox(Made::Forked, |_| {}).await?;
    let context = stage.python(&other).await?;
    let plant = "secret = ['ses-can' + 'ary-' + '%024x' % number for number in range(1000)]";
    stage.code(&context, plant).await?;
    for made in [Made::Forked, Made::Copied] {
        let tune = |spec: &mut Spec| {
            spec.limits.memory_bytes = 512 * MIB;
            spec.limits.wall = Duration::from_secs(25);
        };
        let sandbox = stage.warm_sandbox(made, tune).await?;
        let context = stage.python(&sandbox).await?;
        findings.verdict(&stage.cell(&context, "zyg/zyg_01.py", args).await?)?;
    }
    Ok(findings.seen())
}

pub(super) async fn inherited(stage: Stage, args: &[&str]) -> anyhow::Result<Seen> {
    let sandbox = stage.warm_sandbox(Made::Forked, |_| {}).await?;
    let context = stage.python(&sandbox).await?;
    let ran = stage.cell(&context, "zyg/zyg_02.py", args).await?;
    let lines = ran.after("GOLDEN ");
    ensure!(lines.len() > 10, "it listed nothing: {}", ran.ending());
    golden::compare("zygote-child.txt", &lines, stage.bless && args.is_empty())
}

/// What several interpreters print after a word, by name.
async fn printed(
    stage: &Stage,
    contexts: &[Context],
    head: &str,
    args: &[&str],
) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for context in contexts {
        let ran = stage.cell(context, "zyg/zyg_03.py", args).await?;
        let lines = ran.after(head);
        ensure!(!lines.is_empty(), "it drew nothing: {}", ran.ending());
        for (name, value) in lines.iter().filter_map(|line| line.split_once(' ')) {
            values.entry(name.to_owned()).or_default().push(value.to_owned());
        }
    }
    Ok(values)
}

pub(super) async fn draws(stage: Stage, args: &[&str]) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let mut contexts = Vec::new();
    // Two siblings, two contexts of one sandbox, two copies.
    let first = stage.warm_sandbox(Made::Forked, |_| {}).await?;
    contexts.push(stage.python(&first).await?);
    contexts.push(first.context(stage.warm()?.options()?).await?);
    let second = stage.warm_sandbox(Made::Forked, |_| {}).await?;
    contexts.push(stage.python(&second).await?);
    let checkpoint = second.checkpoint().await.context("cannot checkpoint")?;
    for _ in 0..2 {
        let copy = stage.keep(stage.node.fork(&checkpoint).await?)?;
        contexts.push(stage.python(&copy).await?);
    }
    for (name, mut values) in printed(&stage, &contexts, "DRAW ", args).await? {
        let drawn = values.len();
        values.sort_unstable();
        values.dedup();
        let differ = values.len() == drawn && drawn == contexts.len();
        findings.expect(differ, "all draws differ", format!("{name}: {values:?}"));
    }
    Ok(findings.seen())
}

/// Siblings are alike, as documented; executed interpreters are not.
pub(super) async fn layout(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let mut siblings = Vec::new();
    for _ in 0..2 {
        let sandbox = stage.warm_sandbox(Made::Forked, |_| {}).await?;
        siblings.push(stage.python(&sandbox).await?);
    }
    for (name, values) in printed(&stage, &siblings, "SHARED ", &[]).await? {
        let alike = values[0] == values[1];
        findings.expect(alike, "siblings are alike, as documented", format!("{name}: {values:?}"));
    }
    let warm = stage.warm()?;
    let mut strangers = Vec::new();
    let spec = Spec { root: warm.root(), ..stage.spec() };
    for _ in 0..2 {
        let made = stage.node.create_weakened(&spec, &Weakened::default()).await?;
        let context = stage.keep(made)?.context(warm.options()?).await?;
        ensure!(context.facts().origin == Origin::Executed, "it was not executed");
        strangers.push(context);
    }
    for (name, values) in printed(&stage, &strangers, "SHARED ", &[]).await? {
        let differ = values[0] != values[1];
        findings.expect(differ, "executed interpreters differ", format!("{name}: {values:?}"));
    }
    Ok(findings.seen())
}

pub(super) async fn shared(stage: Stage, args: &[&str]) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for made in [Made::Forked, Made::Copied] {
        let sandbox = stage.warm_sandbox(made, |_| {}).await?;
        let context = stage.python(&sandbox).await?;
        findings.verdict(&stage.cell(&context, "zyg/zyg_05.py", args).await?)?;
    }
    Ok(findings.seen())
}

pub(super) async fn handles(stage: Stage, args: &[&str]) -> anyhow::Result<Seen> {
    let sandbox = stage.warm_sandbox(Made::Forked, |_| {}).await?;
    let context = stage.python(&sandbox).await?;
    verdict(&stage.cell(&context, "zyg/zyg_12.py", args).await?)
}

/// One child changes everything it can; the next must be as the one before.
/// `itself`: whether the one that changed looks at itself.
pub(super) async fn modules(stage: Stage, itself: bool) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let mut states = Vec::new();
    for args in [&[][..], &["mutate"], &[]] {
        let sandbox = stage.warm_sandbox(Made::Forked, |_| {}).await?;
        let context = stage.python(&sandbox).await?;
        let ran = stage.cell(&context, "zyg/zyg_10.py", args).await?;
        let state = ran.after("STATE ").pop();
        states.push(state.with_context(|| format!("it said no state: {}", ran.ending()))?);
    }
    let other = if itself { &states[1] } else { &states[2] };
    findings.expect(*other == states[0], "modules are as before", format!("{states:?}"));
    Ok(findings.seen())
}

/// Fields of a status that say how a process is confined.
const FIELDS: [&str; 11] = [
    "Uid",
    "Gid",
    "Groups",
    "NoNewPrivs",
    "Seccomp",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "Seccomp_filters",
];
const NAMESPACES: [&str; 7] = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"];

/// How the kernel says that a process is confined.
fn confinement(pid: u32) -> anyhow::Result<BTreeMap<String, String>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mut found = BTreeMap::new();
    for line in status.lines() {
        if let Some((name, value)) = line.split_once(':')
            && FIELDS.contains(&name)
        {
            found.insert(name.to_owned(), value.trim().to_owned());
        }
    }
    for namespace in NAMESPACES {
        let link = fs::read_link(format!("/proc/{pid}/ns/{namespace}"))?;
        found.insert(namespace.to_owned(), link.display().to_string());
    }
    let limits = fs::read_to_string(format!("/proc/{pid}/limits"))?;
    found.insert("limits".to_owned(), limits);
    let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj"))?;
    found.insert("oom_score_adj".to_owned(), score.trim().to_owned());
    Ok(found)
}

/// Compares an interpreter that has run nothing yet with a call of its sandbox.
pub(super) async fn confined(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for made in [Made::Forked, Made::Copied] {
        let sandbox = stage.warm_sandbox(made, |_| {}).await?;
        let context = stage.python(&sandbox).await?;
        let pid = context.facts().pid.context("it has no pid")?;
        let before = confinement(pid)?;
        let mut call = Command::shell("echo ready; exec sleep 9");
        call.leftovers = Leftovers::Keep;
        let mut running = stage.start(&sandbox, &call).await?;
        running.until("ready").await?;
        let members = Groups::of(&sandbox).members(running.call.number());
        let model = confinement(*members.first().context("the call has no process")?)?;
        running.call.kill();
        running.finish().await?;
        for (name, value) in &model {
            // A call has the guest's filter as well as its own.
            let same = match name.as_str() {
                "Seccomp_filters" => before.get(name).is_some_and(|count| count != "0"),
                _ => before.get(name) == Some(value),
            };
            let instead = format!("{} {name}: {:?} for {value:?}", made.as_str(), before.get(name));
            findings.expect(same, "it is confined as a call is", instead);
        }
        let text = stage.code(&context, "print(open('/proc/self/status').read())").await?.text();
        let inside = |line: &str| text.lines().any(|said| said.replace('\t', "") == line);
        for line in ["Seccomp:2", "NoNewPrivs:1", "CapEff:0000000000000000", "Threads:1"] {
            findings.expect(inside(line), "it says so itself", line);
        }
        let after = confinement(pid)?;
        findings.expect(before == after, "and stays so", format!("{after:?}"));
    }
    Ok(findings.seen())
}

/// A process of the host must be told from one that is confined.
pub(super) async fn unconfined(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.warm_sandbox(Made::Forked, |_| {}).await?;
    let context = stage.python(&sandbox).await?;
    let pid = context.facts().pid.context("it has no pid")?;
    let mut findings = Findings::default();
    let same = confinement(pid)? == confinement(std::process::id())?;
    findings.expect(same, "it is confined as this process", "it differs");
    Ok(findings.seen())
}

/// Whether every group of a process that is ours at all is the sandbox's.
fn is_counted(pid: u32, id: &str) -> (bool, String) {
    let groups = host::groups_of_process(pid);
    let ours: Vec<_> = groups.lines().filter(|line| line.contains("/belljar")).collect();
    let all = !ours.is_empty() && ours.iter().all(|line| line.contains(id));
    (all, groups)
}

/// Looks at the groups of interpreters before they got a single byte, and at
/// what is charged for their first one.
pub(super) async fn counted(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let pooled = Stage { node: stage.start_node().await?, ..stage.clone() };
    stage.warm()?.up(&pooled.node, Made::Pooled).await?;
    for made in Made::WARM {
        let stage = if made == Made::Pooled { &pooled } else { &stage };
        let sandbox = stage.warm_sandbox(made, |_| {}).await?;
        let context = stage.python(&sandbox).await?;
        let pid = context.facts().pid.context("it has no pid")?;
        let (counted, groups) = is_counted(pid, sandbox.id().as_str());
        let instead = format!("{}: {groups}", made.as_str());
        findings.expect(counted, "its groups are the sandbox's before it runs", instead);
        let ran = stage.code(&context, "hoard = bytearray(b'x') * (100 << 20)").await?;
        let peak = ran.end.usage.peak_memory_bytes.unwrap_or(0);
        findings.expect(peak >= 100 * MIB, "what it touches is charged to it", peak);
        let ran = stage
            .code(
                &context,
                "import time\nend = time.process_time() + 0.3\n\
            while time.process_time() < end: pass",
            )
            .await?;
        let used = ran.end.usage.cpu.as_millis();
        findings.expect(used >= 250, "and so is its time", used);
        stage.destroy(sandbox).await?;
    }
    pooled.node.stop().await;
    Ok(findings.seen())
}

/// A process of the host must be told from one that is counted.
pub(super) async fn uncounted(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.warm_sandbox(Made::Forked, |_| {}).await?;
    let (counted, groups) = is_counted(std::process::id(), sandbox.id().as_str());
    let mut findings = Findings::default();
    findings.expect(counted, "its groups are the sandbox's", groups);
    Ok(findings.seen())
}

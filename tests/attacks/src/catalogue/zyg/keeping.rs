//! The life of a zygote: warm-up, replacement, violent end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::{EndReason, Spec};
use belljar_node::Defence::NetNamespace;
use belljar_node::{MOST_FORKS, NodeError, Origin, WarmError};
use tokio::task::JoinSet;

use crate::attack::{Seen, verdict};
use crate::harness::findings::Findings;
use crate::harness::host::{self, Groups};
use crate::harness::stage::Stage;
use crate::harness::warm::Made;

/// A node of its own, whose zygotes are known by their groups.
struct Alone {
    stage: Stage,
    groups: Groups,
}

impl Alone {
    async fn start(stage: &Stage) -> anyhow::Result<Self> {
        let stage = Stage { node: stage.start_node().await?, ..stage.clone() };
        let warm = stage.warm()?;
        warm.up(&stage.node, Made::Forked).await?;
        let spec = Spec { root: warm.root(), ..stage.spec() };
        let sandbox = stage.node.create(&spec).await?;
        let groups = Groups::of(&sandbox);
        sandbox.destroy().await?;
        Ok(Self { stage, groups })
    }

    fn zygotes(&self) -> Vec<u32> {
        let mut found = self.groups.zygotes();
        found.retain(|&pid| host::lives(pid));
        found
    }

    fn spec(&self) -> anyhow::Result<Spec> {
        Ok(Spec { root: self.stage.warm()?.root(), ..self.stage.spec() })
    }

    /// Waits until there is another zygote than these, and only one.
    async fn next(&self, old: &[u32]) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        loop {
            let now = self.zygotes();
            if now.len() == 1 && !old.contains(&now[0]) {
                return Ok(begin.elapsed());
            }
            let seen: Vec<_> = now.iter().map(|&pid| (pid, host::groups_of_process(pid))).collect();
            ensure!(
                begin.elapsed() < Duration::from_secs(30),
                "zygotes are {seen:?}, were {old:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Forks at once while their zygote is ended.
const FORKS: usize = 220;
/// How many of them are done by then. Those that are not are executed, which
/// takes a hundred times as long.
const DONE: usize = 180;
/// Sandboxes that they are forked into.
const SANDBOXES: usize = 20;

pub(super) async fn ended(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let alone = Alone::start(&stage).await?;
    alone.next(&[]).await?;
    let old = alone.zygotes();
    let mut sandboxes = Vec::new();
    for _ in 0..SANDBOXES {
        let mut spec = alone.spec()?;
        spec.limits.memory_bytes = 1 << 30;
        sandboxes.push(stage.keep(alone.stage.node.create(&spec).await?)?);
    }
    let options = stage.warm()?.options()?;
    let mut forks = JoinSet::new();
    let forked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for number in 0..FORKS {
        let (sandbox, options) = (sandboxes[number % SANDBOXES].clone(), options.clone());
        let forked = forked.clone();
        forks.spawn(async move {
            let context = sandbox.context(options).await?;
            forked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let facts = context.facts();
            // The zygote is the only thing that can know a half-confined child.
            let status =
                facts.pid.map(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")));
            let status = status.and_then(Result::ok);
            // Executed ones take long; that they are there is enough.
            let ran = match facts.origin {
                Origin::Forked => Some(context.execute("print(6 * 7)", None).await),
                _ => None,
            };
            context.end().await;
            anyhow::Ok((facts, status, ran))
        });
    }
    // Most are done, some are under way or wait.
    let begin = Instant::now();
    while forked.load(std::sync::atomic::Ordering::Relaxed) < DONE {
        ensure!(begin.elapsed() < Duration::from_secs(20), "nothing is forked");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    host::kill(old[0])?;
    let (mut born, mut executed, mut refused) = (0, 0, 0);
    while let Some(done) = forks.join_next().await {
        match done? {
            Ok((facts, status, ran)) if facts.origin == Origin::Forked => {
                born += 1;
                let status = status.unwrap_or_default();
                let has = |line: &str| status.lines().any(|said| said.replace('\t', "") == line);
                let whole = status.is_empty() || has("Seccomp:2") && has("CapEff:0000000000000000");
                findings.expect(whole, "no child is half confined", &status);
                let served = ran.is_some_and(|ran| ran.text().trim() == "42");
                findings.expect(served, "a child that was born serves", format!("{facts:?}"));
            }
            Ok(_) => executed += 1,
            // Typed by its nature; nothing else to look at.
            Err(_) => refused += 1,
        }
    }
    findings.held(format!("{born} forked, {executed} executed, {refused} refused"));
    findings.expect(executed + refused > 0, "the end came in the middle", born);
    let took = alone.next(&old).await?;
    findings.held(format!("replaced after {} ms", took.as_millis()));
    let sandbox = stage.keep(alone.stage.node.create(&alone.spec()?).await?)?;
    let context = sandbox.context(options).await?;
    let origin = context.facts().origin;
    findings.expect(origin == Origin::Forked, "the next one forks", origin.as_str());
    let ran = stage.code(&context, "print(6 * 7)").await?;
    findings.expect(ran.text().trim() == "42", "and its child serves", ran.ending());
    drop((sandbox, context));
    drop(sandboxes);
    stage.clear().await?;
    alone.stage.node.stop().await;
    let left: Vec<_> = old.into_iter().filter(|&pid| host::lives(pid)).collect();
    findings.expect(left.is_empty(), "nothing of it is left", format!("{left:?}"));
    Ok(findings.seen())
}

/// Uses a zygote until it must have been replaced.
pub(super) async fn replaced(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let alone = Alone::start(&stage).await?;
    alone.next(&[]).await?;
    let old = alone.zygotes();
    let life = belljar_node::LONGEST_LIFE;
    findings.expect(life <= Duration::from_secs(600), "none lives long", format!("{life:?}"));
    findings.expect(MOST_FORKS <= 500, "none forks often", MOST_FORKS);
    let spec = alone.spec()?;
    for _ in 0..=MOST_FORKS {
        alone.stage.node.create(&spec).await?.destroy().await?;
    }
    let took = alone.next(&old).await.context("it was not replaced")?;
    findings.held(format!("after {MOST_FORKS} forks another took over in {took:?}"));
    // The same template with another warm-up is another zygote, at once.
    let old = alone.zygotes();
    let mut warmth = stage.warm()?.warmth()?;
    warmth.code.push_str("\nimport sys; sys.newer = 'newer'\n");
    alone.stage.node.warm_up(warmth, None).await?;
    let sandbox = stage.keep(alone.stage.node.create(&spec).await?)?;
    let context = stage.python(&sandbox).await?;
    let ran = stage.code(&context, "import sys; print(sys.newer)").await?;
    findings.expect(ran.text().trim() == "newer", "an update is used at once", ran.ending());
    drop(context);
    stage.destroy(sandbox).await?;
    alone.next(&old).await.context("the old one stays")?;
    alone.stage.node.stop().await;
    Ok(findings.seen())
}

/// Attacks from the warm-up, as a poisoned package would.
pub(super) async fn poisoned(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let source = std::fs::read_to_string(stage.programs.path("zyg/zyg_13.py")?)?;
    let args = serde_json::Value::from(targets(&stage));
    let node = stage.start_node().await?;
    let mut warmth = stage.warm()?.warmth()?;
    warmth.code = format!("import sys\nsys.argv = {args}\n{source}");
    node.warm_up(warmth, None).await.context("the hostile warm-up did not even start")?;
    let spec = Spec { root: stage.warm()?.root(), ..stage.spec() };
    let sandbox = stage.keep(node.create(&spec).await?)?;
    let context = stage.python(&sandbox).await?;
    findings.verdict(&stage.code(&context, "import sys; print(sys.zyg13)").await?)?;
    drop(context);
    stage.destroy(sandbox).await?;
    // What would not survive a fork is refused before anyone is forked.
    for (what, code) in [
        (
            "a thread",
            "import threading, time\n\
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
        ),
        ("an open file", "import sys\nsys.kept = open('/etc/passwd')"),
        ("an exception", "raise RuntimeError('poisoned')"),
        ("an exit", "import os\nos._exit(3)"),
    ] {
        let mut warmth = stage.warm()?.warmth()?;
        warmth.code = code.to_owned();
        let refused = node.warm_up(warmth, None).await;
        let typed =
            matches!(refused, Err(NodeError::Warm(WarmError::Unfit(_) | WarmError::Died(_))));
        findings.expect(typed, "an unfit zygote is refused", format!("{what}: {refused:?}"));
    }
    node.stop().await;
    Ok(findings.seen())
}

fn targets(stage: &Stage) -> Vec<String> {
    let canaries = stage.canaries();
    vec![
        "zyg_13".to_owned(),
        format!("port={}", canaries.port()),
        format!("dir={}", canaries.dir().display()),
        format!("name={}", canaries.abstract_name()),
        format!("pid={}", canaries.pid()),
    ]
}

/// The same acts where there is no wall around the network.
pub(super) async fn poison_on_the_host(stage: Stage) -> anyhow::Result<Seen> {
    let stage = stage.without(&[NetNamespace]);
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut args = targets(&stage);
    args.push("tell".to_owned());
    let command = stage.place(&sandbox, "zyg/zyg_13.py", &args[1..]).await?;
    let ran = stage.exec(&sandbox, &command).await?;
    ensure!(ran.end.reason != EndReason::Lost, "the sandbox is gone");
    verdict(&ran)
}

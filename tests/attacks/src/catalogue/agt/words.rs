//! What a hostile guest says, or does not say.

use std::time::{Duration, Instant};

use belljar_domain::{EndReason, User};
use belljar_node::{Command, FileError};

use super::guest::{Hostile, Scenario};
use super::{call, is_own, neighbour_serves, told};
use crate::attack::Seen;
use crate::harness::files;
use crate::harness::findings::Findings;
use crate::harness::stage::{Ran, Stage};

/// Guests that never answer, or a byte at a time: calls end all the same, and say why.
pub(super) async fn silence(stage: Stage) -> anyhow::Result<Seen> {
    let scenarios = [Scenario::SaysNothing, Scenario::AnswersNothing, Scenario::ByteByByte];
    heard(stage, &scenarios).await
}

/// One that answers is heard.
pub(super) async fn no_silence(stage: Stage) -> anyhow::Result<Seen> {
    heard(stage, &[Scenario::Obedient]).await
}

async fn heard(stage: Stage, scenarios: &[Scenario]) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let hostile = Hostile::start(&stage).await?;
    let mut calls = Vec::new();
    for &scenario in scenarios {
        calls.push((scenario, hostile.sandbox(scenario).await?));
    }
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for (scenario, sandbox) in calls {
        let stage = stage.clone();
        tasks.spawn(async move { (scenario, call(&stage, &sandbox).await) });
    }
    while let Some(ended) = tasks.join_next().await {
        let (scenario, ran) = ended?;
        let ran = ran?;
        let silent = matches!(&ran, Err(why) if why.contains("did not answer"));
        findings.expect(
            silent,
            "a silent guest is given up",
            format!("{scenario:?}: {}", told(&ran)),
        );
    }
    let took = begin.elapsed();
    findings.held(format!("after {} s", took.as_secs()));
    findings.expect(neighbour_serves(&stage).await?, "others are served", "they are not");
    hostile.stop().await?;
    Ok(findings.seen())
}

/// What no call of these acts has used.
const LOT: Duration = Duration::from_secs(1);

/// A guest that makes up what a call has used, and how large files are.
pub(super) async fn lies(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let hostile = Hostile::start(&stage).await?;
    let sandbox = hostile.sandbox(Scenario::LiesAboutUse).await?;
    match call(&stage, &sandbox).await? {
        Ok(ran) => judge_use(&mut findings, &ran),
        Err(why) => findings.held(format!("the call is refused: {why}")),
    }
    drop(sandbox);
    let sandbox = hostile.sandbox(Scenario::LiesAboutSize).await?;
    for _ in 0..2 {
        let got = files::download(&sandbox, b"/tmp/file", 1 << 20).await?;
        let instead = format!("{:?}", got.as_ref().map(Vec::len));
        let is_refused = matches!(got, Err(FileError::TooLarge { .. }));
        findings.expect(is_refused, "more than was said or may be is refused", instead);
    }
    drop(sandbox);
    hostile.stop().await?;
    Ok(findings.seen())
}

fn judge_use(findings: &mut Findings, ran: &Ran) {
    let usage = ran.end.usage;
    findings.expect(usage.cpu < LOT, "the host counts CPU time", format!("{:?}", usage.cpu));
    findings.expect(usage.wall < 30 * LOT, "and time", format!("{:?}", usage.wall));
    let peak = usage.peak_memory_bytes.unwrap_or(0);
    findings.expect(peak < 256 << 20, "and memory", peak);
    findings.expect(usage.written_bytes < 1 << 20, "and its disk", usage.written_bytes);
    let is_ended = ran.end.reason == EndReason::Done;
    findings.expect(is_ended, "no limit was reached by the guest's word", ran.ending());
}

/// Code that does use that much.
pub(super) async fn truth(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let code = "import time\nwhile time.process_time() < 1.5: pass";
    let ran = stage.exec(&sandbox, &Command::new(["/usr/bin/python3", "-c", code])).await?;
    judge_use(&mut findings, &ran);
    Ok(findings.seen())
}

/// Hellos of other generations, of guests that are not confined, and none at all.
pub(super) async fn hellos(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let hostile = Hostile::start(&stage).await?;
    for (scenario, why) in [
        (Scenario::OlderGeneration, "another generation"),
        (Scenario::NewerGeneration, "another generation"),
        (Scenario::SaysRoot, "not confined"),
        (Scenario::SaysUnfiltered, "not confined"),
        (Scenario::AnswersBeforeHello, "broke the protocol"),
        // A second one is no way to become another.
        (Scenario::GreetsTwice, "broke the protocol"),
    ] {
        let sandbox = hostile.sandbox(scenario).await?;
        let ran = call(&stage, &sandbox).await?;
        let is_refused = matches!(&ran, Err(text) if text.contains(why));
        findings.expect(
            is_refused,
            "a wrong hello is refused",
            format!("{scenario:?}: {}", told(&ran)),
        );
    }
    hostile.stop().await?;
    Ok(findings.seen())
}

/// The right hello is taken.
pub(super) async fn right_hello(stage: Stage) -> anyhow::Result<Seen> {
    own_call(stage).await
}

/// What a guest says on the channel of a call counts for that call.
pub(super) async fn own_call(stage: Stage) -> anyhow::Result<Seen> {
    let hostile = Hostile::start(&stage).await?;
    let sandbox = hostile.sandbox(Scenario::Obedient).await?;
    let ran = call(&stage, &sandbox).await?;
    drop(sandbox);
    hostile.stop().await?;
    Ok(match ran {
        Ok(ran) => Seen::Breach(format!("the guest is believed: {}", ran.ending())),
        Err(why) => Seen::Held(why),
    })
}

/// Results of a call that is over, told again with later ones, and after the engine's restart.
pub(super) async fn replays(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for _ in 0..2 {
        let hostile = Hostile::start(&stage).await?;
        let sandbox = hostile.sandbox(Scenario::Replays).await?;
        let first = call(&stage, &sandbox).await?;
        let is_first = |ran: &Ran| ran.text() == "old" && ran.end.exit_code == Some(77);
        let is_told = first.as_ref().is_ok_and(is_first);
        findings.expect(is_told, "the first call has its result", told(&first));
        for _ in 0..3 {
            let later = call(&stage, &sandbox).await?;
            let is_new = |ran: &Ran| ran.text() == "new" && ran.end.exit_code == Some(5);
            let is_told = later.as_ref().is_ok_and(is_new);
            findings.expect(is_told, "later ones have theirs alone", told(&later));
        }
        // A call of an engine that is gone has no result at all.
        let gone = sandbox.gone();
        drop(sandbox);
        hostile.stop().await?;
        let is_over = tokio::time::timeout(files::HANG_LIMIT, gone).await.is_ok();
        findings.expect(is_over, "nothing outlives its engine", "the sandbox does");
    }
    Ok(findings.seen())
}

/// A guest that speaks on the channels of another sandbox's calls.
pub(super) async fn others(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let hostile = Hostile::start(&stage).await?;
    let honest = stage.sandbox(|_| {}).await?;
    let script = "sleep 2; echo own; exit 3";
    let own = Command { user: User::User, ..Command::new(["/bin/sh", "-c", script]) };
    let own = stage.exec(&honest, &own);
    let forger = async {
        let sandbox = hostile.sandbox(Scenario::SpeaksForOthers).await?;
        call(&stage, &sandbox).await
    };
    let (own, forged) = tokio::join!(own, forger);
    let own = own?;
    let is_its = own.text() == "own\n" && own.end.exit_code == Some(3);
    findings.expect(is_its, "a sandbox hears its own guest alone", own.ending());
    let forged = forged?;
    findings.expect(is_own(&forged), "the forger's own call too", told(&forged));
    drop(honest);
    hostile.stop().await?;
    Ok(findings.seen())
}

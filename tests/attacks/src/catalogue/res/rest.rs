//! Everything else that is counted: objects, descriptors, log lines,
//! connections.

use belljar_domain::EndReason;
use belljar_node::{Command, Sandbox};
use tokio::task::JoinSet;

use super::few;
use crate::attack::{Seen, verdict};
use crate::harness::files::{self, LIMIT};
use crate::harness::findings::Findings;
use crate::harness::kernel_log::KernelLog;
use crate::harness::stage::Stage;

/// One sandbox takes all it gets of what is counted by user; its neighbour must
/// not feel it.
pub(super) async fn objects(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let taker = stage.sandbox(|_| {}).await?;
    let neighbour = stage.sandbox(|_| {}).await?;
    let command = stage.place(&taker, "res/res_07.c", &["hold", "2"]).await?;
    let probe = stage.place(&neighbour, "res/res_07.c", &["probe"]).await?;
    let mut running = stage.start(&taker, &command).await?;
    running.until("NOTE holding").await?;
    findings.verdict(&stage.exec(&neighbour, &probe).await?)?;
    findings.verdict(&running.finish().await?)?;
    Ok(findings.seen())
}

pub(super) async fn descriptors(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(few).await?;
    let command = stage.place(&sandbox, "res/res_13.c", &["8", "2"]).await?;
    let mut running = stage.start(&sandbox, &command).await?;
    running.until("NOTE holding").await?;
    let ran = stage.exec(&sandbox, &Command::new(["/bin/true"])).await?;
    findings.expect(ran.end.reason == EndReason::Done, "calls are served", ran.ending());
    files::upload(&sandbox, b"/tmp/res13.up", b"text").await??;
    let got = files::download(&sandbox, b"/tmp/res13.up", LIMIT).await??;
    findings.expect(got == b"text", "transfers are served", format!("{got:?}"));
    findings.verdict(&running.finish().await?)?;
    Ok(findings.seen())
}

/// Crashes must not fill the host's log, and foreign calls must not live.
pub(super) async fn log_storm(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let mut log = KernelLog::open()?;
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, "res/res_16.c", &["400"]).await?;
    findings.verdict(&ran)?;
    let lived = ran.after("NOTE LIVED=").concat();
    findings.expect(lived == "0", "no call of a foreign kind lives", &lived);
    let lines = log.news().len();
    findings.expect(lines < 300, "the kernel's log stays short", format!("{lines} lines"));
    Ok(findings.seen())
}

const AT_ONCE: usize = 60;

pub(super) async fn connections(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let port = stage.canaries().port().to_string();
    let sandbox = stage.sandbox(|_| {}).await?;
    findings.verdict(&stage.run(&sandbox, "res/res_21.c", &[&*port, "50"]).await?)?;
    if findings.is_breached() {
        return Ok(findings.seen());
    }
    // What a sandbox can be connected to today is its own guest.
    let neighbour = stage.sandbox(|_| {}).await?;
    let mut calls = JoinSet::new();
    for _ in 0..AT_ONCE {
        calls.spawn(one_call(sandbox.clone()));
    }
    let begin = std::time::Instant::now();
    verdict_free(&stage, &neighbour).await?;
    findings.in_time(begin.elapsed(), "a neighbour is served");
    let answered = calls.join_all().await;
    let done = answered.iter().filter(|reason| **reason == Some(EndReason::Done)).count();
    let typed = answered
        .iter()
        .all(|reason| matches!(reason, None | Some(EndReason::Done | EndReason::Pids)));
    findings.expect(typed, "every call is answered", format!("{answered:?}"));
    findings.expect(done > 0, "calls are served", done);
    findings.held(format!("{done} of {AT_ONCE} calls at once were served"));
    Ok(findings.seen())
}

/// How it ended, or nothing if it was refused.
async fn one_call(sandbox: std::sync::Arc<Sandbox>) -> Option<EndReason> {
    let done = sandbox.execute(&Command::new(["/bin/true"])).await;
    done.ok().map(|finished| finished.end.reason)
}

async fn verdict_free(stage: &Stage, sandbox: &Sandbox) -> anyhow::Result<()> {
    let ran = stage.exec(sandbox, &Command::shell("echo HELD served")).await?;
    verdict(&ran).map(drop)
}

//! Ends that come from outside while something is going on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use belljar_domain::{EndReason, User};
use belljar_node::{Call, Command, Event, Sandbox};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::still_serves;
use crate::attack::Seen;
use crate::harness::files::{self, HANG_LIMIT, LIMIT};
use crate::harness::findings::Findings;
use crate::harness::host;
use crate::harness::stage::Stage;

/// The seconds for which programs are busy or stuck: an end that waited for theirs would
/// take longer than [`HANG_LIMIT`].
const BUSY: &str = "60";

/// Attacks pid 1 from inside, then ends it from outside under a call.
pub(super) async fn first_process(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut command = stage.place(&sandbox, "proc/proc_05.c", &["attack"]).await?;
    let ran = stage.exec(&sandbox, &command).await?;
    if ran.end.reason == EndReason::Lost {
        return Ok(Seen::Breach("the sandbox's pid 1 was brought down".to_owned()));
    }
    findings.verdict(&ran)?;
    if findings.is_breached() {
        return Ok(findings.seen());
    }
    let serves = still_serves(&stage, &sandbox).await?;
    findings.expect(serves, "the sandbox still serves", "it does not");
    command.argv.pop();
    command.argv.push(b"wait".to_vec());
    let mut running = stage.start(&sandbox, &command).await?;
    running.until("NOTE waiting").await?;
    host::kill(sandbox.pid())?;
    let begin = Instant::now();
    let ran = running.finish().await?;
    let took = begin.elapsed();
    findings.expect(ran.end.reason == EndReason::Lost, "the call is lost", ran.ending());
    findings.in_time(took, "at once");
    let later = timeout(HANG_LIMIT, sandbox.start(&Command::new(["/bin/true"]))).await?;
    findings.expect(later.is_err(), "a later call is refused", "it started");
    let later = files::upload(&sandbox, b"/tmp/late", b"late").await?;
    findings.expect(later.is_err(), "a later upload is refused", "it worked");
    Ok(findings.seen())
}

/// Destroys while processes are stuck and frozen; kills a call of such.
pub(super) async fn stuck(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let command = stage.place(&sandbox, "proc/proc_09.c", &[BUSY]).await?;
    let mut running = stage.start(&sandbox, &command).await?;
    let states = running.until("NOTE ready").await?;
    ensure!(states.contains('D'), "nothing is stuck: {states}");
    sandbox.pause().await?;
    let took = stage.destroy(sandbox).await?;
    findings.in_time(took, "a frozen sandbox is destroyed at once");
    let left = host::named(&stage.engines, "bj-proc09");
    findings.expect(left.is_empty(), "nothing is left", format!("{left:?}"));
    let ran = running.finish().await?;
    let typed = matches!(ran.end.reason, EndReason::Lost | EndReason::Killed);
    findings.expect(typed, "its call is lost", ran.ending());

    let sandbox = stage.sandbox(|_| {}).await?;
    let command = stage.place(&sandbox, "proc/proc_09.c", &[BUSY]).await?;
    let mut running = stage.start(&sandbox, &command).await?;
    running.until("NOTE ready").await?;
    running.call.kill();
    let begin = Instant::now();
    let ran = running.finish().await?;
    let took = begin.elapsed();
    findings.expect(ran.end.reason == EndReason::Killed, "a stuck call is killed", ran.ending());
    findings.in_time(took, "at once");
    Ok(findings.seen())
}

const ROUNDS: u32 = 25;

/// Calls, transfers and pauses are broken off at a random moment, and the
/// sandbox is destroyed with its calls under way. The handles of those calls
/// are then all that is left of it.
pub(super) async fn race(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for round in 0..ROUNDS {
        let sandbox = stage.sandbox(|_| {}).await?;
        let command = stage.place(&sandbox, "proc/proc_15.c", &[BUSY]).await?;
        let calls = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_calling(sandbox.clone(), command, calls.clone()));
        tasks.spawn(keep_uploading(sandbox.clone()));
        tasks.spawn(keep_downloading(sandbox.clone()));
        tasks.spawn(keep_pausing(sandbox.clone()));
        tokio::time::sleep(random(Duration::from_millis(50))).await;
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        let took = stage.destroy(sandbox).await?;
        findings.in_time(took, "destroyed at once");
        let left = host::named(&stage.engines, "bj-proc15");
        findings.expect(left.is_empty(), "nothing runs on", format!("round {round}: {left:?}"));
        let calls = std::mem::take(&mut *calls.lock().unwrap_or_else(PoisonError::into_inner));
        for call in calls {
            after_the_end(call, &mut findings).await?;
        }
        if findings.is_breached() {
            break;
        }
    }
    let seen = findings.seen();
    Ok(match seen {
        Seen::Held(_) => Seen::Held(format!("{ROUNDS} rounds, nothing ran on")),
        breach => breach,
    })
}

async fn after_the_end(mut call: Call, findings: &mut Findings) -> anyhow::Result<()> {
    call.kill();
    let signalled = timeout(HANG_LIMIT, call.signal(15)).await?;
    findings.expect(signalled.is_err(), "a signal is refused", "it was sent");
    let end = timeout(HANG_LIMIT, async {
        loop {
            if let Event::End(end) = call.next().await {
                return end;
            }
        }
    });
    let end = end.await?;
    let typed = matches!(end.reason, EndReason::Lost | EndReason::Killed);
    findings.expect(typed, "the call is lost", format!("{end:?}"));
    Ok(())
}

async fn keep_calling(sandbox: Arc<Sandbox>, command: Command, calls: Arc<Mutex<Vec<Call>>>) {
    loop {
        if let Ok(call) = sandbox.start(&command).await {
            calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn keep_uploading(sandbox: Arc<Sandbox>) {
    loop {
        let mut source = &[b'u'; 65_536][..];
        let _ = sandbox.upload(User::User, b"/tmp/race", 0o644, &mut source).await;
    }
}

async fn keep_downloading(sandbox: Arc<Sandbox>) {
    loop {
        let mut target = Vec::new();
        let _ = sandbox.download(User::User, b"/tmp/proc_15", LIMIT, &mut target).await;
    }
}

async fn keep_pausing(sandbox: Arc<Sandbox>) {
    loop {
        let _ = sandbox.pause().await;
        tokio::time::sleep(Duration::from_millis(3)).await;
        let _ = sandbox.resume().await;
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

fn random(most: Duration) -> Duration {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    most * (nanos / 7 % 1000) / 1000
}

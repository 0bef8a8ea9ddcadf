//! Cells whose events are not read: limits, interrupts and restarts work all the same.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use belljar_domain::EndReason;
use belljar_node::{CellEvent, CellOptions, Context, Running, Sandbox};

use crate::fixture::Fixture;
use crate::verbs::{get, patience, until};
use crate::{cases, same};

cases!["contexts":
    a_reader_that_stalls_does_not_stop_an_interrupt needs [Contexts],
    a_reader_that_stalls_does_not_lift_the_cpu_limit needs [Contexts, CpuLimit],
    a_reader_that_stalls_does_not_stop_a_restart needs [Contexts],
];

/// Prints more than anybody takes, and tells in a file when it is interrupted.
const UNREAD: &str = "\
print('begun', flush=True)
try:
    while True:
        print('x' * 1000, flush=True)
except KeyboardInterrupt:
    open('/home/user/interrupted', 'w').write('yes')
";

/// The same, beside a thread that uses the processor and says so.
const BURNING: &str = "\
import threading
def burn():
    n = 0
    while True:
        n += 1
        if n % 50000 == 0:
            open('/home/user/beat', 'a').write('.')
threading.Thread(target=burn, daemon=True).start()
print('begun', flush=True)
while True:
    try:
        print('x' * 1000, flush=True)
    except BaseException:
        pass
";

struct Stalled {
    sandbox: Sandbox,
    context: Context,
    running: Running,
}

impl Stalled {
    /// A cell that was heard to begin, and not any further.
    async fn begin(f: &Fixture, code: &str, cpu: Option<Duration>) -> anyhow::Result<Self> {
        let sandbox = f.warm(|_| {}).await?;
        let context = sandbox.context(f.python()?).await?;
        let wall = Some(patience(f) * 10);
        let options = CellOptions { wall, cpu, ..CellOptions::default() };
        let mut running = context.run_with(code, options);
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("begun") {
            match running.next().await {
                CellEvent::Stdout(bytes) => seen.extend(bytes),
                CellEvent::End(end) => bail!("it ended ({}) before it began", end.reason),
                _ => {}
            }
        }
        Ok(Self { sandbox, context, running })
    }

    /// Waits until nothing is written to a file any more.
    async fn until_unchanged(&self, f: &Fixture, path: &str) -> anyhow::Result<()> {
        let (mut last, mut since) = (Vec::new(), Instant::now());
        let (begin, quiet) = (Instant::now(), f.within(Duration::from_secs(2)));
        while since.elapsed() < quiet {
            ensure!(begin.elapsed() < patience(f) + quiet, "the code runs on");
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = get(&self.sandbox, path.as_bytes()).await.unwrap_or_default();
            if now != last || now.is_empty() {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// Reads all events to the last.
    async fn reason(&mut self, f: &Fixture) -> anyhow::Result<EndReason> {
        let read = async {
            loop {
                if let CellEvent::End(end) = self.running.next().await {
                    return end.reason;
                }
            }
        };
        tokio::time::timeout(patience(f), read).await.context("the end is not told")
    }
}

async fn a_reader_that_stalls_does_not_stop_an_interrupt(f: &Fixture) -> anyhow::Result<()> {
    let mut stalled = Stalled::begin(f, UNREAD, None).await?;
    // Long enough for every queue to be full.
    tokio::time::sleep(f.within(Duration::from_millis(500))).await;
    stalled.context.interrupt();
    until("the interrupt", patience(f), async || {
        let told = get(&stalled.sandbox, b"/home/user/interrupted").await;
        Ok(told.ok().filter(|told| told == b"yes"))
    })
    .await?;
    same!(stalled.reason(f).await?, EndReason::Done, "end");
    Ok(())
}

async fn a_reader_that_stalls_does_not_lift_the_cpu_limit(f: &Fixture) -> anyhow::Result<()> {
    let cpu = f.within(Duration::from_secs(1));
    let mut stalled = Stalled::begin(f, BURNING, Some(cpu)).await?;
    stalled.until_unchanged(f, "/home/user/beat").await?;
    same!(stalled.reason(f).await?, EndReason::TimeoutCpu, "end");
    Ok(())
}

async fn a_reader_that_stalls_does_not_stop_a_restart(f: &Fixture) -> anyhow::Result<()> {
    let mut stalled = Stalled::begin(f, UNREAD, None).await?;
    tokio::time::sleep(f.within(Duration::from_millis(500))).await;
    let restarted = stalled.sandbox.restart_context(stalled.context.id());
    let restarted = tokio::time::timeout(patience(f), restarted).await;
    let restarted = restarted.context("a restart hangs")??;
    let ran = restarted.execute("1 + 1", None).await;
    ensure!(ran.end.ok, "the restarted context: {:?}", ran.error);
    same!(stalled.reason(f).await?, EndReason::Killed, "end of the old");
    Ok(())
}

//! The life of a sandbox: pause, end, many at once.
//!
//! Requirements: S1, S12

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use belljar_domain::{EndReason, Tier, User};
use belljar_node::{Command, Event, NodeError};
use belljar_testkit::{Process, groups_of_sandbox};

use rustix::time::ClockId;

use crate::fixture::Fixture;
use crate::residue::descriptor_count;
use crate::verbs::{
    at_home, finish, get, output, output_of, patience, put, python, run, until, until_printed,
};
use crate::{cases, same};

cases!["life":
    a_paused_sandbox_stands_still needs [Pause],
    a_paused_sandbox_can_be_ended needs [Pause],
    the_end_comes_while_calls_run,
    a_dropped_sandbox_ends,
    a_sandbox_whose_guest_dies_is_lost,
    code_cannot_end_its_sandbox,
    files_outlive_calls,
    twenty_sandboxes_live_at_once,
    an_end_does_not_hold_up_others needs [Python, SizedDisk],
    a_hundred_calls_leave_nothing needs [GuestProcess],
    a_root_that_is_not_there_is_refused needs [OwnRoot],
    requests_after_the_end_are_errors,
    the_end_of_a_sandbox_is_told,
    what_a_sandbox_uses_is_told needs [CpuLimit, MemoryLimit, PidsLimit, SizedDisk],
];

async fn a_paused_sandbox_stands_still(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "i=0; while :; do i=$((i + 1)); echo $i; sleep 0.005; done";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    until_printed(&mut call, "3\n").await?;
    sandbox.pause().await?;
    // What was under way still comes; then nothing, for 40 times the beat.
    let quiet = f.within(Duration::from_millis(200));
    let mut last = Vec::new();
    while let Ok(event) = tokio::time::timeout(quiet, call.next()).await {
        match event {
            Event::Stdout(bytes) => last = bytes,
            other => bail!("{other:?} while paused"),
        }
    }
    sandbox.resume().await?;
    let Event::Stdout(next) = call.next().await else { bail!("nothing after resume") };
    // It goes on where it was: no number is missing.
    let number = |bytes: &[u8], last: bool| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut lines = text.lines();
        let line = if last { lines.next_back() } else { lines.next() };
        line.and_then(|line| line.parse::<u64>().ok())
    };
    if let Some(last) = number(&last, true) {
        same!(number(&next, false), Some(last + 1), "the next number");
    }
    call.kill();
    same!(finish(&mut call).await.2.reason, EndReason::Killed, "end");
    Ok(())
}

async fn a_paused_sandbox_can_be_ended(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.wall = endless(f)).await?;
    let mut call = sandbox.start(&Command::shell("echo ready; exec sleep 100000")).await?;
    until_printed(&mut call, "ready").await?;
    sandbox.pause().await?;
    tokio::time::timeout(patience(f), sandbox.destroy()).await.context("the end hangs")??;
    Ok(())
}

/// So long that an end which waited for a call would count as hanging.
fn endless(f: &Fixture) -> Duration {
    patience(f) * 10
}

async fn the_end_comes_while_calls_run(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.wall = endless(f)).await?;
    let pid = sandbox.pid();
    let mut calls = Vec::new();
    for script in [
        "echo ready; sleep 100000",
        "echo ready; while :; do :; done",
        "echo ready; trap '' TERM; setsid sleep 100000 & wait",
        "echo ready; yes > /dev/null",
    ] {
        let mut call = sandbox.start(&Command::shell(script)).await?;
        until_printed(&mut call, "ready").await?;
        calls.push(call);
    }
    tokio::time::timeout(patience(f), sandbox.destroy()).await.context("the end hangs")??;
    ensure!(Process::read(pid).is_none(), "the guest is still there");
    for call in &mut calls {
        let end = tokio::time::timeout(patience(f), finish(call)).await;
        let (_, _, end) = end.context("a call did not learn of the end")?;
        ensure!(matches!(end.reason, EndReason::Lost | EndReason::Killed), "ended {}", end.reason);
    }
    Ok(())
}

async fn a_dropped_sandbox_ends(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let pid = sandbox.pid();
    drop(sandbox);
    until("the guest gone", patience(f), async || Ok(Process::read(pid).is_none().then_some(())))
        .await
}

async fn a_sandbox_whose_guest_dies_is_lost(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut call = sandbox.start(&Command::shell("echo ready; exec sleep 9")).await?;
    until_printed(&mut call, "ready").await?;
    let pid = i32::try_from(sandbox.pid())?;
    let pid = rustix::process::Pid::from_raw(pid).context("no pid")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    same!(finish(&mut call).await.2.reason, EndReason::Lost, "the call");
    ensure!(sandbox.execute(&Command::shell("true")).await.is_err(), "it still answers");
    sandbox.destroy().await?;
    Ok(())
}

async fn code_cannot_end_its_sandbox(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    // Everything that the user may signal, and the guest by its number.
    let kill = format!("kill -9 1 {} $PPID; kill -9 -1; exit 0", sandbox.pid());
    run(&sandbox, &kill).await?;
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

async fn files_outlive_calls(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "echo 1 > file; echo 2 > \"$TMPDIR\"/file").await?;
    same!(output(&sandbox, "cat file \"$TMPDIR\"/file").await?, "1\n2\n", "files");
    Ok(())
}

/// More than one lease of user ids holds.
async fn twenty_sandboxes_live_at_once(f: &Fixture) -> anyhow::Result<()> {
    let mut sandboxes = Vec::new();
    for number in 0..20 {
        let sandbox = f.sandbox().await?;
        put(&sandbox, &at_home(&sandbox, "number"), number.to_string().as_bytes()).await?;
        sandboxes.push(Arc::new(sandbox));
    }
    let mut calls = tokio::task::JoinSet::new();
    for (number, sandbox) in sandboxes.iter().cloned().enumerate() {
        calls.spawn(async move {
            same!(output(&sandbox, "cat number").await?, number.to_string(), "its own file");
            anyhow::Ok(())
        });
    }
    while let Some(result) = calls.join_next().await {
        result??;
    }
    for sandbox in sandboxes {
        Arc::into_inner(sandbox).context("still in use")?.destroy().await?;
    }
    Ok(())
}

/// However much there is to clear away: others start meanwhile, nearly as soon as when
/// there is nothing.
async fn an_end_does_not_hold_up_others(f: &Fixture) -> anyhow::Result<()> {
    const SLOWER: u32 = 50;
    let sandbox = f.sandbox().await?;
    let mut usual = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let empty = f.sandbox().await?;
        usual.push(started.elapsed());
        empty.destroy().await?;
    }
    usual.sort();
    let script = "import os\nfor i in range(3000): open(f'f{i}', 'w').close()\n\
        for i in range(1500): os.mkdir('d'); os.chdir('d')";
    output_of(&sandbox, &python(script)).await?;
    drop(sandbox);
    let started = Instant::now();
    let next = f.sandbox().await?;
    let took = started.elapsed();
    let allowed = usual[usual.len() / 2] * SLOWER;
    ensure!(took < allowed, "the next sandbox took {took:?}, others {usual:?}");
    same!(output(&next, "echo alive").await?, "alive\n", "the next sandbox");
    Ok(())
}

/// Neither the guest nor its cgroups grow with what was done and is over.
async fn a_hundred_calls_leave_nothing(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let pid = sandbox.pid();
    let group = groups_of_sandbox(sandbox.id().as_str());
    let measure = || {
        let groups = group.iter().map(|dir| crate::residue::directories_below(dir)).sum::<usize>();
        let children = crate::residue::descendants(pid).len();
        (descriptor_count(pid), children, groups)
    };
    output(&sandbox, "true").await?;
    let before = measure();
    for round in 0..25 {
        output(&sandbox, "true").await?;
        ensure!(sandbox.execute(&Command::new(["/no/such/program"])).await.is_err(), "it ran");
        let path = at_home(&sandbox, format!("file-{round}"));
        put(&sandbox, &path, b"x").await?;
        get(&sandbox, &path).await?;
        ensure!(get(&sandbox, b"/no/such/file").await.is_err(), "it was there");
        drop(sandbox.watch(User::User, &at_home(&sandbox, ""), true).await?);
        let mut terminal = Command::shell("true");
        terminal.pty = Some(belljar_node::PtySize { rows: 24, cols: 80 });
        sandbox.execute(&terminal).await?;
    }
    until("as before", patience(f), async || Ok((measure() == before).then_some(())))
        .await
        .with_context(|| {
            format!("(descriptors, children, cgroups): {before:?} before, {:?} after", measure())
        })
}

async fn a_root_that_is_not_there_is_refused(f: &Fixture) -> anyhow::Result<()> {
    let mut spec = f.spec();
    spec.root.layers = vec!["/no/such/layer".into()];
    match f.node.create(&spec).await {
        Err(NodeError::Start(_)) => {}
        other => bail!("a missing layer: {:?}", other.err()),
    }
    // And the engine goes on.
    same!(output(&f.sandbox().await?, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

async fn requests_after_the_end_are_errors(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut call = sandbox.start(&Command::shell("echo ready; exec sleep 9")).await?;
    until_printed(&mut call, "ready").await?;
    let mut changes = sandbox.watch(User::User, &at_home(&sandbox, ""), false).await?;
    sandbox.destroy().await?;
    ensure!(call.signal(15).await.is_err(), "a signal was sent");
    ensure!(changes.next().await.is_err(), "a change was told");
    Ok(())
}

/// Whoever ended it, and to whoever asked.
async fn the_end_of_a_sandbox_is_told(f: &Fixture) -> anyhow::Result<()> {
    let patience = patience(f);
    let sandbox = f.sandbox().await?;
    let (early, other) = (tokio::spawn(sandbox.gone()), tokio::spawn(sandbox.gone()));
    tokio::time::sleep(Duration::from_millis(100)).await;
    ensure!(!early.is_finished() && !other.is_finished(), "told while it lives");
    let pid = rustix::process::Pid::from_raw(i32::try_from(sandbox.pid())?).context("no pid")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    for told in [early, other] {
        tokio::time::timeout(patience, told).await.context("its guest died")??;
    }
    // Who asks late is told at once.
    tokio::time::timeout(patience, sandbox.gone()).await.context("asked late")?;
    sandbox.destroy().await?;
    for destroyed in [true, false] {
        let sandbox = f.sandbox().await?;
        let gone = sandbox.gone();
        if destroyed {
            sandbox.destroy().await?;
        } else {
            drop(sandbox);
        }
        tokio::time::timeout(patience, gone).await.context("it was ended")?;
    }
    Ok(())
}

async fn what_a_sandbox_uses_is_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "true").await?;
    // Another kernel's processes need not be counted; the host's are not them.
    let counted = f.tier.shares_kernel() || sandbox.usage().tasks.is_some();
    // A kernel under load takes a moment to let the last one go.
    let at_rest = async || Ok((sandbox.usage().tasks == counted.then_some(0)).then_some(()));
    until("no process is counted at rest", patience(f), at_rest).await?;
    let before = sandbox.usage();
    same!(before.memory_limit_bytes, sandbox.limits().memory_bytes, "the memory limit");
    let total = before.disk_total_bytes.context("no disk")?;
    let asked = sandbox.limits().disk_bytes;
    // A disk has room for its file system's own tables, too.
    let most = if f.tier == Tier::Microvm { asked / 10 * 11 } else { asked };
    let whole = asked..=most;
    ensure!(whole.contains(&total), "a disk of {total} bytes, not {asked}");
    let script = "head -c 20000000 /dev/zero > big; i=0; \
        while [ $i -lt 200000 ]; do i=$((i + 1)); done; sleep 9 & sleep 9 & echo ready; wait";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    until_printed(&mut call, "ready").await?;
    let grown = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
    let written = || grown(sandbox.usage().disk_used_bytes, before.disk_used_bytes);
    // What only the guest can see, it tells a few times a second.
    let told = async || Ok((written() >= Some(20_000_000)).then_some(()));
    until("what was written is told", patience(f), told).await?;
    let charged = || grown(sandbox.usage().memory_bytes, before.memory_bytes);
    // A watch counts it with its next look.
    let told = async || Ok((charged() >= Some(19_000_000)).then_some(()));
    until("its memory is told", patience(f), told).await?;
    let after = sandbox.usage();
    let cpu = (after.cpu, before.cpu);
    let (Some(now), Some(then)) = cpu else { bail!("no CPU time: {cpu:?}") };
    let used = now.saturating_sub(then);
    let most = f.within(Duration::from_secs(10));
    ensure!((Duration::from_millis(10)..most).contains(&used), "CPU {used:?}");
    let disk = grown(after.disk_used_bytes, before.disk_used_bytes).context("no disk use")?;
    ensure!((20_000_000..21_000_000).contains(&disk), "disk grew by {disk}");
    let memory = grown(after.memory_bytes, before.memory_bytes).context("no memory")?;
    ensure!((19_000_000..100_000_000).contains(&memory), "memory grew by {memory}");
    let cache = after.cache_bytes.context("no cache")?;
    ensure!(cache <= after.memory_bytes.unwrap_or(0), "{cache} bytes of cache");
    same!(after.tasks, counted.then_some(3), "processes");
    call.kill();
    finish(&mut call).await;
    let cpu = || Duration::try_from(rustix::time::clock_gettime(ClockId::ThreadCPUTime));
    let started = cpu()?;
    for _ in 0..100 {
        std::hint::black_box(sandbox.usage());
    }
    let used = cpu()?.saturating_sub(started);
    ensure!(used < Duration::from_millis(500), "100 looks took {used:?} of CPU time");
    Ok(())
}

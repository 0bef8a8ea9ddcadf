//! What sandboxes owe to version 2 of cgroups, checked against the files of
//! `/sys/fs/cgroup` from outside. Run by `.ci/v2/run` in a machine of its own.

#![expect(clippy::print_stdout, reason = "`.ci/v2/run` reads the lines")]

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belljar_domain::{Bind, EndReason, Limits, Owners, RootFs, Spec, Tier};
use belljar_node::{Command, Event, Finished, Leftovers, Node, Sandbox, hook};
use tokio::time::{sleep, timeout};

const ROOT: &str = "/sys/fs/cgroup";
const MIB: u64 = 1 << 20;

type Checked = Result<String, String>;

macro_rules! ensure {
    ($condition:expr, $($said:tt)+) => {
        if !$condition {
            return Err(format!($($said)+));
        }
    };
}

fn main() {
    hook();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let layer = PathBuf::from(arguments.first().expect("usage: probe LAYER [die]"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be made");
    if arguments.len() > 1 {
        runtime.block_on(die(&layer));
    }
    // What failed has a line of its own; the status says that all was tried.
    runtime.block_on(all(&layer));
}

async fn all(layer: &Path) {
    let node = match Node::start(None).await {
        Ok(node) => node,
        Err(error) => {
            report("the engine starts", Err(told(&error)));
            return;
        }
    };
    let make = |change: fn(&mut Limits)| {
        let (node, spec) = (node.clone(), spec(layer, Tier::Jail, change));
        async move { node.create(&spec).await.map_err(|error| told(&error)) }
    };
    macro_rules! check {
        ($name:expr, $check:expr) => {
            attempt($name, $check).await;
        };
    }
    check!("a call runs and its sandbox goes", async { runs(make(|_| {}).await?).await });
    check!("limits stand on the sandbox's group", async { limits(make(|_| {}).await?).await });
    check!("guest and calls are in leaves", async { leaves(make(|_| {}).await?).await });
    check!("a sandbox cannot see where its groups are", async {
        hidden(make(|_| {}).await?).await
    });
    check!("too much memory ends as oom", async {
        oom(make(|limits| limits.memory_bytes = 64 * MIB).await?).await
    });
    check!("an oom of a child is noticed", async {
        oom_of_child(make(|limits| limits.memory_bytes = 64 * MIB).await?).await
    });
    check!("files in memory count as memory", async {
        oom_of_files(make(|limits| limits.memory_bytes = 48 * MIB).await?).await
    });
    check!("too many processes end as pids", async {
        pids(make(|limits| limits.pids = 16).await?).await
    });
    check!("CPU time is counted for each call", async { counted(make(|_| {}).await?).await });
    check!("too much CPU time ends as timeout_cpu", async {
        cpu(make(|limits| limits.cpu = Some(Duration::from_millis(500))).await?).await
    });
    check!("a share of the CPU is kept to", async {
        share(make(|limits| limits.cpu_millis = 200).await?).await
    });
    check!("too much time ends as timeout_wall", async {
        wall(make(|limits| limits.wall = Duration::from_secs(1)).await?).await
    });
    check!("daemons end with their call", async { daemons(make(|_| {}).await?).await });
    check!("a fork bomb ends when asked", async { bomb(make(|_| {}).await?).await });
    check!("kept processes end with the sandbox", async { kept(make(|_| {}).await?).await });
    check!("pause and resume", async { pause(make(|_| {}).await?).await });
    check!("a paused sandbox can be destroyed", async { frozen_end(make(|_| {}).await?).await });
    check!("calls side by side are counted apart", async { apart(make(|_| {}).await?).await });
    check!("the process tier runs and ends as oom", async { process_tier(&node, layer).await });
    check!("many calls leave no group", async { many(make(|_| {}).await?).await });
    check!("systemd cannot take a controller away", async { kept_controllers().await });
    check!("a killed engine leaves nothing", async { after_death(layer, "engine").await });
    check!("a killed engine and spawner are swept", async { after_death(layer, "both").await });
}

fn spec(layer: &Path, tier: Tier, change: fn(&mut Limits)) -> Spec {
    let usr = Bind { source: "/usr".into(), target: "/usr".into(), owners: Owners::default() };
    let mut spec = Spec::new(tier, RootFs { layers: vec![layer.to_owned()], binds: vec![usr] });
    change(&mut spec.limits);
    spec
}

async fn attempt(name: &str, check: impl Future<Output = Checked>) {
    let outcome = match timeout(Duration::from_secs(30), check).await {
        Ok(outcome) => outcome,
        Err(_) => Err("not done in 30 s".to_owned()),
    };
    report(name, outcome);
}

fn report(name: &str, outcome: Checked) {
    match outcome {
        Ok(said) if said.is_empty() => println!("ok   {name}"),
        Ok(said) => println!("ok   {name}: {said}"),
        Err(why) => println!("FAIL {name}: {why}"),
    }
}

fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

async fn sh(sandbox: &Sandbox, script: &str) -> Result<Finished, String> {
    sandbox.execute(&Command::shell(script)).await.map_err(|error| told(&error))
}

fn is(finished: &Finished, reason: EndReason) -> Result<(), String> {
    ensure!(
        finished.end.reason == reason,
        "ended as {} instead of {reason}: {:?} {:?}",
        finished.end.reason,
        finished.end,
        finished.stderr.text()
    );
    Ok(())
}

async fn end(sandbox: Sandbox) -> Result<(), String> {
    let group = group(&sandbox)?;
    let pid = sandbox.pid();
    sandbox.destroy().await.map_err(|error| told(&error))?;
    ensure!(!group.exists(), "the group is left");
    ensure!(!Path::new(&format!("/proc/{pid}")).exists(), "the guest is left");
    Ok(())
}

/// The sandbox's group, known from where its guest is.
fn group(sandbox: &Sandbox) -> Result<PathBuf, String> {
    let home = group_of(sandbox.pid())?;
    ensure!(home.ends_with("g"), "the guest is in {}", home.display());
    Ok(home.parent().unwrap_or(&home).to_owned())
}

fn group_of(pid: u32) -> Result<PathBuf, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(|e| e.to_string())?;
    let path = text.trim().strip_prefix("0::/").ok_or(format!("not version 2: {text}"))?;
    Ok(Path::new(ROOT).join(path))
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map_or_else(|error| error.to_string(), |text| text.trim().to_owned())
}

fn groups_in(group: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(group)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().filter(|e| e.path().is_dir()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

async fn until(what: &str, condition: impl Fn() -> bool) -> Result<(), String> {
    let start = Instant::now();
    while !condition() {
        ensure!(start.elapsed() < Duration::from_secs(10), "{what}: not after 10 s");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn runs(sandbox: Sandbox) -> Checked {
    let finished = sh(&sandbox, "echo one; exit 3").await?;
    is(&finished, EndReason::Exit)?;
    ensure!(finished.end.exit_code == Some(3), "{:?}", finished.end);
    let finished = sh(&sandbox, "true").await?;
    is(&finished, EndReason::Done)?;
    end(sandbox).await?;
    Ok(String::new())
}

async fn limits(sandbox: Sandbox) -> Checked {
    let group = group(&sandbox)?;
    let wanted = [
        ("memory.max", (1024 * MIB).to_string()),
        ("pids.max", "129".to_owned()),
        ("cpu.max", "100000 100000".to_owned()),
    ];
    for (file, value) in wanted {
        let found = read(group.join(file));
        ensure!(found == value, "{file} is {found} instead of {value}");
    }
    end(sandbox).await?;
    Ok(String::new())
}

async fn leaves(sandbox: Sandbox) -> Checked {
    let group = group(&sandbox)?;
    let command = Command::shell("echo here; sleep 60");
    let mut call = sandbox.start(&command).await.map_err(|error| told(&error))?;
    let first = call.next().await;
    ensure!(matches!(first, Event::Stdout(_)), "{first:?}");
    let (guest, own) = (read(group.join("g/cgroup.procs")), read(group.join("c1/cgroup.procs")));
    ensure!(guest == sandbox.pid().to_string(), "in g: {guest}");
    ensure!(!own.is_empty(), "in c1: {own}");
    ensure!(read(group.join("cgroup.procs")).is_empty(), "a process is above the leaves");
    end(sandbox).await?;
    Ok(String::new())
}

async fn hidden(sandbox: Sandbox) -> Checked {
    let finished = sh(&sandbox, "cat /proc/self/cgroup; ls /sys/fs").await?;
    let text = finished.stdout.text();
    ensure!(!text.contains("belljar"), "{text}");
    end(sandbox).await?;
    Ok(text.trim().to_owned())
}

async fn oom(sandbox: Sandbox) -> Checked {
    let finished = sh(&sandbox, "exec dd if=/dev/zero of=/dev/null bs=256M count=1").await?;
    is(&finished, EndReason::Oom)?;
    let peak = finished.end.usage.peak_memory_bytes.unwrap_or(0);
    // A process that is being killed may go a little over.
    ensure!((32 * MIB..=72 * MIB).contains(&peak), "peak {peak}");
    // The guest outlives it, and the next call is not blamed.
    is(&sh(&sandbox, "true").await?, EndReason::Done)?;
    end(sandbox).await?;
    Ok(format!("peak {} MiB", peak / MIB))
}

async fn oom_of_child(sandbox: Sandbox) -> Checked {
    let script = "dd if=/dev/zero of=/dev/null bs=256M count=1 & wait; exit 0";
    is(&sh(&sandbox, script).await?, EndReason::Oom)?;
    end(sandbox).await?;
    Ok(String::new())
}

async fn oom_of_files(sandbox: Sandbox) -> Checked {
    let finished = sh(&sandbox, "dd if=/dev/zero of=/tmp/file bs=1M count=96").await?;
    is(&finished, EndReason::Oom)?;
    end(sandbox).await?;
    Ok(String::new())
}

async fn pids(sandbox: Sandbox) -> Checked {
    let script = "i=0; while [ $i -lt 40 ]; do sleep 60 & i=$((i+1)); done; wait";
    is(&sh(&sandbox, script).await?, EndReason::Pids)?;
    is(&sh(&sandbox, "true").await?, EndReason::Done)?;
    end(sandbox).await?;
    Ok(String::new())
}

const BURN: &str = "i=0; while [ $i -lt 12000 ]; do i=$((i+1)); done";

async fn counted(sandbox: Sandbox) -> Checked {
    let busy = sh(&sandbox, &format!("({BURN}) & {BURN}; wait")).await?.end.usage;
    let idle = sh(&sandbox, "true").await?.end.usage;
    ensure!(busy.cpu > Duration::from_millis(50), "busy {:?}", busy.cpu);
    ensure!(busy.cpu <= busy.wall * 2, "busy {:?} of {:?}", busy.cpu, busy.wall);
    ensure!(idle.cpu < busy.cpu / 2 && !idle.cpu.is_zero(), "idle {:?}", idle.cpu);
    end(sandbox).await?;
    Ok(format!("busy {} ms, idle {} ms", busy.cpu.as_millis(), idle.cpu.as_millis()))
}

async fn cpu(sandbox: Sandbox) -> Checked {
    let finished = sh(&sandbox, "while :; do :; done").await?;
    is(&finished, EndReason::TimeoutCpu)?;
    let used = finished.end.usage.cpu;
    ensure!(used >= Duration::from_millis(500) && used < Duration::from_secs(2), "used {used:?}");
    end(sandbox).await?;
    Ok(format!("after {} ms", used.as_millis()))
}

async fn share(sandbox: Sandbox) -> Checked {
    let mut command = Command::shell("while :; do :; done");
    command.wall = Some(Duration::from_secs(3));
    let finished = sandbox.execute(&command).await.map_err(|error| told(&error))?;
    is(&finished, EndReason::TimeoutWall)?;
    let used = finished.end.usage.cpu.as_millis();
    ensure!((100..=1000).contains(&used), "used {used} ms in 3 s");
    end(sandbox).await?;
    Ok(format!("{used} ms in 3 s"))
}

async fn wall(sandbox: Sandbox) -> Checked {
    let finished = sh(&sandbox, "sleep 60").await?;
    is(&finished, EndReason::TimeoutWall)?;
    end(sandbox).await?;
    Ok(String::new())
}

async fn daemons(sandbox: Sandbox) -> Checked {
    let group = group(&sandbox)?;
    let script = "setsid sh -c 'setsid sleep 61 & setsid sleep 61 & sleep 61' </dev/null \
        >/dev/null 2>&1 & setsid sleep 61 & sleep 0.3; exit 0";
    is(&sh(&sandbox, script).await?, EndReason::Done)?;
    until("the call's group goes", || groups_in(&group) == ["g"]).await?;
    ensure!(read(group.join("pids.current")) == "1", "{}", read(group.join("pids.current")));
    end(sandbox).await?;
    Ok(String::new())
}

async fn bomb(sandbox: Sandbox) -> Checked {
    let group = group(&sandbox)?;
    let command = Command::shell("f() { f & sleep 62 & f & }; echo here; f 2>/dev/null; sleep 62");
    let mut call = sandbox.start(&command).await.map_err(|error| told(&error))?;
    let first = call.next().await;
    ensure!(matches!(first, Event::Stdout(_)), "{first:?}");
    call.kill();
    let reason = loop {
        if let Event::End(end) = call.next().await {
            break end.reason;
        }
    };
    ensure!(matches!(reason, EndReason::Killed | EndReason::Pids), "ended as {reason}");
    until("only the guest is left", || read(group.join("pids.current")) == "1").await?;
    end(sandbox).await?;
    Ok(reason.to_string())
}

async fn kept(sandbox: Sandbox) -> Checked {
    let group = group(&sandbox)?;
    let mut command = Command::shell("setsid sleep 63 >/dev/null 2>&1 & exit 0");
    command.leftovers = Leftovers::Keep;
    let finished = sandbox.execute(&command).await.map_err(|error| told(&error))?;
    is(&finished, EndReason::Done)?;
    let procs = read(group.join("c1/cgroup.procs"));
    ensure!(!procs.is_empty(), "nothing was kept");
    end(sandbox).await?;
    ensure!(!Path::new("/proc").join(&procs).exists(), "it outlived the sandbox");
    Ok(String::new())
}

async fn pause(sandbox: Sandbox) -> Checked {
    let group = group(&sandbox)?;
    let command = Command::shell("while :; do echo tick; sleep 0.1; done");
    let mut call = sandbox.start(&command).await.map_err(|error| told(&error))?;
    let first = call.next().await;
    ensure!(matches!(first, Event::Stdout(_)), "{first:?}");
    sandbox.pause().await.map_err(|error| error.to_string())?;
    until("the group is frozen", || read(group.join("cgroup.events")).contains("frozen 1")).await?;
    // What was on its way still comes.
    while timeout(Duration::from_millis(300), call.next()).await.is_ok() {}
    let silent = timeout(Duration::from_millis(800), call.next()).await;
    ensure!(silent.is_err(), "it went on: {silent:?}");
    sandbox.resume().await.map_err(|error| error.to_string())?;
    let next = timeout(Duration::from_secs(5), call.next()).await;
    ensure!(matches!(next, Ok(Event::Stdout(_))), "after the pause: {next:?}");
    end(sandbox).await?;
    Ok(String::new())
}

async fn frozen_end(sandbox: Sandbox) -> Checked {
    let command = Command::shell("echo here; setsid sleep 64 & sleep 64");
    let mut call = sandbox.start(&command).await.map_err(|error| told(&error))?;
    let first = call.next().await;
    ensure!(matches!(first, Event::Stdout(_)), "{first:?}");
    sandbox.pause().await.map_err(|error| error.to_string())?;
    end(sandbox).await?;
    Ok(String::new())
}

async fn apart(sandbox: Sandbox) -> Checked {
    let burn = format!("{BURN}; exit 0");
    let (busy, idle) = tokio::join!(sh(&sandbox, &burn), sh(&sandbox, "sleep 1"));
    let (busy, idle) = (busy?.end.usage.cpu, idle?.end.usage.cpu);
    ensure!(busy > idle, "busy {busy:?}, idle {idle:?}");
    end(sandbox).await?;
    Ok(format!("{} ms and {} ms", busy.as_millis(), idle.as_millis()))
}

async fn process_tier(node: &Node, layer: &Path) -> Checked {
    let spec = spec(layer, Tier::Process, |limits| limits.memory_bytes = 64 * MIB);
    let sandbox = node.create(&spec).await.map_err(|error| told(&error))?;
    // Each stays below its own limit, together they go over the group's.
    let script = "for i in 1 2 3; do dd if=/dev/zero bs=40M count=1 | sleep 60 & done; wait";
    is(&sh(&sandbox, script).await?, EndReason::Oom)?;
    is(&sh(&sandbox, "true").await?, EndReason::Done)?;
    end(sandbox).await?;
    Ok(String::new())
}

async fn many(sandbox: Sandbox) -> Checked {
    let group = group(&sandbox)?;
    let mut times = Vec::new();
    for _ in 0..20 {
        let start = Instant::now();
        let finished = sandbox.execute(&Command::new(["/bin/true"])).await;
        is(&finished.map_err(|error| told(&error))?, EndReason::Done)?;
        times.push(start.elapsed());
    }
    until("only the guest's group is left", || groups_in(&group) == ["g"]).await?;
    end(sandbox).await?;
    times.sort();
    Ok(format!("{} ms each", times[10].as_millis()))
}

/// systemd writes what its own units need, and would switch the rest off.
async fn kept_controllers() -> Checked {
    let control = Path::new(ROOT).join("cgroup.subtree_control");
    for name in ["cpu", "memory", "pids"] {
        let taken = fs::write(&control, format!("-{name}"));
        ensure!(taken.is_err(), "{name} could be taken away");
    }
    Ok(String::new())
}

/// Makes a sandbox in another process that does not live to end it.
async fn after_death(layer: &Path, whose: &str) -> Checked {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let status = std::process::Command::new(program).arg(layer).arg(whose).status();
    ensure!(status.is_ok_and(|status| status.code().is_none()), "the other engine did not die");
    if whose == "both" {
        ensure!(
            groups_in(&Path::new(ROOT).join("belljar")).len() == 2,
            "nothing was left to sweep"
        );
        Node::start(None).await.map_err(|error| told(&error))?;
    }
    let one = || groups_in(&Path::new(ROOT).join("belljar")).len() == 1;
    until("only our own group is left", one).await?;
    Ok(String::new())
}

async fn die(layer: &Path) -> ! {
    let node = Node::start(None).await.expect("the other engine starts");
    let sandbox = node.create(&spec(layer, Tier::Jail, |_| {})).await.expect("it makes a sandbox");
    let command = Command::shell("echo here; setsid sleep 65 & sleep 65");
    let mut call = sandbox.start(&command).await.expect("it starts a call");
    call.next().await;
    let mut victims = vec![std::process::id().to_string()];
    if std::env::args().nth(2).as_deref() == Some("both") {
        let parent = read(format!("/proc/{}/status", sandbox.pid()));
        let parent = parent.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap_or("");
        victims.insert(0, parent.trim().to_owned());
    }
    let _ = std::process::Command::new("kill").arg("-KILL").args(victims).status();
    unreachable!("killed");
}

//! VM: machines of their own, and the monitor that the host runs them in.

mod coming_back;
mod monitor;
mod surroundings;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use belljar_domain::User;
use belljar_node::{Command, Leftovers, Sandbox};

use crate::attack::{Act, Attack, Control, Seen, payload, verdict};
use crate::harness::files::HANG_LIMIT;
use crate::harness::host::resident;
use crate::harness::stage::Stage;

pub(crate) fn attacks() -> Vec<Attack> {
    let driven = |id, act, control| Attack::new(id, Act::Driven(act), control);
    let kernel = Control::Because("a machine without its wall would be the host");
    vec![
        driven("VM-03", |stage| Box::pin(console(stage)), kernel),
        driven(
            "VM-04",
            |stage| Box::pin(surroundings::waiting_links(stage)),
            Control::Own(|stage| Box::pin(surroundings::followed_links(stage))),
        ),
        Attack::new("VM-05", Act::Payload(payload("vm/vm_05.py")), kernel),
        driven(
            "VM-06",
            |stage| Box::pin(clones(stage)),
            Control::Own(|stage| Box::pin(no_clones(stage))),
        ),
        driven("VM-07", |stage| Box::pin(first_draws(stage)), kernel),
        driven(
            "VM-08",
            |stage| Box::pin(coming_back::altered(stage)),
            Control::Own(|stage| Box::pin(coming_back::unaltered(stage))),
        ),
        driven("VM-09", |stage| Box::pin(devices(stage)), kernel),
        driven("VM-10", |stage| Box::pin(surroundings::timers(stage)), kernel)
            .alone("it floods the monitor with timers"),
        driven("VM-11", |stage| Box::pin(deaths(stage)), kernel),
        Attack::new(
            "VM-12",
            Act::Payload(payload("vm/vm_12.c")),
            Control::Own(|stage| Box::pin(surroundings::nested(stage))),
        ),
        Attack::new("VM-13", Act::Payload(payload("vm/vm_13.py")), kernel),
        driven(
            "VM-14",
            |stage| Box::pin(coming_back::with_its_token(stage, false)),
            Control::Own(|stage| Box::pin(coming_back::with_its_token(stage, true))),
        ),
        driven(
            "VM-15",
            |stage| Box::pin(monitor::standing(stage)),
            Control::Own(|stage| Box::pin(monitor::standing_of_root(stage))),
        ),
        driven("VM-16", |stage| Box::pin(disk(stage)), kernel),
    ]
}

/// Floods whatever leads to the console; the monitor and this process stay small.
async fn console(stage: Stage) -> anyhow::Result<Seen> {
    const MOST: u64 = 64 << 20;
    let sandbox = stage.sandbox(|_| {}).await?;
    let sizes = || [resident(sandbox.pid()), resident(std::process::id())];
    let settle = Command::shell("head -c 8000000 /dev/zero | cat > /dev/null");
    stage.exec(&sandbox, &settle).await?;
    let before = sizes();
    let mut wrote = 0;
    for user in [User::User, User::Root] {
        let flood = "for to in /dev/console /dev/ttyS0 /dev/kmsg /dev/tty0 /dev/hvc0; do
            [ -e $to ] && head -c 2000000 /dev/zero | tr '\\0' x > $to && echo wrote; done; exit 0";
        let command = Command { user, ..Command::shell(flood) };
        wrote += stage.exec(&sandbox, &command).await?.text().lines().count();
    }
    let after = sizes();
    for (before, after) in before.into_iter().zip(after) {
        let grown = after.saturating_sub(before);
        ensure!(grown < MOST, "{grown} bytes more after the flood");
    }
    let alive = stage.exec(&sandbox, &Command::new(["/bin/echo", "alive"])).await?;
    ensure!(alive.text() == "alive\n", "afterwards: {}", alive.ending());
    Ok(Seen::Held(format!("{wrote} ways to the console, each a ring of fixed size")))
}

const DRAW: &str = "import os, uuid, random\n\
    boot = '/proc/sys/kernel/random/boot_id'\n\
    if os.path.exists(boot): print('id', open(boot).read().strip())\n\
    print('random', os.urandom(16).hex())\n\
    print('uuid', uuid.uuid4())\n\
    print('float', random.random())\n\
    print('hash', hash('x'))\n\
    print('layout', id(object()))";

async fn draw(stage: &Stage, sandbox: &Sandbox) -> anyhow::Result<Vec<String>> {
    let ran = stage.exec(sandbox, &Command::new(["/usr/bin/python3", "-c", DRAW])).await?;
    ensure!(ran.end.exit_code == Some(0), "{}", ran.ending());
    Ok(ran.text().lines().map(str::to_owned).collect())
}

/// Machines that came from one moment: whatever they draw must differ.
async fn clones(stage: Stage) -> anyhow::Result<Seen> {
    const COUNT: usize = 4;
    let sandbox = stage.sandbox(|_| {}).await?;
    let checkpoint = sandbox.checkpoint().await?;
    let mut drawn = vec![draw(&stage, &sandbox).await?];
    for _ in 0..COUNT {
        let clone = stage.keep(stage.node.fork(&checkpoint).await?)?;
        drawn.push(draw(&stage, &clone).await?);
        stage.destroy(clone).await?;
    }
    Ok(compare(&drawn))
}

/// Programs that share a seed draw the same, which is found.
async fn no_clones(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let code = "import random\nrandom.seed(7)\nprint('float', random.random())";
    let mut drawn = Vec::new();
    for _ in 0..2 {
        let command = Command::new(["/usr/bin/python3", "-c", code]);
        let ran = stage.exec(&sandbox, &command).await?;
        drawn.push(ran.text().lines().map(str::to_owned).collect());
    }
    Ok(compare(&drawn))
}

fn compare(drawn: &[Vec<String>]) -> Seen {
    let lines: Vec<&String> = drawn.iter().flatten().collect();
    let apart: BTreeSet<&String> = lines.iter().copied().collect();
    if apart.len() < lines.len() {
        let twice = apart.iter().filter(|line| lines.iter().filter(|l| *l == *line).count() > 1);
        return Seen::Breach(format!("drawn more than once: {:?}", twice.collect::<Vec<_>>()));
    }
    Seen::Held(format!("{} values of {} machines differ", lines.len(), drawn.len()))
}

/// Draws without end, with the time of each. One that came back must not draw
/// before it was told new randomness and the time.
async fn first_draws(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|spec| spec.limits.disk_bytes = 64 << 20).await?;
    let code = "import os, time\nwhile True:\n    \
        print(time.time(), os.urandom(8).hex(), flush=True); time.sleep(0.002)";
    let script = format!("setsid /usr/bin/python3 -c \"{code}\" > /tmp/draws 2>&1 &");
    let command = Command { leftovers: Leftovers::Keep, ..Command::shell(&script) };
    stage.exec(&sandbox, &command).await?;
    let wait = "while [ $(wc -l < /tmp/draws) -lt 20 ]; do sleep 0.05; done";
    stage.exec(&sandbox, &Command::shell(wait)).await?;
    let checkpoint = sandbox.checkpoint().await?;
    let saved = now();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let mut draws = Vec::new();
    for _ in 0..2 {
        let began = now();
        let clone = stage.keep(stage.node.fork(&checkpoint).await?)?;
        stage.exec(&clone, &Command::shell("sleep 0.5")).await?;
        let text = String::from_utf8(stage.download(&clone, "/tmp/draws").await?)?;
        let lines: Vec<(f64, String)> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(at, value)| Some((at.parse().ok()?, value.to_owned())))
            .collect();
        ensure!(lines.iter().any(|(at, _)| *at > began), "nothing was drawn after it came back");
        // A second for the steps of two clocks.
        let between = lines.iter().filter(|(at, _)| *at > saved + 1.0 && *at < began - 1.0).count();
        if between > 0 {
            return Ok(Seen::Breach(format!("{between} draws by a clock that was not set")));
        }
        let late = lines.into_iter().filter(|(at, _)| *at > began - 1.0);
        draws.push(late.map(|(_, value)| value).collect::<BTreeSet<String>>());
        stage.destroy(clone).await?;
    }
    let [one, two] = &draws[..] else { bail!("two machines") };
    let both = one.intersection(two).count();
    if both > 0 {
        return Ok(Seen::Breach(format!("{both} values were drawn by both")));
    }
    Ok(Seen::Held(format!("{} and {} draws after coming back, none alike", one.len(), two.len())))
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Reaches for the channel to the host and for the disks themselves, as a user
/// and as root of the sandbox. What is broken is the machine at most.
async fn devices(stage: Stage) -> anyhow::Result<Seen> {
    let own = resident(std::process::id());
    let mut said = Vec::new();
    for user in [User::User, User::Root] {
        let sandbox = stage.sandbox(|_| {}).await?;
        let mut command = stage.place(&sandbox, "vm/vm_09.py", &[""; 0]).await?;
        command.user = user;
        // A machine that broke itself is gone, and that is told.
        match stage.exec(&sandbox, &command).await {
            Ok(ran) => said.push(verdict(&ran)),
            Err(_) => said.push(Ok(Seen::Held("the machine ended itself".to_owned()))),
        }
        stage.destroy(sandbox).await?;
    }
    let grown = resident(std::process::id()).saturating_sub(own);
    ensure!(grown < 64 << 20, "this process grew by {grown} bytes");
    let mut all = said.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let breach = all.iter().position(|seen| matches!(seen, Seen::Breach(_)));
    let index = breach.unwrap_or(all.len() - 1);
    Ok(all.swap_remove(index))
}

/// Every way to die: it is told, and nothing is left.
async fn deaths(stage: Stage) -> anyhow::Result<Seen> {
    let inside = "echo c > /proc/sysrq-trigger; echo o > /proc/sysrq-trigger; kill -9 1; \
        reboot -f 2>/dev/null; sleep 1; echo alive";
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut survived = 0;
    for user in [User::User, User::Root] {
        let gone = sandbox.gone();
        let command = Command { user, ..Command::shell(inside) };
        match stage.exec(&sandbox, &command).await {
            Ok(ran) if ran.text().contains("alive") => survived += 1,
            // It ended: then that has been told.
            _ => {
                tokio::time::timeout(HANG_LIMIT, gone)
                    .await
                    .context("the machine's end is not told")?;
                break;
            }
        }
    }
    let sandbox = stage.sandbox(|_| {}).await?;
    let gone = sandbox.gone();
    let pid = sandbox.pid().to_string();
    let begin = Instant::now();
    let killed = std::process::Command::new("kill").args(["-9", &pid]).status()?;
    ensure!(killed.success(), "the monitor could not be killed");
    tokio::time::timeout(HANG_LIMIT, gone).await.context("the monitor's death is not told")?;
    let took = begin.elapsed();
    ensure!(!Path::new(&format!("/proc/{pid}/exe")).exists(), "the monitor is still there");
    Ok(Seen::Held(format!("{survived} tries from inside did nothing; a kill is told in {took:?}")))
}

/// The host is asked for files of a disk that the code wrote to: it never looks at
/// that disk itself.
async fn disk(stage: Stage) -> anyhow::Result<Seen> {
    let state = stage.engines.state().display().to_string();
    let mounts = || {
        let loops = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let files = loops.map(|entry| entry.path().join("loop/backing_file"));
        let files = files.filter_map(|file| std::fs::read_to_string(file).ok());
        let backed = files.filter(|file| file.contains(&state)).count();
        (stage.engines.mounts(), backed)
    };
    let before = mounts();
    let sandbox = stage.sandbox(|_| {}).await?;
    let junk = "for disk in /dev/vdb /dev/vda; do head -c 100000 /dev/urandom > $disk; done; \
        echo kept > /tmp/file; exit 0";
    let command = Command { user: User::Root, ..Command::shell(junk) };
    stage.exec(&sandbox, &command).await?;
    let listed = sandbox.list(User::User, b"/tmp", 2).await;
    let taken = sandbox.checkpoint_files().await;
    let during = mounts();
    ensure!(during == before, "the host mounted something: {before:?}, then {during:?}");
    if taken.is_ok() {
        return Ok(Seen::Breach("the host read the machine's disk".to_owned()));
    }
    let listed =
        listed.map_or_else(|error| error.to_string(), |found| found.entries.len().to_string());
    Ok(Seen::Held(format!("files are told by the guest alone: {listed}")))
}

//! More than one's share, from cells of interpreters that were forked or copied.

use std::time::{Duration, Instant};

use belljar_domain::limits::MIB;
use belljar_domain::{EndReason, Spec};
use belljar_node::Command;

use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::stage::{Ran, Stage};
use crate::harness::warm::Made;

/// A cell that takes too much, and how that must end.
struct Greed {
    what: &'static str,
    code: &'static str,
    /// One of these; `Done` when the cell itself is told by an exception.
    ends: &'static [EndReason],
}

const LIMIT: u64 = 256 * MIB;
const DISK: u64 = 32 * MIB;

const GREEDS: [Greed; 8] = [
    Greed {
        what: "memory",
        code: "hoard = []\nwhile True: hoard.append(bytearray(b'x') * (8 << 20))",
        ends: &[EndReason::Oom],
    },
    Greed {
        what: "memory of a child",
        code: "import subprocess, sys\n\
               subprocess.run([sys.executable, '-c', \
               'hoard = []\\nwhile True: hoard.append(bytearray(8 << 20))'])",
        // The cell survives its child, and says so.
        ends: &[EndReason::Oom],
    },
    Greed {
        what: "files in memory",
        code: "with open('/dev/shm/full', 'wb') as file:\n    \
               while True: file.write(bytes(1 << 20))",
        ends: &[EndReason::Oom, EndReason::Exit],
    },
    Greed {
        what: "processes",
        code: "import os, time\ncount = 0\ntry:\n    while count < 2000:\n        \
               if os.fork() == 0:\n            time.sleep(60); os._exit(0)\n        count += 1\n\
               except OSError as error:\n    print('HELD', count, error.errno)\n\
               assert count < 200, count",
        ends: &[EndReason::Done, EndReason::Pids],
    },
    Greed {
        what: "threads",
        code: "import threading, time\ncount = 0\ntry:\n    while count < 2000:\n        \
               threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); count += 1\n\
               except RuntimeError as error:\n    print('HELD', count)\n\
               assert count < 200, count",
        ends: &[EndReason::Done, EndReason::Pids],
    },
    Greed {
        what: "disk",
        code: "with open('/tmp/full', 'wb', buffering=0) as file:\n    \
               while True: file.write(bytes(1 << 20))",
        ends: &[EndReason::Exit, EndReason::Disk],
    },
    Greed {
        what: "output",
        code: "import os\nwhile True: os.write(1, b'x' * 65536)",
        ends: &[EndReason::Output],
    },
    Greed { what: "time", code: "while True: pass", ends: &[EndReason::TimeoutWall] },
];

fn tune(spec: &mut Spec) {
    spec.limits.memory_bytes = LIMIT;
    spec.limits.disk_bytes = DISK;
    spec.limits.pids = 64;
    spec.limits.output_bytes = 4 * MIB;
    spec.limits.wall = Duration::from_secs(3);
}

pub(super) async fn all(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    if stage.warm.is_none() {
        return Ok(Seen::NotHere("the warm template is not built".to_owned()));
    }
    let pooled = Stage { node: stage.start_node().await?, ..stage.clone() };
    stage.warm()?.up(&pooled.node, Made::Pooled).await?;
    for made in Made::WARM {
        for greed in &GREEDS {
            one(if made == Made::Pooled { &pooled } else { &stage }, made, greed, &mut findings)
                .await?;
        }
    }
    stage.clear().await?;
    pooled.node.stop().await;
    Ok(findings.seen())
}

async fn one(
    stage: &Stage,
    made: Made,
    greed: &Greed,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let how = format!("{} of a {} interpreter", greed.what, made.as_str());
    let sandbox = stage.warm_sandbox(made, tune).await?;
    let context = stage.python(&sandbox).await?;
    let begin = Instant::now();
    let ran: Ran = stage.code(&context, greed.code).await?;
    let took = begin.elapsed();
    let typed = greed.ends.contains(&ran.end.reason);
    findings.expect(typed, "its end is typed", format!("{how}: {}", ran.ending()));
    let peak = ran.end.usage.peak_memory_bytes.unwrap_or(0);
    findings.expect(peak <= LIMIT, "no more memory than its own", format!("{how}: {peak}"));
    let written = ran.end.usage.written_bytes;
    findings.expect(written <= DISK, "no more than the disk", format!("{how}: {written}"));
    findings.in_time(took, "in time");
    // The guest is spared, and the sandbox serves on once the interpreter is gone.
    context.end().await;
    let later = stage.exec(&sandbox, &Command::new(["/bin/true"])).await?;
    let serves = later.end.reason == EndReason::Done;
    findings.expect(serves, "the sandbox still serves", format!("{how}: {}", later.ending()));
    stage.destroy(sandbox).await?;
    Ok(())
}

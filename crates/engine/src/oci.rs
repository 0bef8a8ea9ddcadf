//! Sandboxes that an OCI runtime makes: crun, runc, and gVisor's runsc.
//!
//! The spawner mounts the root filesystem, as for a jail, and has the runtime
//! put a container around it that the bundle here describes. The runtime ends
//! when the container runs; nothing of the host stays between.

pub(crate) mod bundle;
pub(crate) mod launch;
pub(crate) mod runtime;
pub(crate) mod save;

use std::path::PathBuf;

use belljar_domain::{Limits, Runtime};
use serde::{Deserialize, Serialize};

use crate::confinement::nproc;

/// What a runtime is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The runtime, found and judged by the engine.
    pub(crate) program: PathBuf,
    /// Where a sandbox lies that was put on disk, to be restored.
    pub(crate) from: Option<PathBuf>,
}

/// What gVisor's own kernel may use beside its sandbox's memory: the sentry and
/// the gofer, idle, and what a busy sentry keeps about files and processes.
const SENTRY_BYTES: u64 = 192 << 20;

/// Host tasks beside those of the code. Each process and each thread inside has
/// a stub process or thread outside, and the sentry one thread more for it; the
/// rest are the Go runtimes of sentry and gofer. A sentry that is refused a task
/// dies, so there must be enough for a bomb that the locks inside are about to stop.
const SENTRY_TASKS: u32 = 128;
const TASKS_FOR_ONE: u32 = 3;

/// As many tasks crun has while it starts; its memory is not worth counting.
const CRUN_TASKS: u32 = 8;

/// What a Go program needs while it starts.
const LAUNCH_BYTES: u64 = 64 << 20;
const LAUNCH_TASKS: u32 = 64;
/// How much of the CPU it may have meanwhile. It runs on several threads, for a
/// tenth of a second, and nothing of the tenant's runs beside it.
const LAUNCH_CPU: u32 = 4000;

/// The limits of the host's cgroups for a sandbox with `limits`, for as long as
/// it lives. Inside gVisor the guest keeps the limits themselves.
pub(crate) fn outer_limits(runtime: Runtime, limits: &Limits) -> Limits {
    match runtime {
        Runtime::Crun | Runtime::Runc => limits.clone(),
        Runtime::Runsc => Limits {
            memory_bytes: limits.memory_bytes.saturating_add(SENTRY_BYTES),
            pids: inside(limits).saturating_mul(TASKS_FOR_ONE).saturating_add(SENTRY_TASKS),
            ..limits.clone()
        },
    }
}

/// As many tasks as gVisor's kernel may ever have to run.
fn inside(limits: &Limits) -> u32 {
    u32::try_from(nproc(limits)).unwrap_or(u32::MAX)
}

/// The same while the runtime starts, which is in the sandbox's groups as well.
pub(crate) fn launch_limits(runtime: Runtime, limits: &Limits) -> Limits {
    let outer = outer_limits(runtime, limits);
    if runtime == Runtime::Crun && outer.pids >= CRUN_TASKS {
        return outer;
    }
    Limits {
        memory_bytes: outer.memory_bytes.saturating_add(LAUNCH_BYTES),
        pids: outer.pids.saturating_add(LAUNCH_TASKS),
        cpu_millis: outer.cpu_millis.max(LAUNCH_CPU),
        ..outer
    }
}

//! Limits that this host cannot keep: refused if they were asked for, told if they were not.

use belljar_domain::{Limits, Spec};
use belljar_engine::{DELEGATED_SCOPE, Enforcement, Engine, LimitName, WeakLimit};

use crate::cli::Sandbox;
use crate::limits::short_size;
use crate::output::{Printer, hinted};

/// What to do about a limit that only a cgroup keeps.
pub(crate) const NEXT_STEP: &str = "run it in a cgroup of yours (`systemd-run --user --scope -p \
    Delegate=yes belljar ...`) or as root; --allow-weak-limits runs it all the same";

/// Refuses a limit that was asked for and cannot be kept, unless that is allowed. Says what
/// holds here where cgroups do not.
pub(crate) fn check(
    engine: &Engine,
    spec: &Spec,
    usual: &Limits,
    options: &Sandbox,
    printer: &Printer,
) -> anyhow::Result<()> {
    if options.allow_weak_limits {
        engine.allow_weak_limits();
    }
    if engine.enforcement() == Enforcement::Watch {
        printer.note(format_args!(
            "note: without cgroups, memory, processes and CPU time are watched rather than capped \
             by the kernel; the code can exceed them for a moment\n\
             hint: `{DELEGATED_SCOPE} belljar ...` caps them; `belljar doctor` shows more"
        ));
    }
    for weak in engine.weak_limits(spec) {
        let Some(asked) = asked_for(weak.limit, &spec.limits, usual, options) else { continue };
        if options.allow_weak_limits {
            printer.note(format_args!("warning: {asked} is not kept: {}", weak.why));
            continue;
        }
        return Err(refused(&weak, &asked));
    }
    Ok(())
}

fn refused(weak: &WeakLimit, asked: &str) -> anyhow::Error {
    let error = anyhow::anyhow!("cannot keep {asked} on this host: {}", weak.why);
    if weak.cgroup_keeps {
        return hinted(error, NEXT_STEP);
    }
    hinted(error, "choose another --tier; --allow-weak-limits runs it all the same")
}

/// The limit as it is typed, if an option or a template asked for it.
fn asked_for(
    limit: LimitName,
    limits: &Limits,
    usual: &Limits,
    options: &Sandbox,
) -> Option<String> {
    let (value, is_asked) = match limit {
        LimitName::Cpus => {
            let cores = f64::from(limits.cpu_millis) / 1000.0;
            let differs = limits.cpu_millis != usual.cpu_millis;
            (cores.to_string(), options.cpus.is_some() || differs)
        }
        LimitName::Pids => {
            (limits.pids.to_string(), options.pids.is_some() || limits.pids != usual.pids)
        }
        LimitName::Disk => {
            let differs = limits.disk_bytes != usual.disk_bytes;
            (short_size(limits.disk_bytes), options.disk.is_some() || differs)
        }
        LimitName::Inodes => {
            (limits.inodes.to_string(), options.inodes.is_some() || limits.inodes != usual.inodes)
        }
    };
    is_asked.then(|| format!("--{} {value}", limit.as_str()))
}

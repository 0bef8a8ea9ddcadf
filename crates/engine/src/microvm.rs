//! Sandboxes that are virtual machines: QEMU's `microvm`, inside a jail of ours.
//!
//! # What the machine finds when it boots
//!
//! The monitor and the guest's boot stage (`crates/guest`) meet here and nowhere
//! else; whoever changes one side changes the other.
//!
//! | Where | What |
//! |---|---|
//! | initramfs `/init` | the guest program; started by the kernel as pid 1, `argv[0]` is `/init`, no other argument |
//! | initramfs `/modules/list` | names of modules, one in a line, in the order to load them |
//! | initramfs `/modules/NAME.ko` | each of them, uncompressed. A word `NAME.option=value` of the kernel's command line is an option of that module, to be handed over when it is loaded, without the `NAME.` |
//! | initramfs | also holds the empty directories `/dev`, `/proc`, `/sys`, `/root`; nothing else |
//! | `/dev/vda` | the template's root, `erofs`, read-only; shared by all machines, so the device itself refuses writes |
//! | `/dev/vdb` | the machine's own disk, `ext4` without a journal, as large as the disk limit, empty but for the directories `upper` and `work`, which an overlay over `/dev/vda` needs |
//! | `/dev/vport0p1` | the stream to the host: the only port, named `belljar.stream`. It carries bytes both ways and no descriptors. A read of 0 bytes means that the host is gone for good: the guest then ends the machine. Not so while it is being restored: the swap is not seen |
//! | `belljar.time=SECONDS.NANOS` | on the kernel's command line: the host's wall clock when the kernel was started. There is no clock device: pid 1 sets its clock to this plus what `CLOCK_MONOTONIC` says by then |
//! | `console=ttyS0` | on the kernel's command line: the console, a ring of some KiB in the monitor that only errors show: complaints of a boot stage that fails go to `/dev/console` |
//!
//! There is no network device, no clock, no disk but these two. A machine ends
//! by `reboot(RB_AUTOBOOT)` or `RB_POWER_OFF`; the monitor takes either as its
//! end. If pid 1 exits, the kernel panics and reboots at once (`panic=-1`),
//! which is the same.

pub(crate) mod argv;
mod copy;
pub(crate) mod disk;
pub(crate) mod initramfs;
pub(crate) mod monitor;
mod parts;
mod qmp;
pub(crate) mod save;
mod trial;
pub(crate) mod workshop;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use belljar_domain::Limits;
use belljar_sys::seccomp::Instruction;
use serde::{Deserialize, Serialize};

use crate::jail::{Attempt, Failure, mounts};
use crate::seccomp;

pub use parts::{Parts, Supplier};
pub use trial::Chosen;
pub(crate) use trial::KVM;
pub use workshop::Accelerator;

/// What the machine monitor is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The monitor, found and judged by the engine.
    pub(crate) program: PathBuf,
    pub(crate) shape: Shape,
    /// Whether it waits for a machine that was put on disk, instead of booting.
    pub(crate) incoming: bool,
}

/// What a machine is, as it boots and ever after: one that was put on disk can
/// only go on in the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) accelerator: Accelerator,
    pub(crate) memory_mib: u64,
    pub(crate) cpus: u32,
    /// How fast the processor's clock runs, so that a kernel need not measure it:
    /// on a busy host, half of all emulated boots hang in that.
    pub(crate) clock_khz: u64,
}

const MIB: u64 = 1 << 20;

/// What a guest's kernel takes for itself: its image, and its tables, which grow
/// with the memory. Code may use all of its limit beside it.
const KERNEL_MIB: u64 = 80;
const KERNEL_SHARE: u64 = 32;

/// What the monitor takes beside the machine's memory: itself, its threads'
/// stacks, what it has in flight, and the code that it translated.
const MONITOR_BYTES: u64 = 128 * MIB;
pub(crate) const TRANSLATED_MIB: u64 = 64;

/// Threads of a monitor: one for each processor, and those that wait for files.
const MONITOR_TASKS: u32 = 96;

impl Shape {
    pub(crate) fn of(limits: &Limits, accelerator: Accelerator, clock_khz: u64) -> Self {
        let memory = limits.memory_bytes.div_ceil(MIB);
        Self {
            accelerator,
            memory_mib: memory + KERNEL_MIB + memory / KERNEL_SHARE,
            cpus: limits.cpu_millis.div_ceil(1000).max(1),
            clock_khz,
        }
    }
}

/// The limits of the host's cgroups around a monitor. The disk is in memory, as
/// a jail's writable layer is, but beside what the code may use, because the
/// guest's kernel cannot know of it.
pub(crate) fn outer_limits(limits: &Limits, shape: &Shape) -> Limits {
    let memory = (shape.memory_mib + TRANSLATED_MIB) * MIB + MONITOR_BYTES;
    Limits {
        memory_bytes: memory.saturating_add(disk::size(limits)),
        pids: shape.cpus.saturating_add(MONITOR_TASKS),
        // Of the root that the monitor sees, in which it writes nothing.
        disk_bytes: MIB,
        inodes: 64,
        ..limits.clone()
    }
}

/// A monitor that is about to run, in the spawner.
pub(crate) struct Launch {
    pub(crate) argv: Vec<CString>,
    pub(crate) filter: Vec<Instruction>,
    /// What it inherits, at these numbers.
    pub(crate) inherits: Vec<OwnedFd>,
    /// Its disk, and what that begins as.
    pub(crate) disk: OwnedFd,
    pub(crate) begins_as: OwnedFd,
    /// Where it says why it cannot.
    pub(crate) complaints: OwnedFd,
    /// A device of the host that runs machines, for whoever has this descriptor.
    pub(crate) device: Option<OwnedFd>,
}

impl Launch {
    /// Takes what came with an order: see [`monitor::Ends::carried`].
    pub(crate) fn new(order: &Order, carried: &[OwnedFd]) -> Result<Self, Failure> {
        let what = "open the files of the virtual machine monitor";
        let [control, image, disk, begins_as, complaints] = carried else {
            return Err(Failure::new(what, &io::ErrorKind::InvalidData.into()));
        };
        let copy = |fd: &OwnedFd| fd.try_clone().doing(what);
        let (control, image, inherited) = (copy(control)?, copy(image)?, copy(disk)?);
        let numbers = argv::Numbers {
            control: control.as_raw_fd(),
            image: image.as_raw_fd(),
            disk: inherited.as_raw_fd(),
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let arguments = argv::arguments(order, numbers, now.unwrap_or_default());
        let argv = arguments.into_iter().map(CString::new).collect::<Result<_, _>>();
        Ok(Self {
            argv: argv
                .map_err(io::Error::from)
                .doing("pass the virtual machine monitor's arguments")?,
            filter: seccomp::assemble(&seccomp::monitor()),
            inherits: vec![control, image, inherited],
            disk: copy(disk)?,
            begins_as: copy(begins_as)?,
            complaints: copy(complaints)?,
            device: match order.shape.accelerator {
                Accelerator::Kvm => Some(mounts::device(KVM).doing("open the host's KVM")?),
                Accelerator::Tcg => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_has_all_of_its_memory_beside_the_kernel() {
        let limits = Limits { memory_bytes: 1 << 30, cpu_millis: 1500, ..Limits::default() };
        let shape = Shape::of(&limits, Accelerator::Tcg, 1);
        assert_eq!((shape.memory_mib, shape.cpus), (1024 + 80 + 32, 2));
        let outer = outer_limits(&limits, &shape);
        assert!(outer.memory_bytes > shape.memory_mib * MIB + limits.disk_bytes);
        assert_eq!(outer.cpu_millis, 1500);
    }
}

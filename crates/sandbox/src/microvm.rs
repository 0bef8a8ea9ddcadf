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
//! | `console=ttyS0` | the console, a ring of some KiB in the monitor that only errors show: complaints of a boot stage that fails go to `/dev/console` |
//!
//! There is no network device, no clock, no disk but these two. A machine ends
//! by `reboot(RB_AUTOBOOT)` or `RB_POWER_OFF`; the monitor takes either as its
//! end. If pid 1 exits, the kernel panics and reboots at once (`panic=-1`),
//! which is the same.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What the machine monitor is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The monitor, found and judged by the engine.
    pub(crate) program: PathBuf,
    /// Where a machine lies that was put on disk, to be restored.
    pub(crate) from: Option<PathBuf>,
}

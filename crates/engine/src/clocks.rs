//! Clocks that begin with an engine or a sandbox: the host's uptime is not told.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};

/// Gives all processes that are started from now on clocks that begin now.
pub(crate) fn begin_for_children() -> io::Result<()> {
    belljar_sys::process::unshare_time()?;
    let seconds = |clock| clock_gettime(clock).tv_sec;
    let (monotonic, boot) = (seconds(ClockId::Monotonic), seconds(ClockId::Boottime));
    let offsets = format!("monotonic -{monotonic} 0\nboottime -{boot} 0\n");
    fs::write("/proc/self/timens_offsets", offsets)
}

/// Gives this process, which has one thread, clocks that begin now. Needs rights in its own
/// user namespace and in no other.
pub(crate) fn begin_and_enter() -> io::Result<()> {
    begin_for_children()?;
    let namespace = fs::File::open("/proc/self/ns/time_for_children")?;
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Time))?)
}

//! The capabilities that the guest has, and those that it can give to root.
//!
//! All of them count only inside the sandbox's own user namespace: for its ids, its files and its
//! processes. In a virtual machine they count for the machine.

use belljar_sys::caps::Set;

/// Capabilities with which the guest starts calls as other users and signals them.
pub const GUEST: Set = Set::SETUID.and(Set::SETGID).and(Set::KILL);

/// Capabilities that count for files. The guest uses them only while it acts for root.
pub const FILES: Set = Set::CHOWN.and(Set::DAC_OVERRIDE).and(Set::FOWNER).and(Set::FSETID);

/// Capabilities of root's calls with the profile `full`. No other can be had in a sandbox: none
/// that mounts, traces, makes devices, or sets up the network.
pub const ROOT: Set =
    FILES.and(Set::SETUID).and(Set::SETGID).and(Set::KILL).and(Set::NET_BIND_SERVICE);

/// Capabilities of a guest that can give root's to calls. With the last one it lets go of the
/// others when it learns that it must not.
pub const GRANTING: Set = GUEST.and(ROOT).and(Set::SETPCAP);

//! The kernel's randomness, for a machine whose memory has been copied.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check;

const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
const RNDRESEEDCRNG: libc::c_ulong = 0x5207;

/// The most that [`mix_in`] takes at once.
pub const MOST: usize = 512;

#[repr(C)]
struct Pool {
    bits: libc::c_int,
    size: libc::c_int,
    bytes: [u8; MOST],
}

/// Mixes `secret` into the kernel's pool, believed to be worth all its bits, and
/// has everything that is drawn from now on depend on it. `device` is
/// `/dev/urandom`; needs SYS_ADMIN. See random(4).
pub fn mix_in(device: BorrowedFd<'_>, secret: &[u8]) -> io::Result<()> {
    let mut pool = Pool { bits: 0, size: 0, bytes: [0; MOST] };
    let too_much = || io::Error::from(io::ErrorKind::InvalidInput);
    pool.bytes.get_mut(..secret.len()).ok_or_else(too_much)?.copy_from_slice(secret);
    pool.size = libc::c_int::try_from(secret.len()).map_err(|_| too_much())?;
    pool.bits = pool.size * 8;
    // SAFETY: the kernel reads a header and `size` bytes behind it, all of which
    // are in `pool`.
    let ret = unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, &raw const pool) };
    check(ret.into())?;
    // SAFETY: takes no argument.
    let ret = unsafe { libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG, 0) };
    check(ret.into()).map(drop)
}

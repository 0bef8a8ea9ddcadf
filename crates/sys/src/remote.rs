//! Memory of other processes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::Pid;

use crate::check;

/// A piece of another process's memory: address and length.
pub type Piece = (u64, usize);

/// How many pieces one call may name.
pub const PIECES: usize = 1024;

/// Reads pieces one after the other into `into`. Answers how much was read,
/// which is less when a piece is not there or may not be read by its owner.
pub fn read(pid: Pid, into: &mut [u8], pieces: &[Piece]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = remote(pieces);
    // SAFETY: `local` is all of `into`, which is ours to write; the kernel
    // checks the remote addresses against the other process.
    let ret = unsafe {
        libc::process_vm_readv(
            pid.as_raw_nonzero().get(),
            &raw const local,
            1,
            remote.as_ptr(),
            libc::c_ulong::try_from(remote.len()).unwrap_or(0),
            0,
        )
    };
    length(ret)
}

/// Writes `from` to pieces one after the other; like [`read`], it may stop
/// short at memory that its owner could not write.
pub fn write(pid: Pid, from: &[u8], pieces: &[Piece]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let remote = remote(pieces);
    // SAFETY: the kernel only reads from `local`, which is all of `from`; it
    // checks the remote addresses against the other process.
    let ret = unsafe {
        libc::process_vm_writev(
            pid.as_raw_nonzero().get(),
            &raw const local,
            1,
            remote.as_ptr(),
            libc::c_ulong::try_from(remote.len()).unwrap_or(0),
            0,
        )
    };
    length(ret)
}

fn remote(pieces: &[Piece]) -> Vec<libc::iovec> {
    pieces
        .iter()
        .map(|&(address, length)| libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: length,
        })
        .collect()
}

fn length(ret: isize) -> io::Result<usize> {
    usize::try_from(ret).map_err(|_| io::Error::last_os_error())
}

/// A run of pages, from the first address to behind the last.
pub type Run = (u64, u64);

#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;

/// Lists the pages between two addresses that are a process's own: in memory
/// or in swap, neither of a file nor the shared page of zeros. Holes cost
/// nothing, however vast. Answers up to `limit` runs, and the address where the
/// search ended. Since Linux 6.7; see `pagemap` in the kernel's documentation.
pub fn own_pages(
    pagemap: BorrowedFd<'_>,
    start: u64,
    end: u64,
    limit: usize,
) -> io::Result<(Vec<Run>, u64)> {
    let mut regions = vec![Region::default(); limit.max(1)];
    let mut arguments = ScanArguments {
        size: size_of::<ScanArguments>() as u64,
        flags: 0,
        start,
        end,
        walk_end: 0,
        regions: regions.as_mut_ptr() as u64,
        regions_length: regions.len() as u64,
        max_pages: 0,
        category_inverted: IS_FILE | IS_ZERO,
        category_mask: IS_FILE | IS_ZERO,
        category_anyof_mask: IS_PRESENT | IS_SWAPPED,
        // What is not asked for is not told apart, so runs are as long as can be.
        return_mask: IS_FILE,
    };
    // SAFETY: the kernel reads and updates `arguments`, and writes at most
    // `regions_length` regions to the vector; both are alive.
    let ret = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arguments) };
    let found = usize::try_from(check(ret.into())?).unwrap_or(0);
    regions.truncate(found);
    let runs = regions.into_iter().map(|region| (region.start, region.end)).collect();
    Ok((runs, arguments.walk_end))
}

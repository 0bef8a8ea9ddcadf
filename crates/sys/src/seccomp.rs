//! Installing seccomp filters.

use std::io;

use crate::check;

/// One instruction of a classic BPF program, as the kernel lays it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    pub code: u16,
    pub jump_true: u8,
    pub jump_false: u8,
    pub operand: u32,
}

impl Instruction {
    pub const SIZE: usize = 8;

    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let [c0, c1] = self.code.to_ne_bytes();
        let [k0, k1, k2, k3] = self.operand.to_ne_bytes();
        [c0, c1, self.jump_true, self.jump_false, k0, k1, k2, k3]
    }

    pub fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        let [c0, c1, jump_true, jump_false, k0, k1, k2, k3] = bytes;
        Self {
            code: u16::from_ne_bytes([c0, c1]),
            jump_true,
            jump_false,
            operand: u32::from_ne_bytes([k0, k1, k2, k3]),
        }
    }
}

/// Installs `filter` on the calling thread for good: no call removes it.
///
/// Set `no_new_privs` first, or the kernel answers `EACCES` to an unprivileged
/// caller. See seccomp(2).
pub fn install(filter: &[Instruction]) -> io::Result<()> {
    #[repr(C)]
    struct Program {
        len: u16,
        filter: *const Instruction,
    }
    let program = Program {
        len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr(),
    };
    // SAFETY: `program` has the layout of sock_fprog; it and the slice behind
    // it outlive the call, `len` is that slice's length, and the kernel copies
    // the filter without writing to it.
    let ret = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    check(ret).map(drop)
}

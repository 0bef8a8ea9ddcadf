//! Random bytes of the host's kernel.

use std::fs::File;
use std::io::{self, Read as _};

pub(crate) fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0u8; COUNT];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

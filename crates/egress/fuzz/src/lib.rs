//! What must hold for any bytes that a client sends. The fuzz targets make bytes up;
//! `tests/seeds.rs` of the crate runs the seeds through the same checks.

mod hello;
mod http1;
mod socks5;

pub use hello::hello;
pub use http1::{chunked, http1};
pub use socks5::socks5;

/// What came of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// We refuse it, or it is not whole.
    Refused,
    /// We accept it; the other reader refuses it.
    Ours,
    /// Both accept it, and read the same.
    Both,
}

/// `bytes` in pieces, whose sizes are taken from the bytes themselves.
fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    let mut sizes = bytes.iter().rev().map(|byte| 1 + usize::from(byte % 7));
    while !rest.is_empty() {
        let size = sizes.next().unwrap_or(1).min(rest.len());
        let (piece, more) = rest.split_at(size);
        pieces.push(piece);
        rest = more;
    }
    pieces
}

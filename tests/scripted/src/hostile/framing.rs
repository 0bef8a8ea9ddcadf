//! Answers whose end, or whose form, is a matter of opinion. Whoever takes one
//! view while the next in line takes another has mixed up two answers.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The bytes of a kind; `None` if there is no such kind.
pub(super) fn bytes(kind: &str) -> Option<&'static [u8]> {
    Some(match kind {
        // A length and chunks: the classic.
        "both" => {
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n\
              5\r\nhello\r\n0\r\n\r\n"
        }
        "two-lengths" => b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        "length-list" => b"HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\nhello!",
        "signed-length" => b"HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\nhello",
        "negative-length" => b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nhello",
        "hex-length" => b"HTTP/1.1 200 OK\r\ncontent-length: 0x5\r\n\r\nhello",
        // More than the length says: a second answer that nobody asked for.
        "long" => {
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello\
              HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nsmuggled"
        }
        // Less than the length says, and then the end.
        "short" => b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nhello",
        "no-last-chunk" => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "bad-chunk" => {
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n"
        }
        "huge-chunk" => {
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello"
        }
        "chunked-twice" => {
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n\
              5\r\nhello\r\n0\r\n\r\n"
        }
        "unknown-coding" => {
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, identity\r\n\r\n\
              5\r\nhello\r\n0\r\n\r\n"
        }
        "folded" => b"HTTP/1.1 200 OK\r\nx-folded: one\r\n two\r\ncontent-length: 5\r\n\r\nhello",
        "bare-lf" => b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello",
        "space-before-colon" => b"HTTP/1.1 200 OK\r\ncontent-length : 5\r\n\r\nhello",
        "nul-in-header" => b"HTTP/1.1 200 OK\r\nx-nul: a\0b\r\ncontent-length: 5\r\n\r\nhello",
        "old" => b"hello from before there were versions\n",
        "wrong-version" => b"HTTP/9.9 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        "wrong-status" => b"HTTP/1.1 2000 OK\r\ncontent-length: 5\r\n\r\nhello",
        // A switch of protocols that nobody asked for.
        "upgrade" => {
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n\
              bytes of another protocol"
        }
        // A body where there may be none.
        "no-content-body" => b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\nhello",
        "until-close" => b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello",
        _ => return None,
    })
}

/// So many megabytes of zeros, compressed: about a thousandth of that.
pub(super) fn zeros(megabytes: u64) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![0; 1 << 20];
    for _ in 0..megabytes {
        encoder.write_all(&zeros)?;
    }
    encoder.finish()
}

//! Bytes that nobody wrote: nothing panics, and what is accepted is what it
//! says it is.

use super::*;
use crate::mutate::{Numbers, mutate};

const ROUNDS: usize = 100_000;

const SPICE: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"\r\n\r\n",
    b"%00",
    b"..",
    b"@",
    b"#",
    b"[::1]",
    b"http://",
    b"HTTP/1.0",
    b"CONNECT ",
    b"Host: h\r\n",
    b"Content-Length: 5\r\n",
    b",",
    b";",
    b"0",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"\r\n ",
    b"\x80",
    b"+",
    b"f",
];

fn texts(seeds: &[&str]) -> Vec<Vec<u8>> {
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}

#[test]
fn a_head_written_again_is_the_same_head() {
    let seeds = texts(&[
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\nUser-Agent: x\r\n\r\n",
        "POST http://a.b:8080/c?d HTTP/1.1\r\nHost: a.b:8080\r\nContent-Length: 3\r\n\r\nabc",
        "PUT /x HTTP/1.1\r\nHost: [::1]:3128\r\nTransfer-Encoding: chunked\r\nA:\t b \r\n\r\n",
        "GET http://h HTTP/1.0\r\nConnection: close, x\r\n\r\n",
    ]);
    let mut numbers = Numbers::new(1);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        let bytes = mutate(&mut numbers, &seeds, SPICE);
        let first = Head::parse(&bytes);
        // A second reader, which gets the bytes one by one, agrees.
        let pieces: Vec<_> = bytes.chunks(1 + numbers.below(7)).collect();
        assert_eq!(feed(&pieces), first, "{:?}", bytes.escape_ascii().to_string());
        let (head, length) = match first {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(_) => {
                refused += 1;
                continue;
            }
        };
        accepted += 1;
        assert!(bytes[..length].ends_with(b"\r\n\r\n"));
        let mut again = vec![];
        head.write_to(&mut again);
        assert_eq!(Head::parse(&again), Ok(Some((head, again.len()))));
        check_written(&again);
    }
    assert!(accepted > ROUNDS / 20 && refused > ROUNDS / 20, "{accepted} {refused}");
}

/// What the slowest and most forgiving reader would see must be the same: every
/// LF ends a line, and no line but the last is empty.
#[track_caller]
fn check_written(head: &[u8]) {
    let text = head.escape_ascii().to_string();
    let lines: Vec<_> = head.split(|b| *b == b'\n').collect();
    assert!(lines[..lines.len() - 1].iter().all(|line| line.ends_with(b"\r")), "{text}");
    assert_eq!(lines.iter().filter(|line| **line == b"\r").count(), 1, "{text}");
    assert!(head.iter().all(|b| !matches!(b, 0..=8 | 11 | 12 | 14..=31 | 127)), "{text}");
    let count = |name: &str| {
        let is = |line: &&&[u8]| line.to_ascii_lowercase().starts_with(name.as_bytes());
        lines.iter().filter(is).count()
    };
    assert!(count("content-length") + count("transfer-encoding") <= 1 + odd(&lines), "{text}");
    assert!(count("host:") <= 1, "{text}");
}

/// Fields whose names only begin like those of a length.
fn odd(lines: &[&[u8]]) -> usize {
    let is_odd = |line: &&&[u8]| {
        let line = line.to_ascii_lowercase();
        ["content-length", "transfer-encoding"]
            .iter()
            .any(|name| line.strip_prefix(name.as_bytes()).is_some_and(|rest| rest[0] != b':'))
    };
    lines.iter().filter(is_odd).count()
}

#[test]
fn a_body_ends_at_the_same_byte_however_it_arrives() {
    let seeds = texts(&[
        "5\r\nhello\r\n0\r\n\r\n",
        "a;x=y\r\n0123456789\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\nGET / HTTP/1.1\r\n",
        "ffff\r\n",
        "0\r\n\r\n",
    ]);
    let mut numbers = Numbers::new(2);
    let mut done = 0;
    for _ in 0..ROUNDS {
        let bytes = mutate(&mut numbers, &seeds, SPICE);
        let read = |size: usize| {
            let mut chunked = Chunked::default();
            let (mut data, mut used) = (vec![], 0);
            for piece in bytes.chunks(size) {
                let mut rest = piece;
                while !rest.is_empty() && !chunked.is_done() {
                    let progress = chunked.advance(rest)?;
                    assert!(progress.skip + progress.data > 0);
                    data.extend_from_slice(&rest[progress.skip..][..progress.data]);
                    used += progress.skip + progress.data;
                    rest = &rest[progress.skip + progress.data..];
                }
            }
            Ok::<_, BadChunk>((data, used, chunked.is_done()))
        };
        let whole = read(bytes.len().max(1));
        assert_eq!(read(1), whole, "{:?}", bytes.escape_ascii().to_string());
        done += usize::from(matches!(whole, Ok((_, _, true))));
    }
    assert!(done > ROUNDS / 20, "{done}");
}

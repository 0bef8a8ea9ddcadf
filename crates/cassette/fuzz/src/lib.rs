//! Archives of cassettes, as bytes that a stranger made up. The fuzz target makes bytes up;
//! `tests/seeds.rs` of the crate runs the seeds through the same check.

use belljar_cassette::{Limits, Store};
use sha2::{Digest as _, Sha256};

/// What came of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Refused,
    Imported,
}

const BLOCK: usize = 512;

/// An archive that is taken in is whole: nothing is wrong with it, and what goes out is what came
/// in. One that is refused leaves nothing behind.
///
/// The first byte says what the rest is: 0, the file; 1, the archive in it, whose sums are put
/// right; else a text of the index and the contents of blobs, split by zero bytes, in which `@0`
/// stands for the digest of the first one.
pub fn import(input: &[u8]) -> Outcome {
    let Some((form, rest)) = input.split_first() else { return Outcome::Refused };
    let file = match form {
        0 => rest.to_vec(),
        1 => packed(&checksummed(rest)),
        _ => packed(&archive(rest)),
    };
    let place = tempfile::tempdir().expect("a directory of our own");
    let limits = Limits { cassette_bytes: 1 << 20, exchange_bytes: 1 << 18, ..Limits::default() };
    let store = Store::open(place.path().join("tapes"), limits).expect("a store of our own");
    let (tenant, name) = (store.tenant("acme"), "a".parse().expect("a name"));
    if tenant.import(&name, file.as_slice()).is_err() {
        assert_eq!(tenant.list().expect("a list"), []);
        return Outcome::Refused;
    }
    assert_eq!(tenant.verify(&name).expect("a report").problems, []);
    let mut out = Vec::new();
    tenant.export(&name, &mut out).expect("what was taken in goes out");
    let other = store.tenant("other");
    other.import(&name, out.as_slice()).expect("and in again");
    let mut again = Vec::new();
    other.export(&name, &mut again).expect("and out again");
    assert_eq!(out, again);
    Outcome::Imported
}

fn packed(archive: &[u8]) -> Vec<u8> {
    zstd::encode_all(archive, 1).expect("memory is there")
}

/// The archive, with the sums of its headers put right: nobody guesses them.
fn checksummed(raw: &[u8]) -> Vec<u8> {
    let mut archive = raw.to_vec();
    let mut at = 0;
    while let Some(header) = archive.get_mut(at..at + BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            // The end.
            break;
        }
        sum(header);
        let size = header[124..136].iter().take_while(|byte| byte.is_ascii_digit());
        let size = size.fold(0usize, |size, digit| {
            size.saturating_mul(8).saturating_add(usize::from((digit - b'0') & 7))
        });
        at = at.saturating_add(BLOCK).saturating_add(size.div_ceil(BLOCK).saturating_mul(BLOCK));
    }
    archive
}

fn sum(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// An archive of blobs under their digests, and of the index that names them.
fn archive(parts: &[u8]) -> Vec<u8> {
    let mut parts = parts.split(|byte| *byte == 0);
    let mut index = parts.next().unwrap_or_default().to_vec();
    let mut archive = Vec::new();
    for (number, blob) in parts.take(9).enumerate() {
        let hash = Sha256::digest(blob);
        let digest: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        index =
            replaced(&index, &[b'@', b'0' + u8::try_from(number).unwrap_or(9)], digest.as_bytes());
        append(&mut archive, &format!("blobs/{digest}"), blob);
    }
    append(&mut archive, "index.jsonl", &index);
    archive.extend([0; 2 * BLOCK]);
    archive
}

fn replaced(text: &[u8], mark: &[u8; 2], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(2).position(|pair| pair == mark) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with);
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    out
}

fn append(archive: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut header = [0; BLOCK];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    sum(&mut header);
    archive.extend(header);
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
}

//! Packs that git itself writes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::*;

fn git(at: &Path, arguments: &[&str], input: &str) -> Vec<u8> {
    let mut child = Command::new("git")
        .current_dir(at)
        .args(["-c", "user.name=t", "-c", "user.email=t@t.example", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {arguments:?}");
    output.stdout
}

fn text(at: &Path, arguments: &[&str]) -> String {
    String::from_utf8(git(at, arguments, "")).unwrap().trim().to_owned()
}

/// A repository with so many commits on `main`; their ids, the oldest first.
fn repository(commits: usize) -> (tempfile::TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    git(at, &["init", "-q", "-b", "main"], "");
    let message = "a long message makes a delta worth its bytes. ".repeat(20);
    for number in 0..commits {
        std::fs::write(at.join("file"), format!("{number}\n")).unwrap();
        git(at, &["add", "file"], "");
        git(at, &["commit", "-q", "-m", &format!("{message}{number}")], "");
    }
    let ids = text(at, &["rev-list", "--reverse", "main"]);
    (folder, ids.lines().map(str::to_owned).collect())
}

fn pack(at: &Path, revisions: &str) -> Vec<u8> {
    let options = ["pack-objects", "--stdout", "--revs", "--thin", "--delta-base-offset", "-q"];
    git(at, &options, revisions)
}

/// Reads a pack in pieces of so many bytes.
fn read(bytes: &[u8], step: usize) -> Result<Pack, BadPack> {
    let mut pack = Pack::default();
    bytes.chunks(step).try_for_each(|piece| pack.read(piece))?;
    Ok(pack)
}

#[test]
fn a_branch_that_moves_forward_is_shown() {
    let (folder, ids) = repository(60);
    let bytes = pack(folder.path(), &format!("{}\n^{}\n", ids[59], ids[9]));
    for step in [1, 7, 4096, bytes.len()] {
        let read = read(&bytes, step).unwrap();
        assert!(read.is_over(), "{step}");
        assert_eq!(read.commits.len(), 50);
        assert!(read.shows(&ids[9], &ids[59], &[]) && read.shows(&ids[40], &ids[59], &[]));
        assert!(!read.shows(&ids[59], &ids[9], &[]));
        assert!(!read.shows(&ids[8], &ids[59], &[]), "not in the pack, and no parent in it");
        let shallow = &ids[20..21];
        assert!(read.shows(&ids[20], &ids[59], shallow));
        assert!(!read.shows(&ids[9], &ids[59], shallow), "the server would lose it");
    }
}

#[test]
fn deltas_between_commits_are_followed() {
    let (folder, ids) = repository(60);
    let bytes = pack(folder.path(), &format!("{}\n", ids[59]));
    let mut all = read(&bytes, 333).unwrap();
    assert_eq!(all.commits.len(), 60);
    // Each of them is a commit that git knows by this id.
    for id in &ids {
        assert!(all.commits.remove(&super::id(id.as_bytes()).unwrap()).is_some(), "{id}");
    }
}

/// GW-27/force: a history without the old commit.
#[test]
fn another_history_is_not_shown() {
    let (folder, ids) = repository(3);
    let at = folder.path();
    git(at, &["checkout", "-q", "--orphan", "other"], "");
    let lie = format!("parent {}\n\nparent {}", ids[2], ids[2]);
    git(at, &["commit", "-q", "--allow-empty", "-m", &lie], "");
    let other = text(at, &["rev-parse", "other"]);
    let bytes = pack(at, &format!("{other}\n"));
    let read = read(&bytes, 100).unwrap();
    assert!(read.is_over() && read.commits.len() == 1);
    assert!(!read.shows(&ids[2], &other, &[]), "a message is no parent");
}

#[test]
fn what_is_no_pack_is_refused() {
    let (folder, ids) = repository(2);
    let bytes = pack(folder.path(), &format!("{}\n", ids[1]));
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(read(&longer, 100).unwrap_err(), BadPack::Malformed);
    assert!(!read(&bytes[..bytes.len() - 1], 100).unwrap().is_over());
    assert_eq!(read(b"PACX\0\0\0\x02\0\0\0\x01", 100).unwrap_err(), BadPack::Malformed);
    assert_eq!(read(b"PACK\0\0\0\x02\xff\0\0\x01", 100).unwrap_err(), BadPack::TooMuch);
    // A commit that says it has a terabyte.
    let huge = b"PACK\0\0\0\x02\0\0\0\x01\x90\x80\x80\x80\x80\x80\x40";
    assert_eq!(read(huge, 100).unwrap_err(), BadPack::TooMuch);
}

/// A pack of commits of four bytes each.
fn tiny_commits(count: u32) -> Vec<u8> {
    let mut bytes = b"PACK\0\0\0\x02".to_vec();
    bytes.extend_from_slice(&count.to_be_bytes());
    for number in 0..count {
        bytes.push(0x14);
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::none());
        encoder.write_all(&number.to_be_bytes()).unwrap();
        bytes.extend_from_slice(&encoder.finish().unwrap());
    }
    bytes.extend_from_slice(&[0; TRAILER]);
    bytes
}

/// GW-28/commits: few bytes of content, many entries.
#[test]
fn kept_commits_count_with_their_entries() {
    assert_eq!(read(&tiny_commits(30_000), 4096).unwrap_err(), BadPack::TooMuch);
    let some = read(&tiny_commits(1000), 4096).unwrap();
    assert!(some.is_over() && some.commits.len() == 1000);
}

#[test]
fn deltas_make_what_they_say() {
    // A copy of three bytes from the second on, then one of its own.
    assert_eq!(apply(b"abcdef", &[6, 4, 0x91, 1, 3, 1, b'x']), Ok(b"bcdx".to_vec()));
    for wrong in [
        &[5, 4, 0x91, 1, 3, 1, b'x'][..],
        &[6, 5, 0x91, 1, 3, 1, b'x'],
        &[6, 3, 0x91, 1, 3, 1, b'x'],
        &[6, 4, 0x91, 4, 3, 1, b'x'],
        &[6, 4, 0],
        &[6],
        &[],
    ] {
        assert_eq!(apply(b"abcdef", wrong), Err(BadPack::Malformed), "{wrong:?}");
    }
}

//! The mutant of the FS controls: a server that resolves a sandbox's paths on the host, as
//! root, below `/proc/PID/root`. Absolute links lead to the host's own files there.
//!
//! It reads plain files only, and changes nothing but one directory that the act has made.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use belljar_node::Sandbox;

/// The side that resolves a sandbox's paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// The guest, inside, as the sandbox's user: the product.
    Inside,
    /// The mutant.
    OnHost,
}

/// A sandbox's path as the host's root sees it.
pub(crate) fn place(sandbox: &Sandbox, path: &[u8]) -> PathBuf {
    let root = format!("/proc/{}/root/", sandbox.pid());
    PathBuf::from(OsString::from_vec([root.as_bytes(), path].concat()))
}

pub(crate) fn download(sandbox: &Sandbox, path: &[u8], limit: u64) -> io::Result<Vec<u8>> {
    let place = place(sandbox, path);
    if !fs::metadata(&place)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    File::open(place)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads as many bytes as the file had at first. What is missing in the end is what the
/// buffer held before.
pub(crate) fn download_by_first_size(sandbox: &Sandbox, path: &[u8]) -> io::Result<Vec<u8>> {
    let mut file = File::open(place(sandbox, path))?;
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let mut buffer = vec![b'?'; size];
    let mut filled = 0;
    while let Some(rest @ [_, ..]) = buffer.get_mut(filled..) {
        match file.read(rest)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(buffer)
}

/// Writes a file if it comes to lie in the directory `only`.
pub(crate) fn upload(
    sandbox: &Sandbox,
    (directory, name): (&[u8], &str),
    bytes: &[u8],
    only: &Path,
) -> io::Result<()> {
    let directory = File::open(place(sandbox, directory))?;
    if !is_same(&directory.metadata()?, only)? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    fs::write(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()), bytes)
}

/// Removes what is below a sandbox's directory two levels down, links followed, as far as it
/// comes to lie in the directory `only`. Returns how many files that were.
pub(crate) fn remove_below(sandbox: &Sandbox, path: &[u8], only: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for above in fs::read_dir(place(sandbox, path))?.flatten() {
        let Ok(below) = fs::read_dir(above.path()) else { continue };
        for entry in below.flatten().map(|entry| entry.path()) {
            let leads_there =
                fs::metadata(&entry).is_ok_and(|found| is_same(&found, only).unwrap_or(false));
            if leads_there {
                for file in fs::read_dir(&entry)?.flatten() {
                    fs::remove_file(file.path())?;
                    removed += 1;
                }
            }
        }
    }
    Ok(removed)
}

fn is_same(found: &fs::Metadata, only: &Path) -> io::Result<bool> {
    let only = fs::metadata(only)?;
    Ok((found.dev(), found.ino()) == (only.dev(), only.ino()))
}

/// The names in a tar archive by the sizes in its plain headers, as if there were no others.
pub(crate) fn names_in(archive: &[u8]) -> Vec<String> {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
    };
    let (mut names, mut at) = (Vec::new(), 0);
    while let Some(header) = archive.get(at..at + 512).filter(|header| header[0] != 0) {
        names.push(text(&header[..100]));
        let size = usize::from_str_radix(&text(&header[124..136]), 8).unwrap_or(0);
        at += 512 + size.div_ceil(512) * 512;
    }
    names
}

/// A file's name as a path below a store, by a server that takes it for part of an address.
pub(crate) fn key(name: &[u8]) -> String {
    let (mut bytes, mut rest) = (Vec::new(), name);
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, decoded) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (b'\\', _) => {
                bytes.push(b'/');
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

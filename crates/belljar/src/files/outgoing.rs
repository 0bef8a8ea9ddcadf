//! `--out INSIDE[:HOST]`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use belljar_domain::User;
use belljar_domain::units::format_size;
use belljar_node::{Entry, EntryKind, FileError};

use super::Local;
use super::place::{Execute, Place};
use crate::output::{Hint as _, Printer, hinted};
use crate::session::Session;

/// Levels of a directory that are copied.
const DEEPEST: u32 = 64;

/// Copies a file, or a directory with what is in it. `budget` is what may still
/// come out: files with holes can be far larger than the disk they are on.
pub(crate) async fn copy_out(
    session: &Session,
    text: &str,
    budget: &mut u64,
    printer: &Printer,
) -> anyhow::Result<()> {
    let (inside, host) = split(text);
    let source = session.inside(Path::new(inside));
    let bytes = source.as_os_str().as_bytes();
    let doing = || format!("cannot copy `{inside}` out");
    let entry = match session.sandbox.stat(User::User, bytes).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("{}: it does not exist in the sandbox", doing())
        }
        entry => entry.with_context(doing)?,
    };
    let is_directory = match entry.kind {
        EntryKind::Directory => true,
        EntryKind::File => false,
        // The guest follows it inside; its content is the sandbox's own.
        EntryKind::Symlink => session.sandbox.list(User::User, bytes, 1).await.is_ok(),
        _ => bail!("{}: it is neither a file nor a directory", doing()),
    };
    let (parent, name) = target(inside, host).with_context(doing)?;
    let open = || {
        let place = Place::open(&parent);
        let place = place.with_context(|| format!("cannot write to `{}`", parent.display()));
        place.hint("it must be a directory; belljar does not write through symbolic links")
    };
    if is_directory {
        let place = open()?.directory(name.as_ref());
        let place = place
            .with_context(|| format!("cannot write to `{}`", parent.join(&name).display()))
            .hint("it must be a directory; belljar does not write through symbolic links")?;
        return copy_tree(session, &source, place, budget, printer).await.with_context(doing);
    }
    let execute = execute(&entry);
    download(session, bytes, &open()?, name.as_ref(), execute, budget).await.with_context(doing)
}

/// `INSIDE:HOST`, split at the first colon: names inside that hold one need
/// their directory copied.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((inside, host)) if !host.is_empty() => (inside, Some(host)),
        Some((inside, _)) => (inside, None),
        None => (text, None),
    }
}

/// The directory on the host and the name in it: all from what the user typed.
fn target(inside: &str, host: Option<&str>) -> anyhow::Result<(PathBuf, String)> {
    let own_name = || {
        let last = Path::new(inside).components().next_back();
        match last {
            Some(Component::Normal(name)) => Ok(name.to_string_lossy().into_owned()),
            _ => Err(hinted(
                anyhow::anyhow!("`{inside}` has no name to use on the host"),
                "choose one with --out INSIDE:HOST",
            )),
        }
    };
    let Some(host) = host else { return Ok((PathBuf::from("."), own_name()?)) };
    let path = Path::new(host);
    if host.ends_with('/') || path.file_name().is_none() {
        return Ok((path.to_owned(), own_name()?));
    }
    // A directory that is there takes the file in; a link to one does not.
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok((path.to_owned(), own_name()?));
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    // The directories above were named by the user, links and all.
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((parent.join(""), name))
}

async fn copy_tree(
    session: &Session,
    source: &Path,
    top: Place,
    budget: &mut u64,
    printer: &Printer,
) -> anyhow::Result<()> {
    let bytes = source.as_os_str().as_bytes();
    let listing = session.sandbox.list(User::User, bytes, DEEPEST).await?;
    if !listing.complete {
        bail!("the directory has too many entries to list");
    }
    // Sorted by path, so each directory comes before what is in it.
    let mut places = BTreeMap::from([(PathBuf::new(), top)]);
    let mut skipped = 0u64;
    for entry in &listing.entries {
        let path = Path::new(OsStr::from_bytes(&entry.path));
        // The guest's word, so it is checked like a stranger's.
        let relative = path.strip_prefix(source).ok().filter(|relative| is_plain(relative));
        let relative = relative.with_context(|| format!("{path:?} is not in the directory"))?;
        let (parent, name) = (relative.parent(), relative.file_name());
        let (Some(place), Some(name)) = (parent.and_then(|p| places.get(p)), name) else {
            skipped += 1;
            continue;
        };
        match entry.kind {
            EntryKind::Directory => {
                let made = place.directory(name);
                let made = made.with_context(|| format!("cannot create {relative:?}"))?;
                places.insert(relative.to_owned(), made);
            }
            EntryKind::File => {
                let execute = execute(entry);
                let done = download(session, &entry.path, place, name, execute, budget).await;
                done.with_context(|| format!("cannot copy {relative:?}"))?;
            }
            _ => skipped += 1,
        }
    }
    if skipped > 0 {
        printer.note(format_args!(
            "note: {skipped} links or special files in `{}` were not copied out",
            source.display()
        ));
    }
    Ok(())
}

fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn execute(entry: &Entry) -> Execute {
    if entry.mode & 0o100 == 0 { Execute::No } else { Execute::Yes }
}

async fn download(
    session: &Session,
    path: &[u8],
    place: &Place,
    name: &OsStr,
    execute: Execute,
    budget: &mut u64,
) -> anyhow::Result<()> {
    let (draft, file) = place.file(name, execute).context("cannot create a file on the host")?;
    let mut local = Local(file);
    let size = match session.sandbox.download(User::User, path, *budget, &mut local).await {
        Ok(size) => size,
        Err(error @ FileError::TooLarge { .. }) => {
            let hint = format!(
                "at most the disk's size, {}, can be copied out; raise it with --disk",
                format_size(session.limits.disk_bytes)
            );
            return Err(hinted(error, hint));
        }
        Err(error) => return Err(error.into()),
    };
    draft.keep().with_context(|| format!("cannot name the file {name:?}"))?;
    *budget -= size;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, parent: &str, name: &str) {
        let (inside, host) = split(text);
        let (found, found_name) = target(inside, host).unwrap();
        assert_eq!((found.as_path(), found_name.as_str()), (Path::new(parent), name), "{text}");
    }

    #[test]
    fn the_host_path_is_what_the_user_typed() {
        check("report.html", ".", "report.html");
        check("deep/down/report.html", ".", "report.html");
        check("/tmp/x:there/y", "there", "y");
        check("x:there/", "there", "x");
        check("x:", ".", "x");
        check("x:y", ".", "y");
    }

    #[test]
    fn an_existing_directory_takes_the_file_in() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("a/b.txt:{}", dir.path().display());
        check(&text, dir.path().to_str().unwrap(), "b.txt");
    }

    #[test]
    fn a_path_without_a_name_needs_one() {
        assert!(target("/", None).is_err());
        assert!(target("..", Some("there/")).is_err());
        assert!(target(".", Some("there")).is_ok());
    }
}

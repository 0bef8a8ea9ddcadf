//! `--in HOST[:INSIDE]`.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use belljar_domain::User;
use belljar_node::EntryKind;
use rustix::fs::{Mode, OFlags};

use super::Local;
use crate::output::{Hint as _, Printer};
use crate::session::Session;

/// Copies a file, or a directory with what is in it.
pub(crate) async fn copy_in(
    session: &Session,
    text: &str,
    printer: &Printer,
) -> anyhow::Result<()> {
    let (source, inside) = split(text);
    let metadata = fs::metadata(&source)
        .with_context(|| format!("cannot copy `{}` in", source.display()))
        .hint("--in takes HOST or HOST:INSIDE")?;
    let target = target(session, &source, inside.as_deref()).await?;
    if metadata.is_dir() {
        return copy_tree(session, &source, &target, printer).await;
    }
    if !metadata.is_file() {
        bail!("cannot copy `{}` in: it is neither a file nor a directory", source.display());
    }
    // The user named it, so a link is followed.
    upload(session, &source, &target, OFlags::empty()).await
}

/// `HOST:INSIDE`, unless there is a file of that whole name.
fn split(text: &str) -> (PathBuf, Option<String>) {
    match text.rsplit_once(':') {
        Some((host, inside)) if !Path::new(text).exists() && !host.is_empty() => {
            (host.into(), Some(inside.to_owned()).filter(|inside| !inside.is_empty()))
        }
        _ => (text.into(), None),
    }
}

async fn target(session: &Session, source: &Path, inside: Option<&str>) -> anyhow::Result<PathBuf> {
    let name = match source.file_name() {
        Some(name) => name.to_owned(),
        // `.` and `..` have a name all the same.
        None => fs::canonicalize(source)?.file_name().unwrap_or_default().to_owned(),
    };
    let Some(inside) = inside else { return Ok(session.home.join(name)) };
    let target = session.inside(Path::new(inside));
    let entry = session.sandbox.stat(User::User, target.as_os_str().as_bytes()).await;
    let is_directory = entry.is_ok_and(|entry| entry.kind == EntryKind::Directory);
    Ok(if is_directory || inside.ends_with('/') { target.join(name) } else { target })
}

/// Copies a tree. Links and special files stay behind: what they lead to is not
/// what the user named.
async fn copy_tree(
    session: &Session,
    source: &Path,
    target: &Path,
    printer: &Printer,
) -> anyhow::Result<()> {
    let mut waiting = vec![(source.to_owned(), target.to_owned())];
    let mut skipped = 0u64;
    while let Some((from, to)) = waiting.pop() {
        let made = session.sandbox.make_dir(User::User, to.as_os_str().as_bytes()).await;
        made.with_context(|| format!("cannot copy `{}` in", from.display()))?;
        let entries = fs::read_dir(&from);
        for entry in entries.with_context(|| format!("cannot list `{}`", from.display()))? {
            let entry = entry.with_context(|| format!("cannot list `{}`", from.display()))?;
            let kind = entry.file_type()?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if kind.is_dir() {
                waiting.push((from, to));
            } else if kind.is_file() {
                upload(session, &from, &to, OFlags::NOFOLLOW).await?;
            } else {
                skipped += 1;
            }
        }
    }
    if skipped > 0 {
        printer.note(format_args!(
            "note: {skipped} links or special files in `{}` were not copied in",
            source.display()
        ));
    }
    Ok(())
}

async fn upload(
    session: &Session,
    source: &Path,
    target: &Path,
    also: OFlags,
) -> anyhow::Result<()> {
    let doing = || format!("cannot copy `{}` in", source.display());
    // Not waiting for a writer, should it have become a FIFO just now.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | also;
    let file = rustix::fs::open(source, flags, Mode::empty()).with_context(doing)?;
    let file = File::from(file);
    let metadata = file.metadata().with_context(doing)?;
    if !metadata.is_file() {
        bail!("{}: it is not a regular file", doing());
    }
    let mode = metadata.permissions().mode() & 0o777;
    let path = target.as_os_str().as_bytes();
    let uploaded = session.sandbox.upload(User::User, path, mode, &mut Local(file)).await;
    uploaded.map(drop).with_context(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_colon_parts_host_and_inside() {
        assert_eq!(split("a.txt"), ("a.txt".into(), None));
        assert_eq!(split("no/a:data/b"), ("no/a".into(), Some("data/b".into())));
        assert_eq!(split("no:such:/x"), ("no:such".into(), Some("/x".into())));
        assert_eq!(split("a:"), ("a".into(), None));
    }
}

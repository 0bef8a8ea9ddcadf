//! Files of a sandbox.

mod delete;
mod list;
mod make_directory;
mod read;
mod rename;
mod stat;
mod write;

use belljar_api::bounds::DateTime;
use belljar_api::call::User;
use belljar_api::file as api;
use belljar_node::{Entry, EntryKind};
use belljar_sandboxes::{Files, Live, Moment, Sandbox};

use super::calls::user;

pub(super) use delete::delete;
pub(super) use list::list;
pub(super) use make_directory::make_directory;
pub(super) use read::read;
pub(super) use rename::rename;
pub(super) use stat::stat;
pub(super) use write::{Source, write};

/// The files of a sandbox as whoever is named may handle them.
fn files_of<'a>(live: &'a Live, sandbox: &Sandbox, named: Option<User>) -> Files<'a> {
    let files = live.files(user(sandbox, named));
    if named.is_some() { files.alone() } else { files }
}

fn view(entry: &Entry) -> api::Entry {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let modified = Moment::from_unix(entry.modified_seconds);
    api::Entry {
        path: text(&entry.path),
        kind: match entry.kind {
            EntryKind::File => api::EntryKind::File,
            EntryKind::Directory => api::EntryKind::Directory,
            EntryKind::Symlink => api::EntryKind::Symlink,
            EntryKind::Fifo => api::EntryKind::Fifo,
            EntryKind::Socket => api::EntryKind::Socket,
            EntryKind::Device => api::EntryKind::Device,
        },
        bytes: entry.size,
        mode: format!("{:03o}", entry.mode & 0o7777),
        uid: entry.uid,
        gid: entry.gid,
        // The sandbox's code may have set any number; what is no moment is the first.
        modified_at: DateTime(
            modified.map_or_else(|| "1970-01-01T00:00:00Z".to_owned(), |moment| moment.to_string()),
        ),
        target: entry.target.as_deref().map(text),
    }
}

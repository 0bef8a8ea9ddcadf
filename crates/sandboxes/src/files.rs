//! Files of a sandbox: what a path means, whose rights count, what went wrong.
//!
//! Whoever may ask at all may also ask as root. So what the user's rights do not
//! allow is tried with the other user's, unless it is asked for with those rights
//! [alone](Files::alone). With the profile `full` root may do everything, and what it makes for
//! a user belongs to that user. With `strict` it has no capabilities: it cannot pass by the
//! rights of others as root elsewhere can, nor give files away.

mod path;
mod room;

use belljar_domain::User;
use belljar_node::{Attribute, Creator, Entry, EntryKind, FileError, Listing, Reading};
use std::io::ErrorKind;
use tokio::io::AsyncRead;

use crate::problem::{Kind, Problem};
use crate::sandbox::Live;

pub use path::name_of;
use path::resolve;

/// Extended attributes that are metadata begin with this.
pub const METADATA: &str = "user.e2b.";

/// Entries of one listing, however many answers it takes.
const MOST_LISTED: usize = 100_000;

/// The mode of files that are new.
const NEW_FILE: u32 = 0o644;

/// In such a directory, only its owner and theirs remove files.
const STICKY: u32 = 0o1000;

/// The files of a sandbox, as one of its users.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    live: &'a Live,
    user: User,
    rights: Rights,
}

/// Whose rights count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    Own,
    /// Where those do not suffice, the other user's.
    Either,
}

impl Live {
    pub fn files(&self, user: User) -> Files<'_> {
        Files { live: self, user, rights: Rights::Either }
    }
}

impl Files<'_> {
    /// With the rights of the user and nobody else's. Where a path leads is for the
    /// code inside to say, so this alone keeps what is not that user's from being
    /// changed.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { rights: Rights::Own, ..self }
    }

    /// What a path means to the user: `~` and relative ones begin at home.
    pub fn resolve(&self, path: &str) -> Result<String, Problem> {
        resolve(path, &self.live.machine.home(self.user))
    }

    /// Tells about what is at an absolute path.
    pub async fn stat(&self, path: &str) -> Result<Entry, Problem> {
        let machine = &self.live.machine;
        let wanted = Some(METADATA.as_bytes());
        let found = self.attempt(|user| machine.stat_with(user, path.as_bytes(), wanted)).await;
        found.map_err(|error| problem("inspect the file", "file not found", path, &error))
    }

    /// What is in a directory, and below it as deep as asked.
    pub async fn list(&self, path: &str, depth: u32) -> Result<Vec<Entry>, Problem> {
        let listing = self.list_at_once(path.as_bytes(), depth).await?;
        if listing.complete {
            return Ok(listing.entries);
        }
        // Too much for one answer: one directory after the other.
        let mut all: Vec<Entry> = Vec::new();
        let mut waiting = vec![(path.as_bytes().to_vec(), 1)];
        while let Some((directory, level)) = waiting.pop() {
            let listing = match self.list_at_once(&directory, 1).await {
                Ok(listing) => listing,
                // Removed since its name was read.
                Err(problem) if problem.kind == Kind::NotFound && level > 1 => continue,
                Err(problem) => return Err(problem),
            };
            if !listing.complete || all.len() > MOST_LISTED {
                let message = format!("'{path}' has too many files for one list");
                return Err(Problem::new(Kind::Invalid, "too_many_files", message)
                    .hint("list its subdirectories, or run `find`"));
            }
            let inner = listing.entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
            if level < depth {
                waiting.extend(inner.map(|entry| (entry.path.clone(), level + 1)));
            }
            all.extend(listing.entries);
        }
        all.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    async fn list_at_once(&self, path: &[u8], depth: u32) -> Result<Listing, Problem> {
        let machine = &self.live.machine;
        let wanted = Some(METADATA.as_bytes());
        let listed = self.attempt(|user| machine.list_with(user, path, depth, wanted)).await;
        let shown = String::from_utf8_lossy(path);
        listed.map_err(|error| match error.kind() {
            ErrorKind::NotADirectory => {
                Problem::invalid(format!("path is not a directory: {shown}"))
            }
            _ => problem("list the directory", "path not found", &shown, &error),
        })
    }

    /// Makes a directory that is not there, and those above it.
    pub async fn make_dir(&self, path: &str) -> Result<Entry, Problem> {
        let machine = &self.live.machine;
        let made = self.create(|creator| machine.make_new_dir(creator, path.as_bytes())).await;
        match made {
            Ok(()) => self.stat(path).await,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(self.already_there(path).await)
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => Err(Problem::invalid(
                format!("cannot create the directory, a file has that name: {path}"),
            )),
            Err(error) => Err(problem("create the directory", "path not found", path, &error)),
        }
    }

    async fn already_there(&self, path: &str) -> Problem {
        match self.stat(path).await {
            Ok(entry) if kind(&entry) == EntryKind::Directory => {
                let message = format!("directory already exists: {path}");
                Problem::new(Kind::Conflict, "already_exists", message)
            }
            Ok(_) => {
                Problem::invalid(format!("path already exists but it is not a directory: {path}"))
            }
            Err(problem) => problem,
        }
    }

    /// Moves a file or a directory; makes the directories above the new place.
    pub async fn rename(&self, from: &str, to: &str) -> Result<Entry, Problem> {
        let machine = &self.live.machine;
        if let Some(parent) = path::parent_of(to) {
            let made = self.create(|creator| machine.make_dir_with(creator, parent.as_bytes()));
            let made = made.await;
            made.map_err(|error| {
                problem("create the directory", "path not found", parent, &error)
            })?;
        }
        let (old, new) = (from.as_bytes(), to.as_bytes());
        let moved = self.attempt(|user| machine.rename(user, old, new)).await;
        moved.map_err(|error| problem("move the file", "source file not found", from, &error))?;
        self.stat(to).await
    }

    /// Removes a file or a whole tree; what is not there need not be removed.
    pub async fn remove(&self, path: &str) -> Result<(), Problem> {
        let machine = &self.live.machine;
        match self.attempt(|user| machine.remove(user, path.as_bytes())).await {
            Err(error) if is_missing(&error) => Ok(()),
            other => {
                other.map_err(|error| problem("remove the file", "path not found", path, &error))
            }
        }
    }

    /// Opens a regular file.
    pub async fn read(&self, path: &str) -> Result<Reading, Problem> {
        let machine = &self.live.machine;
        let opened = self.attempt(|user| machine.open(user, path.as_bytes())).await;
        opened.map_err(|error| match error.kind() {
            ErrorKind::IsADirectory => Problem::invalid(format!("path '{path}' is a directory")),
            _ if is_missing(&error) => {
                let message = format!("path '{path}' does not exist");
                Problem::new(Kind::NotFound, "file_not_found", message)
            }
            _ => problem("read the file", "path not found", path, &error),
        })
    }

    /// Writes a file and answers where it is: a link is followed. What was there
    /// keeps its mode and loses its attributes.
    pub async fn write(
        &self,
        path: &str,
        attributes: &[Attribute],
        source: &mut (dyn AsyncRead + Unpin + Send),
    ) -> Result<(), Problem> {
        let there = match self.stat(path).await {
            Ok(entry) => Some(entry),
            Err(problem) if problem.kind == Kind::NotFound => None,
            Err(problem) => return Err(problem),
        };
        if there.as_ref().is_some_and(|entry| kind(entry) == EntryKind::Directory) {
            return Err(Problem::invalid(format!("path is a directory: {path}")));
        }
        let (place, mode) = match &there {
            Some(Entry { points_to: Some(end), .. }) => (end.path.clone(), end.mode),
            Some(entry) => (path.as_bytes().to_vec(), entry.mode),
            None => (path.as_bytes().to_vec(), NEW_FILE),
        };
        self.live.watchers.about_to_write(&place, there.is_none());
        let creator = self.writer_of(path, there.as_ref()).await;
        let machine = &self.live.machine;
        let mut source = room::Room::new(source, machine);
        let written = machine.upload_with(creator, &place, mode, attributes, &mut source).await;
        written.map(drop).map_err(|error| match write_error(&error) {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Problem::new(Kind::NoSpace, "no_space", "not enough disk space available")
            }
            ErrorKind::NotADirectory => Problem::invalid(format!(
                "cannot create the directories of {path}: a file has such a name"
            )),
            _ => problem("write the file", "path not found", path, &error),
        })
    }

    /// Who can write at `path`. What is written is a stream that cannot be sent
    /// twice, so this is looked up instead of tried.
    async fn writer_of(&self, path: &str, there: Option<&Entry>) -> Creator {
        if self.rights == Rights::Own {
            return self.user.into();
        }
        let resolved = there.and_then(|entry| entry.points_to.as_ref());
        let resolved = resolved.map(|end| String::from_utf8_lossy(&end.path).into_owned());
        let path = resolved.as_deref().unwrap_or(path);
        let mut above = path::parent_of(path);
        while let Some(directory) = above {
            if let Ok(entry) = self.stat(directory).await {
                let may = |user| self.has_all_rights(user) || may_write(&entry, user, there);
                let own = may(self.user) || !may(other(self.user));
                return if own { self.user.into() } else { self.other_creator() };
            }
            above = path::parent_of(directory);
        }
        self.user.into()
    }

    fn has_all_rights(&self, user: User) -> bool {
        user == User::Root && self.live.machine.root_has_capabilities()
    }

    /// The other user, in the name of this one if it can give files away.
    fn other_creator(&self) -> Creator {
        let user = other(self.user);
        Creator { user, owner: if self.has_all_rights(user) { self.user } else { user } }
    }

    /// Makes something as the user, or else as the other one, if that may be.
    async fn create<T, F: Future<Output = Result<T, FileError>>>(
        &self,
        act: impl Fn(Creator) -> F,
    ) -> Result<T, FileError> {
        self.attempt(|user| act(if user == self.user { user.into() } else { self.other_creator() }))
            .await
    }

    /// Does something as the user, or else as the other one, if that may be.
    pub(crate) async fn attempt<T, F: Future<Output = Result<T, FileError>>>(
        &self,
        act: impl Fn(User) -> F,
    ) -> Result<T, FileError> {
        let refused = match act(self.user).await {
            Err(error)
                if error.kind() == ErrorKind::PermissionDenied && self.rights == Rights::Either =>
            {
                error
            }
            other => return other,
        };
        act(other(self.user)).await.map_err(|_| refused)
    }
}

fn other(user: User) -> User {
    match user {
        User::User => User::Root,
        User::Root => User::User,
    }
}

/// Returns true if the mode of a directory lets `user` put a file there, in the place of `there`.
/// A link is taken for what it leads to, whose owner is not known; then only its mode for all
/// counts.
fn may_write(directory: &Entry, user: User, there: Option<&Entry>) -> bool {
    let (mode, id) = (directory.mode, user.id());
    let is_kept = mode & STICKY != 0 && directory.uid != id;
    if is_kept && there.is_some_and(|entry| entry.points_to.is_none() && entry.uid != id) {
        return false;
    }
    match &directory.points_to {
        Some(end) => end.mode & 0o002 != 0,
        None if directory.uid == id => mode & 0o200 != 0,
        None if directory.gid == id => mode & 0o020 != 0,
        None => mode & 0o002 != 0,
    }
}

/// What it is, links followed.
pub fn kind(entry: &Entry) -> EntryKind {
    entry.points_to.as_ref().map_or(entry.kind, |end| end.kind)
}

fn write_error(error: &FileError) -> ErrorKind {
    match error {
        FileError::Source(source) => source.kind(),
        _ => error.kind(),
    }
}

fn is_missing(error: &FileError) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Says what a refusal means; `missing` are the words for what is not there.
pub(crate) fn problem(attempted: &str, missing: &str, path: &str, error: &FileError) -> Problem {
    let reason = match error {
        FileError::Link(_) => return Problem::gone(),
        FileError::Refused { source, .. } => source.to_string(),
        FileError::Source(source) => source.to_string(),
        FileError::Target(_) | FileError::Shrunk { .. } | FileError::TooLarge { .. } => {
            error.to_string()
        }
    };
    let invalid =
        |code| Problem::new(Kind::Invalid, code, format!("cannot {attempted} '{path}': {reason}"));
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Problem::new(Kind::NotFound, "file_not_found", format!("{missing}: {path}"))
        }
        ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => Problem::new(
            Kind::Conflict,
            "file_in_the_way",
            format!("cannot {attempted} '{path}': {reason}"),
        ),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Problem::new(Kind::NoSpace, "no_space", "not enough disk space available")
        }
        ErrorKind::PermissionDenied => invalid("permission_denied"),
        ErrorKind::Unsupported => invalid("no_metadata"),
        _ if error.errno().is_some() => invalid("invalid_file"),
        _ if matches!(error, FileError::Source(_)) => invalid("upload_incomplete"),
        _ => Problem::internal(attempted, error),
    }
}

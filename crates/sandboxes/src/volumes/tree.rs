//! Files below one directory, and never beside it.
//!
//! Every path is resolved by the kernel from the directory's descriptor with
//! `RESOLVE_BENEATH`: neither `..` nor a link leads out, whoever planted it and
//! whenever. See openat2(2).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, fchmod, fchown, fstat, mkdirat,
    openat2, renameat_with, statat,
};
use rustix::io::Errno;

use super::entry::{VolumeEntry, VolumeEntryKind, entry};
use crate::problem::{Kind, Problem};

/// Whose something shall be, and who may do what with it; `None` leaves it.
#[derive(Debug, Clone, Copy, Default)]
pub struct VolumeOwner {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub mode: Option<u32>,
}

/// Who owns what nobody says otherwise of: the user of every sandbox.
const USER: u32 = 1000;

/// Ids above are not mapped into sandboxes.
const HIGHEST_ID: u32 = 65_535;

const DEEPEST: usize = 64;
const LONGEST_PATH: usize = 4096;
const DEEPEST_LIST: u32 = 10;
const LONGEST_LIST: usize = 10_000;

/// A path below the root, in parts. Empty: the root itself.
#[derive(Debug, Clone)]
pub(super) struct Path(pub(super) Vec<String>);

impl Path {
    /// Takes a path apart. `..` is not resolved here: what it means depends on
    /// links, so it is refused.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
        let parts: Vec<String> = parts.map(str::to_owned).collect();
        let odd = |part: &String| part == ".." || part.len() > 255 || part.contains('\0');
        if text.len() > LONGEST_PATH || parts.len() > DEEPEST || parts.iter().any(odd) {
            let message = format!("{text:?} is too long, too deep, or not below the volume");
            return Err(Problem::invalid(message));
        }
        Ok(Self(parts))
    }

    /// As it is told.
    pub(super) fn shown(&self) -> String {
        format!("/{}", self.0.join("/"))
    }

    /// As the kernel is asked for it, from the root.
    fn relative(&self) -> String {
        if self.0.is_empty() { ".".to_owned() } else { self.0.join("/") }
    }

    pub(super) fn split(&self) -> Result<(Self, &str), Problem> {
        let refuse = || Problem::invalid("the root of a volume cannot be replaced or removed");
        let (name, parents) = self.0.split_last().ok_or_else(refuse)?;
        Ok((Self(parents.to_vec()), name))
    }

    fn join(&self, name: &str) -> Self {
        Self(self.0.iter().cloned().chain([name.to_owned()]).collect())
    }
}

#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
}

impl Tree {
    pub(super) fn open(root: &std::path::Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(Self { root: rustix::fs::open(root, flags, Mode::empty())? })
    }

    fn open_at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Problem> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat2(&self.root, path.relative(), flags, Mode::empty(), resolve)
            .map_err(|errno| refused(errno, &path.shown()))
    }

    fn directory(&self, path: &Path) -> Result<OwnedFd, Problem> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    pub(super) fn stat(&self, path: &Path) -> Result<VolumeEntry, Problem> {
        let found = self.open_at(path, OFlags::PATH)?;
        entry(path, &found)
    }

    pub(super) fn read(&self, path: &Path) -> Result<(File, u64), Problem> {
        // Without waiting for whoever writes to a pipe.
        let file = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let stat = fstat(&file).map_err(|errno| refused(errno, &path.shown()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Problem::invalid(format!("{:?} is not a file", path.shown())));
        }
        Ok((File::from(file), u64::try_from(stat.st_size).unwrap_or(0)))
    }

    /// What is in a directory, and in those below it as deep as is asked.
    pub(super) fn list(&self, path: &Path, depth: u32) -> Result<Vec<VolumeEntry>, Problem> {
        if depth > DEEPEST_LIST {
            return Err(Problem::invalid(format!("depth must be at most {DEEPEST_LIST}")));
        }
        let mut entries = Vec::new();
        self.list_into(path, depth.max(1), &mut entries)?;
        Ok(entries)
    }

    fn list_into(
        &self,
        path: &Path,
        depth: u32,
        entries: &mut Vec<VolumeEntry>,
    ) -> Result<(), Problem> {
        for (name, _) in
            names(&self.directory(path)?).map_err(|errno| refused(errno, &path.shown()))?
        {
            if entries.len() >= LONGEST_LIST {
                let message = format!("{:?} has more than {LONGEST_LIST} entries", path.shown());
                return Err(Problem::invalid(message).hint("use a smaller depth"));
            }
            let inside = path.join(&name);
            // Whatever went away meanwhile is not there.
            let Ok(found) = self.stat(&inside) else { continue };
            let is_dir = found.kind == VolumeEntryKind::Directory;
            entries.push(found);
            if is_dir && depth > 1 {
                self.list_into(&inside, depth - 1, entries)?;
            }
        }
        Ok(())
    }

    /// Makes a directory, with those that it is in if `force` says so. Answers
    /// as well how many were made, whatever came of it.
    pub(super) fn make_dir(
        &self,
        path: &Path,
        owner: VolumeOwner,
        force: bool,
    ) -> (Result<VolumeEntry, Problem>, u64) {
        let mut made = 0;
        let entry = self.make_dir_counting(path, owner, force, &mut made);
        (entry, made)
    }

    fn make_dir_counting(
        &self,
        path: &Path,
        owner: VolumeOwner,
        force: bool,
        made: &mut u64,
    ) -> Result<VolumeEntry, Problem> {
        owner.check()?;
        let (parents, name) = path.split()?;
        if force {
            *made += self.make_parents(&parents, owner)?;
        }
        let parent = self.directory(&parents)?;
        match mkdirat(&parent, name, Mode::RWXU) {
            Ok(()) => {
                *made += 1;
                owner.or(0o755).apply(&self.directory(path)?, &path.shown())?;
                self.stat(path)
            }
            Err(Errno::EXIST) if force && self.directory(path).is_ok() => self.stat(path),
            Err(errno) => Err(refused(errno, &path.shown())),
        }
    }

    /// Makes the directories of a path that are missing; answers how many.
    pub(super) fn make_parents(&self, path: &Path, owner: VolumeOwner) -> Result<u64, Problem> {
        let owner = VolumeOwner { mode: None, ..owner }.or(0o755);
        let mut made = 0;
        for end in 1..=path.0.len() {
            let part = Path(path.0[..end].to_vec());
            let (parents, name) = part.split()?;
            match mkdirat(self.directory(&parents)?, name, Mode::RWXU) {
                Ok(()) => {
                    made += 1;
                    owner.apply(&self.directory(&part)?, &part.shown())?;
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(refused(errno, &part.shown())),
            }
        }
        Ok(made)
    }

    pub(super) fn change(&self, path: &Path, owner: VolumeOwner) -> Result<VolumeEntry, Problem> {
        owner.check()?;
        let found = self.stat(path)?;
        if !matches!(found.kind, VolumeEntryKind::File | VolumeEntryKind::Directory) {
            let message = format!("{:?} is neither a file nor a directory", path.shown());
            return Err(Problem::invalid(message));
        }
        let file = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        owner.apply(&file, &path.shown())?;
        entry(path, &file)
    }

    /// Puts a finished file in its place.
    pub(super) fn put_in(
        &self,
        from: &std::path::Path,
        path: &Path,
        replace: bool,
    ) -> Result<(), Problem> {
        let (parents, name) = path.split()?;
        let parent = self.directory(&parents)?;
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        renameat_with(rustix::fs::CWD, from, &parent, name, flags)
            .map_err(|errno| refused(errno, &path.shown()))
    }

    /// Takes something out, to a path of our own.
    pub(super) fn take_out(&self, path: &Path, to: &std::path::Path) -> Result<(), Problem> {
        let (parents, name) = path.split()?;
        let parent = self.directory(&parents)?;
        renameat_with(&parent, name, rustix::fs::CWD, to, RenameFlags::NOREPLACE)
            .map_err(|errno| refused(errno, &path.shown()))
    }

    /// Bytes of all files, and how many entries there are.
    pub(super) fn measure(&self) -> io::Result<Measure> {
        let mut sum = Measure::default();
        measure(self.root.as_fd(), 0, &mut sum)?;
        Ok(sum)
    }

    pub(super) fn size_of(&self, path: &Path) -> Option<u64> {
        let found = self.stat(path).ok()?;
        (found.kind == VolumeEntryKind::File).then_some(found.size)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Measure {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

impl Measure {
    pub(super) fn plus(self, more: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(more.bytes),
            entries: self.entries.saturating_add(more.entries),
        }
    }

    pub(super) fn minus(self, less: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(less.bytes),
            entries: self.entries.saturating_sub(less.entries),
        }
    }
}

fn measure(dir: BorrowedFd<'_>, depth: usize, sum: &mut Measure) -> io::Result<()> {
    for (name, kind) in names(dir)? {
        sum.entries += 1;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if kind == FileType::Directory && depth < 2 * DEEPEST {
            let inner = rustix::fs::openat(dir, &name, flags, Mode::empty())?;
            measure(inner.as_fd(), depth + 1, sum)?;
        } else if let Ok(stat) = statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
            sum.bytes += u64::try_from(stat.st_size).unwrap_or(0);
        }
    }
    Ok(())
}

/// The names in a directory, in order. What is not text is left out: no path of
/// this surface could name it.
fn names(dir: impl AsFd) -> Result<Vec<(String, FileType)>, Errno> {
    let mut names = Vec::new();
    for item in rustix::fs::Dir::read_from(dir)? {
        let item = item?;
        let Ok(name) = item.file_name().to_str() else { continue };
        if name != "." && name != ".." {
            names.push((name.to_owned(), item.file_type()));
        }
    }
    names.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(names)
}

impl VolumeOwner {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.uid.max(self.gid).is_some_and(|id| id > HIGHEST_ID) {
            return Err(Problem::invalid(format!("an id is at most {HIGHEST_ID}")));
        }
        // Bits above these give away rights; a file in a volume never has any.
        if self.mode.is_some_and(|mode| mode > 0o777) {
            return Err(Problem::invalid("a mode is at most 0777"));
        }
        Ok(())
    }

    /// Fills in what new things have.
    pub(super) fn or(self, mode: u32) -> Self {
        Self {
            uid: self.uid.or(Some(USER)),
            gid: self.gid.or(Some(USER)),
            mode: self.mode.or(Some(mode)),
        }
    }

    pub(super) fn apply(&self, file: impl AsFd, shown: &str) -> Result<(), Problem> {
        let cannot = |errno| refused(errno, shown);
        let stat = fstat(&file).map_err(cannot)?;
        let (uid, gid) = (self.uid.unwrap_or(stat.st_uid), self.gid.unwrap_or(stat.st_gid));
        // A server without rights keeps what it makes for itself.
        let privileged = rustix::process::geteuid().is_root();
        if privileged && (uid, gid) != (stat.st_uid, stat.st_gid) {
            let owner = rustix::fs::Uid::from_raw(uid);
            fchown(&file, Some(owner), Some(rustix::fs::Gid::from_raw(gid))).map_err(cannot)?;
        }
        if let Some(mode) = self.mode {
            fchmod(&file, Mode::from_raw_mode(mode)).map_err(cannot)?;
        }
        Ok(())
    }
}

/// Says what the kernel said, in the words of a volume.
pub(super) fn refused(errno: Errno, path: &str) -> Problem {
    let problem = |kind, code, why: &str| Problem::new(kind, code, format!("{path:?} {why}"));
    match errno {
        Errno::NOENT => problem(Kind::NotFound, "path_not_found", "not found"),
        Errno::EXIST => problem(Kind::Conflict, "path_exists", "already exists"),
        Errno::NOTDIR => problem(Kind::Invalid, "invalid", "has a parent that is not a directory"),
        Errno::ISDIR => problem(Kind::Invalid, "invalid", "is a directory"),
        Errno::NOTEMPTY => {
            problem(Kind::Conflict, "path_exists", "is a directory that is not empty")
        }
        // What `RESOLVE_BENEATH` and `O_NOFOLLOW` answer.
        Errno::XDEV | Errno::LOOP => problem(Kind::Invalid, "invalid", "contains a symbolic link"),
        Errno::NAMETOOLONG | Errno::INVAL => {
            problem(Kind::Invalid, "invalid", "is not a valid path")
        }
        Errno::NOSPC | Errno::DQUOT => problem(Kind::NoSpace, "no_space", "does not fit"),
        other => Problem::internal(&format!("use {path:?}"), &io::Error::from(other)),
    }
}

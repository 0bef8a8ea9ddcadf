//! Datasets: files of a shelf of the host, shown read-only in one folder.
//!
//! They are seen through an overlay that holds them and nothing else. So no path
//! of the host shows in `mountinfo`, and locks and watches that the code puts on
//! them are on inodes of its own. Each is then bound by itself: what was mounted
//! is compared with what was meant, and no name of the shelf is looked up again.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use belljar_domain::data::{Data, FOLDER, Identity, Shown};
use belljar_sys::mount::{Attributes, Reach, set_attributes};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::{Done, ROOT, attach, detached, mkdir, prepare};
use crate::jail::{Attempt, Failure};

/// Names inside the scratch file system: the folder, the overlay, and a layer
/// without anything, because an overlay that is never written has at least two.
const SHOWN: &str = "f";
const STACK: &str = "o";
const EMPTY: &str = "e";

/// Copies the mounts of the directories that hold the files. Anybody may read
/// them, so ids need no map.
pub(in crate::jail) fn open(data: &Data) -> Done<Vec<OwnedFd>> {
    let attributes =
        Attributes { read_only: true, no_suid: true, no_dev: true, ..Attributes::default() };
    let open = |place: PathBuf| {
        let tree = detached(&place, Reach::One).doing("open a dataset's directory")?;
        prepare(tree.as_fd(), attributes)?;
        Ok(tree)
    };
    data.places().map(open).collect()
}

/// Fills the folder in the scratch. `trees` are the [places](Data::places) of the
/// files.
pub(in crate::jail) fn gather(trees: &[OwnedFd], data: &Data) -> Done {
    for name in [SHOWN, STACK, EMPTY] {
        mkdir(name, 0o755).doing("create a mount point for datasets")?;
    }
    stack(trees)?;
    for shown in data.files() {
        let file = take(shown)?;
        let place = format!("{SHOWN}/{}", shown.name);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::open(&*place, flags, Mode::from_raw_mode(0o444))
            .doing("create a mount point for a dataset")?;
        attach(file.as_fd(), &place).doing("attach a dataset")?;
    }
    Ok(())
}

/// Stacks the directories of all files.
fn stack(trees: &[OwnedFd]) -> Done {
    let mut lower = Vec::new();
    for (index, tree) in trees.iter().enumerate() {
        let name = format!("{SHOWN}{index}");
        mkdir(&name, 0o755).doing("create a mount point for a dataset's directory")?;
        attach(tree.as_fd(), &name).doing("attach a dataset's directory")?;
        lower.push(name);
    }
    lower.push(EMPTY.to_owned());
    let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).doing("open an overlay")?;
    for (key, value) in [("source", "data"), ("lowerdir", &*lower.join(":")), ("xino", "off")] {
        fsconfig_set_string(&fs, key, value).doing("set up the overlay of datasets")?;
    }
    fsconfig_set_flag(&fs, "userxattr").doing("use user xattrs")?;
    fsconfig_create(&fs).doing("make the overlay of datasets")?;
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, flags).doing("mount the datasets")?;
    attach(mount.as_fd(), STACK).doing("attach the datasets")
}

/// The mount of one file, if it is the one that was meant.
fn take(shown: &Shown) -> Done<OwnedFd> {
    let what = || format!("show the dataset `{}`", shown.name);
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let file = open_tree(CWD, format!("{STACK}/{}", shown.content), flags).doing(what())?;
    if identity(file.as_fd()).doing(what())? != Some(shown.identity) {
        let what = format!("{}, which is not what it was", what());
        return Err(Failure::new(what, &Errno::STALE.into()));
    }
    Ok(file)
}

/// What an open file is; none: no file. An overlay without inode numbers of its
/// own tells those of its layers.
fn identity(file: BorrowedFd<'_>) -> rustix::io::Result<Option<Identity>> {
    let stat = rustix::fs::fstat(file)?;
    let identity = Identity {
        inode: stat.st_ino,
        bytes: stat.st_size.cast_unsigned(),
        modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
        changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
    };
    Ok(FileType::from_raw_mode(stat.st_mode).is_file().then_some(identity))
}

/// Puts the folder into the root. The way there is made if it is not there; a
/// link on it, which the template or an earlier sandbox may have left, is none.
/// `owner` is who the root is, if not whoever does this.
pub(in crate::jail) fn show(owner: Option<u32>) -> Done {
    let folder = detached(Path::new(SHOWN), Reach::Tree).doing("copy the datasets' folder")?;
    let attributes = Attributes {
        read_only: true,
        no_suid: true,
        no_dev: true,
        no_exec: true,
        ..Attributes::default()
    };
    set_attributes(folder.as_fd(), c"", attributes, Reach::One)
        .doing("make the datasets' folder read-only")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut place = rustix::fs::open(ROOT, flags, Mode::empty()).doing("open the root")?;
    for part in Path::new(FOLDER).components() {
        let Component::Normal(name) = part else { continue };
        match rustix::fs::mkdirat(&place, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {
                give(place.as_fd(), name, owner).doing(format!("change the owner of {FOLDER}"))?
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno).doing(format!("make {FOLDER}")),
        }
        place = rustix::fs::openat(&place, name, flags, Mode::empty())
            .doing(format!("open {FOLDER}"))?;
    }
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&folder, "", &place, "", both).doing(format!("attach {FOLDER}"))
}

fn give(dir: BorrowedFd<'_>, name: &OsStr, owner: Option<u32>) -> rustix::io::Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    let (uid, gid) = (Uid::from_raw(owner), Gid::from_raw(owner));
    rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

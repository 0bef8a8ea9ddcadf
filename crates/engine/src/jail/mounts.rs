//! The mounts of a sandbox, made with descriptors and relative names.
//!
//! Relative names matter: whatever is given to an overlay shows up in the
//! sandbox's own `mountinfo`, and host paths have no business there.

pub(crate) mod container;
pub(crate) mod data;
pub(super) mod procfs;

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use belljar_sys::mount::{Attributes, Propagation, Reach, set_attributes};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
    open_tree, unmount,
};

use super::{Attempt, Failure};

type Done<T = ()> = Result<T, Failure>;

/// Names inside the scratch file system.
pub(crate) const UPPER: &str = "u";
const WORK: &str = "w";
pub(crate) const ROOT: &str = "m";
const DEVICES: &str = "d";
pub(crate) const SHARED_MEMORY: &str = "s";
const DISK: &str = "x";
pub(crate) const HOME: &str = "h";
pub(crate) const TEMPORARY: &str = "ht";
pub(crate) const LASTING_TEMPORARY: &str = "hv";

/// Directories of the scratch where the base's own cannot be written, the paths they are
/// attached at, and their modes.
const OWN_PLACES: [(&str, &str, u32); 3] = [
    (HOME, "/home/user", 0o755),
    (TEMPORARY, "/tmp", 0o1777),
    (LASTING_TEMPORARY, "/var/tmp", 0o1777),
];

/// What every sandbox has in `/dev`, besides terminals and shared memory.
const NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// A copy of the mount at `path`, attached nowhere yet.
pub(super) fn detached(path: &Path, reach: Reach) -> rustix::io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if reach == Reach::Tree {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(CWD, path, flags)
}

pub(super) fn attach(tree: BorrowedFd<'_>, target: &str) -> rustix::io::Result<()> {
    move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn mkdir(path: &str, mode: u32) -> rustix::io::Result<()> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(mode))
}

/// Sets how the mounts of this namespace and the host's reach each other.
pub(super) fn propagate(propagation: Propagation) -> Done {
    let attributes = Attributes { propagation: Some(propagation), ..Attributes::default() };
    set_attributes(CWD, c"/", attributes, Reach::Tree).doing("set the propagation of mounts")
}

/// Mounts the scratch file system over `base` and goes there.
pub(super) fn scratch(base: &Path, bytes: Option<u64>, inodes: Option<u64>) -> Done<OwnedFd> {
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).doing("open a tmpfs")?;
    let set = |key: &str, value: &str| fsconfig_set_string(&fs, key, value);
    set("source", "scratch").doing("name the tmpfs")?;
    set("mode", "0755").doing("set the tmpfs mode")?;
    if let Some(bytes) = bytes {
        set("size", &bytes.to_string()).doing("size the tmpfs")?;
    }
    if let Some(inodes) = inodes {
        set("nr_inodes", &inodes.to_string()).doing("limit the tmpfs inodes")?;
    }
    fsconfig_create(&fs).doing("make the tmpfs")?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mount = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, flags).doing("mount the tmpfs")?;
    let target = base.to_str().unwrap_or("/");
    attach(mount.as_fd(), target).doing("attach the tmpfs")?;
    rustix::process::chdir(base).doing("enter the tmpfs")?;
    for (name, mode) in
        [(UPPER, 0o755), (WORK, 0o755), (ROOT, 0o755), (DEVICES, 0o755), (SHARED_MEMORY, 0o777)]
    {
        mkdir(name, mode).doing("create a scratch directory")?;
    }
    // Its mode is that of `/`: as in `/tmp`, every user makes names there and removes their own.
    for name in [UPPER, SHARED_MEMORY] {
        rustix::fs::chmod(name, Mode::from_raw_mode(0o1777))
            .doing("make a directory accessible")?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(".", flags, Mode::empty()).doing("open the scratch")
}

/// Mounts the ext4 file system on a block device, attached nowhere yet.
pub(crate) fn device_mount(device: &Path) -> rustix::io::Result<OwnedFd> {
    let fs = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&fs, "source", device)?;
    fsconfig_create(&fs)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

/// Attaches the directory that keeps the writable layer of a build.
pub(super) fn disk(tree: BorrowedFd<'_>) -> Done {
    mkdir(DISK, 0o755).doing("create a mount point for the disk")?;
    attach(tree, DISK).doing("attach the disk")
}

/// Attaches the lower layers and stacks the root file system.
pub(super) fn overlay(layers: &[OwnedFd], on_disk: bool, neutral: bool) -> Done {
    let mut lower = Vec::new();
    for (index, layer) in layers.iter().enumerate() {
        let name = format!("l{index}");
        mkdir(&name, 0o755).doing("create a mount point for a layer")?;
        attach(layer.as_fd(), &name).doing("attach a layer")?;
        lower.push(name);
    }
    let here = std::env::current_dir().unwrap_or_default();
    // The control of the attack that reads host paths out of mountinfo.
    let shown = |name: &str| {
        if neutral { name.to_owned() } else { here.join(name).to_string_lossy().into_owned() }
    };
    let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).doing("open an overlay")?;
    let set = |key: &str, value: &str| fsconfig_set_string(&fs, key, value);
    set("source", "root").doing("name the overlay")?;
    let lower: Vec<String> = lower.iter().map(|name| shown(name)).collect();
    set("lowerdir", &lower.join(":")).doing("set the lower layers")?;
    let (upper, work) = if on_disk {
        (format!("{DISK}/upper"), format!("{DISK}/work"))
    } else {
        (UPPER.to_owned(), WORK.to_owned())
    };
    set("upperdir", &shown(&upper)).doing("set the writable layer")?;
    set("workdir", &shown(&work)).doing("set the work directory")?;
    fsconfig_set_flag(&fs, "userxattr").doing("use user xattrs")?;
    if !on_disk {
        // Nothing of this layer outlives the sandbox, so nothing is flushed.
        fsconfig_set_flag(&fs, "volatile").doing("make the overlay volatile")?;
    }
    fsconfig_create(&fs).doing("make the overlay")?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mount = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, flags).doing("mount the overlay")?;
    attach(mount.as_fd(), ROOT).doing("attach the overlay")
}

fn inside(path: &Path) -> String {
    let relative = path.strip_prefix("/").unwrap_or(path);
    PathBuf::from(ROOT).join(relative).to_string_lossy().into_owned()
}

pub(super) fn bind(tree: BorrowedFd<'_>, target: &Path) -> Done {
    let place = inside(target);
    match mkdir(&place, 0o755) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => return Err(errno).doing(format!("make {}", target.display())),
    }
    attach(tree, &place).doing(format!("bind {}", target.display()))
}

/// Puts directories of the scratch where the user's home and temporary directories are. They
/// are empty, or hold the files that the sandbox begins with.
pub(super) fn own_places() -> Done {
    for (name, path, mode) in OWN_PLACES {
        let target = inside(Path::new(path));
        let is_directory = |path: &str| {
            let kind = rustix::fs::lstat(path).map(|stat| FileType::from_raw_mode(stat.st_mode));
            kind == Ok(FileType::Directory)
        };
        // A template need not have them, or has a link instead.
        if !is_directory(&target) {
            continue;
        }
        let made = match mkdir(name, mode) {
            Ok(()) => rustix::fs::chmod(name, Mode::from_raw_mode(mode)),
            Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno),
        };
        made.doing(format!("create {path}"))?;
        let tree = detached(Path::new(name), Reach::One).doing(format!("copy {path}"))?;
        attach(tree.as_fd(), &target).doing(format!("attach {path}"))?;
    }
    Ok(())
}

/// Puts the `/dev` that the spawner made, or one made here, into the root.
pub(super) fn devices(minimal: bool, prepared: Option<&Path>) -> Done {
    let target = inside(Path::new("/dev"));
    let source = match prepared {
        _ if !minimal => Path::new("/dev"),
        Some(prepared) => prepared,
        None => {
            populate(DEVICES)?;
            Path::new(DEVICES)
        }
    };
    let tree = detached(source, Reach::Tree).doing("copy /dev")?;
    if minimal && prepared.is_none() {
        restrict_devices(tree.as_fd())?;
    }
    attach(tree.as_fd(), &target).doing("attach /dev")
}

/// Makes a `/dev` of the sandbox's own, with one device more: `tree`, at `path`.
pub(super) fn devices_with(tree: BorrowedFd<'_>, path: &str) -> Done {
    populate(DEVICES)?;
    let place = path.replacen("/dev", DEVICES, 1);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(&*place, flags, Mode::from_raw_mode(0o600))
        .doing("create a mount point for a device")?;
    let own = detached(Path::new(DEVICES), Reach::Tree).doing("copy /dev")?;
    restrict_devices(own.as_fd())?;
    attach(own.as_fd(), &inside(Path::new("/dev"))).doing("attach /dev")?;
    attach(tree, &inside(Path::new(path))).doing("attach a device")
}

/// A node for a device of the host that everybody may open who can reach it, in
/// a file system of its own that is attached nowhere. The host's node stays as
/// closed as it is.
pub(crate) fn device(path: &str) -> rustix::io::Result<OwnedFd> {
    let number = rustix::fs::stat(path)?.st_rdev;
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [("source", "dev"), ("mode", "0755"), ("size", "4k"), ("nr_inodes", "4")] {
        fsconfig_set_string(&fs, key, value)?;
    }
    fsconfig_create(&fs)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(&mount, "node", FileType::CharacterDevice, mode, number)?;
    rustix::fs::chmodat(&mount, "node", mode, rustix::fs::AtFlags::empty())?;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(&mount, "node", clone)
}

/// Makes a `/dev` at `dir` that every sandbox can share: nothing in it can be
/// changed, and what differs between sandboxes is mounted over it.
pub(super) fn shared_devices(dir: &Path) -> Done {
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).doing("open a tmpfs")?;
    for (key, value) in [("source", "dev"), ("mode", "0755"), ("size", "64k"), ("nr_inodes", "64")]
    {
        fsconfig_set_string(&fs, key, value).doing("set up the tmpfs")?;
    }
    fsconfig_create(&fs).doing("make the tmpfs")?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mount = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, flags).doing("mount the tmpfs")?;
    let place = dir.to_string_lossy();
    attach(mount.as_fd(), &place).doing("attach the tmpfs")?;
    populate(&place)?;
    restrict_devices(mount.as_fd())
}

fn restrict_devices(tree: BorrowedFd<'_>) -> Done {
    let attributes =
        Attributes { read_only: true, no_suid: true, no_exec: true, ..Attributes::default() };
    set_attributes(tree, c"", attributes, Reach::One).doing("make /dev read-only")
}

/// Fills `dir` with harmless devices, links, and places for mounts.
fn populate(dir: &str) -> Done {
    for name in NODES {
        let place = format!("{dir}/{name}");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::open(&*place, flags, Mode::from_raw_mode(0o666))
            .doing("create a mount point for a device")?;
        let node = detached(&Path::new("/dev").join(name), Reach::One);
        attach(node.doing("copy a device")?.as_fd(), &place).doing("attach a device")?;
    }
    links_and_places(dir)
}

fn links_and_places(dir: &str) -> Done {
    for (name, points_to) in LINKS {
        rustix::fs::symlink(points_to, format!("{dir}/{name}")).doing("link in /dev")?;
    }
    for name in ["pts", "shm"] {
        mkdir(&format!("{dir}/{name}"), 0o755).doing("make a directory of /dev")?;
    }
    Ok(())
}

pub(super) fn terminals() -> Done {
    let fs = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC).doing("open devpts")?;
    for (key, value) in [("ptmxmode", "0666"), ("mode", "0620"), ("max", "64")] {
        fsconfig_set_string(&fs, key, value).doing("set up devpts")?;
    }
    fsconfig_create(&fs).doing("make devpts")?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, flags).doing("mount devpts")?;
    attach(mount.as_fd(), &inside(Path::new("/dev/pts"))).doing("attach devpts")
}

pub(super) fn shared_memory() -> Done {
    let tree = detached(Path::new(SHARED_MEMORY), Reach::One).doing("copy shared memory")?;
    let attributes =
        Attributes { no_suid: true, no_dev: true, no_exec: true, ..Attributes::default() };
    set_attributes(tree.as_fd(), c"", attributes, Reach::One).doing("set up shared memory")?;
    attach(tree.as_fd(), &inside(Path::new("/dev/shm"))).doing("attach shared memory")
}

/// Makes the overlay the root and lets go of the host's file systems.
pub(super) fn enter_root() -> Done {
    rustix::process::chdir(ROOT).doing("enter the new root")?;
    rustix::process::pivot_root(".", ".").doing("change the root")?;
    unmount(".", UnmountFlags::DETACH).doing("detach the old root")?;
    rustix::process::chdir("/").doing("enter the root directory")
}

/// Marks a tree of the host for use inside a sandbox.
pub(super) fn prepare(tree: BorrowedFd<'_>, attributes: Attributes<'_>) -> Done {
    let empty = CString::default();
    set_attributes(tree, &empty, attributes, Reach::One).doing("restrict a layer's mount")
}

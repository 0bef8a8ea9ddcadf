//! Mounts that a container runtime finds, and those of all containers.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use belljar_sys::mount::{Attributes, Propagation, Reach, set_attributes};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, open_tree, unmount,
};

use super::{
    Done, NODES, ROOT, SHARED_MEMORY, UPPER, WORK, attach, detached, links_and_places, mkdir,
    propagate,
};
use crate::jail::Attempt;

/// `/tmp` of the root, by itself, in the scratch.
pub(crate) const TEMPORARY: &str = "t";

/// Of the nodes in `/dev`, in their order.
const NUMBERS: [(u32, u32); 6] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0)];

/// Where a runtime finds a bind, in the scratch.
pub(crate) fn bind_name(index: usize) -> String {
    format!("b{index}")
}

/// Leaves a bind where a runtime finds it.
pub(in crate::jail) fn bind_source(tree: BorrowedFd<'_>, index: usize) -> Done {
    let name = bind_name(index);
    mkdir(&name, 0o755).doing("create a mount point for a bind")?;
    attach(tree, &name).doing("attach a bind")
}

/// Restricts shared memory where it is, for a runtime to bind.
pub(in crate::jail) fn shared_memory_source() -> Done {
    let tree = detached(Path::new(SHARED_MEMORY), Reach::One).doing("copy shared memory")?;
    let attributes =
        Attributes { no_suid: true, no_dev: true, no_exec: true, ..Attributes::default() };
    set_attributes(tree.as_fd(), c"", attributes, Reach::One).doing("set up shared memory")?;
    attach(tree.as_fd(), SHARED_MEMORY).doing("attach shared memory")
}

/// Shows `/tmp` of the root by itself, or an empty directory where the template
/// has none: a link there leads nowhere.
pub(in crate::jail) fn temporary_source() -> Done {
    mkdir(TEMPORARY, 0o755).doing("create a mount point for /tmp")?;
    rustix::fs::chmod(TEMPORARY, Mode::from_raw_mode(0o1777)).doing("make /tmp accessible")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::open(ROOT, flags, Mode::empty()).doing("open the root")?;
    let Ok(found) = rustix::fs::openat(&root, "tmp", flags, Mode::empty()) else { return Ok(()) };
    let clone = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&found, "", clone).doing("copy /tmp")?;
    attach(tree.as_fd(), TEMPORARY).doing("attach /tmp")
}

/// Gives the scratch's directories to the root of a sandbox.
pub(in crate::jail) fn own_scratch(root: u32) -> Done {
    let (uid, gid) = (rustix::fs::Uid::from_raw(root), rustix::fs::Gid::from_raw(root));
    for name in [UPPER, WORK, SHARED_MEMORY] {
        rustix::fs::chown(name, Some(uid), Some(gid)).doing("change the owner of the scratch")?;
    }
    Ok(())
}

const GROUPS: &str = "/sys/fs/cgroup";

/// Makes this mount namespace one for runtimes: cut off, and with an empty file
/// system in the place of the host's cgroups, so that none makes some of its own.
/// They look there to see which version the host has, so it is of the kind that
/// holds version 1 hierarchies.
pub(crate) fn stage(leave_devices: bool) -> Done {
    propagate(Propagation::Private)?;
    if leave_devices && Path::new(GROUPS).join("cgroup.controllers").exists() {
        // Of version 2 there is one hierarchy, devices included.
        return Ok(());
    }
    let devices = Path::new(GROUPS).join("devices");
    let devices = leave_devices.then(|| detached(&devices, Reach::One).ok()).flatten();
    // Not there at all on a host without cgroups, where nothing need be hidden.
    let _ = unmount(GROUPS, UnmountFlags::DETACH);
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).doing("open a tmpfs")?;
    for (key, value) in [("source", "none"), ("mode", "0755"), ("size", "4k"), ("nr_inodes", "4")] {
        fsconfig_set_string(&fs, key, value).doing("set up the tmpfs")?;
    }
    fsconfig_create(&fs).doing("make the tmpfs")?;
    let mount = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
    attach(mount.doing("mount the tmpfs")?.as_fd(), GROUPS).doing("hide the host's cgroups")?;
    if let Some(devices) = devices {
        let place = format!("{GROUPS}/devices");
        mkdir(&place, 0o755).doing("create a mount point for the devices' cgroups")?;
        attach(devices.as_fd(), &place).doing("attach the devices' cgroups")?;
    }
    Ok(())
}

/// Makes what containers of all sandboxes share, at `dir`: a `/dev`, and what
/// the guest needs. Real nodes, not binds of the host's: runtimes copy one mount
/// and not those below it.
pub(crate) fn shared_container(dir: &Path, files: &[(&str, &[u8], u32)]) -> Done {
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).doing("open a tmpfs")?;
    for (key, value) in [("source", "belljar"), ("mode", "0755"), ("nr_inodes", "64")] {
        fsconfig_set_string(&fs, key, value).doing("set up the tmpfs")?;
    }
    fsconfig_create(&fs).doing("make the tmpfs")?;
    let mount = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NOSUID)
        .doing("mount the tmpfs")?;
    let place = dir.to_string_lossy();
    attach(mount.as_fd(), &place).doing("attach the tmpfs")?;
    let devices = format!("{place}/dev");
    mkdir(&devices, 0o755).doing("make /dev")?;
    for (name, (major, minor)) in NODES.into_iter().zip(NUMBERS) {
        let node = format!("{devices}/{name}");
        let number = rustix::fs::makedev(major, minor);
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(CWD, &*node, FileType::CharacterDevice, mode, number)
            .doing("make a device")?;
        rustix::fs::chmod(&*node, mode).doing("make a device accessible")?;
    }
    links_and_places(&devices)?;
    let own = format!("{place}/own");
    mkdir(&own, 0o755).doing("make the guest's directory")?;
    mkdir(&format!("{own}/groups"), 0o755).doing("create a mount point for cgroups")?;
    for (name, content, mode) in files {
        let path = format!("{own}/{name}");
        std::fs::write(&path, content).doing("write the guest's files")?;
        rustix::fs::chmod(&*path, Mode::from_raw_mode(*mode)).doing("restrict a file")?;
    }
    let attributes = Attributes { read_only: true, ..Attributes::default() };
    set_attributes(mount.as_fd(), c"", attributes, Reach::One).doing("make it read-only")
}

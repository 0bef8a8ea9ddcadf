//! The file systems of a machine, as those of a jail.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};

use belljar_confine::procfs::{Covers, Figures, cover};
use belljar_confine::{Attempt as _, Failure};
use belljar_sys::mount::{Attributes, Reach, set_attributes};
use rustix::fs::{CWD, FileType, Mode, OFlags, makedev};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags, fsconfig_create, fsmount,
    fsopen, mount, mount_bind, mount_move, mount_remount, unmount,
};

use super::await_device;

type Done<T = ()> = Result<T, Failure>;

/// What every sandbox has in `/dev`, besides terminals and shared memory.
const NODES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Options of mounts that hold nothing to be run.
const QUIET: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// What is ready to be entered, and what the guest keeps of the outside.
pub(super) struct Root {
    /// A mount of cgroups that hangs nowhere, so no path leads to it.
    pub(super) groups: OwnedFd,
    /// The file system that holds the writable layer.
    pub(super) disk: OwnedFd,
}

/// Mounts what the boot stage itself needs.
pub(super) fn kernel_places() -> Done {
    mount("dev", "/dev", "devtmpfs", MountFlags::NOSUID, None).doing("mount /dev")?;
    mount("proc", "/proc", "proc", QUIET, None).doing("mount /proc")
}

pub(super) fn build() -> Done<Root> {
    for name in ["/lower", "/disk", "/root"] {
        mkdir(name, 0o755)?;
    }
    await_device("/dev/vda", OFlags::RDONLY)?;
    await_device("/dev/vdb", OFlags::RDONLY)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("/dev/vda", "/lower", "erofs", flags | MountFlags::RDONLY, None)
        .doing("mount the template")?;
    mount("/dev/vdb", "/disk", "ext4", flags | MountFlags::NOATIME, None)
        .doing("mount the disk")?;
    let layers = c"lowerdir=/lower,upperdir=/disk/upper,workdir=/disk/work,volatile";
    mount("root", "/root", "overlay", flags, layers).doing("mount the root")?;
    let groups = groups()?;
    let places = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let disk = rustix::fs::open("/disk", places, Mode::empty()).doing("open the disk")?;
    let flags = QUIET | MountFlags::RDONLY;
    mount("proc", "/root/proc", "proc", flags, c"hidepid=2").doing("mount procfs")?;
    cover_procfs()?;
    devices()?;
    Ok(Root { groups, disk })
}

/// Covers procfs as in a jail. What this kernel counts is the machine's own, and stays.
fn cover_procfs() -> Done {
    mkdir("/cover", 0o755)?;
    mkdir("/cover/empty", 0)?;
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open("/cover/none", flags, Mode::empty()).doing("create a cover")?;
    mount_bind("/cover", "/cover").doing("bind the covers")?;
    let attributes = Attributes {
        read_only: true,
        no_suid: true,
        no_dev: true,
        no_exec: true,
        ..Attributes::default()
    };
    set_attributes(CWD, c"/cover", attributes, Reach::One).doing("make the covers read-only")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let procfs = rustix::fs::open("/root/proc", flags, Mode::empty()).doing("open procfs")?;
    let covers = Covers { file: "/cover/none", directory: "/cover/empty" };
    cover(procfs.as_fd(), covers, Figures::Kernel)
}

fn groups() -> Done<OwnedFd> {
    let fs = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC).doing("open cgroups")?;
    fsconfig_create(&fs).doing("make cgroups")?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, flags).doing("mount cgroups")
}

fn mkdir(path: &str, mode: u32) -> Done {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno).doing(format!("make {path}")),
    }
}

/// A `/dev` with harmless devices, which nobody can add to.
fn devices() -> Done {
    let dev = "/root/dev";
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("dev", dev, "tmpfs", flags, c"mode=0755,size=64k,nr_inodes=64").doing("mount /dev")?;
    for (name, major, minor) in NODES {
        let place = format!("{dev}/{name}");
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(CWD, &*place, FileType::CharacterDevice, mode, makedev(major, minor))
            .doing("make a device")?;
        rustix::fs::chmod(&*place, mode).doing("open a device to all")?;
    }
    for (name, points_to) in LINKS {
        rustix::fs::symlink(points_to, format!("{dev}/{name}")).doing("link in /dev")?;
    }
    mkdir("/root/dev/pts", 0o755)?;
    mkdir("/root/dev/shm", 0o755)?;
    let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount_remount(dev, MountFlags::RDONLY | quiet, "").doing("make /dev read-only")?;
    mount("devpts", "/root/dev/pts", "devpts", quiet, c"ptmxmode=0666,mode=0620,max=64")
        .doing("mount devpts")?;
    mount("shm", "/root/dev/shm", "tmpfs", QUIET, c"mode=1777").doing("mount shared memory")
}

/// Leaves the first file system for good. It cannot be unmounted itself, so it
/// is emptied and buried under the new one.
pub(super) fn enter() -> Done {
    let _ = fs::remove_file("/init");
    rustix::process::chdir("/root").doing("enter the new root")?;
    // Those that the new root stands on go on without a place.
    for place in ["/dev", "/proc", "/lower", "/disk", "/cover"] {
        unmount(place, UnmountFlags::DETACH).doing("let go of the first root")?;
    }
    mount_move(".", "/").doing("move the new root")?;
    rustix::process::chroot(".").doing("change the root")?;
    rustix::process::chdir("/").doing("go to the root")
}

//! `/proc`.

use std::os::fd::AsFd;
use std::path::Path;

use belljar_confine::procfs::{Covers, Figures, cover};
use belljar_domain::Limits;
use belljar_sys::mount::{Attributes, Reach, set_attributes};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};

use super::super::Attempt;
use super::{Done, attach, detached, inside, mkdir};
use crate::figures::{self, PREFIX};
use crate::plan::ProcView;

/// Where the scratch, with figures and covers, is mounted read-only.
const READ_ONLY: &str = "q";
const COVERS: Covers<'_> = Covers { file: "q/p-none", directory: "q/p-empty" };

pub(in crate::jail) fn mount(view: ProcView, read_only: bool, limits: &Limits) -> Done {
    let fs = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).doing("open procfs")?;
    let set = |key: &str, value: &str| fsconfig_set_string(&fs, key, value);
    set("source", "proc").doing("name procfs")?;
    if view != ProcView::Whole {
        set("hidepid", "2").doing("hide other processes in procfs")?;
    }
    if view == ProcView::Processes {
        set("subset", "pid").doing("reduce procfs to processes")?;
    }
    fsconfig_create(&fs).doing("make procfs")?;
    let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    flags.set(MountAttrFlags::MOUNT_ATTR_RDONLY, read_only);
    let mount = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, flags).doing("mount procfs")?;
    attach(mount.as_fd(), &inside(Path::new("/proc"))).doing("attach procfs")?;
    if view == ProcView::Sandbox {
        prepare(limits)?;
        cover(mount.as_fd(), COVERS, Figures::Files("q/p-"))?;
    }
    Ok(())
}

/// Makes the files that are mounted over those of procfs, and a read-only mount to take them from.
fn prepare(limits: &Limits) -> Done {
    mkdir(READ_ONLY, 0o755).doing("create a directory for /proc")?;
    figures::create(limits).doing("write the figures of /proc")?;
    mkdir(&format!("{PREFIX}empty"), 0).doing("create a cover")?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(format!("{PREFIX}none"), flags, Mode::empty()).doing("create a cover")?;
    let tree = detached(Path::new("."), Reach::One).doing("copy the covers")?;
    let attributes = Attributes {
        read_only: true,
        no_suid: true,
        no_dev: true,
        no_exec: true,
        ..Attributes::default()
    };
    set_attributes(tree.as_fd(), c"", attributes, Reach::One).doing("make the covers read-only")?;
    attach(tree.as_fd(), READ_ONLY).doing("attach the covers")
}

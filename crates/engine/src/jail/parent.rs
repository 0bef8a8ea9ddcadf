//! The parent's side of making a confined process.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use belljar_domain::{Disk, Owners, Spec, Tier};
use belljar_sys::enter::owned_by;
use belljar_sys::fd;
use belljar_sys::mount::{Attributes, Reach};
use belljar_sys::packet;
use belljar_sys::process::{self, Forked, Namespaces, fork};
use belljar_sys::seccomp::Instruction;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Pid;

use super::apply::{Birth, Program, become_guest};
use super::{Attempt, Failure, mounts};
use crate::cgroup::{FIRST_CALL, SandboxGroup, Unlimited};
use crate::defence::{Defence, Weakened};
use crate::plan::{Plan, USER_UID, guest_uid};
use crate::wire::{self, FromChild, ToChild};

/// Bytes that may be under way on a stream, in each direction.
const STREAM_BUFFER: usize = 1 << 20;

/// Ids that each sandbox has to itself.
pub(crate) const IDS: u32 = 65_536;

/// What the spawner brings to every birth.
pub(crate) struct Cradle<'a> {
    pub(crate) program: Program<'a>,
    pub(crate) filter: &'a [Instruction],
    pub(crate) base: &'a Path,
    /// A `/dev` made once for all, if there is one.
    pub(crate) devices: Option<&'a Path>,
    /// The working directory, in tiers without a root of their own.
    pub(crate) work: Option<&'a Path>,
    pub(crate) privileged: bool,
    pub(crate) weakened: &'a Weakened,
    /// Files to begin with.
    pub(crate) archive: Option<&'a OwnedFd>,
    /// Who may enter the sandbox's namespaces from outside, besides root.
    pub(crate) owner: Option<Owner<'a>>,
    /// What to ask of the owner as soon as there is a sandbox to enter.
    pub(crate) fork: Option<(&'a [u8], &'a [OwnedFd])>,
    /// The map of a user namespace that the child does not make itself.
    pub(crate) idmap: Option<BorrowedFd<'a>>,
    /// The mount namespace of which the child gets a copy, if not ours; then
    /// ours, to come back to.
    pub(crate) stage: Option<[BorrowedFd<'a>; 2]>,
}

/// A zygote, to which a sandbox belongs.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) uid: u32,
    pub(crate) socket: &'a OwnedFd,
}

impl Cradle<'_> {
    /// Which limits a test switched off.
    fn unlimited(&self) -> Unlimited {
        Unlimited {
            memory: !self.weakened.keeps(Defence::CgroupMemory),
            pids: !self.weakened.keeps(Defence::CgroupPids),
            cpu: !self.weakened.keeps(Defence::CgroupCpu),
        }
    }
}

/// A sandbox whose guest runs.
#[derive(Debug)]
pub(crate) struct Born {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    /// The host's end of the stream.
    pub(crate) stream: OwnedFd,
    /// The scratch file system, to ask how full it is.
    pub(crate) scratch: Option<OwnedFd>,
}

/// Why a sandbox was not born, and its first process if there is one. Whoever
/// asked ends that: an interpreter may have been forked beside it by now, and
/// it is gone only when that one has been reaped as well.
#[derive(Debug)]
pub(crate) struct Stillborn {
    pub(crate) failure: Failure,
    pub(crate) left: Option<(Pid, OwnedFd)>,
}

impl From<Failure> for Stillborn {
    fn from(failure: Failure) -> Self {
        Self { failure, left: None }
    }
}

/// Makes the process, and answers when the guest runs.
pub(crate) fn bear(
    spec: &Spec,
    plan: &Plan,
    cradle: &Cradle<'_>,
    group: Option<&SandboxGroup>,
    first_uid: u32,
) -> Result<Born, Stillborn> {
    let pair = |kind| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let (sync, child_sync) = pair(SocketType::SEQPACKET).doing("make a socket pair")?;
    let kind = match cradle.program {
        Program::Guest(_) | Program::Runtime(_) | Program::Monitor(_) => SocketType::STREAM,
        Program::Zygote(_) => SocketType::SEQPACKET,
    };
    let (stream, guest_stream) = pair(kind).doing("make the guest's stream")?;
    for end in [&stream, &guest_stream] {
        // A file passes in fewer, larger steps. Without the right to it, the
        // host's own size serves.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size_force(end, STREAM_BUFFER);
    }
    let owner = first_uid + guest_uid(spec.tier, cradle.weakened);
    let unlimited = cradle.unlimited();
    let into = match group {
        Some(group) => group.create_unified(&spec.limits, unlimited, owner),
        None => Ok(None),
    };
    let into = into.doing("make the sandbox's cgroup")?;
    let into = into.as_ref().map(AsFd::as_fd);
    let become_it = || -> ! {
        become_guest(&Birth {
            spec,
            plan,
            sync: &child_sync,
            stream: &guest_stream,
            program: cradle.program,
            filter: cradle.filter,
            base: cradle.base,
            devices: cradle.devices,
            work: cradle.work,
            first_uid,
            privileged: cradle.privileged,
            archive: cradle.archive,
            ends_calls: spec.tier == Tier::Process && cradle.weakened.keeps(Defence::TreeKill),
        })
    };
    let sync_number = sync.as_raw_fd();
    let clone = || match fork(plan.namespaces, into) {
        Ok(Forked::Child) => {
            // The parent's end would keep the child from seeing its death.
            let _ = fd::close_one(sync_number);
            become_it()
        }
        Ok(Forked::Parent { pid, pidfd }) => Ok((pid, pidfd)),
        Err(error) => Err(error),
    };
    if let Some([stage, _]) = cradle.stage {
        go_to(stage).doing("enter the runtimes' mount namespace")?;
    }
    let forked = match cradle.owner {
        Some(owner) => owned_by(owner.uid, clone).and_then(|forked| forked),
        None => clone(),
    };
    if let Some([_, own]) = cradle.stage
        && go_to(own).is_err()
    {
        // Everything else that we do would be done at the wrong place.
        process::exit_now(1);
    }
    let (pid, pidfd) = forked.doing("clone the sandbox's first process")?;
    drop((child_sync, guest_stream));
    let first = First { pid, pidfd: &pidfd, first_uid, guest_uid: owner };
    let raised = raise(spec, plan, cradle, group, &first, &sync);
    match raised {
        Ok(scratch) => Ok(Born { pid, pidfd, stream, scratch }),
        Err(failure) => Err(Stillborn { failure, left: Some((pid, pidfd)) }),
    }
}

fn go_to(namespace: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let kind = rustix::thread::LinkNameSpaceType::Mount;
    rustix::thread::move_into_link_name_space(namespace, Some(kind))
}

/// The first process of a sandbox.
struct First<'a> {
    pid: Pid,
    pidfd: &'a OwnedFd,
    first_uid: u32,
    guest_uid: u32,
}

/// Asks a zygote for an interpreter in a sandbox that is being built, as the
/// sandbox's first call.
fn ask_to_fork(
    owner: Owner<'_>,
    (entry, streams): (&[u8], &[OwnedFd]),
    group: Option<&SandboxGroup>,
    first: &First<'_>,
) -> Result<(), Failure> {
    let create = |group: &SandboxGroup| {
        let call = group.create_call(FIRST_CALL, first.guest_uid, Some(owner.uid))?;
        call.open_for_zygote(owner.uid)
    };
    let groups = group.map(create).transpose().doing("make the interpreter's cgroups")?;
    let mut descriptors = vec![first.pidfd.as_fd()];
    descriptors.extend(streams.iter().map(AsFd::as_fd));
    descriptors.extend(groups.iter().flat_map(|groups| &groups.descriptors).map(AsFd::as_fd));
    packet::send(owner.socket, entry, &descriptors).doing("ask the zygote to fork")
}

fn raise(
    spec: &Spec,
    plan: &Plan,
    cradle: &Cradle<'_>,
    group: Option<&SandboxGroup>,
    first: &First<'_>,
    sync: &OwnedFd,
) -> Result<Option<OwnedFd>, Failure> {
    let &First { pid, first_uid, .. } = first;
    let mut descriptors = match group {
        Some(group) => group.create_v1(&spec.limits, cradle.unlimited()),
        None => Ok(Vec::new()),
    }
    .doing("make the sandbox's cgroups")?;
    let tasks = descriptors.len();
    if plan.namespaces.contains(Namespaces::USER) {
        let proc = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
        write_maps(&proc, cradle.privileged, first_uid)?;
        if cradle.privileged {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let namespace = rustix::fs::open(proc.join("ns/user"), flags, Mode::empty())
                .doing("open the sandbox's user namespace")?;
            descriptors.extend(hand_over(spec, cradle.weakened, Some(namespace.as_fd()))?);
        }
    } else if plan.namespaces.contains(Namespaces::MOUNT) {
        descriptors.extend(hand_over(spec, cradle.weakened, cradle.idmap)?);
    }
    let go = ToChild::Go {
        tasks,
        layers: spec.root.layers.len(),
        binds: spec.root.binds.len(),
        data: spec.data.places().count(),
        disk: spec.disk != Disk::Memory,
    };
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    wire::send(sync, &go, &borrowed).doing("release the sandbox's first process")?;
    if let (Some(owner), Some(request)) = (cradle.owner, cradle.fork) {
        // The interpreter's memory is copied while the root is mounted.
        ask_to_fork(owner, request, group, first)?;
    }
    // The child's end closes when it becomes the guest, or dies; what it said
    // before is read after, so that it is not interrupted for it.
    let mut fds = [PollFd::new(sync, PollFlags::empty())];
    let longest = rustix::event::Timespec { tv_sec: BIRTH_SECONDS, tv_nsec: 0 };
    if rustix::event::poll(&mut fds, Some(&longest)).doing("wait for the guest")? == 0 {
        return Err(Failure::new("watch the guest start", &io::ErrorKind::TimedOut.into()));
    }
    let scratch = match wire::receive(sync).doing("read from the sandbox's first process")? {
        (FromChild::Built, mut descriptors) => descriptors.pop(),
        (FromChild::Failed(failure), _) => return Err(failure),
    };
    match wire::receive(sync) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(scratch),
        Err(error) => Err(Failure::new("wait for the guest", &error)),
        Ok((FromChild::Failed(failure), _)) => Err(failure),
        Ok((FromChild::Built, _)) => {
            Err(Failure::new("wait for the guest", &io::ErrorKind::InvalidData.into()))
        }
    }
}

/// How long a sandbox may take to be built.
const BIRTH_SECONDS: i64 = 30;

pub(crate) fn write_maps(proc: &Path, privileged: bool, first_uid: u32) -> Result<(), Failure> {
    let (uids, gids) = if privileged {
        let map = format!("0 {first_uid} {IDS}");
        (map.clone(), map)
    } else {
        // Without rights only our own id can be mapped, and groups must be
        // given up first.
        fs::write(proc.join("setgroups"), "deny").doing("give up groups")?;
        let own = |id: u32| format!("{USER_UID} {id} 1");
        (own(rustix::process::getuid().as_raw()), own(rustix::process::getgid().as_raw()))
    };
    fs::write(proc.join("uid_map"), uids).doing("map user ids")?;
    fs::write(proc.join("gid_map"), gids).doing("map group ids")?;
    // Left empty, anyone inside could write it once.
    fs::write(proc.join("projid_map"), format!("0 {first_uid} 1")).doing("map project ids")
}

/// The mounts that a sandbox stands on, with their attributes. Ids of layers, which are
/// shared and never changed, show through the sandbox's own map. Directories of the host
/// that are bound keep their owners, who are nobody inside: root of the sandbox reads
/// there what any user of the host could, and no more.
fn foundations<'a>(
    spec: &'a Spec,
    shared: Attributes<'a>,
) -> impl Iterator<Item = (&'a Path, Attributes<'a>)> {
    let unmapped = Attributes { idmap: None, ..shared };
    let layers = spec.root.layers.iter().map(move |layer| (layer.as_path(), shared));
    let binds = spec.root.binds.iter().map(move |bind| match bind.owners {
        Owners::Host => (bind.source.as_path(), unmapped),
        Owners::Sandbox => (bind.source.as_path(), shared),
    });
    layers.chain(binds)
}

/// Copies the mounts that the sandbox stands on, read-only.
fn hand_over(
    spec: &Spec,
    weakened: &Weakened,
    namespace: Option<BorrowedFd<'_>>,
) -> Result<Vec<OwnedFd>, Failure> {
    let shared = Attributes {
        read_only: weakened.keeps(Defence::ReadOnlyLower),
        no_suid: weakened.keeps(Defence::NoSuid),
        no_dev: weakened.keeps(Defence::NoDev),
        idmap: namespace,
        ..Attributes::default()
    };
    let mut trees = Vec::new();
    for (path, attributes) in foundations(spec, shared) {
        let what = format!("open the layer {}", path.display());
        let tree = mounts::detached(path, Reach::One).doing(what)?;
        mounts::prepare(tree.as_fd(), attributes)?;
        trees.push(tree);
    }
    trees.extend(mounts::data::open(&spec.data)?);
    let disk = match &spec.disk {
        Disk::Memory => None,
        Disk::Directory { path, .. } => {
            for name in ["upper", "work"] {
                fs::create_dir_all(path.join(name)).doing("make the disk's directories")?;
            }
            Some(mounts::detached(path, Reach::One).doing("open the disk")?)
        }
        // Its directories were made with it.
        Disk::Device(device) => Some(mounts::device_mount(device).doing("mount the disk")?),
    };
    if let Some(tree) = disk {
        let own = Attributes { read_only: false, ..shared };
        mounts::prepare(tree.as_fd(), own)?;
        trees.push(tree);
    }
    Ok(trees)
}

#[cfg(test)]
mod tests {
    use belljar_domain::{Bind, RootFs};

    use super::*;

    #[test]
    fn files_of_the_host_do_not_become_the_sandboxs_own() {
        let binds = vec![Bind::of_host("/usr", "/usr"), Bind::of_sandboxes("/made", "/made")];
        let spec = Spec::new(Tier::Jail, RootFs { layers: vec!["/layer".into()], binds });
        let namespace = fs::File::open("/proc/self/ns/user").unwrap();
        let shared = Attributes { idmap: Some(namespace.as_fd()), ..Attributes::default() };
        let mapped: Vec<_> = foundations(&spec, shared)
            .map(|(path, attributes)| (path.to_owned(), attributes.idmap.is_some()))
            .collect();
        let want = [("/layer", true), ("/usr", false), ("/made", true)];
        let want = want.map(|(path, is_mapped)| (std::path::PathBuf::from(path), is_mapped));
        assert_eq!(mapped, want);
    }
}

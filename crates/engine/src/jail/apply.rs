//! Runs the steps of a plan in the new process, and ends in the guest.
//!
//! The spawner has one thread, so the child may allocate. Until `RunGuest` it
//! still has the spawner's rights inside its new namespaces; nothing that code
//! could have written is read here.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use belljar_confine::domain::{self, Rules};
use belljar_confine::rights;
use belljar_domain::{Disk, Spec};
use belljar_sys::enter::owned_by_both;
use belljar_sys::mount::{Attributes, Propagation, Reach};
use belljar_sys::seccomp::Instruction;
use belljar_sys::{caps, exec, fd, identity, keyring, net, process, seccomp, signal};
use rustix::fs::{Mode, OFlags};

use super::mounts::{self, container, data};
use super::{Attempt, Failure};
use crate::archive;
use crate::clocks;
use crate::microvm;
use crate::plan::{GuestRights, OOM_SCORE, Plan, Step};
use crate::wire::{self, FromChild, ToChild};

/// What the child was born with.
pub(crate) struct Birth<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) plan: &'a Plan,
    /// To the parent.
    pub(crate) sync: &'a OwnedFd,
    /// The guest's end of the stream to the host.
    pub(crate) stream: &'a OwnedFd,
    pub(crate) program: Program<'a>,
    pub(crate) filter: &'a [Instruction],
    /// An empty directory to mount over.
    pub(crate) base: &'a Path,
    pub(crate) devices: Option<&'a Path>,
    /// Host uid that inner 0 is mapped to, for tiers without a user namespace.
    pub(crate) first_uid: u32,
    pub(crate) privileged: bool,
    /// The working directory, in tiers without a root of their own.
    pub(crate) work: Option<&'a Path>,
    /// Files to begin with.
    pub(crate) archive: Option<&'a OwnedFd>,
    /// True if its guest has no pid namespace, whose end would be that of all calls.
    pub(crate) ends_calls: bool,
}

/// What the child becomes.
#[derive(Clone, Copy)]
pub(crate) enum Program<'a> {
    /// A sandbox's guest, from a sealed file in memory.
    Guest(&'a OwnedFd),
    Zygote(&'a Interpreter),
    /// A container runtime of the host, which makes the sandbox and ends.
    Runtime(&'a Launch),
    /// A machine monitor of the host.
    Monitor(&'a microvm::Launch),
}

/// How a container runtime is started: with these arguments and nothing in its
/// environment.
pub(crate) struct Launch {
    pub(crate) argv: Vec<CString>,
    /// Where it says why it cannot; the container inherits this.
    pub(crate) complaints: OwnedFd,
}

/// An interpreter of the template, to be forked from.
pub(crate) struct Interpreter {
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    /// The library that forks, a sealed file in memory.
    pub(crate) library: OwnedFd,
    /// Where it says why it cannot start.
    pub(crate) complaints: OwnedFd,
}

/// What steps leave for later steps.
#[derive(Default)]
struct Hands {
    /// `tasks` files of version 1 groups.
    tasks: Vec<OwnedFd>,
    layers: Vec<OwnedFd>,
    binds: Vec<OwnedFd>,
    /// Directories of datasets.
    data: Vec<OwnedFd>,
    disk: Option<OwnedFd>,
    scratch: Option<OwnedFd>,
}

/// Builds the sandbox around this process and becomes its guest.
pub(crate) fn become_guest(birth: &Birth<'_>) -> ! {
    let mut hands = Hands::default();
    for step in &birth.plan.steps {
        if let Err(failure) = run(step, birth, &mut hands) {
            // The parent also learns of it by the end of the socket.
            let _ = wire::send(birth.sync, &FromChild::Failed(failure), &[]);
            process::exit_now(1);
        }
    }
    process::exit_now(1)
}

fn run(step: &Step, birth: &Birth<'_>, hands: &mut Hands) -> Result<(), Failure> {
    match step {
        Step::JoinGroups => join_groups(&hands.tasks),
        Step::OomScore => {
            fs::write("/proc/self/oom_score_adj", OOM_SCORE).doing("set the OOM score")
        }
        Step::CgroupNamespace => process::unshare_cgroups().doing("hide the host's cgroups"),
        Step::AwaitParent => await_parent(birth, hands),
        Step::BecomeSetupRoot => {
            identity::clear_groups().doing("drop groups")?;
            identity::become_user(0, 0).doing("become the sandbox's root")?;
            reachable()
        }
        Step::OwnClocks => {
            // Kernels without time namespaces show the host's uptime; nothing else.
            let _ = clocks::begin_and_enter();
            Ok(())
        }
        Step::PrivateMounts => mounts::propagate(Propagation::Private),
        Step::ForbidUserNamespaces => {
            fs::write("/proc/sys/user/max_user_namespaces", "0").doing("forbid user namespaces")
        }
        Step::LimitInotify => {
            // Counted for each user namespace and for its owner, who is the same
            // for all: without this, one sandbox could take everybody's share.
            fs::write("/proc/sys/user/max_inotify_instances", "32")
                .and_then(|()| fs::write("/proc/sys/user/max_inotify_watches", "16384"))
                .doing("limit inotify")
        }
        Step::DisableIpv6 => {
            fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").doing("disable IPv6")
        }
        Step::LoopbackUp => net::loopback_up().doing("bring up the loopback"),
        Step::Scratch { bytes, inodes } => {
            hands.scratch = Some(mounts::scratch(birth.base, *bytes, *inodes)?);
            Ok(())
        }
        Step::Unpack => match birth.archive {
            Some(archive) => {
                let inside = birth.plan.namespaces.contains(process::Namespaces::USER);
                let first = if inside { 0 } else { birth.first_uid };
                archive::unpack_descriptor(archive, first).doing("set up the files")
            }
            None => Err(Failure::new("find the files", &io::ErrorKind::NotFound.into())),
        },
        Step::FillDisk => match birth.program {
            Program::Monitor(microvm::Launch { disk, begins_as, .. }) => {
                microvm::disk::copy(begins_as, disk).doing("fill the machine's disk")
            }
            _ => Err(Failure::new("find the machine's disk", &io::ErrorKind::NotFound.into())),
        },
        Step::UpperDirectory(_) => match &hands.disk {
            Some(disk) => mounts::disk(disk.as_fd()),
            None => Err(Failure::new("find the disk", &io::ErrorKind::NotFound.into())),
        },
        Step::Layers { .. } => Ok(()),
        Step::Overlay { neutral } => {
            let on_disk = hands.disk.is_some();
            let mount = || mounts::overlay(&hands.layers, on_disk, *neutral);
            if on_disk && !birth.plan.namespaces.contains(process::Namespaces::USER) {
                // The disk knows the sandbox's ids alone, and an overlay does its own
                // bookkeeping there as whoever mounted it.
                owned_by_both(birth.first_uid, mount).doing("mount as the sandbox's root")?
            } else {
                mount()
            }
        }
        Step::Bind { target, index } => mounts::bind(hands.binds[*index].as_fd(), target),
        Step::Data { .. } => {
            data::gather(&hands.data, &birth.spec.data)?;
            // Without a user namespace yet, the sandbox's root is somebody else.
            let inside = birth.plan.namespaces.contains(process::Namespaces::USER);
            data::show(if inside { None } else { Some(birth.first_uid) })
        }
        Step::OwnPlaces => mounts::own_places(),
        Step::Proc { view, read_only } => {
            mounts::procfs::mount(*view, *read_only, &birth.spec.limits)
        }
        Step::Devices { minimal } => match birth.program {
            Program::Monitor(microvm::Launch { device: Some(device), .. }) => {
                mounts::devices_with(device.as_fd(), microvm::KVM)
            }
            _ => mounts::devices(*minimal, birth.devices),
        },
        Step::Terminals => mounts::terminals(),
        Step::SharedMemory => mounts::shared_memory(),
        Step::EnterRoot => mounts::enter_root(),
        Step::OwnScratch => container::own_scratch(birth.first_uid),
        Step::BindSource { index } => container::bind_source(hands.binds[*index].as_fd(), *index),
        Step::SharedMemorySource => container::shared_memory_source(),
        Step::TemporarySource => container::temporary_source(),
        Step::Hostname => rustix::system::sethostname(b"sandbox").doing("set the host name"),
        Step::NewKeyring => keyring::join_new_session().doing("join a new keyring"),
        Step::Capabilities { guest } => capabilities(*guest),
        Step::BecomeGuest { uid } => become_uid(*uid, birth),
        Step::NoNewPrivs => caps::set_no_new_privs().doing("forbid new privileges"),
        Step::Landlock { abi, device_free, writable } => {
            let (abi, device_free, writable) = (*abi, *device_free, *writable);
            domain::enter(Rules { abi, device_free, writable, apart: true }, birth.work)
        }
        Step::Seccomp => seccomp::install(birth.filter).doing("install the guest's filter"),
        Step::Descriptors { closed } => descriptors(birth, hands, *closed),
        Step::RunGuest => run_program(birth),
    }
}

fn join_groups(tasks: &[OwnedFd]) -> Result<(), Failure> {
    for file in tasks {
        rustix::io::write(file, b"0").doing("join a cgroup")?;
    }
    Ok(())
}

fn await_parent(birth: &Birth<'_>, hands: &mut Hands) -> Result<(), Failure> {
    let (ToChild::Go { tasks, layers, binds, data, disk }, mut descriptors) =
        wire::receive(birth.sync).doing("wait for the parent")?;
    if descriptors.len() < tasks {
        return Err(Failure::new("receive the cgroups", &io::ErrorKind::InvalidData.into()));
    }
    hands.tasks = descriptors.drain(..tasks).collect();
    if birth.plan.namespaces == process::Namespaces::NONE {
        return Ok(());
    }
    if descriptors.is_empty() {
        // Without rights on the host the child prepares its own layers.
        return own_layers(birth.spec, hands);
    }
    if descriptors.len() != layers + binds + data + usize::from(disk) {
        return Err(Failure::new("receive the layers", &io::ErrorKind::InvalidData.into()));
    }
    hands.layers = descriptors.drain(..layers).collect();
    hands.binds = descriptors.drain(..binds).collect();
    hands.data = descriptors.drain(..data).collect();
    hands.disk = descriptors.pop();
    Ok(())
}

fn own_layers(spec: &Spec, hands: &mut Hands) -> Result<(), Failure> {
    let attributes =
        Attributes { read_only: true, no_suid: true, no_dev: true, ..Attributes::default() };
    let open = |path: &Path| {
        let what = format!("open the layer {}", path.display());
        let tree = mounts::detached(path, Reach::One).doing(what)?;
        mounts::prepare(tree.as_fd(), attributes)?;
        Ok(tree)
    };
    hands.layers = spec.root.layers.iter().map(|path| open(path)).collect::<Result<_, _>>()?;
    hands.binds =
        spec.root.binds.iter().map(|bind| open(&bind.source)).collect::<Result<_, _>>()?;
    hands.data = data::open(&spec.data)?;
    hands.disk = match &spec.disk {
        Disk::Memory => None,
        Disk::Directory { path, .. } => {
            Some(mounts::detached(path, Reach::One).doing("open the disk")?)
        }
        // Only root mounts a device.
        Disk::Device(_) => {
            return Err(Failure::new("mount the disk", &io::ErrorKind::PermissionDenied.into()));
        }
    };
    Ok(())
}

/// The capabilities that the guest is executed with.
fn kept(guest: GuestRights) -> caps::Set {
    match guest {
        GuestRights::None => caps::Set::EMPTY,
        GuestRights::StartCalls => rights::GUEST,
        GuestRights::GrantToRoot => rights::GRANTING,
    }
}

fn capabilities(guest: GuestRights) -> Result<(), Failure> {
    let keep = kept(guest);
    // Not every process may: without capabilities there is nothing to drop.
    if caps::effective().doing("read capabilities")? == caps::Set::EMPTY {
        return caps::clear_ambient().doing("clear ambient capabilities");
    }
    let setup = keep.and(caps::Set::SETPCAP).and(caps::Set::SETUID).and(caps::Set::SETGID);
    // In this order: nothing becomes inheritable that the bounding set lacks.
    caps::set(setup, keep).doing("reduce capabilities")?;
    if guest == GuestRights::GrantToRoot {
        // Root of a call gets by its exec what both this set and its own have. The guest narrows
        // it further before it starts anything.
        caps::limit_bounding(rights::ROOT).doing("reduce the bounding set")?;
        caps::clear_ambient().doing("clear ambient capabilities")?;
        // The change to the guest's user would take them all.
        return caps::keep_over_setuid().doing("keep capabilities");
    }
    caps::drop_bounding().doing("empty the bounding set")?;
    caps::clear_ambient().doing("clear ambient capabilities")?;
    caps::raise_ambient(keep).doing("keep the guest's capabilities")?;
    caps::lock_securebits().doing("lock the secure bits")
}

fn become_uid(uid: u32, birth: &Birth<'_>) -> Result<(), Failure> {
    let has_namespace = birth.plan.namespaces.contains(process::Namespaces::USER);
    let id = if has_namespace { uid } else { birth.first_uid + uid };
    let guest = birth.plan.steps.iter().find_map(|step| match step {
        Step::Capabilities { guest } => Some(*guest),
        _ => None,
    });
    let guest = guest.unwrap_or(GuestRights::None);
    if birth.privileged {
        if !has_namespace {
            identity::clear_groups().doing("drop groups")?;
        }
        identity::become_user(id, id).doing("become the guest's user")?;
    }
    let keep = kept(guest);
    caps::set(keep, keep).doing("drop capabilities")?;
    if guest == GuestRights::GrantToRoot {
        caps::raise_ambient(keep).doing("keep the guest's capabilities")?;
    }
    reachable()
}

/// Lets the owner of the sandbox follow this process into its namespaces, which
/// a change of user forbids. The guest, once it runs, closes this for itself.
fn reachable() -> Result<(), Failure> {
    process::set_dumpable(true).doing("stay reachable for the owner")
}

fn descriptors(birth: &Birth<'_>, hands: &mut Hands, closed: bool) -> Result<(), Failure> {
    let scratch = hands.scratch.take();
    let fds: Vec<_> = scratch.iter().map(AsFd::as_fd).collect();
    wire::send(birth.sync, &FromChild::Built, &fds).doing("notify the parent")?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .doing("open /dev/null")?;
    for number in 0..=2 {
        fd::place_at(null.as_fd(), number).doing("close the standard streams")?;
    }
    if let Program::Zygote(interpreter) = birth.program {
        fd::place_at(interpreter.complaints.as_fd(), 2).doing("place stderr")?;
    }
    if let Program::Runtime(launch) = birth.program {
        // The container's own standard streams: a runtime hands on these and no
        // others.
        fd::place_at(launch.complaints.as_fd(), 2).doing("place stderr")?;
        fd::place_at(birth.stream.as_fd(), 0).doing("place the stream")?;
        return fd::close_on_exec_from(3).doing("mark descriptors");
    }
    if let Program::Monitor(monitor) = birth.program {
        fd::place_at(monitor.complaints.as_fd(), 2).doing("place stderr")?;
    }
    // Everything else ends at the exec; the stream is placed after, because a
    // descriptor that is already at its number keeps its flag.
    if closed {
        fd::close_on_exec_from(3).doing("mark descriptors")?;
    }
    // Both numbers are taken in the spawner, so that neither can be the other.
    if let Program::Zygote(interpreter) = birth.program {
        fd::place_at(interpreter.library.as_fd(), LIBRARY).doing("place the library")?;
    }
    if let Program::Monitor(monitor) = birth.program {
        for inherited in &monitor.inherits {
            let stays = fd::place_at(inherited.as_fd(), inherited.as_raw_fd());
            stays.doing("pass on a descriptor")?;
        }
    }
    fd::place_at(birth.stream.as_fd(), STREAM).doing("place the stream")
}

/// Where the guest, or a zygote, expects its stream.
pub(crate) const STREAM: i32 = 3;
/// Where a zygote finds the library that forks.
pub(crate) const LIBRARY: i32 = 4;

fn run_program(birth: &Birth<'_>) -> Result<(), Failure> {
    match birth.program {
        Program::Guest(guest) => {
            let argv = guest_arguments(birth);
            Err(exec::exec_descriptor(guest.as_fd(), &argv, &[])).doing("run the guest")
        }
        Program::Zygote(Interpreter { argv, env, .. }) => {
            // The guest does this itself.
            signal::reset().doing("reset signals")?;
            Err(exec::exec_path(&argv[0], argv, env)).doing("run the interpreter")
        }
        Program::Monitor(microvm::Launch { argv, .. }) => {
            signal::reset().doing("reset signals")?;
            // What the guest does itself where there is no monitor.
            process::die_with_parent().doing("die with the spawner")?;
            Err(exec::exec_path(&argv[0], argv, &[])).doing("run the machine monitor")
        }
        Program::Runtime(Launch { argv, .. }) => {
            signal::reset().doing("reset signals")?;
            rustix::process::chdir("/").doing("enter the root directory")?;
            Err(exec::exec_path(&argv[0], argv, &[])).doing("run the container runtime")
        }
    }
}

/// Tells a guest without a pid namespace to end its calls itself, and whether a signal to all
/// reaches nothing but them.
fn guest_arguments(birth: &Birth<'_>) -> Vec<CString> {
    let mut argv = vec![CString::from(c"belljar-guest")];
    if birth.ends_calls {
        argv.push(c"process".into());
        if birth.plan.keeps_signals_inside() {
            argv.push(c"apart".into());
        }
    }
    argv
}

/// Gives the spawner a mount namespace of its own, with the `/dev` that all its
/// sandboxes share at `dir`. Mounts that the host makes later still arrive.
pub(crate) fn prepare_devices(dir: &Path) -> Result<(), Failure> {
    process::unshare_mounts().doing("leave the host's mount namespace")?;
    mounts::propagate(Propagation::Slave)?;
    mounts::shared_devices(dir)
}

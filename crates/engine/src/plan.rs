//! Turns a [`Spec`] into a [`Plan`]: the ordered steps that build a sandbox.
//!
//! Planning is pure: no files, no system calls. Every rule about ordering is
//! therefore tested here, without root. [`crate::jail::apply`] runs the steps in
//! the new process.
//!
//! Invariants: nothing follows `Seccomp` but closing descriptors and running
//! the guest; nothing is mounted after `EnterRoot`; identity is dropped before
//! `Landlock`, because Landlock needs no rights and everything before it does.

use std::fmt;
use std::path::PathBuf;

use belljar_confine::domain::Writable;
use belljar_domain::spec::Runtime;
use belljar_domain::{Disk, SecurityProfile, Spec, Tier};
use belljar_sys::process::Namespaces;

use crate::defence::{Defence, Weakened};

/// One thing that the new process does to itself, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Join the version 1 groups.
    JoinGroups,
    /// When memory runs out, the kernel takes a sandbox before the host's own.
    OomScore,
    /// A cgroup namespace, once every group is joined: its roots are the groups
    /// that the process is in when it is made.
    CgroupNamespace,
    /// Wait until the parent has written the id maps and handed over layers.
    AwaitParent,
    /// Become the root of the new user namespace.
    BecomeSetupRoot,
    /// Clocks that begin with the sandbox. Root's spawner has them for all sandboxes; only a
    /// process with rights in its own user namespace can have them otherwise.
    OwnClocks,
    PrivateMounts,
    ForbidUserNamespaces,
    LimitInotify,
    DisableIpv6,
    LoopbackUp,
    /// The writable layer: one tmpfs for files, devices and shared memory.
    Scratch {
        bytes: Option<u64>,
        inodes: Option<u64>,
    },
    /// Lays out the files of another sandbox.
    Unpack,
    /// Writes what a machine's disk begins as: here, where it is charged to the
    /// sandbox.
    FillDisk,
    /// The writable layer is in a directory or on a device; the scratch holds the rest.
    UpperDirectory(PathBuf),
    Layers {
        count: usize,
    },
    Overlay {
        neutral: bool,
    },
    Bind {
        target: PathBuf,
        index: usize,
    },
    /// Show datasets of the host in their folder.
    Data {
        places: usize,
    },
    /// A home and temporary directories of the scratch's own, where ids cannot be mapped and
    /// those of the base belong to a user whom the sandbox does not have: an overlay cannot
    /// copy them up.
    OwnPlaces,
    Proc {
        view: ProcView,
        read_only: bool,
    },
    Devices {
        minimal: bool,
    },
    Terminals,
    SharedMemory,
    EnterRoot,
    /// Give the scratch to the root of a user namespace that is yet to be made.
    OwnScratch,
    /// Leave a bind where a runtime finds it, and shared memory and `/tmp`.
    BindSource {
        index: usize,
    },
    SharedMemorySource,
    TemporarySource,
    Hostname,
    NewKeyring,
    /// Reduce the capabilities of this process, and of all that it ever executes.
    Capabilities {
        guest: GuestRights,
    },
    BecomeGuest {
        uid: u32,
    },
    NoNewPrivs,
    /// One domain for the guest and all calls, which may therefore meet.
    Landlock {
        abi: u32,
        device_free: bool,
        writable: Writable,
    },
    Seccomp,
    Descriptors {
        closed: bool,
    },
    RunGuest,
}

/// The capabilities that the guest keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestRights {
    None,
    /// Those with which it starts calls as other users.
    StartCalls,
    /// Besides, those that it gives to calls of root.
    GrantToRoot,
}

/// What a procfs shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcView {
    /// Everything; for controls of attacks.
    Whole,
    /// The user's own processes and nothing else.
    Processes,
    /// The user's own processes, and the sandbox's limits and use where the host's would be.
    Sandbox,
}

/// What the host can give: facts that planning depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    pub landlock_abi: u32,
    /// Whether the engine is root on the host, so that ids can be mapped.
    pub privileged: bool,
    pub ipv6: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub namespaces: Namespaces,
    pub steps: Vec<Step>,
}

/// The guest's uid inside; calls are 1000, or 0 in a template build.
pub const GUEST_UID: u32 = 999;
pub const USER_UID: u32 = 1000;
/// The OOM score adjustment of every process in a sandbox: the kernel ends code before daemons.
pub(crate) const OOM_SCORE: &str = "500";

/// Who the guest is, inside.
pub(crate) fn guest_uid(tier: Tier, weakened: &Weakened) -> u32 {
    let split = tier != Tier::Process && weakened.keeps(Defence::UidSplit);
    if split { GUEST_UID } else { USER_UID }
}

impl Plan {
    pub fn new(spec: &Spec, facts: Facts, weakened: &Weakened) -> Self {
        match spec.tier {
            Tier::Jail => Self::jail(spec, facts, weakened),
            Tier::Process => Self::process(spec, facts, weakened),
            Tier::Oci(runtime) => Self::oci(spec, runtime, weakened),
            Tier::Microvm => Self::microvm(spec, facts, weakened),
        }
    }

    /// The steps of what becomes an OCI runtime: the root filesystem is mounted
    /// where only the runtime and the container see it; the rest of the wall is
    /// what the bundle asks of the runtime. Nothing is attached below a name that
    /// the template chose: here that would be done with the host's rights. The
    /// runtime takes what is mounted in the root along.
    fn oci(spec: &Spec, runtime: Runtime, weakened: &Weakened) -> Self {
        let keeps = |defence| weakened.keeps(defence);
        let limits = &spec.limits;
        let mut steps = vec![Step::OomScore, Step::AwaitParent, Step::JoinGroups];
        steps.push(Step::Scratch {
            bytes: keeps(Defence::SizedDisk).then_some(limits.disk_bytes),
            inodes: keeps(Defence::SizedInodes).then_some(limits.inodes),
        });
        if let Some(place) = spec.disk.place() {
            steps.push(Step::UpperDirectory(place.to_owned()));
        }
        steps.push(Step::OwnScratch);
        steps.push(Step::Layers { count: spec.root.layers.len() });
        steps.push(Step::Overlay { neutral: keeps(Defence::NeutralNames) });
        steps.extend((0..spec.root.binds.len()).map(|index| Step::BindSource { index }));
        Self::show(&mut steps, spec);
        steps.push(Step::SharedMemorySource);
        if runtime == Runtime::Runsc {
            steps.push(Step::TemporarySource);
        }
        steps.push(Step::Descriptors { closed: true });
        steps.push(Step::RunGuest);
        Self { namespaces: Namespaces::MOUNT, steps }
    }

    /// The steps of what becomes a virtual machine monitor: a jail around it, as
    /// narrow as that of code. It has no user but one, no right, no terminal and
    /// no network, not even one of its own.
    fn microvm(spec: &Spec, facts: Facts, weakened: &Weakened) -> Self {
        let keeps = |defence| weakened.keeps(defence);
        let namespaces = Namespaces::USER
            .and(Namespaces::MOUNT)
            .and(Namespaces::PID)
            .and(Namespaces::UTS)
            .and(Namespaces::NET)
            .and(Namespaces::IPC);
        let limits = &spec.limits;
        let mut steps = vec![Step::PrivateMounts, Step::OomScore, Step::LimitInotify];
        steps.push(Step::ForbidUserNamespaces);
        steps.extend([Step::AwaitParent, Step::JoinGroups, Step::CgroupNamespace]);
        steps.extend([Step::BecomeSetupRoot, Step::FillDisk]);
        let (bytes, inodes) = (Some(limits.disk_bytes), Some(limits.inodes));
        steps.push(Step::Scratch { bytes, inodes });
        steps.push(Step::Layers { count: spec.root.layers.len() });
        steps.push(Step::Overlay { neutral: true });
        for (index, bind) in spec.root.binds.iter().enumerate() {
            steps.push(Step::Bind { target: bind.target.clone(), index });
        }
        let view = if keeps(Defence::ProcHiding) { ProcView::Processes } else { ProcView::Whole };
        steps.push(Step::Proc { view, read_only: false });
        steps.push(Step::Devices { minimal: true });
        steps.extend([Step::EnterRoot, Step::Hostname, Step::NewKeyring]);
        steps.push(Step::Capabilities { guest: GuestRights::None });
        steps.push(Step::BecomeGuest { uid: USER_UID });
        Self::confine(&mut steps, spec, facts, &Weakened::default());
        Self { namespaces, steps }
    }

    fn jail(spec: &Spec, facts: Facts, weakened: &Weakened) -> Self {
        let keeps = |defence| weakened.keeps(defence);
        let mut namespaces =
            Namespaces::USER.and(Namespaces::MOUNT).and(Namespaces::PID).and(Namespaces::UTS);
        if keeps(Defence::NetNamespace) {
            namespaces = namespaces.and(Namespaces::NET);
        }
        if keeps(Defence::IpcNamespace) {
            namespaces = namespaces.and(Namespaces::IPC);
        }
        let limits = &spec.limits;
        // What needs neither ids nor groups is done while the parent still
        // makes them.
        let mut steps = vec![Step::PrivateMounts, Step::OomScore, Step::LimitInotify];
        if keeps(Defence::UsernsLimit) {
            steps.push(Step::ForbidUserNamespaces);
        }
        if keeps(Defence::NetNamespace) {
            if facts.ipv6 {
                steps.push(Step::DisableIpv6);
            }
            steps.push(Step::LoopbackUp);
        }
        steps.push(Step::AwaitParent);
        steps.push(Step::JoinGroups);
        if keeps(Defence::NeutralNames) {
            steps.push(Step::CgroupNamespace);
        }
        steps.push(if facts.privileged { Step::BecomeSetupRoot } else { Step::OwnClocks });
        steps.push(Step::Scratch {
            bytes: keeps(Defence::SizedDisk).then_some(limits.disk_bytes),
            inodes: keeps(Defence::SizedInodes).then_some(limits.inodes),
        });
        if let Some(place) = spec.disk.place() {
            steps.push(Step::UpperDirectory(place.to_owned()));
        }
        steps.push(Step::Layers { count: spec.root.layers.len() });
        steps.push(Step::Overlay { neutral: keeps(Defence::NeutralNames) });
        for (index, bind) in spec.root.binds.iter().enumerate() {
            steps.push(Step::Bind { target: bind.target.clone(), index });
        }
        if !facts.privileged {
            steps.push(Step::OwnPlaces);
        }
        Self::show(&mut steps, spec);
        let view = if keeps(Defence::ProcHiding) { ProcView::Sandbox } else { ProcView::Whole };
        steps.push(Step::Proc { view, read_only: keeps(Defence::ReadOnlyProc) });
        steps.push(Step::Devices { minimal: keeps(Defence::MinimalDev) });
        steps.push(Step::Terminals);
        steps.push(Step::SharedMemory);
        steps.push(Step::EnterRoot);
        steps.push(Step::Hostname);
        if keeps(Defence::Keyring) {
            steps.push(Step::NewKeyring);
        }
        // Without root on the host there is one uid to be had, so the guest
        // shares it with the code and has no use for capabilities.
        let own_uid = facts.privileged && keeps(Defence::UidSplit);
        let guest = match spec.profile {
            _ if !facts.privileged => GuestRights::None,
            SecurityProfile::Strict => GuestRights::StartCalls,
            SecurityProfile::Full => GuestRights::GrantToRoot,
        };
        steps.push(Step::Capabilities { guest });
        let uid = if own_uid { GUEST_UID } else { USER_UID };
        steps.push(Step::BecomeGuest { uid });
        Self::confine(&mut steps, spec, facts, weakened);
        Self { namespaces, steps }
    }

    /// Returns true if signals of the guest and of its calls reach nothing else on the host.
    pub(crate) fn keeps_signals_inside(&self) -> bool {
        /// Since then Landlock bounds signals.
        const SCOPING_ABI: u32 = 6;
        let bounds =
            |step: &Step| matches!(step, Step::Landlock { abi, .. } if *abi >= SCOPING_ABI);
        self.steps.iter().any(bounds)
    }

    /// Starts with the files of another sandbox, which must be there before the
    /// overlay looks at them.
    pub(crate) fn unpacking(mut self) -> Self {
        let scratch = self.steps.iter().position(|step| matches!(step, Step::Scratch { .. }));
        if let Some(at) = scratch {
            self.steps.insert(at + 1, Step::Unpack);
        }
        self
    }

    /// The steps of a zygote: an interpreter in a root of its own, without
    /// network, rights or Landlock, whose rules for files would follow its
    /// children into roots that they do not fit. It keeps the host's user and
    /// pid namespaces, because only from there can its children enter those of
    /// sandboxes; `/proc` shows it nobody but itself. It keeps the cgroup
    /// namespace, too: where those are delegation boundaries (`nsdelegate`, as
    /// systemd mounts version 2), no child can be born outside of one.
    pub fn zygote(spec: &Spec) -> Self {
        let namespaces =
            Namespaces::MOUNT.and(Namespaces::NET).and(Namespaces::IPC).and(Namespaces::UTS);
        let limits = &spec.limits;
        let steps = vec![
            Step::PrivateMounts,
            Step::AwaitParent,
            Step::JoinGroups,
            Step::Scratch { bytes: Some(limits.disk_bytes), inodes: Some(limits.inodes) },
            Step::Layers { count: spec.root.layers.len() },
            Step::Overlay { neutral: true },
            Step::Proc { view: ProcView::Processes, read_only: false },
            Step::Devices { minimal: true },
            Step::SharedMemory,
            Step::EnterRoot,
            Step::Hostname,
            Step::NewKeyring,
            Step::Capabilities { guest: GuestRights::None },
            Step::BecomeGuest { uid: USER_UID },
            Step::NoNewPrivs,
            Step::Seccomp,
            Step::Descriptors { closed: true },
            Step::RunGuest,
        ];
        Self { namespaces, steps }
    }

    fn process(spec: &Spec, facts: Facts, weakened: &Weakened) -> Self {
        let mut steps = vec![Step::OomScore, Step::AwaitParent, Step::JoinGroups];
        steps.push(Step::NewKeyring);
        steps.push(Step::Capabilities { guest: GuestRights::None });
        if facts.privileged {
            steps.push(Step::BecomeGuest { uid: USER_UID });
        }
        Self::confine(&mut steps, spec, facts, weakened);
        Self { namespaces: Namespaces::NONE, steps }
    }

    /// Datasets go into the root of every tier that can have them: their folder is
    /// one of ours, and no link on the way there is followed.
    fn show(steps: &mut Vec<Step>, spec: &Spec) {
        if !spec.data.is_empty() {
            steps.push(Step::Data { places: spec.data.places().count() });
        }
    }

    fn confine(steps: &mut Vec<Step>, spec: &Spec, facts: Facts, weakened: &Weakened) {
        if weakened.keeps(Defence::NoNewPrivs) {
            steps.push(Step::NoNewPrivs);
        }
        if facts.landlock_abi > 0 && weakened.keeps(Defence::Landlock) {
            let device_free = weakened.keeps(Defence::NoDev);
            let writable = match (spec.tier, &spec.disk) {
                (Tier::Process, _) => Writable::Work,
                (_, Disk::Memory) => Writable::Usual,
                (_, Disk::Directory { .. } | Disk::Device(_)) => Writable::Everywhere,
            };
            steps.push(Step::Landlock { abi: facts.landlock_abi, device_free, writable });
        }
        if weakened.keeps(Defence::Seccomp) {
            steps.push(Step::Seccomp);
        }
        steps.push(Step::Descriptors { closed: weakened.keeps(Defence::ClosedDescriptors) });
        steps.push(Step::RunGuest);
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Namespaces::USER, "user"),
            (Namespaces::MOUNT, "mount"),
            (Namespaces::PID, "pid"),
            (Namespaces::NET, "net"),
            (Namespaces::IPC, "ipc"),
            (Namespaces::UTS, "uts"),
        ];
        write!(f, "namespaces")?;
        for (namespace, name) in names {
            if self.namespaces.contains(namespace) {
                write!(f, " {name}")?;
            }
        }
        for step in &self.steps {
            write!(f, "\n{step:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

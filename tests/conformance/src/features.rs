//! What a case may need, and which tier has it.

use std::fmt;
use std::path::Path;

use belljar_domain::{RootFs, Runtime, Tier};

use crate::fixture::Fixture;

/// Lists the features with the words of the table for each.
macro_rules! features {
    ($($(#[$doc:meta])* $name:ident: $title:literal),+ $(,)?) => {
        /// Something that a case needs and that not every tier, host or template has.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Feature {
            $($(#[$doc])* $name),+
        }

        impl Feature {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),+];

            /// As the table calls it.
            pub(crate) fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title),+
                }
            }
        }
    };
}

features! {
    /// The same paths everywhere.
    OwnRoot: "a root filesystem of its own",
    /// Calls may be uid 0 of the sandbox.
    RootUser: "calls as root of the sandbox",
    /// Sees and reaps its own processes and no others.
    OwnProcesses: "processes of its own, unseen by others",
    /// Calls can signal what earlier calls left running.
    CallsMeet: "calls can end what earlier calls left",
    /// Calls see it too, with `ps`.
    CallsSeeEachOther: "calls see what earlier calls left",
    /// A loopback of its own.
    OwnNetwork: "a loopback of its own; ports can be reached from outside",
    /// System V and POSIX IPC of its own.
    OwnIpc: "System V IPC of its own",
    OwnAbstractSockets: "abstract sockets of its own",
    /// `/proc/meminfo` and its kin tell the sandbox's limits and use.
    OwnFigures: "`/proc/meminfo`, `cpuinfo`, `stat`, `uptime` and `loadavg` of its own",
    /// A bound on the bytes of all files together.
    SizedDisk: "a bound on the bytes of its files",
    SizedInodes: "a bound on the number of its files",
    /// Files that take extended attributes of users.
    UserXattrs: "extended attributes of files",
    /// A bound on the memory of all processes together, and its peak.
    MemoryLimit: "a bound on memory, and its peak told for each call",
    /// Files are charged as memory.
    FilesAreMemory: "files count as memory",
    PidsLimit: "a bound on processes",
    /// A share of the CPU, and CPU time counted over all processes of a call.
    CpuLimit: "a share of the CPU, and CPU time counted for each call",
    /// Whatever a call started ends with it, daemons too.
    WholeCalls: "a call's daemons end with it",
    Pause: "pause and resume in place",
    /// A forbidden system call ends the call, by that name.
    CallFilter: "a filter of system calls around each call",
    /// A hole takes no room, and that is told.
    Sparse: "holes in files are told apart",
    /// The guest is a process that the host can look at.
    GuestProcess: "the host sees the processes inside",
    /// The test carries machine code for this.
    X86: "x86-64",
    Python: "Python in the template",
    JavaScript: "JavaScript in the template",
    /// Interpreters that keep state, in a template of ours.
    Contexts: "contexts that keep state",
    /// Interpreters of other languages than Python.
    Languages: "contexts in six languages",
    /// The template with a warm interpreter.
    Warm: "contexts forked from a warm interpreter",
    /// Files of the host, mounted where datasets are.
    ShowsFiles: "datasets of the host shown read-only, and not copied",
    /// Files of a sandbox, taken out for others to begin with.
    CopiesFiles: "copies of a sandbox's files",
    /// Shared memory and FIFOs among them.
    CopiesSpecial: "copies of shared memory and FIFOs with them",
    /// A fork has what interpreters held in memory.
    CopiesMemory: "forks that keep what interpreters hold in memory",
    /// A whole sandbox on disk, memory included.
    Saves: "suspend to disk and resume, memory included",
    /// A fork cannot be taken for its parent by the kernel's own name for a boot.
    FreshBootId: "a fork has a boot id of its own",
    Compiler: "a C compiler in the template",
    Git: "git in the template",
}

/// Why a feature is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// The tier is like that, everywhere.
    Tier(&'static str),
    /// This host, or the template, is like that.
    Here(&'static str),
}

impl Lack {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Tier(why) | Self::Here(why) => why,
        }
    }
}

type Has = Result<(), Lack>;

fn when(has: bool, lack: Lack) -> Has {
    if has { Ok(()) } else { Err(lack) }
}

impl Fixture {
    /// The expectation table. A new tier adds its column here and nothing else.
    pub(crate) fn has(&self, feature: Feature) -> Has {
        let tier = self.tier;
        let own = |why| when(tier != Tier::Process, Lack::Tier(why));
        // Where the kernel is not the host's, the guest counts in groups of its own.
        let groups = || {
            let counted = !tier.shares_kernel() || self.node.engine().has_groups();
            when(counted, Lack::Here("cgroups cannot be written on this host"))
        };
        match feature {
            Feature::OwnRoot => own("uses the host's files, by Landlock"),
            Feature::RootUser if !self.node.engine().facts().privileged => {
                Err(Lack::Here("the engine is not root, so there is one user id"))
            }
            Feature::RootUser => own("has one user id and no namespace for it"),
            Feature::OwnProcesses => own("has no pid namespace"),
            Feature::CallsMeet => own("Landlock keeps calls off the guest, and so off each other"),
            Feature::CallsSeeEachOther => own("procfs hides what Landlock lets no call trace"),
            Feature::OwnNetwork | Feature::OwnAbstractSockets => {
                own("has no network namespace; the filter allows no socket but a connected pair")
            }
            Feature::OwnIpc => own("has no IPC namespace"),
            Feature::OwnFigures => match tier {
                Tier::Oci(_) if tier.shares_kernel() => {
                    Err(Lack::Tier("its procfs has processes and nothing else"))
                }
                Tier::Oci(_) => Err(Lack::Tier("gVisor tells the host's memory and processors")),
                _ => own("its procfs is the host's"),
            },
            Feature::SizedDisk | Feature::SizedInodes => own("writes to a plain directory"),
            Feature::FilesAreMemory if tier == Tier::Microvm => {
                Err(Lack::Tier("its files are on a disk of their own"))
            }
            Feature::FilesAreMemory if tier == Tier::GVISOR => {
                Err(Lack::Tier("they are charged to the sandbox, beside its processes' memory"))
            }
            Feature::FilesAreMemory => own("writes to a plain directory"),
            // Without cgroups the engine watches these.
            Feature::MemoryLimit | Feature::PidsLimit | Feature::CpuLimit => Ok(()),
            Feature::WholeCalls | Feature::Pause => groups(),
            Feature::UserXattrs => self.xattrs(),
            Feature::CallFilter => when(
                tier != Tier::GVISOR,
                Lack::Tier("a kernel in user space answers every system call itself"),
            ),
            Feature::Sparse => when(
                tier != Tier::GVISOR,
                Lack::Tier("its kernel tells the size of a file as what it takes"),
            ),
            Feature::GuestProcess => when(
                tier.shares_kernel(),
                Lack::Tier("they are those of a kernel of its own; the host sees one process"),
            ),
            Feature::X86 => {
                when(cfg!(target_arch = "x86_64"), Lack::Here("this machine is not x86-64"))
            }
            Feature::Python => self.language("python", "the template has no Python"),
            Feature::JavaScript => self.language("node", "the template has no Node.js"),
            Feature::Contexts | Feature::Languages if tier == Tier::Process => {
                Err(Lack::Tier("has no root of its own for a template"))
            }
            Feature::Contexts => {
                when(self.has_contexts(), Lack::Here("the warm template is not built"))
            }
            Feature::Languages => when(
                belljar_warmed::interpreters().is_ok(),
                Lack::Here("the template of all languages is not built"),
            ),
            Feature::Warm => self.warmth(),
            Feature::ShowsFiles => match tier {
                Tier::Process => Err(Lack::Tier("has no mounts of its own")),
                Tier::Microvm | Tier::Oci(Runtime::Runsc) => {
                    Err(Lack::Tier("its kernel does not have the host's mounts"))
                }
                _ => Ok(()),
            },
            Feature::CopiesFiles if tier == Tier::Microvm => {
                Err(Lack::Tier("they lie on a disk that only its own kernel reads"))
            }
            Feature::CopiesFiles => own("writes to a plain directory of the host"),
            Feature::CopiesSpecial => match tier {
                Tier::Oci(Runtime::Runsc) => {
                    Err(Lack::Tier("they are in its kernel's memory; a whole fork has them"))
                }
                _ => self.has(Feature::CopiesFiles),
            },
            Feature::CopiesMemory => match tier {
                Tier::Process => Err(Lack::Tier("writes to a plain directory of the host")),
                Tier::Oci(_) if tier.shares_kernel() => {
                    Err(Lack::Tier("its interpreters come from no zygote, so none fits another's"))
                }
                Tier::Jail => self.warmth(),
                _ => when(self.has_contexts(), Lack::Here("the warm template is not built")),
            },
            Feature::Saves => when(
                tier.can_be_saved(),
                Lack::Tier("its processes are the host kernel's, which puts none on disk"),
            ),
            Feature::FreshBootId => match tier {
                Tier::Oci(Runtime::Runsc) => {
                    Err(Lack::Tier("gVisor's kernel keeps the one of its parent"))
                }
                _ => self.has(Feature::Saves),
            },
            Feature::Compiler => self.program("/usr/bin/cc", "the template has no C compiler"),
            Feature::Git => self.program("/usr/bin/git", "the template has no git"),
        }
    }

    fn warmth(&self) -> Has {
        match self.tier {
            Tier::Jail if !self.node.engine().facts().privileged => {
                Err(Lack::Here("the engine is not root, which alone has zygotes"))
            }
            Tier::Jail => when(self.has_contexts(), Lack::Here("the warm template is not built")),
            Tier::Process => Err(Lack::Tier("has no root of its own for a template")),
            Tier::Oci(_) if self.tier.shares_kernel() => {
                Err(Lack::Tier("interpreters are executed: the runtime makes its namespaces"))
            }
            Tier::Oci(_) | Tier::Microvm => {
                Err(Lack::Tier("no process of the host can be forked into another kernel"))
            }
        }
    }

    fn xattrs(&self) -> Has {
        if self.tier == Tier::Microvm {
            return Ok(());
        }
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        when(version >= (6, 6), Lack::Here("this kernel's tmpfs has none"))
    }

    fn language(&self, name: &str, lack: &'static str) -> Has {
        when(self.template.languages.contains_key(name), Lack::Here(lack))
    }

    fn program(&self, path: &str, lack: &'static str) -> Has {
        when(is_in(&self.template.root, Path::new(path)), Lack::Here(lack))
    }
}

/// Whether a root filesystem has something at this absolute path.
fn is_in(root: &RootFs, path: &Path) -> bool {
    let bound = root.binds.iter().any(|bind| {
        let rest = path.strip_prefix(&bind.target);
        rest.is_ok_and(|rest| bind.source.join(rest).exists())
    });
    let below = path.strip_prefix("/").unwrap_or(path);
    bound || root.layers.iter().any(|layer| layer.join(below).symlink_metadata().is_ok())
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

//! What happens before the guest serves: where it is, and what it does to itself
//! there.
//!
//! | Started as | Where | Stream |
//! |---|---|---|
//! | `belljar-guest` | jail: everything is done already | descriptor 3 |
//! | `belljar-guest process [apart]` | process tier: the same, without a pid namespace | descriptor 3 |
//! | `belljar-guest oci [ABI]` | a container on the host's kernel | descriptor 0 |
//! | `belljar-guest gvisor` | a container on a kernel of its own | descriptor 0 |
//! | `/init` | a virtual machine, as its first process | a virtio port |

mod gvisor;
mod machine;
mod oci;
mod steps;

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use belljar_confine::domain::Writable;
use belljar_confine::{Attempt as _, Failure};
use belljar_sys::fd;

pub(crate) use machine::end as end_machine;

use crate::groups::Groups;
use crate::rights::Rights;

/// Where the guest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Jail,
    /// Its end has to be that of its calls, which no namespace does.
    Process {
        /// A signal to all reaches nothing but its calls.
        apart: bool,
    },
    Oci {
        /// 0: without Landlock.
        landlock_abi: u32,
        writable: Writable,
    },
    Gvisor,
    Machine,
}

/// What the guest serves with.
pub(crate) struct Booted {
    pub(crate) stream: OwnedFd,
    pub(crate) rights: Rights,
    /// Where the host's kernel cannot tell calls apart.
    pub(crate) groups: Option<Groups>,
    /// Whether this kernel is the sandbox's alone, to be given time and
    /// randomness when it comes back from disk.
    pub(crate) own_kernel: bool,
}

impl Stage {
    /// Reads the arguments; `None`: they make no sense.
    pub(crate) fn of(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let name = arguments.next().unwrap_or_default();
        if name == "/init" && std::process::id() == 1 {
            // What the kernel does not understand of its command line is here.
            return Some(Self::Machine);
        }
        let stage = match arguments.next() {
            None => Self::Jail,
            Some(word) if word == "oci" => {
                let abi = arguments.next().map(|abi| abi.to_str()?.parse().ok());
                let writable = match arguments.next() {
                    None => Writable::Usual,
                    Some(word) if word == "build" => Writable::Everywhere,
                    Some(_) => return None,
                };
                Self::Oci { landlock_abi: abi.unwrap_or(Some(0))?, writable }
            }
            Some(word) if word == "process" => {
                let apart = arguments.next();
                if apart.as_ref().is_some_and(|word| word != "apart") {
                    return None;
                }
                Self::Process { apart: apart.is_some() }
            }
            Some(word) if word == "gvisor" => Self::Gvisor,
            Some(_) => return None,
        };
        arguments.next().is_none().then_some(stage)
    }

    /// Does what is to be done there. Nothing of anyone's runs yet.
    pub(crate) fn boot(self) -> Result<Booted, Failure> {
        match self {
            Self::Jail | Self::Process { .. } => {
                const STREAM: i32 = 3;
                let stream = fd::inherited(STREAM).doing("find the stream")?;
                Booted::shared(stream)
            }
            Self::Oci { landlock_abi, writable } => oci::boot(landlock_abi, writable),
            Self::Gvisor => gvisor::boot(),
            Self::Machine => machine::boot(),
        }
    }

    /// Says why it did not come to serve: to a machine's console, or wherever
    /// the runtime of a container has its complaints go.
    pub(crate) fn complain(self, failure: &Failure) {
        if !matches!(self, Self::Jail | Self::Process { .. }) {
            let line = format!("belljar: cannot {} (error {})\n", failure.doing, failure.errno);
            let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
        }
    }
}

impl Booted {
    /// On the host's kernel, which counts for itself.
    fn shared(stream: OwnedFd) -> Result<Self, Failure> {
        let rights = Rights::of_files(Rights::JAIL).doing("reduce capabilities")?;
        Ok(Self { stream, rights, groups: None, own_kernel: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> Option<Stage> {
        Stage::of(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments_say_where_it_is() {
        assert_eq!(of(&["belljar-guest"]), Some(Stage::Jail));
        let oci = |landlock_abi, writable| Some(Stage::Oci { landlock_abi, writable });
        assert_eq!(of(&["x", "oci"]), oci(0, Writable::Usual));
        assert_eq!(of(&["x", "oci", "6"]), oci(6, Writable::Usual));
        assert_eq!(of(&["x", "oci", "6", "build"]), oci(6, Writable::Everywhere));
        assert_eq!(of(&["x", "gvisor"]), Some(Stage::Gvisor));
        assert_eq!(of(&["x", "process"]), Some(Stage::Process { apart: false }));
        assert_eq!(of(&["x", "process", "apart"]), Some(Stage::Process { apart: true }));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            &["x", "oci", "six"][..],
            &["x", "oci", "6", "all"],
            &["x", "gvisor", "1"],
            &["x", "jail"],
            &["x", "process", "together"],
            &["x", "process", "apart", "more"],
        ] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn nobody_but_the_first_process_is_an_init() {
        assert_eq!(of(&["/init"]), Some(Stage::Jail));
    }
}

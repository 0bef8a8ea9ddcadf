//! How calls are confined, prepared once for all of them.
//!
//! Landlock's rules for files are not here: the guest is in its sandbox's one
//! domain, and calls inherit it, so that they can see and signal each other.

use belljar_guest_proto::Profile;
use belljar_sys::seccomp::Instruction;

use crate::rights::Rights;

pub(crate) struct Confiner {
    pub(crate) profile: Profile,
    pub(crate) filter: Vec<Instruction>,
    /// How the guest acts on files as a call's user would.
    pub(crate) rights: Rights,
}

impl Confiner {
    pub(crate) fn new(profile: Profile, rights: Rights) -> Self {
        let filter = profile.seccomp.as_chunks::<{ Instruction::SIZE }>().0.iter();
        let filter = filter.map(|&bytes| Instruction::from_bytes(bytes)).collect();
        Self { profile, filter, rights }
    }
}

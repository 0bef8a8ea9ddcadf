//! Translates the engine's confinement for the guest.

use belljar_engine::Confinement;
use belljar_guest_proto::{InnerGroups, Profile};

pub(crate) fn profile(confinement: &Confinement) -> Profile {
    Profile {
        seccomp: confinement.seccomp.clone(),
        rlimits: confinement.rlimits.clone(),
        apart_abi: confinement.apart_abi,
        switch_user: confinement.switch_user,
        root_capabilities: confinement.root_capabilities,
        self_check: confinement.self_check,
        groups: confinement.inner.map(|(pids, memory_bytes)| InnerGroups { pids, memory_bytes }),
    }
}

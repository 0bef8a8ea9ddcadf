//! Translates the engine's confinement for the guest.

use std::os::unix::ffi::OsStrExt;

use belljar_guest_proto as proto;
use belljar_sandbox::{Access, Confinement};

pub(crate) fn profile(confinement: &Confinement) -> proto::Profile {
    let paths = confinement.paths.iter().map(|rule| proto::PathRule {
        path: rule.path.as_os_str().as_bytes().to_vec(),
        access: match rule.access {
            Access::Read => proto::Access::Read,
            Access::Write => proto::Access::Write,
            Access::Device => proto::Access::Device,
        },
        only_uid: rule.only_uid,
    });
    proto::Profile {
        seccomp: confinement.seccomp.clone(),
        landlock_abi: confinement.landlock_abi,
        paths: paths.collect(),
        no_tcp: confinement.no_tcp,
        rlimits: confinement.rlimits.clone(),
        switch_user: confinement.switch_user,
        self_check: confinement.self_check,
    }
}

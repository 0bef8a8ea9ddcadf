//! Which attacks, and which of their controls, can be staged on which tier.

use belljar_domain::{Runtime, Tier};
use belljar_node::Defence;

use crate::attack::Attack;

/// Whether the attack makes sense there, or why not.
pub(crate) fn attack(attack: &Attack, tier: Tier) -> Result<(), &'static str> {
    let only = |is: bool, why| if is { Ok(()) } else { Err(why) };
    match attack.class() {
        // The jail holds descriptors of the host's until a call begins, as they do.
        _ if attack.id == "OCI-02" && tier == Tier::Jail => Ok(()),
        "OCI" => only(matches!(tier, Tier::Oci(_)), "no container runtime makes this tier"),
        "VM" => only(tier == Tier::Microvm, "this tier is no machine of its own"),
        // Their guest is a program of the jail's; what hears it is the same on every tier.
        "AGT" if attack.id != "AGT-01" => {
            only(tier == Tier::Jail, "the hostile guest is one of the jail")
        }
        "AGT" if tier == Tier::Microvm => Err("VM-09 looks for the channel of a machine"),
        "NET" | "BLD" | "GW" => at_gateway(attack.id, tier),
        "ZYG" => only(tier == Tier::Jail, "interpreters of this tier come from no zygote"),
        _ if attack.id == "RES-23" => {
            only(tier == Tier::Jail, "interpreters of this tier come from no zygote")
        }
        _ if attack.id == "PROC-19" => {
            only(tier == Tier::Process, "a namespace ends its processes with its first one")
        }
        _ if tier == Tier::Process => on_the_host(attack),
        _ => Ok(()),
    }
}

/// The process tier has one filter and one ruleset, and no namespaces: what these two stop
/// is staged there.
fn on_the_host(attack: &Attack) -> Result<(), &'static str> {
    match attack.id {
        "KRN-18" | "SYS-03" | "SYS-04" | "SYS-05" | "SYS-07" | "SYS-15" => {
            Err("the process tier has the host's procfs, as any user of the host")
        }
        "KRN-19" | "KRN-20" | "SYS-08" | "SYS-09" => {
            Err("the process tier has no root that an image could bring files into, and no /dev")
        }
        "KRN-31" | "KRN-32" => Err("the process tier has one user, who is not root"),
        "SYS-06" | "SYS-14" => Err("the process tier has no namespaces"),
        id if id.starts_with("KRN") || id.starts_with("SYS") => Ok(()),
        _ => Err("the process tier promises far less"),
    }
}

/// The defences that are off in a control on the process tier, where others stand for
/// what namespaces do elsewhere.
pub(crate) fn on_the_host_without(
    attack: &Attack,
    set: &'static [Defence],
) -> Result<&'static [Defence], &'static str> {
    match attack.id {
        "SYS-10" => Ok(&[Defence::Seccomp, Defence::Landlock]),
        // No Landlock rules who sends to a socket with a path.
        "SYS-17" => Ok(&[Defence::Seccomp]),
        // Keys of root's are not another user's to find, with whatever keyring.
        "KRN-15" if set.contains(&Defence::Keyring) => Err("its user is not the host's root"),
        _ => Ok(set),
    }
}

/// The jail's gateway listens inside by itself; gVisor's has the guest pass
/// connections on. Every other tier is reached in one of these two ways.
fn at_gateway(id: &str, tier: Tier) -> Result<(), &'static str> {
    match tier {
        Tier::Jail => Ok(()),
        Tier::Oci(Runtime::Runsc) => match id {
            "NET-19" | "NET-26" | "GW-11" => {
                Err("the server makes its sandboxes itself, in the jail")
            }
            "GW-12" => Err("memory inside is gVisor's own, which the search does not see into"),
            _ => Ok(()),
        },
        // Around the gateway: the host's own network is there.
        Tier::Process if id == "NET-01" => Ok(()),
        Tier::Process => Err("the process tier has no network of its own"),
        Tier::Oci(_) | Tier::Microvm => Err("the gateway is as at the jail, or as at gVisor"),
    }
}

/// Whether the tier can be made without these defences.
pub(crate) fn control(defences: &[Defence], tier: Tier) -> Result<(), &'static str> {
    match tier {
        Tier::Process | Tier::Jail => Ok(()),
        Tier::Oci(_) if tier.shares_kernel() => {
            let fixed = [
                Defence::UsernsLimit,
                Defence::Capabilities,
                Defence::Keyring,
                Defence::NetNamespace,
                Defence::IpcNamespace,
                Defence::MinimalDev,
                Defence::UidSplit,
                Defence::ClosedDescriptors,
            ];
            let is_fixed = defences.iter().any(|defence| fixed.contains(defence));
            if is_fixed { Err("the runtime does it, and cannot be told not to") } else { Ok(()) }
        }
        Tier::Oci(_) | Tier::Microvm => {
            Err("what stops it is another kernel, which cannot be switched off")
        }
    }
}

/// Whether a success inside says nothing: it is against the sandbox's own kernel.
/// What is looked at then is the host, as after every run.
pub(crate) fn is_inside_only(attack: &Attack, tier: Tier) -> bool {
    !tier.shares_kernel() && attack.class() == "KRN"
}

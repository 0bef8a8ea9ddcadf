//! Which attacks, and which of their controls, can be staged on which tier.

use belljar_model::{Runtime, Tier};
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
        "NET" | "GW" => at_gateway(attack.id, tier),
        "ZYG" => only(tier == Tier::Jail, "interpreters of this tier come from no zygote"),
        _ if attack.id == "RES-23" => {
            only(tier == Tier::Jail, "interpreters of this tier come from no zygote")
        }
        _ => only(tier != Tier::Process, "the process tier promises far less"),
    }
}

/// The jail's gateway listens inside by itself; gVisor's has the guest pass
/// connections on. Every other tier is reached in one of these two ways.
fn at_gateway(id: &str, tier: Tier) -> Result<(), &'static str> {
    match tier {
        Tier::Jail => Ok(()),
        Tier::Oci(Runtime::Runsc) => match id {
            "NET-19" | "GW-11" => Err("the server makes its sandboxes itself, in the jail"),
            "GW-12" => Err("memory inside is gVisor's own, which the search does not see into"),
            _ => Ok(()),
        },
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

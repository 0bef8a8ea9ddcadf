//! Which attacks, and which of their controls, can be staged on which tier.

use belljar_model::Tier;
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
        "ZYG" => only(tier == Tier::Jail, "interpreters of this tier come from no zygote"),
        _ if attack.id == "RES-23" => {
            only(tier == Tier::Jail, "interpreters of this tier come from no zygote")
        }
        _ => only(tier != Tier::Process, "the process tier promises far less"),
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

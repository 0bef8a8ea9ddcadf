//! NET: the only way out, and everything that tries to be another one.
//!
//! Each act has a world of its own, with a real gateway process between its
//! servers and a sandbox. Where a policy is the defence, the control allows the
//! same act; where strictness is, the control says the same bytes to a lenient
//! server from a sandbox on the host's network.

mod answers;
mod apart;
mod carrying;
mod direct;
mod frames;
pub(crate) mod ingress;
mod inside;
mod names;
mod packages;
mod places;
mod requests;
mod tapes;
mod tunnels;

use std::sync::Arc;

use belljar_domain::network::Policy;
use belljar_node::{Defence, Sandbox};

use crate::attack::{Act, Attack, Control, Seen};
use crate::harness::say::{Said, Script};
use crate::harness::stage::Stage;
use crate::harness::world::World;

/// An act, and the same with what stops it out of the way.
macro_rules! both {
    ($id:literal, $act:path) => {
        Attack::new(
            $id,
            Act::Driven(|stage| Box::pin($act(stage, false))),
            Control::Own(|stage| Box::pin($act(stage, true))),
        )
    };
}
pub(crate) use both;

pub(crate) fn attacks() -> Vec<Attack> {
    vec![
        both!("NET-01", direct::sockets),
        both!("NET-02", names::exfiltration),
        both!("NET-03", places::metadata),
        both!("NET-04", places::spellings),
        both!("NET-05", names::rebinding),
        both!("NET-06", names::early_ends),
        both!("NET-07", names::lookalikes),
        both!("NET-08", tunnels::greetings),
        both!("NET-09", carrying::fronting),
        both!("NET-10", requests::redirects),
        both!("NET-11", requests::changes),
        both!("NET-12", requests::smuggling),
        both!("NET-13", requests::forged),
        both!("NET-14", direct::relay),
        both!("NET-15", requests::drop_box),
        both!("NET-16", places::ports),
        both!("NET-17", places::host),
        both!("NET-18", direct::scan),
        both!("NET-19", ingress::spellings),
        both!("NET-20", carrying::dripping),
        both!("NET-21", carrying::mapping),
        both!("NET-22", tunnels::changes),
        both!("NET-23", tapes::misses),
        both!("NET-24", tapes::others),
        both!("NET-25", answers::bombs),
        both!("NET-26", frames::floods).alone("a flood of frames"),
        both!("NET-27", carrying::near),
        both!("NET-28", direct::death),
        both!("NET-29", apart::authorities),
        both!("NET-30", apart::recycled),
        both!("NET-31", packages::lies),
        both!("NET-32", packages::tricks),
        both!("NET-33", packages::reached),
        both!("NET-34", inside::hosts),
        both!("NET-35", inside::greetings),
        both!("BLD-09", apart::reused),
    ]
}

/// A sandbox that this world's gateway serves.
pub(crate) async fn served(
    stage: &Stage,
    world: &World,
    policy: Policy,
) -> anyhow::Result<Arc<Sandbox>> {
    let sandbox = stage.sandbox(|spec| spec.limits.pids = 256).await?;
    world.connect(&sandbox, policy).await?;
    Ok(sandbox)
}

/// Says all of it in a sandbox on the host's network: what a lenient server makes
/// of the same bytes.
pub(crate) async fn directly(stage: &Stage, scripts: &[Script]) -> anyhow::Result<Vec<Said>> {
    let stage = stage.without(&[Defence::NetNamespace]);
    let sandbox = stage.sandbox(|_| {}).await?;
    Ok(stage.say(&sandbox, scripts).await?.1)
}

/// A control's result: what had to work did, or it did not.
pub(crate) fn works(does: bool, what: &str, said: &[Said]) -> Seen {
    if does {
        Seen::Breach(what.to_owned())
    } else {
        let said: Vec<String> = said.iter().map(Said::brief).collect();
        Seen::Held(format!("not so: {what}; {}", said.join("; ")))
    }
}

//! What sandboxes reach, and what became of it.

mod cassette;
mod connections;
mod get;
mod set;
mod token;

use belljar_api::network as api;
use belljar_domain::network::Policy;
use belljar_sandboxes::{Network, NetworkWish, Problem};

pub(super) use cassette::{read_cassette, write_cassette};
pub(super) use connections::connections;
pub(super) use get::get;
pub(super) use set::set;
pub(super) use token::token;

pub(super) fn wish(asked: &api::Network) -> Result<NetworkWish, Problem> {
    let policy = Policy::try_from(asked).map_err(|error| Problem::invalid(error.to_string()))?;
    Ok(NetworkWish { policy, packages: asked.packages })
}

fn view(network: &Network) -> api::NetworkShown {
    let NetworkWish { policy, packages } = &network.wish;
    api::NetworkShown {
        network: api::Network::of(policy, *packages),
        indexes: policy.packages.iter().map(Into::into).collect(),
        operations: network.operations.clone(),
    }
}

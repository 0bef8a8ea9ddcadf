//! Who a node is, and who speaks for control: attacks with keys that were stolen, forged
//! or used again.

pub(super) mod answers;
pub(super) mod claims;
pub(super) mod enrolment;
pub(super) mod forged;
pub(super) mod stolen;

use std::time::Duration;

use belljar_domain::NodeNumber;
use belljar_identity::{KeyPair, Peer, Purpose, digest, random, sign};
use belljar_peer_proto::behalf::Behalf;

use crate::peer::PeerClient;
use crate::platform::Platform;

impl Platform {
    /// Control's own connection to the node: what passes here is up to the signature.
    pub(super) fn as_control(&self) -> anyhow::Result<PeerClient> {
        let server = Peer::Node(self.identity.number());
        PeerClient::new(self.keyring.endpoint(), self.node, server)
    }

    /// What control says of a request of tenant `a` with this body, signed so long ago.
    pub(super) fn behalf(&self, body: &str, age: Duration) -> anyhow::Result<Behalf> {
        let age = u64::try_from(age.as_millis())?;
        Ok(Behalf {
            tenant: "a".to_owned(),
            floor: None,
            operation_caps: belljar_domain::OperationCaps::default(),
            ids: Vec::new(),
            node: self.identity.number(),
            body: Some(digest(body.as_bytes()).into()),
            nonce: random::<16>()?.into(),
            at: self.identity.clock().now() - age,
        })
    }
}

/// The same, signed by another key.
fn sign_with(key: &KeyPair, method: &str, path: &str, said: &Behalf) -> anyhow::Result<String> {
    let context = belljar_peer_proto::behalf::about(method, path);
    Ok(sign(key, Purpose::Request, context.as_bytes(), said)?)
}

fn next(number: NodeNumber) -> NodeNumber {
    NodeNumber::new(number.get() + 1).unwrap_or(number)
}

//! Connections to nodes: pooled, and only to who has the node's certificate and key.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::body::Body;
use belljar_domain::NodeNumber;
use belljar_identity::{Connector, Peer, PublicKey, Route, TlsConfigError};
use belljar_store::NodeState;
use http::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::keyring::Keyring;

/// A node, as the database has it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) name: String,
    /// Where it says that it listens. Nothing is sent there before the node's key was shown.
    pub(crate) address: Uri,
    pub(crate) public_key: PublicKey,
    pub(crate) state: NodeState,
    pub(crate) slots: u32,
    pub(crate) epoch: u64,
}

pub(crate) type KnownNodes = Arc<RwLock<BTreeMap<NodeNumber, Known>>>;

/// The base of a node's URLs. Not its address, but a name for who it is now: connections
/// are pooled by it, so none outlives the registration that it was made for.
pub(crate) fn base(node: NodeNumber, epoch: u64) -> String {
    format!("https://e{epoch}.{}", Peer::Node(node).name())
}

pub(crate) fn client(
    keyring: &Keyring,
    nodes: KnownNodes,
) -> Result<Client<Connector, Body>, TlsConfigError> {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(Duration::from_secs(2)));
    // A node that vanished without a word is noticed within 20 s: whoever waits for it
    // must not wait for ever.
    tcp.set_keepalive(Some(Duration::from_secs(8)));
    tcp.set_keepalive_interval(Some(Duration::from_secs(4)));
    tcp.set_keepalive_retries(Some(3));
    let endpoint = keyring.endpoint();
    let config = endpoint.client_config()?;
    let connector = Connector::new(tcp, endpoint.clone(), config, move |uri| route(&nodes, uri));
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_max_idle_per_host(256)
        .build(connector))
}

fn route(nodes: &KnownNodes, uri: &Uri) -> Option<Route> {
    let nodes = nodes.read().unwrap_or_else(PoisonError::into_inner);
    let base = format!("{}://{}", uri.scheme_str()?, uri.host()?);
    let (number, node) =
        nodes.iter().find(|(number, node)| self::base(**number, node.epoch) == base)?;
    Some(Route {
        address: node.address.clone(),
        peer: Peer::Node(*number),
        key: Some(node.public_key),
    })
}

/// Where a node says that control reaches it, if that can be an address of a node's.
pub(crate) fn address(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let is_bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
    let is_address = uri.scheme_str() == Some("https") && uri.port_u16().is_some() && is_bare;
    Some(uri).filter(|_| is_address && text.len() <= LONGEST_ADDRESS)
}

const LONGEST_ADDRESS: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_a_host_and_a_port() {
        for text in ["https://10.0.0.1:3100", "https://node-1.internal:3100/", "https://[::1]:1"] {
            assert!(address(text).is_some(), "{text}");
        }
        for text in [
            "http://10.0.0.1:3100",
            "https://10.0.0.1",
            "https://10.0.0.1:3100/path",
            "https://10.0.0.1:3100/?query",
            "10.0.0.1:3100",
            "file:///etc/passwd",
            "",
        ] {
            assert!(address(text).is_none(), "{text}");
        }
    }

    #[test]
    fn connection_leads_to_the_registration_that_it_is_for() {
        let number = NodeNumber::new(3).unwrap();
        let public_key = PublicKey::from_bytes(&[7; 32]).unwrap();
        let node = Known {
            name: "node-3".to_owned(),
            address: Uri::from_static("https://10.0.0.1:3100"),
            public_key,
            state: NodeState::Up,
            slots: 1,
            epoch: 5,
        };
        let nodes = Arc::new(RwLock::new(BTreeMap::from([(number, node)])));
        let asked =
            |epoch| route(&nodes, &format!("{}/v1/x", base(number, epoch)).parse().unwrap());
        let found = asked(5).unwrap();
        assert_eq!((found.peer, found.key), (Peer::Node(number), Some(public_key)));
        assert!(asked(4).is_none());
    }
}

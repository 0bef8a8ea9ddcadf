//! Handshakes between peers, over a stream in memory.

use std::time::Duration;

use belljar_domain::NodeNumber;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::authority::Authority;

const LIFE: Duration = Duration::from_secs(600);

fn node(number: u16) -> Peer {
    Peer::Node(NodeNumber::new(number).unwrap())
}

/// A platform with one authority and one clock.
struct Platform {
    clock: PlatformClock,
    authority: Authority,
}

impl Platform {
    fn new() -> Self {
        let clock = PlatformClock::default();
        clock.set(clock.now());
        let authority = Authority::generate(&clock).unwrap();
        Self { clock, authority }
    }

    fn endpoint(&self, peer: Option<Peer>) -> Endpoint {
        let endpoint = Endpoint::new(self.clock.clone());
        endpoint.set_trust([self.authority.certificate()]).unwrap();
        if let Some(peer) = peer {
            let key = KeyPair::generate().unwrap();
            let leaf = self.authority.issue(peer, &key.public_key(), &self.clock, LIFE).unwrap();
            let chain = vec![leaf, self.authority.certificate().clone()];
            endpoint.set_certificate(chain, &key).unwrap();
        }
        endpoint
    }
}

/// What each side finds the other to be, after a byte went each way.
async fn shake(
    (client, config): (&Endpoint, Arc<ClientConfig>),
    expected: Peer,
    (server, server_config, clients): (&Endpoint, Arc<ServerConfig>, Clients),
) -> Result<Met, String> {
    let (near, far) = tokio::io::duplex(64 << 10);
    let serving = async {
        let mut stream = TlsAcceptor::from(server_config).accept(far).await?;
        stream.write_all(b"a").await?;
        stream.flush().await?;
        let found = server.client_of(stream.get_ref().1, clients).map_err(std::io::Error::other)?;
        stream.read_u8().await?;
        Ok::<_, std::io::Error>(found)
    };
    let asking = async {
        let connector = TlsConnector::from(config);
        let mut stream = connector.connect(expected.server_name(), near).await?;
        stream.read_u8().await?;
        stream.write_all(b"b").await?;
        stream.flush().await?;
        let found = client.server_of(stream.get_ref().1, expected);
        let kind = stream.get_ref().1.handshake_kind();
        Ok::<_, std::io::Error>((found.map_err(std::io::Error::other)?, kind))
    };
    let (served, asked) = tokio::join!(serving, asking);
    let (found, kind) = asked.map_err(|error| error.to_string())?;
    let is_resumed = kind == Some(HandshakeKind::Resumed);
    Ok(Met { found, caller: served.map_err(|error| error.to_string())?, is_resumed })
}

/// Who met.
#[derive(Debug)]
struct Met {
    found: PeerIdentity,
    caller: Option<PeerIdentity>,
    is_resumed: bool,
}

async fn meet(
    client: &Endpoint,
    expected: Peer,
    server: &Endpoint,
    clients: Clients,
) -> Result<Met, String> {
    let config = client.client_config().unwrap();
    let server_config = server.server_config(clients).unwrap();
    shake((client, config), expected, (server, server_config, clients)).await
}

#[tokio::test]
async fn control_and_node_know_each_other() {
    let platform = Platform::new();
    let (control, one) = (platform.endpoint(Some(Peer::Control)), platform.endpoint(Some(node(1))));
    let met = meet(&control, node(1), &one, Clients::ControlOnly).await.unwrap();
    assert_eq!((met.found.peer, met.caller.unwrap().peer), (node(1), Peer::Control));
    let met = meet(&one, Peer::Control, &control, Clients::NodesOrEnrolling).await.unwrap();
    assert_eq!((met.found.peer, met.caller.unwrap().peer), (Peer::Control, node(1)));
}

#[tokio::test]
async fn node_accepts_control_only() {
    let platform = Platform::new();
    let one = platform.endpoint(Some(node(1)));
    let foreign = Platform::new();
    let mut stranger = foreign.endpoint(Some(Peer::Control));
    // It trusts the node's platform, so that it is the node that refuses.
    stranger.set_trust([platform.authority.certificate()]).unwrap();
    for (what, client) in [
        ("another node", platform.endpoint(Some(node(2)))),
        ("itself", platform.endpoint(Some(node(1)))),
        ("no certificate", platform.endpoint(None)),
        ("another platform's control", std::mem::replace(&mut stranger, platform.endpoint(None))),
    ] {
        let met = meet(&client, node(1), &one, Clients::ControlOnly).await;
        assert!(met.is_err(), "{what}: {met:?}");
    }
}

#[tokio::test]
async fn control_accepts_nodes_and_those_who_enrol() {
    let platform = Platform::new();
    let control = platform.endpoint(Some(Peer::Control));
    let stranger = Platform::new().endpoint(Some(node(1)));
    stranger.set_trust([platform.authority.certificate()]).unwrap();
    let clients = Clients::NodesOrEnrolling;
    assert!(meet(&stranger, Peer::Control, &control, clients).await.is_err());
    let other_control = platform.endpoint(Some(Peer::Control));
    assert!(meet(&other_control, Peer::Control, &control, clients).await.is_err());
    let nobody = platform.endpoint(None);
    let met = meet(&nobody, Peer::Control, &control, clients).await.unwrap();
    assert_eq!((met.found.peer, met.caller), (Peer::Control, None));
}

#[tokio::test]
async fn node_cannot_answer_for_another_or_for_control() {
    let platform = Platform::new();
    let (control, two) = (platform.endpoint(Some(Peer::Control)), platform.endpoint(Some(node(2))));
    assert!(meet(&control, node(1), &two, Clients::ControlOnly).await.is_err());
    let one = platform.endpoint(Some(node(1)));
    assert!(meet(&one, Peer::Control, &two, Clients::NodesOrEnrolling).await.is_err());
}

#[tokio::test]
async fn expired_certificate_is_refused_also_in_a_resumed_session() {
    let platform = Platform::new();
    let (control, one) = (platform.endpoint(Some(Peer::Control)), platform.endpoint(Some(node(1))));
    let clients = Clients::ControlOnly;
    let (config, server) = (control.client_config().unwrap(), one.server_config(clients).unwrap());
    let meet = || shake((&control, config.clone()), node(1), (&one, server.clone(), clients));
    assert!(!meet().await.unwrap().is_resumed);
    let again = meet().await.unwrap();
    assert!(again.is_resumed, "{again:?}");
    assert_eq!(again.caller.unwrap().peer, Peer::Control, "the certificate is still known");
    platform.clock.set(platform.clock.now() + 3_600_000);
    let late = meet().await;
    assert!(late.is_err(), "{late:?}");
}

#[tokio::test]
async fn rotation_trusts_both_authorities_and_then_the_new_one_only() {
    let platform = Platform::new();
    let next = Platform { clock: platform.clock.clone(), ..Platform::new() };
    let (control, one) = (next.endpoint(Some(Peer::Control)), platform.endpoint(Some(node(1))));
    let clients = Clients::ControlOnly;
    assert!(meet(&control, node(1), &one, clients).await.is_err());
    let both = [platform.authority.certificate(), next.authority.certificate()];
    one.set_trust(both).unwrap();
    control.set_trust(both).unwrap();
    meet(&control, node(1), &one, clients).await.unwrap();
    control.set_trust([next.authority.certificate()]).unwrap();
    assert!(meet(&control, node(1), &one, clients).await.is_err());
}

#[tokio::test]
async fn pinned_client_trusts_the_authority_of_its_token_only() {
    let platform = Platform::new();
    let control = platform.endpoint(Some(Peer::Control));
    let clients = Clients::NodesOrEnrolling;
    let server = control.server_config(clients).unwrap();
    let pin = crate::keys::digest(platform.authority.certificate());
    for (pin, is_trusted) in [(pin, true), ([7; 32], false)] {
        let (client, config) = pinned_client(platform.clock.clone(), pin).unwrap();
        let met =
            shake((&client, config), Peer::Control, (&control, server.clone(), clients)).await;
        assert_eq!(met.is_ok(), is_trusted, "{met:?}");
    }
    // A node that has the authority's certificate does not have control's name.
    let one = platform.endpoint(Some(node(1)));
    let server = one.server_config(clients).unwrap();
    let (client, config) = pinned_client(platform.clock.clone(), pin).unwrap();
    let met = shake((&client, config), Peer::Control, (&one, server, clients)).await;
    assert!(met.is_err(), "{met:?}");
}

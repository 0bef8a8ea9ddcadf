use std::time::Duration;

use belljar_domain::NodeNumber;
use belljar_identity::{Authority, EnrolmentToken, KeyPair, PlatformClock, PublicKey, sign};
use belljar_peer_proto::encoded::Encoded;
use belljar_peer_proto::enrolment::{Certificate, Trust, TrustedAuthority};

use super::*;

/// A node whose platform has this authority.
struct World {
    authority: Authority,
    cluster: Cluster,
    _directory: tempfile::TempDir,
}

const PATH: &str = "/sandboxes?x=1";

fn number() -> NodeNumber {
    NodeNumber::new(3).unwrap()
}

fn world() -> World {
    let clock = PlatformClock::default();
    let authority = Authority::generate(&clock).unwrap();
    let key = KeyPair::generate().unwrap();
    let life = Duration::from_secs(60);
    let peer = Peer::Node(number());
    let issued = authority.issue(peer, &key.public_key(), &clock, life).unwrap();
    let trusted = TrustedAuthority {
        generation: 1,
        certificate: Encoded(authority.certificate().to_vec()),
        verifying_key: authority.verifying_key().encoded(),
    };
    let certificate = Certificate {
        number: number(),
        certificate: Encoded(issued.to_vec()),
        generation: 1,
        issued_at: clock.now(),
        expires_at: clock.now() + 60_000,
        trust: Trust { current: 1, authorities: vec![trusted] },
        now: clock.now(),
    };
    let directory = tempfile::tempdir().unwrap();
    let token = EnrolmentToken::generate(b"").unwrap();
    let identity = NodeIdentity::enrolled(directory.path(), "n", &token, key, certificate);
    let identity = identity.unwrap();
    World { authority, cluster: Cluster::new(identity), _directory: directory }
}

impl World {
    fn behalf(&self) -> Behalf {
        Behalf {
            tenant: "one".into(),
            floor: None,
            operation_caps: belljar_domain::OperationCaps::default(),
            ids: Vec::new(),
            node: number(),
            body: Some(digest(b"body").into()),
            nonce: belljar_identity::random::<16>().unwrap().into(),
            at: self.cluster.identity().clock().now(),
        }
    }

    fn signed(&self, behalf: &Behalf) -> String {
        self.signed_for(&format!("POST {PATH}"), behalf)
    }

    fn signed_for(&self, what: &str, behalf: &Behalf) -> String {
        let key = self.authority.signing_key();
        sign(key, Purpose::Request, what.as_bytes(), behalf).unwrap()
    }

    async fn receive(
        &self,
        peer: Option<Peer>,
        word: &str,
        body: &'static str,
    ) -> Result<Option<OnBehalf>, RequestError> {
        let mut request = Request::post(PATH)
            .header("x-api-key", "k")
            .header(HEADER, word)
            .body(Body::from(body))
            .unwrap();
        if let Some(peer) = peer {
            let public_key = PublicKey::from_bytes(&[1; 32]).unwrap();
            request.extensions_mut().insert(PeerIdentity { peer, public_key });
        }
        let request = self.cluster.receive(&Keys::elsewhere(), request).await?;
        assert!(!request.headers().contains_key("x-api-key"));
        assert!(!request.headers().contains_key(HEADER));
        let behalf = request.extensions().get().cloned();
        let read = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(read, body, "the body is passed on as it came");
        Ok(behalf)
    }

    async fn receive_from_control(
        &self,
        word: &str,
        body: &'static str,
    ) -> Result<Option<OnBehalf>, RequestError> {
        self.receive(Some(Peer::Control), word, body).await
    }
}

#[tokio::test]
async fn request_that_control_signed_is_believed_once() {
    let world = world();
    let word = world.signed(&world.behalf());
    let behalf = world.receive_from_control(&word, "body").await.unwrap().unwrap();
    assert_eq!(behalf.tenant.as_str(), "one");
    assert_eq!(
        world.receive_from_control(&word, "body").await.unwrap_err(),
        RequestError::Replayed
    );
}

#[tokio::test]
async fn signature_covers_request_node_body_and_time() {
    let world = world();
    let untrusted = RequestError::Signature(SignatureError::Untrusted);
    let other = Authority::generate(&PlatformClock::default()).unwrap();
    let foreign = sign(
        other.signing_key(),
        Purpose::Request,
        format!("POST {PATH}").as_bytes(),
        &world.behalf(),
    );
    for (word, wanted) in [
        (foreign.unwrap(), untrusted),
        (world.signed_for("GET /sandboxes?x=1", &world.behalf()), untrusted),
        (world.signed_for("POST /sandboxes", &world.behalf()), untrusted),
        (
            world.signed(&Behalf { node: NodeNumber::new(4).unwrap(), ..world.behalf() }),
            RequestError::OtherNode,
        ),
        (world.signed(&Behalf { at: 5, ..world.behalf() }), RequestError::Stale),
        (
            world.signed(&Behalf { body: Some(digest(b"other").into()), ..world.behalf() }),
            RequestError::Body,
        ),
        ("nonsense".to_owned(), RequestError::Signature(SignatureError::Form)),
    ] {
        assert_eq!(world.receive_from_control(&word, "body").await.unwrap_err(), wanted, "{word}");
    }
}

#[tokio::test]
async fn body_that_is_streamed_needs_no_digest() {
    let world = world();
    let word = world.signed(&Behalf { body: None, ..world.behalf() });
    assert!(world.receive_from_control(&word, "anything").await.unwrap().is_some());
}

#[tokio::test]
async fn signature_that_does_not_come_from_control_counts_for_nothing() {
    let world = world();
    for peer in [None, Some(Peer::Node(number()))] {
        let word = world.signed(&world.behalf());
        assert!(world.receive(peer, &word, "body").await.unwrap().is_none(), "{peer:?}");
        assert!(
            world.receive_from_control(&word, "body").await.unwrap().is_some(),
            "it was not used up"
        );
    }
}

use std::net::IpAddr;

use belljar_store::{NewKey, Quota, Scope};
use belljar_testkit::Postgres;
use http::HeaderValue;

use super::*;

fn key(number: u64) -> String {
    format!("e2b_{number:040x}")
}

fn hash(number: u64) -> Hash {
    Sha256::digest(key(number)).into()
}

fn from(text: &str) -> Option<PeerAddress> {
    Some(PeerAddress(text.parse::<IpAddr>().unwrap()))
}

/// A database with one tenant, whose key is the first.
async fn store() -> Store {
    let store = Store::connect(&Postgres::shared().schema(), 8).await.unwrap();
    store.migrate().await.unwrap();
    let quota = Quota { sandboxes: 1, longest_life: Duration::from_secs(60) };
    store.put_tenant("one", None, quota).await.unwrap();
    add(&store, 1).await;
    store
}

async fn add(store: &Store, number: u64) -> String {
    let scopes = &[Scope::Sandboxes];
    let (hash, label) = (hash(number), "");
    let operations = belljar_domain::OperationCap::ALL;
    let new = NewKey { hash, tenant: "one", label, scopes, lives: None, operations };
    store.add_key(&new).await.unwrap()
}

#[test]
fn only_what_looks_like_a_key_is_asked_for() {
    let of = |name: &'static str, value: &str| {
        shown(&HeaderMap::from_iter([(
            http::HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        )]))
    };
    assert_eq!(of("x-api-key", &key(1)), ShownKey::Hash(hash(1)));
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let value = format!("{scheme} {}", key(1));
        assert_eq!(of("authorization", &value), ShownKey::Hash(hash(1)), "{value}");
    }
    for wrong in ["", "x", "e2b_", "e2b_x", &key(1)[..43], &format!("{}0", key(1)), "' OR '1'='1"] {
        assert_eq!(of("x-api-key", wrong), ShownKey::Malformed, "{wrong}");
        assert_eq!(in_value(wrong), None, "{wrong}");
    }
    assert_eq!(of("x-api-key", &key(1).replace('1', "g")), ShownKey::Malformed);
    assert_eq!(of("authorization", "Bearer x"), ShownKey::Malformed);
    assert_eq!(of("authorization", "Basic eDp5"), ShownKey::None);
    assert_eq!(of("authorization", "Bearer"), ShownKey::None);
    assert_eq!(shown(&HeaderMap::new()), ShownKey::None);
    assert_eq!(in_value(&format!("Token {}", key(1))), Some(hash(1)));
}

#[tokio::test]
async fn wrong_keys_of_one_address_stop_being_asked_for() {
    let (store, proofs) = (store().await, Proofs::default());
    let (attacker, other) = (from("192.0.2.1"), from("192.0.2.2"));
    let known = proofs.prove(&store, &hash(1), attacker).await.unwrap();
    assert!(matches!(known, Proof::Of(_)), "{known:?}");
    let mut asked = 0;
    for number in 2..2000 {
        match proofs.prove(&store, &hash(number), attacker).await.unwrap() {
            Proof::Unknown => asked += 1,
            Proof::TooManyWrong => break,
            proof => panic!("{proof:?}"),
        }
    }
    assert!((200..1000).contains(&asked), "{asked} were asked for");
    // The key that was proven before goes on working from there, past its second.
    tokio::time::sleep(BELIEVED).await;
    let known = proofs.prove(&store, &hash(1), attacker).await.unwrap();
    assert!(matches!(known, Proof::Of(_)), "{known:?}");
    assert_eq!(proofs.prove(&store, &hash(9999), other).await.unwrap(), Proof::Unknown);
    // A key that is new is believed at once from anywhere else.
    add(&store, 8888).await;
    let new = proofs.prove(&store, &hash(8888), other).await.unwrap();
    assert!(matches!(new, Proof::Of(_)), "{new:?}");
}

#[tokio::test]
async fn wrong_key_is_asked_for_once_a_second() {
    let (store, proofs) = (store().await, Proofs::default());
    assert_eq!(proofs.prove(&store, &hash(2), None).await.unwrap(), Proof::Unknown);
    add(&store, 2).await;
    assert_eq!(proofs.prove(&store, &hash(2), None).await.unwrap(), Proof::Unknown);
    tokio::time::sleep(REFUSED).await;
    let known = proofs.prove(&store, &hash(2), None).await.unwrap();
    assert!(matches!(known, Proof::Of(_)), "{known:?}");
}

#[tokio::test]
async fn revoked_key_is_dead_within_a_second() {
    let (store, proofs) = (store().await, Proofs::default());
    let id = add(&store, 2).await;
    assert!(matches!(proofs.prove(&store, &hash(2), None).await.unwrap(), Proof::Of(_)));
    assert!(store.revoke_key("one", &id).await.unwrap());
    tokio::time::sleep(BELIEVED).await;
    assert_eq!(proofs.prove(&store, &hash(2), None).await.unwrap(), Proof::Unknown);
}

#[tokio::test]
async fn what_is_remembered_is_bounded() {
    let (store, proofs) = (store().await, Proofs::default());
    for number in 2..20 {
        lock(&proofs.refused).insert(hash(number), Instant::now());
    }
    let full = (0..MAX_REMEMBERED as u64).map(|number| (hash(number + 100), Instant::now()));
    lock(&proofs.refused).extend(full);
    assert_eq!(proofs.prove(&store, &hash(2 << 40), None).await.unwrap(), Proof::Unknown);
    assert!(lock(&proofs.refused).len() <= MAX_REMEMBERED);
}

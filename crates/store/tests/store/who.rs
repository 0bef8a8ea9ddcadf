use std::time::Duration;

use belljar_domain::{OperationCap, Tier};
use belljar_store::{NewKey, Quota, Scope, StoreError, TenantRunQuota};
use serde_json::json;

use super::{QUOTA, store};

fn key<'a>(hash: u8, tenant: &'a str, scopes: &'a [Scope]) -> NewKey<'a> {
    NewKey {
        hash: [hash; 32],
        tenant,
        label: "laptop",
        scopes,
        lives: None,
        operations: OperationCap::ALL,
    }
}

#[tokio::test]
async fn a_key_proves_its_tenant_until_it_is_revoked() {
    let store = store().await;
    let id = store.add_key(&key(1, "ann", &[Scope::Read, Scope::Sandboxes])).await.unwrap();
    let proven = store.prove(&[1; 32]).await.unwrap().unwrap();
    assert_eq!((proven.tenant.as_str(), &proven.key), ("ann", &id));
    assert_eq!(proven.scopes, [Scope::Read, Scope::Sandboxes]);
    assert_eq!(store.prove(&[2; 32]).await.unwrap(), None);
    assert!(!store.revoke_key("bob", &id).await.unwrap(), "it is not bob's");
    assert!(store.prove(&[1; 32]).await.unwrap().is_some());
    assert!(store.revoke_key("ann", &id).await.unwrap());
    assert!(!store.revoke_key("ann", &id).await.unwrap(), "it is dead already");
    assert_eq!(store.prove(&[1; 32]).await.unwrap(), None);
    let keys = store.keys("ann").await.unwrap();
    assert!(keys.len() == 1 && !keys[0].is_alive && keys[0].label == "laptop");
}

#[tokio::test]
async fn keys_end_by_themselves_and_with_their_tenant() {
    let store = store().await;
    let short = NewKey { lives: Some(Duration::ZERO), ..key(1, "ann", &[Scope::Read]) };
    store.add_key(&short).await.unwrap();
    assert_eq!(store.prove(&[1; 32]).await.unwrap(), None);
    store.add_key(&key(2, "bob", &[Scope::Admin])).await.unwrap();
    assert!(store.prove(&[2; 32]).await.unwrap().is_some());
    store.close_tenant("bob").await.unwrap();
    assert_eq!(store.prove(&[2; 32]).await.unwrap(), None);
    let refused = store.add_key(&key(3, "bob", &[])).await;
    assert!(matches!(refused, Err(StoreError::UnknownTenant(name)) if name == "bob"));
}

#[tokio::test]
async fn a_tenant_is_what_was_said_last() {
    let store = store().await;
    let quota = Quota { sandboxes: 3, longest_life: Duration::from_secs(60) };
    store.put_tenant("ann", Some(Tier::GVISOR), quota).await.unwrap();
    let ann = store.tenant("ann").await.unwrap();
    assert_eq!((ann.floor, ann.quota, ann.used), (Some(Tier::GVISOR), quota, 0));
    assert_eq!(store.tenant("bob").await.unwrap().quota, QUOTA);
    assert!(matches!(store.tenant("eve").await, Err(StoreError::UnknownTenant(_))));
    assert!(store.put_tenant("../eve", None, quota).await.is_err(), "no such name");
}

#[tokio::test]
async fn caps_on_operations_are_kept_and_lifted() {
    let store = store().await;
    let cap = |text: &str| text.parse::<OperationCap>().unwrap();
    let capped = NewKey { operations: cap("search"), ..key(1, "ann", &[Scope::Sandboxes]) };
    let id = store.add_key(&capped).await.unwrap();
    assert_eq!(store.prove(&[1; 32]).await.unwrap().unwrap().operations, cap("search"));
    assert_eq!(store.keys("ann").await.unwrap()[0].operations, cap("search"));
    assert!(!store.cap_key("bob", &id, &OperationCap::ALL).await.unwrap(), "it is not bob's");
    assert!(store.cap_key("ann", &id, &cap("none")).await.unwrap());
    assert_eq!(store.prove(&[1; 32]).await.unwrap().unwrap().operations, cap("none"));
    assert!(store.cap_key("ann", &id, &OperationCap::ALL).await.unwrap());
    assert!(store.prove(&[1; 32]).await.unwrap().unwrap().operations.is_all());

    assert!(store.tenant("ann").await.unwrap().operations.is_all());
    store.cap_tenant("ann", &cap("llm,search")).await.unwrap();
    // A change of its quota leaves the cap alone.
    store.put_tenant("ann", None, QUOTA).await.unwrap();
    assert_eq!(store.tenant("ann").await.unwrap().operations, cap("llm,search"));
    assert!(store.tenant("bob").await.unwrap().operations.is_all());
    let unknown = store.cap_tenant("eve", &OperationCap::ALL).await;
    assert!(matches!(unknown, Err(StoreError::UnknownTenant(name)) if name == "eve"));
}

#[tokio::test]
async fn a_tenant_has_the_run_quotas_that_were_named() {
    let store = store().await;
    assert_eq!(store.run_quota("ann").await.unwrap(), TenantRunQuota::default());
    let runs = TenantRunQuota { runs: Some(7), nano_dollars_per_day: None };
    store.put_run_quota("ann", runs).await.unwrap();
    let dollars = TenantRunQuota { runs: None, nano_dollars_per_day: Some(5_000_000_000) };
    store.put_run_quota("ann", dollars).await.unwrap();
    let both = TenantRunQuota { runs: Some(7), nano_dollars_per_day: Some(5_000_000_000) };
    assert_eq!(store.run_quota("ann").await.unwrap(), both);
    assert_eq!(store.run_quota("bob").await.unwrap(), TenantRunQuota::default());
    assert!(store.put_run_quota("eve", runs).await.is_err(), "no such tenant");
}

#[tokio::test]
async fn closed_tenants_are_listed_as_closed() {
    let store = store().await;
    store.close_tenant("ann").await.unwrap();
    let all = store.tenants().await.unwrap();
    let seen: Vec<_> =
        all.iter().map(|one| (one.tenant.name.as_str(), one.closed_at.is_some())).collect();
    assert_eq!(seen, [("ann", true), ("bob", false)]);
    assert_eq!(all[1].tenant, store.tenant("bob").await.unwrap());
}

#[tokio::test]
async fn tables_that_are_not_there_are_told_from_other_trouble() {
    let error = super::empty().await.tenants().await.unwrap_err();
    assert!(error.wants_migration() && !error.breaks_a_rule(), "{error:?}");
    let error = store().await.put_tenant("../eve", None, QUOTA).await.unwrap_err();
    assert!(error.breaks_a_rule() && !error.wants_migration(), "{error:?}");
}

#[tokio::test]
async fn deeds_are_kept_newest_first_and_apart() {
    let store = store().await;
    for number in 0..3 {
        let detail = json!({ "number": number });
        store.audit(Some("ann"), "key-1", "sandbox.kill", "x", &detail).await.unwrap();
    }
    store.audit(Some("bob"), "key-2", "key.revoke", "y", &json!({})).await.unwrap();
    let deeds = store.audited("ann", 2).await.unwrap();
    let numbers: Vec<_> = deeds.iter().map(|deed| deed.detail["number"].clone()).collect();
    assert_eq!(numbers, [2, 1]);
    assert_eq!(store.audited("bob", 10).await.unwrap().len(), 1);
    store.audit(None, "key-3", "node.drain", "n1", &json!({})).await.unwrap();
    let all = store.audited_anywhere(3).await.unwrap();
    let whose: Vec<_> = all.iter().map(|deed| deed.tenant.as_deref()).collect();
    assert_eq!(whose, [None, Some("bob"), Some("ann")]);
}

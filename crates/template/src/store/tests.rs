use std::collections::BTreeMap;

use expect_test::expect;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::recipe::LimitDefaults;

fn store() -> (TempDir, Store) {
    let dir = tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    (dir, store)
}

fn layer(store: &Store, content: &str) -> Layer {
    let work = store.workspace().unwrap();
    let tree = work.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), content).unwrap();
    store.add_layer(&tree, Kind::Base).unwrap()
}

fn publish(store: &Store, name: &str, version: &str, created: u64, layers: &[&Layer]) {
    store.publish(&manifest(name, version, created, layers)).unwrap();
}

fn manifest(name: &str, version: &str, created: u64, layers: &[&Layer]) -> Manifest {
    Manifest {
        name: name.into(),
        version: version.into(),
        description: String::new(),
        created,
        layers: layers.iter().map(|layer| layer.digest).collect(),
        binds: Vec::new(),
        env: BTreeMap::from([("A".into(), "b".into())]),
        languages: BTreeMap::from([("python".into(), "/usr/bin/python3".into())]),
        limits: LimitDefaults { memory: Some(1 << 30), ..LimitDefaults::default() },
        warm: None,
        defaults: crate::Defaults::default(),
        size: 1,
        files: 1,
    }
}

const OLD: &str = "000000000001";
const NEW: &str = "000000000002";

fn listed(store: &Store) -> Vec<String> {
    let list = store.list().unwrap().into_iter();
    list.map(|manifest| format!("{}@{}", manifest.name, manifest.version)).collect()
}

#[test]
fn the_same_content_is_stored_once() {
    let (_dir, store) = store();
    let (one, other) = (layer(&store, "x"), layer(&store, "x"));
    assert_eq!(one.path, other.path);
    assert_eq!(fs::read_dir(store.root().join("layers")).unwrap().count(), 2);
    assert_eq!(fs::read_dir(store.root().join("tmp")).unwrap().count(), 0);
    assert_eq!(one.facts.bytes, 1);
}

#[test]
fn a_name_means_its_latest_version() {
    let (_dir, store) = store();
    let (one, other) = (layer(&store, "1"), layer(&store, "2"));
    publish(&store, "b", OLD, 1, &[&one]);
    publish(&store, "b", NEW, 2, &[&other, &one]);
    publish(&store, "a", OLD, 3, &[&one]);
    assert_eq!(listed(&store), [format!("a@{OLD}"), format!("b@{NEW}"), format!("b@{OLD}")]);

    let latest = store.resolve("b").unwrap();
    assert_eq!(latest.version, NEW);
    assert_eq!(latest.root.layers, [other.path.clone(), one.path.clone()]);
    assert_eq!(latest.limits.memory, Some(1 << 30));
    assert_eq!(store.resolve(&format!("b@{OLD}")).unwrap().root.layers, [&*one.path]);
}

#[test]
fn what_is_not_there_is_named() {
    let (_dir, store) = store();
    let message = |reference: &str| store.resolve(reference).unwrap_err().to_string();
    expect!["there is no template `nothing`"].assert_eq(&message("nothing"));
    expect!["`../../etc` is not a template reference; use NAME or NAME@VERSION"]
        .assert_eq(&message("../../etc"));
    for text in ["", "a@", "a@..", "a@latest", "A", "a/b", "a@00000000000g"] {
        assert!(text.parse::<Reference>().is_err(), "{text}");
    }
}

#[test]
fn removing_a_version_keeps_the_layers_of_others() {
    let (_dir, store) = store();
    let (one, other) = (layer(&store, "1"), layer(&store, "22"));
    publish(&store, "a", OLD, 1, &[&one]);
    publish(&store, "a", NEW, 2, &[&other, &one]);
    let (kept, gone) = (one.path.clone(), other.path.clone());
    drop((one, other));

    let collected = store.remove(&format!("a@{NEW}").parse().unwrap()).unwrap();
    assert_eq!(collected, Collected { layers: 1, bytes: 2, in_use: 0 });
    assert!(kept.exists() && !gone.exists());
    assert_eq!(store.resolve("a").unwrap().version, OLD);

    store.remove(&"a".parse().unwrap()).unwrap();
    assert!(!kept.exists());
    assert!(listed(&store).is_empty());
    assert!(matches!(store.remove(&"a".parse().unwrap()), Err(StoreError::Unknown(_))));
}

#[test]
fn a_leased_layer_outlives_its_template() {
    let (_dir, store) = store();
    publish(&store, "a", OLD, 1, &[&layer(&store, "1")]);
    let template = store.resolve("a").unwrap();
    let lease = template.lease().unwrap();
    let collected = store.remove(&"a".parse().unwrap()).unwrap();
    assert_eq!((collected.layers, collected.in_use), (0, 1));
    assert!(template.root.layers[0].exists());
    drop(lease);
    assert_eq!(store.collect().unwrap().layers, 1);
    assert!(!template.root.layers[0].exists());
}

#[test]
fn a_step_is_remembered_as_long_as_its_layer() {
    let (_dir, store) = store();
    let key = Digest::of(b"step");
    let made = layer(&store, "1");
    store.remember_step(&key, &made).unwrap();
    assert_eq!(store.step(&key).unwrap().unwrap().digest, made.digest);
    drop(made);
    store.collect().unwrap();
    assert!(store.step(&key).unwrap().is_none());
    assert_eq!(fs::read_dir(store.root().join("steps")).unwrap().count(), 0);
}

#[test]
fn rubbish_of_a_build_that_died_is_collected_but_a_live_one_is_left() {
    let (_dir, store) = store();
    let live = store.workspace().unwrap();
    let dead = store.root().join("tmp/dead");
    fs::create_dir_all(dead.join("sub")).unwrap();
    store.collect().unwrap();
    assert!(live.path().exists() && !dead.exists());
}

#[test]
fn a_manifest_with_a_lost_layer_is_not_used() {
    let (_dir, store) = store();
    publish(&store, "a", OLD, 1, &[&layer(&store, "1")]);
    let path = store.resolve("a").unwrap().root.layers.remove(0);
    fs::remove_dir_all(path).unwrap();
    assert!(matches!(store.resolve("a"), Err(StoreError::LostLayer { .. })));
}

#[test]
fn a_manifest_of_old_names_no_tier_and_a_new_one_keeps_it() {
    let (_dir, store) = store();
    publish(&store, "a", OLD, 1, &[&layer(&store, "1")]);
    let manifest = store.show(&"a".parse().unwrap()).unwrap();
    let text = serde_json::to_string(&manifest).unwrap();
    assert!(!text.contains("tier"), "{text}");
    assert_eq!(store.resolve("a").unwrap().defaults.tier, None);
    let tier = Some(belljar_domain::Tier::GVISOR);
    let defaults = crate::Defaults { tier, ..crate::Defaults::default() };
    store.publish(&Manifest { version: NEW.into(), created: 2, defaults, ..manifest }).unwrap();
    assert_eq!(store.resolve("a").unwrap().defaults.tier, tier);
}

#[test]
fn owners_have_the_layers_that_are_not_for_all() {
    let (_dir, store) = store();
    let [base, common, own] = ["base", "of both", "of one alone"].map(|text| layer(&store, text));
    publish(&store, "python", OLD, 1, &[&base]);
    let built = |name, version, layers: &[&Layer]| {
        let defaults = crate::Defaults { owner: Some("a tenant".into()), ..Default::default() };
        store.publish(&Manifest { defaults, ..manifest(name, version, 1, layers) }).unwrap();
    };
    built("built-1", OLD, &[&common, &base]);
    built("built-1", NEW, &[&own, &common, &base]);
    built("built-2", OLD, &[&common, &base]);
    // No record leads to it any more.
    built("built-3", OLD, &[&own]);
    let owners = [("built-1", "ann"), ("built-2", "bob"), ("built-9", "cy")];
    let owners = owners.map(|(name, owner)| (name.to_owned(), owner.to_owned()));
    let bytes = store.owned_bytes(&BTreeMap::from(owners)).unwrap();
    let expected = [("ann".to_owned(), 7 + 12), ("bob".to_owned(), 7)];
    assert_eq!(bytes, BTreeMap::from(expected));
}

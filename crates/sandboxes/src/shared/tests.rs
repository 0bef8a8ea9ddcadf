use std::fs;
use std::path::Path;
use std::time::SystemTime;

use belljar_objects::{Expected, Place};
use belljar_template::tree::Kind as Tree;
use belljar_template::{Defaults, Manifest, Reference, Store};
use tempfile::TempDir;

use super::*;
use crate::clock::now;
use crate::template::{BuildRecord, BuildStatus, Own, Record, Tag};

/// A node without its sandboxes.
struct Node {
    shared: Shared,
    own: Own,
    store: Store,
}

fn node(dir: &TempDir, name: &str) -> Node {
    let here = dir.path().join(name);
    let mut config = Config::new(here.join("state"), here.join("store"));
    let objects = dir.path().join("objects");
    config.objects = Some(objects.to_str().unwrap().parse::<Place>().unwrap());
    Node {
        shared: Shared::open(&config).unwrap().unwrap(),
        own: Own::open(&config.state).unwrap(),
        store: Store::open(&config.store).unwrap(),
    }
}

fn layer(store: &Store, text: &str) -> belljar_template::Digest {
    let work = store.workspace().unwrap();
    let tree = work.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), text).unwrap();
    store.add_layer(&tree, Tree::Upper).unwrap().digest
}

fn record(tenant: &str, id: &str) -> Record {
    Record {
        id: id.into(),
        tenant: Tenant::new(tenant),
        name: "app".into(),
        created_at: now(),
        updated_at: now(),
        builds: Vec::new(),
        tags: Default::default(),
        is_shared: false,
    }
}

/// Builds a template of two layers, and shares it.
async fn build(node: &Node, owner: &str, id: &str, text: &str) -> (Record, BuildRecord) {
    let known = node.own.by_id(&Tenant::new(owner), id);
    let record = known.unwrap_or_else(|| record(owner, id));
    node.own.replace(record.clone()).unwrap();
    let version = belljar_template::Digest::of(text.as_bytes()).short();
    let layers = vec![layer(&node.store, text), layer(&node.store, "below")];
    let manifest = Manifest {
        name: record.stored_name(),
        version: version.clone(),
        description: String::new(),
        created: 0,
        layers,
        binds: Vec::new(),
        env: Default::default(),
        languages: Default::default(),
        limits: Default::default(),
        warm: None,
        defaults: Defaults { owner: Some(owner.to_owned()), ..Defaults::default() },
        size: 0,
        files: 0,
    };
    node.store.publish(&manifest).unwrap();
    let reference = reference(&record, &version);
    let packed = node.shared.carry(&node.store, &record.tenant, reference).await.unwrap();
    let build = BuildRecord {
        id: format!("build-{version}"),
        status: BuildStatus::Ready,
        reason: None,
        version: Some(version),
        tags: Vec::new(),
        cpu_count: 1,
        memory_mb: 512,
        disk_mb: None,
        created_at: now(),
        finished_at: Some(now()),
        packed: Some(packed),
    };
    let told = node.shared.change(&node.own, (&record.tenant, id), |record| {
        record.builds.push(build.clone());
        record.tags.insert("default".into(), Tag { build: build.id.clone(), at: now() });
        Ok(())
    });
    told.await.unwrap();
    (node.own.by_id(&record.tenant, id).unwrap(), build)
}

fn reference(record: &Record, version: &str) -> Reference {
    format!("{}@{version}", record.stored_name()).parse().unwrap()
}

async fn meet(node: &Node, tenant: &Tenant) {
    node.shared.meet(&node.own, tenant, None).await.unwrap();
}

async fn fetch(node: &Node, record: &Record, build: &BuildRecord) -> Result<(), Problem> {
    node.shared.fetch(&node.store, record, build, &build.packed.unwrap()).await
}

fn layers(node: &Node) -> usize {
    let entries = fs::read_dir(node.store.root().join("layers")).unwrap().flatten();
    entries.filter(|entry| entry.path().is_dir()).count()
}

fn blobs(dir: &Path) -> Vec<std::path::PathBuf> {
    let shelves = fs::read_dir(dir.join("objects/blobs")).unwrap().flatten();
    let blobs = shelves.flat_map(|shelf| fs::read_dir(shelf.path()).unwrap().flatten());
    blobs.map(|blob| blob.path()).collect()
}

#[tokio::test]
async fn another_node_has_what_one_built_and_only_its_owner_sees_it() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (node(&dir, "one"), node(&dir, "two"));
    let (record, built) = build(&one, "a", "aaa", "first").await;
    let (a, b) = (Tenant::new("a"), Tenant::new("b"));
    meet(&two, &b).await;
    assert!(two.own.find(&b, "app").is_none() && two.own.of(&b).is_empty());
    assert!(two.own.of(&a).is_empty(), "looked at for somebody else");
    meet(&two, &a).await;
    let (found, meant) = two.own.resolve(&a, "app").unwrap().unwrap();
    assert_eq!((&found.id, &meant.id), (&record.id, &built.id));
    fetch(&two, &found, &meant).await.unwrap();
    let version = meant.version.unwrap();
    let template = two.store.resolve(&reference(&record, &version).to_string()).unwrap();
    let [upper, lower] = &template.root.layers[..] else { panic!("not two layers") };
    assert_eq!(fs::read_to_string(upper.join("file")).unwrap(), "first");
    assert_eq!(fs::read_to_string(lower.join("file")).unwrap(), "below");
}

#[tokio::test]
async fn what_is_packed_already_is_not_packed_again() {
    let dir = tempfile::tempdir().unwrap();
    let one = node(&dir, "one");
    build(&one, "a", "aaa", "first").await;
    let before = blobs(dir.path()).len();
    build(&one, "a", "aaa", "second").await;
    // One layer and one manifest; the layer below is there.
    assert_eq!(blobs(dir.path()).len(), before + 2);
}

#[tokio::test]
async fn a_record_that_is_somebody_elses_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (node(&dir, "one"), node(&dir, "two"));
    let (stolen, built) = build(&one, "a", "aaa", "first").await;
    let b = Tenant::new("b");
    let content = serde_json::to_vec(&stolen).unwrap();
    let name = record_of(&b, "aaa");
    two.shared.objects.put_record(&name, content, &Expected::Absent).await.unwrap();
    meet(&two, &b).await;
    assert!(two.own.of(&b).is_empty());
    // Nor under a record of one's own that names another's content.
    let mine = Record { tenant: b, ..stolen };
    assert!(fetch(&two, &mine, &built).await.is_err());
    assert_eq!(layers(&two), 0);
}

#[tokio::test]
async fn damaged_content_is_not_used_nor_any_part_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (node(&dir, "one"), node(&dir, "two"));
    let (record, built) = build(&one, "a", "aaa", "first").await;
    for blob in blobs(dir.path()) {
        let whole = fs::read(&blob).unwrap();
        fs::write(&blob, &whole[..whole.len() - 1]).unwrap();
        let problem = fetch(&two, &record, &built).await.unwrap_err();
        assert_eq!(problem.code, "objects_damaged");
        fs::remove_file(&blob).unwrap();
        assert_eq!(fetch(&two, &record, &built).await.unwrap_err().code, "objects_damaged");
        let version = built.version.as_deref().unwrap();
        assert!(two.store.show(&reference(&record, version)).is_err());
        fs::write(&blob, whole).unwrap();
    }
    fetch(&two, &record, &built).await.unwrap();
}

async fn tag(node: &Node, build: &BuildRecord, name: &str) {
    let to = Tag { build: build.id.clone(), at: now() };
    let change = |record: &mut Record| {
        record.tags.insert(name.to_owned(), to.clone());
        Ok(())
    };
    node.shared.change(&node.own, (&Tenant::new("a"), "aaa"), change).await.unwrap();
}

#[tokio::test]
async fn changes_of_two_nodes_are_both_kept_and_a_deletion_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (node(&dir, "one"), node(&dir, "two"));
    let (record, built) = build(&one, "a", "aaa", "first").await;
    let a = Tenant::new("a");
    meet(&two, &a).await;
    tokio::join!(tag(&one, &built, "v1"), tag(&two, &built, "v2"));
    for node in [&one, &two] {
        meet(node, &a).await;
        let tags = node.own.by_id(&a, "aaa").unwrap().tags;
        assert!(tags.contains_key("v1") && tags.contains_key("v2"), "{tags:?}");
    }
    assert_eq!(two.shared.claim(&a, "app", "other").await.unwrap(), "aaa");
    two.shared.delete(&two.own, &record).await.unwrap();
    meet(&one, &a).await;
    assert!(one.own.of(&a).is_empty());
    let late = one.shared.change(&one.own, (&a, "aaa"), |_| Ok(())).await;
    assert_eq!(late.unwrap_err().kind, Kind::NotFound);
    assert_eq!(one.shared.claim(&a, "app", "other").await.unwrap(), "other");
}

#[tokio::test]
async fn garbage_goes_in_the_second_round_and_what_is_named_stays() {
    let dir = tempfile::tempdir().unwrap();
    let one = node(&dir, "one");
    let (record, _) = build(&one, "a", "aaa", "first").await;
    let (kept, built) = build(&one, "b", "bbb", "second").await;
    one.shared.delete(&one.own, &record).await.unwrap();
    let hour = Duration::from_secs(3600);
    let collect = |hours: u32| one.shared.collect(SystemTime::now() + hours * hour, hour);
    assert_eq!(collect(2).await.unwrap(), 0, "in the first round");
    assert_eq!(collect(2).await.unwrap(), 0, "too early for a second");
    let noted = one.shared.garbage().await.unwrap();
    assert_eq!(noted.len(), 2, "a layer and a manifest");
    let before = blobs(dir.path()).len();
    assert_eq!(collect(4).await.unwrap(), 2);
    assert_eq!(blobs(dir.path()).len(), before - 2);
    fetch(&node(&dir, "two"), &kept, &built).await.unwrap();
    // What was removed is packed again when it is needed.
    let (again, built) = build(&one, "a", "ccc", "first").await;
    fetch(&node(&dir, "three"), &again, &built).await.unwrap();
}

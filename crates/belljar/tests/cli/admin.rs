//! `belljar admin`, on a database of its own.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use belljar_domain::Tier;
use belljar_store::{Registration, Scope, Store};
use belljar_testkit::Postgres;
use serde_json::Value;

use crate::harness::{Place, Ran};

/// A platform's database with its tables.
struct Office {
    place: Place,
    url: String,
}

impl Office {
    fn empty() -> Self {
        Self { place: Place::new(), url: Postgres::shared().schema() }
    }

    fn new() -> Self {
        let office = Self::empty();
        office.run(&["migrate"]).expect_status(0);
        office
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.place.command(&["admin"]);
        let output = command.args(args).env("BELLJAR_DATABASE", &self.url).output();
        Ran::from(output.unwrap())
    }

    #[track_caller]
    fn document(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).expect_status(0).json()
    }

    async fn store(&self) -> Store {
        Store::connect(&self.url, 2).await.unwrap()
    }

    /// What was written down, oldest first.
    fn deeds(&self) -> Vec<(String, String)> {
        let deeds = self.document(&["audit"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let deed = |deed: &Value| (text(&deed["action"]), text(&deed["subject"]));
        deeds.as_array().unwrap().iter().rev().map(deed).collect()
    }
}

async fn register(store: &Store, name: &str, lease: Duration) {
    let mut key = [7; 32];
    key[..name.len()].copy_from_slice(name.as_bytes());
    let number = store.add_node(name).await.unwrap().number;
    store.add_enrolment_token(number, &key, Duration::from_secs(60)).await.unwrap();
    store.enrol(&key, name, &key).await.unwrap();
    let new = Registration {
        number,
        public_key: &key,
        name,
        address: "https://10.0.0.1:3100",
        tiers: &[Tier::Jail],
        slots: 8,
        max_limits: None,
        lease,
    };
    store.register(&new).await.unwrap().expect("it is enrolled");
}

#[tokio::test]
async fn a_key_opens_what_it_says_until_it_is_revoked() {
    let office = Office::new();
    office.run(&["tenant", "put", "acme", "--sandboxes", "20"]).expect_status(0).expect_words(&[
        "created tenant acme",
        "up to 20 sandboxes",
        "next: belljar admin key add",
    ]);
    let ran = office.run(&["key", "add", "acme", "--label", "ci", "--scope", "read"]);
    let key = String::from_utf8(ran.expect_status(0).stdout.clone()).unwrap().trim().to_owned();
    let random = key.strip_prefix("e2b_").unwrap();
    assert!(random.len() == 40 && random.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    assert!(!ran.stderr.contains(&key), "it is printed once: {ran:?}");

    // The store knows it by its hash alone, as control will ask.
    let store = office.store().await;
    let hash = sha256(&key);
    let proven = store.prove(&hash).await.unwrap().unwrap();
    assert_eq!((proven.tenant.as_str(), proven.scopes.as_slice()), ("acme", &[Scope::Read][..]));
    let listed = office.document(&["key", "list", "acme"]);
    assert_eq!(listed[0]["id"], proven.key.as_str());
    assert_eq!((&listed[0]["alive"], &listed[0]["label"]), (&true.into(), &"ci".into()));
    assert!(!listed.to_string().contains(random));

    office.run(&["key", "revoke", "other", &proven.key]).expect_status(1);
    office.run(&["key", "revoke", "acme", &proven.key]).expect_status(0);
    assert_eq!(store.prove(&hash).await.unwrap(), None);
    office
        .run(&["key", "revoke", "acme", &proven.key])
        .expect_status(1)
        .expect_words(&["has no active key", "hint: `belljar admin key list acme`"]);
    let expected = [
        ("migrate", "database"),
        ("tenant.put", "acme"),
        ("key.add", &proven.key),
        ("key.revoke", &proven.key),
    ];
    assert_eq!(office.deeds(), expected.map(|(action, subject)| (action.into(), subject.into())));
}

#[tokio::test]
async fn keys_have_no_more_than_is_usual_and_may_end() {
    let office = Office::new();
    office.run(&["tenant", "put", "acme"]).expect_status(0);
    let made = office.document(&["key", "add", "acme", "--expires-in", "1ms"]);
    assert_eq!(made["scopes"], serde_json::json!(["read", "sandboxes", "templates"]));
    let key = made["key"].as_str().unwrap();
    assert_eq!(office.store().await.prove(&sha256(key)).await.unwrap(), None, "its time is up");
    assert!(String::from_utf8_lossy(&office.run(&["key", "list", "acme"]).stdout).contains(" no "));
}

#[test]
fn a_tenant_keeps_what_nobody_changes() {
    let office = Office::new();
    let put = ["tenant", "put", "acme", "--sandboxes", "5", "--max-lifetime", "90m"];
    let made = office.document(&[&put[..], &["--floor", "gvisor"]].concat());
    assert_eq!(
        (&made["longest_life_seconds"], &made["floor"]),
        (&5400.into(), &"oci/runsc".into())
    );
    let changed = office.document(&["tenant", "put", "acme", "--sandboxes", "6"]);
    assert_eq!(
        changed,
        serde_json::json!({
            "name": "acme", "sandboxes": 6, "longest_life_seconds": 5400, "floor": "oci/runsc",
            "operations": null, "max_runs": null, "max_run_nano_dollars_per_day": null,
        })
    );
    let capped = office.document(&["tenant", "put", "acme", "--operations", "search,llm"]);
    assert_eq!(capped["operations"], serde_json::json!(["llm", "search"]));
    let changed = office.document(&["tenant", "put", "acme", "--floor", "none"]);
    assert_eq!(changed["operations"], capped["operations"]);
    assert_eq!((&changed["floor"], &changed["sandboxes"]), (&Value::Null, &6.into()));

    office.run(&["tenant", "close", "acme"]).expect_status(0).expect_words(&["closed tenant acme"]);
    let listed = office.document(&["tenant", "list"]);
    assert!(listed[0]["closed_at"].is_string(), "{listed}");
    office
        .run(&["key", "add", "acme"])
        .expect_status(1)
        .expect_words(&["no tenant `acme`, or it is closed", "hint: "]);
}

/// It was opened with the quota of a new tenant, and without its floor.
#[test]
fn a_tenant_that_is_opened_again_keeps_its_floor() {
    let office = Office::new();
    let put = ["tenant", "put", "acme", "--sandboxes", "5", "--max-lifetime", "90m"];
    let made = office.document(&[&put[..], &["--floor", "gvisor"]].concat());
    office.run(&["tenant", "close", "acme"]).expect_status(0);
    let ran = office.run(&["tenant", "put", "acme"]);
    ran.expect_status(0).expect_words(&["reopened tenant acme", "up to 5 sandboxes", "oci/runsc"]);
    let listed = office.document(&["tenant", "list"]);
    assert!(listed[0]["closed_at"].is_null(), "{listed}");
    for field in ["sandboxes", "longest_life_seconds", "floor"] {
        assert_eq!(listed[0][field], made[field], "{field}: {listed}");
    }
}

#[tokio::test]
async fn nodes_are_shown_and_drained() {
    let office = Office::new();
    office
        .run(&["node", "list"])
        .expect_status(0)
        .expect_words(&["there are no nodes yet", "hint: "]);
    let store = office.store().await;
    register(&store, "n1", Duration::from_secs(3600)).await;
    register(&store, "n2", Duration::ZERO).await;
    store.give_up(std::time::Duration::ZERO).await.unwrap();
    let ran = office.run(&["node", "list"]);
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let words: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let columns =
        ["NODE", "NUMBER", "STATE", "USED", "SLOTS", "LEASE", "CERTIFICATE", "ADDRESS", "TIERS"];
    assert_eq!(words[0], columns);
    assert_eq!(words[1][..5], ["n1", "1", "up", "0", "8"], "{text}");
    assert_eq!(words[2][..5], ["n2", "2", "lost", "0", "8"], "{text}");
    assert!(words[2].contains(&"expired"), "{text}");

    office.run(&["node", "drain", "n1", "--wait", "1m"]).expect_status(0);
    let listed = office.document(&["node", "list"]);
    assert_eq!(listed[0]["state"], "draining");
    assert!(listed[0]["lease_left_seconds"].as_f64().unwrap() > 0.0);
    office.run(&["node", "drain", "n1"]).expect_status(0).expect_words(&["was already draining"]);
    office.run(&["node", "drain", "n2"]).expect_status(1).expect_words(&["is lost", "hint: "]);
    office.run(&["node", "drain", "n3"]).expect_status(1).expect_words(&["no node `n3`", "hint: "]);
    let drained = office.deeds().iter().filter(|(action, _)| action == "node.drain").count();
    assert_eq!(drained, 1, "only what changed something");
}

#[test]
fn what_is_missing_is_said_with_a_way_on() {
    let office = Office::empty();
    let ran = office.run(&["tenant", "list"]);
    ran.expect_status(1)
        .expect_words(&["hint: create the tables first with `belljar admin migrate`"]);
    let place = Place::new();
    let ran = place.run(&["admin", "node", "list"]);
    ran.expect_status(1).expect_words(&["no database is configured", "hint: set --database-file"]);
    let ran = place.run(&["admin", "node", "list", "--database", "mysql://x"]);
    ran.expect_status(1)
        .expect_words(&["is not a PostgreSQL URL", "hint: use a URL like postgres://"]);
    let gone = "postgres://belljar:hunter2@127.0.0.1:1/belljar";
    let ran = place.run(&["admin", "--database", gone, "node", "list", "--json"]);
    ran.expect_status(1).expect_words(&["cannot reach the database", "hint: "]);
    assert!(ran.json()["error"]["hint"].is_string());
    assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    let office = Office::new();
    let ran = office.run(&["tenant", "put", "../eve"]);
    ran.expect_status(1)
        .expect_words(&["is not a valid tenant name", "hint: use up to 63 letters"]);
    let ran = office.run(&["key", "add", "acme", "--scope", "root"]);
    ran.expect_status(2)
        .expect_words(&["unknown scope `root`", "read, sandboxes, templates, admin"]);
}

#[test]
fn the_address_may_come_from_a_file() {
    let office = Office::new();
    office.place.write("address", format!("{}\n", office.url));
    let ran = office.place.run(&["admin", "--database-file", "address", "tenant", "put", "acme"]);
    ran.expect_status(0);
    assert_eq!(office.document(&["tenant", "list"])[0]["name"], "acme");
    let ran = office.place.run(&["admin", "--database-file", "none", "tenant", "list"]);
    ran.expect_status(1).expect_words(&["cannot read the database URL", "hint: "]);
}

#[test]
fn control_key_is_long_and_secret_and_made_once() {
    let place = Place::new();
    place.run(&["admin", "control-key", "control.key"]).expect_status(0);
    let key = String::from_utf8(place.read("control.key")).unwrap();
    assert!(key.trim().len() >= 32, "{key}");
    let mode = place.path().join("control.key").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let ran = place.run(&["admin", "control-key", "control.key"]);
    ran.expect_status(1).expect_words(&["cannot write", "hint: it may be in use"]);
    assert_eq!(place.read("control.key"), key.as_bytes(), "nothing is overwritten");
    place.run(&["admin", "control-key", "other.key"]).expect_status(0);
    assert_ne!(place.read("other.key"), key.as_bytes());
}

/// Writes a file that all users can read.
fn open_to_all(place: &Place, name: &str, text: &str) {
    place.write(name, text);
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.path().join(name), mode).unwrap();
}

#[test]
fn secrets_that_others_can_read_are_refused_with_the_remedy() {
    let office = Office::new();
    let place = &office.place;
    open_to_all(place, "control.key", &"k".repeat(64));
    let control = [
        "control",
        "--database",
        &office.url,
        "--control-key",
        "control.key",
        "--listen",
        "127.0.0.1:0",
        "--node-listen",
        "127.0.0.1:0",
    ];
    place.run(&control).expect_status(1).expect_words(&["mode 0644", "chmod 600 control.key"]);
    open_to_all(place, "token", "bjnode_x");
    let node = [
        "node",
        "--name",
        "n",
        "--control",
        "https://127.0.0.1:9",
        "--data",
        "data",
        "--enrol-token-file",
        "token",
    ];
    place.run(&node).expect_status(1).expect_words(&["mode 0644", "chmod 600 token"]);
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(place.path().join("token"), mode).unwrap();
    place.run(&node).expect_status(1).expect_words(&["an enrolment token looks like"]);
    place.run(&node[..7]).expect_status(1).expect_words(&["is not enrolled", "hint: "]);
}

#[tokio::test]
async fn node_is_added_with_a_token_that_is_shown_once() {
    let office = Office::new();
    office
        .run(&["node", "add", "node-1"])
        .expect_status(1)
        .expect_words(&["no signing keys yet", "hint: start control first"]);
    let store = office.store().await;
    store.add_first_authority(b"certificate", b"sealed").await.unwrap();
    let ran = office.run(&["node", "add", "node-1"]);
    let token = String::from_utf8(ran.expect_status(0).stdout.clone()).unwrap().trim().to_owned();
    assert!(token.starts_with("bjnode_") && !ran.stderr.contains(&token), "{ran:?}");
    assert_eq!(office.document(&["node", "list"])[0]["state"], "awaited");
    office.run(&["node", "add", "../up"]).expect_status(2).expect_words(&["expected a node name"]);
    register(&store, "node-1", Duration::from_secs(60)).await;
    office
        .run(&["node", "add", "node-1"])
        .expect_status(1)
        .expect_words(&["is already enrolled as `node-1`", "hint: --replace"]);
    office.run(&["node", "add", "node-1", "--replace"]).expect_status(0);
    office
        .run(&["node", "revoke", "node-1"])
        .expect_status(0)
        .expect_words(&["revoked node node-1"]);
    office.run(&["node", "revoke", "nobody"]).expect_status(1).expect_words(&["no node `nobody`"]);
    assert_eq!(office.document(&["node", "list"])[0]["state"], "revoked");
    office.run(&["node", "add", "node-1"]).expect_status(0);
    let deeds = office.deeds();
    assert!(deeds.contains(&("node.revoke".into(), "node-1".into())), "{deeds:?}");
    let all = office.document(&["audit"]).to_string();
    assert!(!all.contains(&token), "a token is on record");
}

fn sha256(text: &str) -> [u8; 32] {
    use sha2::{Digest as _, Sha256};
    Sha256::digest(text).into()
}

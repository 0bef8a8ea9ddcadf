use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::lifecycle::OnTimeout;
use crate::secret::Secret;

fn facts() -> Facts {
    Facts {
        tenant: Tenant::new("a"),
        template: "base".into(),
        alias: "base".into(),
        metadata: BTreeMap::new(),
        env: BTreeMap::new(),
        started_at: now(),
        on_timeout: OnTimeout::Kill,
        auto_resume: false,
        token: Secret::new("t".to_owned()),
        traffic_token: None,
        mask_host: None,
        tier: Tier::GVISOR,
        profile: belljar_domain::SecurityProfile::Full,
        limits: belljar_domain::ChosenLimits::default(),
        data: belljar_domain::Data::default(),
    }
}

fn id(number: u8) -> SandboxId {
    SandboxId::from_random([number; 16])
}

fn written(number: u8, saved: bool, suspended: bool) -> Written {
    let template = serde_json::json!({ "id": "base", "name": "base", "version": "0123456789ab" });
    Written {
        version: RECORD_VERSION,
        id: id(number),
        facts: facts(),
        deadline: now(),
        template: serde_json::from_value(template).unwrap(),
        saved,
        suspended,
        network: Network::default(),
        ran: Duration::ZERO,
        generation: None,
    }
}

fn put(journal: &Journal, number: u8) {
    let dir = journal.memory(&id(number));
    fs::create_dir_all(dir.join("machine")).unwrap();
    fs::write(dir.join("machine/pages"), b"memory").unwrap();
}

#[test]
fn what_was_put_on_disk_is_found_again_in_the_form_it_had() {
    let state = tempfile::tempdir().unwrap();
    let journal = Journal::open(state.path()).unwrap();
    for (number, saved, suspended) in [(1, true, false), (2, false, true), (3, false, false)] {
        journal.write(&written(number, saved, suspended)).unwrap();
    }
    fs::write(journal.saved_files(&id(1)), b"files").unwrap();
    put(&journal, 2);
    // It runs, or did: what lies there was never finished.
    put(&journal, 3);
    // Its directory is gone.
    journal.write(&written(4, false, true)).unwrap();
    let journal = Journal::open(state.path()).unwrap();
    let mut left = journal.left().unwrap();
    left.sort_by_key(|written| written.id.to_string());
    for written in left {
        let paused = written.paused(&journal);
        match written.id {
            found if found == id(1) => assert!(matches!(paused, Some(Paused::Saved(_)))),
            found if found == id(2) => {
                assert!(matches!(&paused, Some(Paused::Suspended(dir)) if dir.is_dir()));
                assert!(outlives_the_server(&State::Paused(paused.unwrap())));
            }
            _ => assert!(paused.is_none(), "{:?}", written.id),
        }
    }
    let mode = fs::metadata(&journal.dir).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn the_end_of_a_sandbox_leaves_nothing_of_it_on_disk() {
    let state = tempfile::tempdir().unwrap();
    let journal = Journal::open(state.path()).unwrap();
    journal.write(&written(1, false, true)).unwrap();
    put(&journal, 1);
    journal.end(&id(1), &facts(), EndReason::Killed).unwrap();
    assert_eq!(fs::read_dir(&journal.dir).unwrap().count(), 0);
    let ended = journal.ended(&Tenant::new("a"), 1);
    assert_eq!((ended[0].tier, ended[0].reason), (Tier::GVISOR, EndReason::Killed));
}

#[test]
fn memory_that_belongs_to_nothing_is_removed() {
    let state = tempfile::tempdir().unwrap();
    let journal = Journal::open(state.path()).unwrap();
    put(&journal, 1);
    assert!(journal.left().unwrap().is_empty());
    assert_eq!(fs::read_dir(&journal.dir).unwrap().count(), 0);
}

/// Has a server find this record of a paused sandbox, twice. Returns all that it set aside.
fn set_aside(record: &[u8]) -> Vec<String> {
    let state = tempfile::tempdir().unwrap();
    let journal = Journal::open(state.path()).unwrap();
    fs::write(journal.path(&id(1)), record).unwrap();
    fs::write(journal.saved_files(&id(1)), b"files").unwrap();
    fs::write(journal.calls(&id(1)), b"[]").unwrap();
    put(&journal, 1);
    // One that can be read is not touched.
    journal.write(&written(2, true, false)).unwrap();
    fs::write(journal.saved_files(&id(2)), b"files").unwrap();
    for _ in 0..2 {
        let journal = Journal::open(state.path()).unwrap();
        let left = journal.left().unwrap();
        assert_eq!(left.iter().map(|left| &left.id).collect::<Vec<_>>(), [&id(2)]);
        assert!(journal.saved_files(&id(2)).exists());
    }
    let dir = journal.dir.join(quarantine::DIR);
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read(dir.join(format!("{}.json", id(1)))).unwrap(), record);
    let memory = dir.join(format!("{}.memory/machine/pages", id(1)));
    assert_eq!(fs::read(memory).unwrap(), b"memory");
    quarantine::names(&journal.dir)
}

#[test]
fn a_record_that_cannot_be_read_is_set_aside_with_all_that_belongs_to_it() {
    let whole = serde_json::to_vec(&written(1, false, true)).unwrap();
    let mut newer = serde_json::to_value(written(1, false, true)).unwrap();
    newer["version"] = serde_json::json!(RECORD_VERSION + 1);
    let mut unknown = serde_json::to_value(written(1, false, true)).unwrap();
    unknown["facts"]["on_timeout"] = serde_json::json!("hibernate");
    let names: Vec<_> =
        ["calls", "files", "json", "memory"].map(|it| format!("{}.{it}", id(1))).into();
    assert_eq!(set_aside(&whole[..whole.len() / 2]), names, "torn");
    assert_eq!(set_aside(b""), names, "empty");
    assert_eq!(set_aside(newer.to_string().as_bytes()), names, "of a newer version");
    assert_eq!(set_aside(unknown.to_string().as_bytes()), names, "with a word of a newer version");
}

#[test]
fn a_record_from_before_there_were_tiers_is_one_of_the_jail() {
    let mut old = serde_json::to_value(written(1, true, false)).unwrap();
    old["facts"].as_object_mut().unwrap().remove("tier").unwrap();
    old.as_object_mut().unwrap().remove("suspended").unwrap();
    let read: Written = serde_json::from_value(old).unwrap();
    assert_eq!((read.facts.tier, read.saved, read.suspended), (Tier::Jail, true, false));
    let old = "{\"id\":\"aaaaaaaaaaaaaaaaaaaaaaaaaa\",\"tenant\":\"a\",\"template\":\"base\",\
        \"started_at\":\"2026-01-01T00:00:00Z\",\"ended_at\":\"2026-01-01T00:00:01Z\",\
        \"reason\":\"killed\"}";
    let ended: Ended = serde_json::from_str(old).unwrap();
    assert_eq!(ended.tier, Tier::Jail);
}

#[test]
fn an_end_that_could_not_be_written_is_owed() {
    let state = tempfile::tempdir().unwrap();
    let journal = Journal::open(state.path()).unwrap();
    journal.write(&written(1, false, false)).unwrap();
    // Larger than it may be, and what it should become is a directory in use.
    let journal = Journal { ends: Ends::bounded(state.path(), 0).unwrap(), ..journal };
    journal.end(&id(9), &facts(), EndReason::Killed).unwrap();
    let old = state.path().join("ended.old.jsonl");
    fs::create_dir_all(old.join("in use")).unwrap();
    assert!(journal.end(&id(1), &facts(), EndReason::Killed).is_err());
    assert_eq!(journal.pay(), 1);
    assert!(!journal.has_ended(&Tenant::new("a"), &id(1)));
    assert!(journal.path(&id(1)).exists(), "what was written of it is gone before its end is");
    fs::remove_dir_all(old).unwrap();
    assert_eq!(journal.pay(), 0);
    assert!(journal.has_ended(&Tenant::new("a"), &id(1)));
    assert!(!journal.path(&id(1)).exists());
}

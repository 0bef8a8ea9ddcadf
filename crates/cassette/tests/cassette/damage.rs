//! Crashes, and hands that change what is stored.

use std::fs;
use std::path::PathBuf;

use belljar_cassette::{
    BlobError, Digest, IndexError, NotPlayed, PlayError, Playback, Redactor, StoreError,
};

use crate::ask::{World, get, id, post, say};

fn tenant(world: &World) -> PathBuf {
    world.folder.path().join("tapes").join(Digest::of(b"acme").to_string())
}

fn index(world: &World) -> PathBuf {
    tenant(world).join("cassettes/a/index.jsonl")
}

fn blob(world: &World, content: &[u8]) -> PathBuf {
    let name = Digest::of(content).to_string();
    tenant(world).join("blobs").join(&name[..2]).join(format!("{}.zst", &name[2..]))
}

#[test]
fn a_line_that_was_not_finished_is_ignored_and_then_cut() {
    let world = World::new();
    get("https://a.org/1").gets(&world.recorder(), "text/plain", b"one");
    let whole = fs::read(index(&world)).unwrap();
    for cut in [1, whole.len() / 2, whole.len() - 1] {
        fs::write(index(&world), [whole.as_slice(), &whole[..cut]].concat()).unwrap();
        let player = world.player();
        assert_eq!(get("https://a.org/1").heard(&player), "one");
        assert_eq!(get("https://a.org/2").missed(&player).recorded, 1);
    }
    get("https://a.org/2").gets(&world.recorder(), "text/plain", b"two");
    let player = world.player();
    assert_eq!(get("https://a.org/1").heard(&player), "one");
    assert_eq!(get("https://a.org/2").heard(&player), "two");
}

#[test]
fn a_line_that_is_no_exchange_is_an_error() {
    let world = World::new();
    get("https://a.org/1").gets_with(&world.recorder(), 200, &[("x-a", "b")], b"one");
    let whole = fs::read_to_string(index(&world)).unwrap();
    for (from, to) in [
        ("{", "{{"),
        ("\"GET\"", "\"GE T\""),
        (":200,", ":99,"),
        ("https://a.org/1", "https://a.org/1#x"),
        ("\"x-a\",\"b\"", r#""x-a","b\r\nset-cookie: c""#),
        ("\"x-a\"", "\"x a\""),
        ("\"x-a\"", "\"transfer-encoding\""),
        ("\"request\"", "\"unknown\":1,\"request\""),
    ] {
        let changed = whole.replacen(from, to, 1);
        assert_ne!(changed, whole);
        fs::write(index(&world), format!("{whole}{changed}")).unwrap();
        let error = world.tenant().play(&id("a"), Redactor::by_name(), Playback::default());
        assert!(
            matches!(
                error,
                Err(PlayError::Store(StoreError::Index { source: IndexError::Line(2), .. }))
            ),
            "{to}"
        );
        // Nor is it written over.
        assert!(world.tenant().record(&id("a"), Redactor::by_name()).is_err());
    }
}

#[test]
fn a_changed_blob_is_never_served() {
    let big = vec![7; 6 << 20];
    for content in [b"the truth".as_slice(), &big] {
        let world = World::new();
        get("https://a.org/").gets(&world.recorder(), "application/zip", content);
        let path = blob(&world, content);
        let stored = fs::read(&path).unwrap();
        let damages: [Vec<u8>; 6] = [
            zstd::encode_all(b"not the truth".as_slice(), 3).unwrap(),
            zstd::encode_all([content, b"!"].concat().as_slice(), 3).unwrap(),
            zstd::encode_all(&content[1..], 3).unwrap(),
            stored[..stored.len() - 1].to_vec(),
            [stored.as_slice(), b"more"].concat(),
            vec![],
        ];
        let player = world.player();
        for damage in damages {
            fs::write(&path, damage).unwrap();
            let found = player.find(&get("https://a.org/").view());
            assert!(matches!(found, Err(NotPlayed::Damaged(BlobError::Damaged(_)))), "{found:?}");
        }
        let report = world.tenant().verify(&id("a")).unwrap();
        assert_eq!((report.exchanges, report.problems.len()), (1, 1), "{report:?}");
        assert!(world.tenant().export(&id("a"), &mut vec![]).is_err());
        fs::remove_file(&path).unwrap();
        let found = player.find(&get("https://a.org/").view());
        assert!(matches!(found, Err(NotPlayed::Damaged(BlobError::Missing(_)))), "{found:?}");
        // Recording the same again heals it.
        get("https://a.org/other").gets(&world.recorder(), "application/zip", content);
        assert_eq!(get("https://a.org/").found(&player).bytes, content.len() as u64);
        assert_eq!(world.tenant().verify(&id("a")).unwrap().problems, []);
    }
}

#[test]
fn a_request_that_is_not_as_the_index_says_is_reported() {
    let world = World::new();
    say(r#"{"a":1}"#).gets(&world.recorder(), "text/plain", b"");
    let lines = fs::read_to_string(index(&world)).unwrap();
    let (was, other) = (Digest::of(br#"{"a":1}"#), Digest::of(br#"{"a":2}"#));
    let changed = lines.replace(&format!("\"json\":\"{was}\""), &format!("\"json\":\"{other}\""));
    assert_ne!(lines, changed);
    fs::write(index(&world), changed).unwrap();
    let report = world.tenant().verify(&id("a")).unwrap();
    assert_eq!(report.problems.len(), 1, "{report:?}");
}

#[test]
fn a_cassette_has_one_recorder_at_a_time() {
    let world = World::new();
    let recorder = world.recorder();
    let busy = |result| matches!(result, Err(StoreError::Busy(name)) if name == id("a"));
    assert!(busy(world.tenant().record(&id("a"), Redactor::by_name()).map(drop)));
    assert!(busy(world.tenant().remove(&id("a")).map(drop)));
    world.tenant().record(&id("b"), Redactor::by_name()).unwrap();
    // An exchange on its way holds it as well.
    let begun = recorder.begin(&get("https://a.org/").view()).unwrap();
    drop(recorder);
    assert!(busy(world.tenant().record(&id("a"), Redactor::by_name()).map(drop)));
    drop(begun);
    world.recorder();
}

#[test]
fn removing_takes_along_what_nothing_else_needs() {
    let world = World::new();
    get("https://a.org/1").gets(&world.recorder(), "text/plain", b"shared");
    post("https://a.org/2", b"asked").gets(&world.recorder(), "text/plain", b"own");
    let recorder = world.tenant().record(&id("b"), Redactor::by_name()).unwrap();
    get("https://a.org/1").gets(&recorder, "text/plain", b"shared");
    let names = |world: &World| -> Vec<_> {
        world
            .tenant()
            .list()
            .unwrap()
            .into_iter()
            .map(|s| (s.name.to_string(), s.exchanges, s.bytes))
            .collect()
    };
    assert_eq!(names(&world), [("a".into(), 2, 14), ("b".into(), 1, 6)]);

    // While something is in use, content stays.
    assert!(world.tenant().remove(&id("a")).unwrap());
    assert!(blob(&world, b"own").exists());
    drop(recorder);
    assert_eq!(world.tenant().sweep().unwrap(), Some(2));
    assert!(!blob(&world, b"own").exists() && !blob(&world, b"asked").exists());
    assert!(blob(&world, b"shared").exists());
    assert!(!world.tenant().remove(&id("a")).unwrap());
    assert_eq!(names(&world), [("b".into(), 1, 6)]);
    assert!(world.tenant().remove(&id("b")).unwrap());
    assert!(!blob(&world, b"shared").exists());
}

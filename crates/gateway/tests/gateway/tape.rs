//! Recorded, and played with nobody there.
//!
//! Requirements: N5

use belljar_domain::network::{Decision, Kind, Miss, Policy, Reason, Tape};

use crate::client::{ask, tls, trusting};
use crate::world::{Sandbox, World, allow};

fn name() -> belljar_domain::network::CassetteId {
    "first".parse().unwrap()
}

async fn get(sandbox: &Sandbox, port: u16, path: &str, body: &str) -> crate::client::Answer {
    let stream = sandbox.tunnel(&format!("good.test:{port}")).await.unwrap();
    let mut stream = tls(stream, "good.test", &trusting(sandbox)).await.unwrap();
    let text = format!(
        "POST {path} HTTP/1.1\r\nhost: good.test:{port}\r\nauthorization: Bearer secret\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    ask(&mut stream, &text).await
}

#[tokio::test]
async fn what_was_recorded_is_played_with_no_network_at_all() {
    let world = World::start().await;
    let port = world.secure("good.test").await;
    world.names.set("good.test", &["127.0.0.1"]);
    let record = Tape::Record { cassette: name() };
    let sandbox = world.sandbox(Policy { tape: record, ..allow(&[("good.test", port)]) });
    let recorded = get(&sandbox, port, "/a?b=c", "body").await;
    assert_eq!(recorded.body, "POST /a body");
    let rows = world.rows(&sandbox, |rows| rows.iter().any(|r| r.kind == Kind::Exchange)).await;
    let row = rows.iter().find(|row| row.kind == Kind::Exchange).unwrap();
    assert_eq!((row.decision, row.reason), (Decision::Allowed, Reason::Recorded));
    world.gateway.close(&sandbox.id).unwrap();
    let asked = world.names.asked("good.test");
    let seen = world.seen.lock().unwrap().len();

    let replay = Tape::Replay { cassette: name(), miss: Miss::Strict };
    let sandbox = world.sandbox(Policy { tape: replay, ..Policy::default() });
    let played = get(&sandbox, port, "/a?b=c", "body").await;
    assert_eq!((played.status, played.body), (200, recorded.body));
    let missed = get(&sandbox, port, "/a?b=c", "bodY").await;
    assert_eq!((missed.status, missed.header("x-belljar-reason")), (502, Some("not_recorded")));
    let said: serde_json::Value = serde_json::from_str(&missed.body).unwrap();
    assert_eq!(said["code"], "not_recorded");
    assert_eq!(said["nearest"]["method"], "POST");
    let rows = world.rows(&sandbox, |rows| rows.len() == 4).await;
    let exchanges: Vec<_> = rows
        .iter()
        .filter(|row| row.kind == Kind::Exchange)
        .map(|row| (row.decision, row.reason))
        .collect();
    let wanted = [(Decision::Played, Reason::Replayed), (Decision::Denied, Reason::NotRecorded)];
    assert_eq!(exchanges, wanted);
    assert_eq!(world.names.asked("good.test"), asked, "nothing is looked up");
    assert_eq!(world.seen.lock().unwrap().len(), seen, "nobody is asked");
    for found in walk(world.folder()) {
        let bytes = std::fs::read(&found).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"secret"), "{}", found.display());
    }
}

#[tokio::test]
async fn what_is_missing_may_fall_through_once() {
    let world = World::start().await;
    let port = world.secure("good.test").await;
    world.names.set("good.test", &["127.0.0.1"]);
    let record = Tape::Record { cassette: name() };
    let sandbox = world.sandbox(Policy { tape: record, ..allow(&[("good.test", port)]) });
    get(&sandbox, port, "/a", "").await;
    world.gateway.close(&sandbox.id).unwrap();
    let replay = Tape::Replay { cassette: name(), miss: Miss::Fallthrough };
    let sandbox = world.sandbox(Policy { tape: replay, ..allow(&[("good.test", port)]) });
    for path in ["/a", "/b", "/b"] {
        assert_eq!(get(&sandbox, port, path, "").await.body, format!("POST {path} "));
    }
    assert_eq!(*world.seen.lock().unwrap(), ["/a", "/b"]);
}

#[tokio::test]
async fn tenants_do_not_hear_each_others_tapes() {
    let world = World::start().await;
    let port = world.secure("good.test").await;
    world.names.set("good.test", &["127.0.0.1"]);
    let record = Tape::Record { cassette: name() };
    let policy = Policy { tape: record, ..allow(&[("good.test", port)]) };
    let sandbox = world.sandbox_of("one", policy, false);
    get(&sandbox, port, "/a", "").await;
    world.gateway.close(&sandbox.id).unwrap();
    let record = Policy { tape: Tape::Record { cassette: name() }, ..Policy::default() };
    let sandbox = world.sandbox_of("two", record, false);
    world.gateway.close(&sandbox.id).unwrap();
    let replay = Tape::Replay { cassette: name(), miss: Miss::Strict };
    let sandbox = world.sandbox_of("two", Policy { tape: replay, ..Policy::default() }, false);
    assert_eq!(get(&sandbox, port, "/a", "").await.status, 502);
}

#[tokio::test]
async fn a_cassette_that_is_not_there_cannot_be_replayed() {
    let world = World::start().await;
    let sandbox = world.sandbox(Policy::default());
    let replay = |miss| Policy { tape: Tape::Replay { cassette: name(), miss }, ..allow(&[]) };
    let refused = world.gateway.change(&sandbox.id, replay(Miss::Strict));
    assert!(refused.unwrap_err().to_string().starts_with("there is no cassette `first`"));
    // One that is to be filled may be empty.
    world.gateway.change(&sandbox.id, replay(Miss::Fallthrough)).unwrap();
    let record = Policy { tape: Tape::Record { cassette: name() }, ..Policy::default() };
    world.gateway.change(&sandbox.id, record).unwrap();
    world.gateway.change(&sandbox.id, replay(Miss::Strict)).unwrap();
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

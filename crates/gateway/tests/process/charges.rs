//! A gateway that is killed in the middle of an answer, and those that come after it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use belljar_domain::network::{Charge, Decision, Policy, Row};
use belljar_peer_proto::gateway::{Belongs, FromGateway, Grant, ToGateway};
use belljar_scripted::{Model, Options, Script};

use super::{Gateway, PATIENCE, sandbox, session};

const SCRIPT: &str = r#"
    [[scene]]
    when = "cut me"
    [[scene.turn]]
    say = "one two three four"
    usage = { input = 7, output = 4 }
    fault = { kind = "stall", after = 5 }

    [[turn]]
    say = "hello there"
    usage = { input = 11, output = 5 }
"#;

const PRICES: &str = "[[price]]\nmodels = [\"claude-*\"]\ninput = 3000\ncache_read = 300\n\
                      cache_write_5m = 3750\noutput = 15000\n";

/// Most tokens of an answer: what is put aside for it.
const MAX_TOKENS: u64 = 100;

/// One answer is delivered, another one is cut by `kill -9`. No row of them is taken.
pub(super) fn of_a_killed_gateway() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = Options { script: Script::parse(SCRIPT).unwrap(), ..Options::default() };
    let model = runtime.block_on(Model::start(options)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("prices.toml"), PRICES).unwrap();
    let settings = format!(
        "[operations.llm]\nkind = \"model\"\nplaintext = true\nupstream = \"http://{}\"\n\
         dialects = [\"anthropic-messages\"]\nprices = {:?}\n",
        model.address(),
        folder.path().join("prices.toml"),
    );
    let logs = folder.path().join("charges");
    let mut first = Gateway::start_with(&settings, Some(&logs));
    let token = first.token();
    let (whole, _client) = ask(&first, &token, "hi", "message_stop");
    // Its client stays: one that leaves is charged for the part that it was sent.
    let (cut, _client_of_cut) = ask(&first, &token, "cut me", "one");
    assert!(!cut.contains("message_stop"), "{cut}");
    assert_bounded(&logs);
    kill(first);
    assert_eq!(model.record().total(), 2, "{whole}");

    let mut second = Gateway::start_with(&settings, Some(&logs));
    let rows = second.replayed(2);
    assert_charged(&rows);
    // It is killed before the rows are stored: the next one sends the same.
    kill(second);
    let mut third = Gateway::start_with(&settings, Some(&logs));
    assert_eq!(third.replayed(2), rows);
    let ids: Vec<_> = rows.iter().filter_map(|row| row.charge_id.clone()).collect();
    third.send(&ToGateway::Charged { ids }, &[]);
    // Its own folder is left, and it has nothing of the others.
    wait(|| folders(&logs) == 1);
    kill(third);
    let mut last = Gateway::start_with(&settings, Some(&logs));
    last.send(&ToGateway::Replay, &[]);
    wait(|| folders(&logs) == 1);
    let finish = ToGateway::Finish { sequence: 9 };
    assert_eq!(last.ask(&finish, &[]), FromGateway::Done { sequence: 9 });
    assert!(last.rows.is_empty(), "{:?}", last.rows);
    assert_eq!(model.record().total(), 2, "nothing was asked again");
}

/// Code inside fills headers and texts, and no record gets longer for it.
fn assert_bounded(logs: &Path) {
    let folders = fs::read_dir(logs).unwrap().map(|entry| entry.unwrap().path());
    let mut folders = folders.filter(|path| path.is_dir());
    let folder = folders.next().unwrap();
    for segment in fs::read_dir(folder).unwrap() {
        let text = fs::read(segment.unwrap().path()).unwrap();
        assert!(text.split(|&byte| byte == b'\n').all(|line| line.len() < 2 << 10));
    }
}

fn assert_charged(rows: &[Row]) {
    let ids: BTreeSet<_> = rows.iter().filter_map(|row| row.charge_id.as_ref()).collect();
    assert_eq!(ids.len(), 2);
    let charges: Vec<&Charge> = rows.iter().filter_map(|row| row.charge.as_ref()).collect();
    let [whole, cut] = charges[..] else { panic!("{charges:?}") };
    // As the provider counts it.
    assert_eq!((whole.input, whole.output), (11, 5));
    assert!(!whole.estimated && !whole.assumed, "{whole:?}");
    assert_eq!(rows[0].decision, Decision::Allowed);
    // Its reservation.
    assert_eq!(cut.output, MAX_TOKENS);
    assert!(cut.estimated && cut.nano_dollars >= MAX_TOKENS * 15000, "{cut:?}");
    assert_eq!(rows[1].decision, Decision::Failed);
    for row in rows {
        assert_eq!(row.operation.as_deref(), Some("llm"));
        assert_eq!(row.subject.tenant, "tenant");
    }
}

impl Gateway {
    /// Opens a sandbox, and makes a token for the model.
    fn token(&mut self) -> String {
        let mut session = session(2, Policy::default());
        session.operations = vec!["llm".to_owned()];
        let open = ToGateway::Open { sequence: 1, session };
        assert!(matches!(self.ask(&open, &[]), FromGateway::Opened { .. }));
        let operations = vec!["llm".to_owned()];
        let grant = Grant { operations, agent: None, seconds: 300, budget: None, approvals: None };
        let mint = ToGateway::Mint { sequence: 2, sandbox: sandbox(2), grant };
        match self.ask(&mint, &[]) {
            FromGateway::Minted { minted, .. } => minted.token,
            other => panic!("{other:?}"),
        }
    }

    /// The rows that others left, in the order of their requests.
    fn replayed(&mut self, count: usize) -> Vec<Row> {
        self.send(&ToGateway::Replay, &[]);
        let mut rows = Vec::new();
        while rows.len() < count {
            match self.receive() {
                FromGateway::Rows { rows: more } => rows.extend(more),
                FromGateway::ChargeLog { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(rows.len(), count);
        rows
    }
}

/// Asks the model, and reads its stream until `last` is there. The connection stays open.
fn ask(gateway: &Gateway, token: &str, text: &str, last: &str) -> (String, UnixStream) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let connection = ToGateway::Connection { sandbox: sandbox(2), belongs: Belongs::default() };
    gateway.send(&connection, &[theirs.into()]);
    let body = format!(
        r#"{{"model":"claude-x","max_tokens":{MAX_TOKENS},"stream":true,
            "messages":[{{"role":"user","content":"{text}"}}]}}"#
    );
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1:3128\r\nauthorization: Bearer {token}\r\n\
         anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n\
         x-filler: {}\r\ncontent-length: {}\r\n\r\n{body}",
        "f".repeat(20 << 10),
        body.len()
    );
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    ours.write_all(request.as_bytes()).unwrap();
    let (mut said, mut buffer) = (String::new(), vec![0; 64 << 10]);
    while !said.contains(last) {
        let count = ours.read(&mut buffer).unwrap();
        assert!(count > 0, "it ended: {said}");
        said.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    (said, ours)
}

fn kill(mut gateway: Gateway) {
    gateway.process.kill().unwrap();
    gateway.process.wait().unwrap();
}

/// Logs of one process each.
fn folders(logs: &Path) -> usize {
    let entries = fs::read_dir(logs).unwrap();
    entries.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_dir())).count()
}

fn wait(is_done: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_done() {
        assert!(began.elapsed() < PATIENCE, "it never comes");
        std::thread::yield_now();
    }
}

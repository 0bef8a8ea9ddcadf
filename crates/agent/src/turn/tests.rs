use std::time::Duration;

use belljar_domain::network::{Bytes, Reason};
use belljar_domain::rows::{CallKind, FileChange};
use belljar_domain::{Attribution, EndReason, ExecId, RunId};
use belljar_journal::event::{
    Budget, Finished, Outcome, Output, Prompt, RunCreated, SandboxAttached, Used,
};
use belljar_journal::{
    BlobRef, Directory, First, Lease, LedgerDirectory, NewEvent, NewRun, RowDirectory,
};
use belljar_objects::Digest;
use serde_json::json;

use super::*;

fn address(tenant: &str) -> Address {
    Address { tenant: tenant.to_owned(), run: RunId::from_bits([5; 16]) }
}

fn sandbox() -> SandboxId {
    SandboxId::from_random([6; 16])
}

fn exec(turn: u32) -> ExecId {
    CallRef { turn, id: "c".to_owned() }.exec(&address("ann").run, 1)
}

/// A run that has begun, and the lease to go on with it.
async fn begun(journal: &Directory) -> Lease {
    let prompt = Prompt { name: "p".into(), version: "1".into(), sha256: Digest::of(b"p") };
    let created = RunCreated {
        question: "why?".into(),
        datasets: vec![],
        model: "m".into(),
        prompt,
        budget: Budget::default(),
        now: OffsetDateTime::UNIX_EPOCH,
        wish: None,
    };
    let new =
        NewRun { address: address("ann"), first: First::Created(created), most_unfinished: None };
    journal.create(&new).await.unwrap();
    let lease = journal.claim(&address("ann"), "w", Duration::from_secs(60)).await.unwrap();
    let attached = SandboxAttached {
        sandbox: sandbox(),
        number: 1,
        template: "base".into(),
        restored: None,
        data: None,
        environment: None,
    };
    append(journal, &lease, attached).await;
    lease
}

async fn append(journal: &Directory, lease: &Lease, body: impl Into<Body>) -> Sequence {
    journal.append(lease, NewEvent::new(body)).await.unwrap().seq()
}

/// A turn with one call of the code `run N`. Every turn names its call `c`.
async fn add_turn(journal: &Directory, lease: &Lease, turn: u32, output: Option<BlobRef>) {
    let call = CallRef { turn, id: "c".into() };
    let asked = LlmRequested {
        turn,
        attempt: 1,
        model: "m".into(),
        prompt: Digest::of(b""),
        reservation: None,
        last: false,
    };
    let asked = append(journal, lease, asked).await;
    let input = json!({ "command": format!("run {turn}") });
    let answer = belljar_journal::event::LlmResponded {
        turn,
        asked,
        blocks: vec![
            Block::Text { text: format!("turn {turn}") },
            Block::ToolUse { id: "c".into(), name: "shell".into(), input },
        ],
        stop: "tool_use".into(),
        tokens: Tokens { input: 10, output: u64::from(turn), ..Tokens::default() },
        nano_dollars: 7,
        assumed: false,
        upstream_request: None,
        raw: None,
        first_token_micros: None,
        micros: 2000,
    };
    append(journal, lease, answer).await;
    let intended = belljar_journal::event::ToolIntended {
        call: call.clone(),
        name: "shell".into(),
        arguments: Digest::of(b""),
    };
    append(journal, lease, intended).await;
    let started = ToolStarted {
        call: call.clone(),
        exec: exec(turn),
        attempt: 1,
        sandbox: sandbox(),
        generation: lease.generation,
        timeout_ms: None,
        cpu_ms: None,
    };
    append(journal, lease, started).await;
    let finished = ToolFinished {
        call,
        exec: Some(exec(turn)),
        reason: EndReason::Done,
        exit_code: Some(0),
        shown: format!("shown {turn}"),
        cut: None,
        outputs: output
            .map(|content| Output { stream: "all".into(), content, path: None })
            .into_iter()
            .collect(),
        fault: None,
        used: Used { wall_micros: 3000, cpu_micros: 1000, output_bytes: 5, ..Used::default() },
    };
    append(journal, lease, finished).await;
}

fn row(id: &str, turn: u32, body: RowBody) -> AttributedRow {
    AttributedRow {
        id: id.to_owned(),
        tenant: "ann".to_owned(),
        sandbox: sandbox(),
        attribution: Some(Attribution { run: address("ann").run, turn, call: Some(exec(turn)) }),
        began: 1,
        micros: 2,
        body,
    }
}

fn connected(decision: model::Decision, host: &str) -> RowBody {
    RowBody::Connection(ConnectionRow {
        sequence: 1,
        kind: model::Kind::Connection,
        decision,
        reason: Reason::Rule,
        host: Some(host.to_owned()),
        port: Some(443),
        operation: None,
        method: None,
        path: None,
        status: None,
        bytes: Bytes { out: 3, into: 4 },
        charge: None,
        is_late: false,
    })
}

fn called(path: &str) -> RowBody {
    let change = FileChange { path: path.to_owned(), change: ChangeKind::Created, bytes: Some(9) };
    RowBody::Call(CallRow {
        number: 2,
        kind: CallKind::Process,
        is_ok: true,
        reason: EndReason::Done,
        exit_code: Some(0),
        cpu_micros: 1,
        peak_bytes: None,
        output_bytes: 5,
        files: vec![change],
        is_cut: false,
    })
}

fn rows_in(folder: &std::path::Path) -> RowDirectory {
    let ledger = LedgerDirectory::new(folder.join("ledger"));
    RowDirectory::new(folder.join("rows"), folder.join("runs"), ledger)
}

#[tokio::test]
async fn a_turn_shows_its_own_code_output_files_and_connections() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Directory::open(&folder.path().join("runs")).unwrap();
    let rows = rows_in(folder.path());
    let lease = begun(&journal).await;
    let whole = journal.put_blob(&address("ann"), b"the whole output".to_vec()).await.unwrap();
    add_turn(&journal, &lease, 1, None).await;
    add_turn(&journal, &lease, 2, Some(whole)).await;
    let model_row = AttributedRow {
        sandbox: SandboxId::from_random([9; 16]),
        ..row("m", 2, connected(model::Decision::Allowed, "model.test"))
    };
    rows.put(&[
        row("a", 1, connected(model::Decision::Allowed, "allowed.test")),
        row("b", 2, connected(model::Decision::Denied, "denied.test")),
        row("c", 1, called("/home/user/one")),
        row("d", 2, called("/home/user/two")),
        model_row,
    ])
    .await
    .unwrap();
    let hosts = |of: &[TurnConnection]| -> Vec<String> {
        of.iter().filter_map(|connection| connection.host.clone()).collect()
    };
    let first = turn(&journal, &rows, &address("ann"), 1).await.unwrap().unwrap();
    assert_eq!(hosts(&first.connections), ["allowed.test"]);
    assert_eq!(first.calls[0].input, json!({ "command": "run 1" }));
    assert_eq!(first.calls[0].end.as_ref().unwrap().output, "shown 1");
    assert_eq!(first.calls[0].changes[0].path, "/home/user/one");
    assert!(first.model_connections.is_empty());
    let second = turn(&journal, &rows, &address("ann"), 2).await.unwrap().unwrap();
    assert_eq!(hosts(&second.connections), ["denied.test"]);
    assert_eq!(second.connections[0].call, second.calls[0].call);
    assert_eq!(second.calls[0].end.as_ref().unwrap().output, "the whole output");
    assert_eq!(second.calls[0].changes[0].path, "/home/user/two");
    assert_eq!(hosts(&second.model_connections), ["model.test"]);
    assert_eq!(second.text.as_deref(), Some("turn 2"));
    assert_eq!(second.requests[0].outcome.as_deref(), Some("answered"));
    let used = TurnUsed {
        tokens: 12,
        nano_dollars: 7,
        model_ms: 2,
        call_ms: 3,
        cpu_ms: 1,
        output_bytes: 5,
        network: TurnNetwork { out: 3, into: 4, denied: 1 },
    };
    assert_eq!(second.used, used);
    assert!(turn(&journal, &rows, &address("ann"), 3).await.unwrap().is_none());
    let foreign = turn(&journal, &rows, &address("bob"), 1).await;
    assert!(matches!(foreign, Err(TurnError::Read(ReadError::NoRun))), "{foreign:?}");
}

/// A node that had a sandbox of the tenant may name any of its runs.
#[test]
fn rows_of_a_node_count_only_for_sandboxes_of_the_run() {
    let (foreign, address) = (SandboxId::from_random([9; 16]), address("ann"));
    let attached = SandboxAttached {
        sandbox: sandbox(),
        number: 1,
        template: "base".into(),
        restored: None,
        data: None,
        environment: None,
    };
    let at = OffsetDateTime::UNIX_EPOCH;
    let body = Body::from(attached);
    let events = [Event { seq: Sequence(1), at, lease: None, key: None, body }];
    let allowed = |host| connected(model::Decision::Allowed, host);
    let of_foreign =
        |host| AttributedRow { sandbox: foreign.clone(), ..row("r", 1, allowed(host)) };
    let rows = [
        FoundRow { row: row("a", 1, allowed("own.test")), is_of_node: true },
        FoundRow { row: of_foreign("forged.test"), is_of_node: true },
        FoundRow { row: of_foreign("model.test"), is_of_node: false },
    ];
    let outputs = BTreeMap::new();
    let parts = Parts { run: &address, number: 1, events: &events, rows: &rows, outputs };
    let turn = parts.assemble();
    let hosts = |of: &[TurnConnection]| -> Vec<String> {
        of.iter().filter_map(|connection| connection.host.clone()).collect()
    };
    assert_eq!(hosts(&turn.connections), ["own.test"]);
    assert_eq!(hosts(&turn.model_connections), ["model.test"]);
    assert_eq!(turn.used.network, TurnNetwork { out: 3, into: 4, denied: 0 });
}

#[tokio::test]
async fn output_that_is_too_long_is_cut_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Directory::open(&folder.path().join("runs")).unwrap();
    let rows = rows_in(folder.path());
    let lease = begun(&journal).await;
    let long = "ä".repeat(MAX_OUTPUT_BYTES / 2 + 1);
    let whole = journal.put_blob(&address("ann"), long.into_bytes()).await.unwrap();
    add_turn(&journal, &lease, 1, Some(whole)).await;
    let finished =
        Finished { outcome: Outcome::Answered, error: None, message: None, result: None };
    let events = belljar_journal::read_all(&journal, &lease.address).await.unwrap();
    let finished = NewEvent::new(finished).seen(events.last().unwrap().seq);
    journal.append(&lease, finished).await.unwrap();
    let shown = turn(&journal, &rows, &address("ann"), 1).await.unwrap().unwrap();
    let end = shown.calls[0].end.as_ref().unwrap();
    assert!(end.output_truncated);
    assert_eq!(end.output.len(), MAX_OUTPUT_BYTES);
}

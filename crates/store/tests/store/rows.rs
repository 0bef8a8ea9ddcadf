use belljar_domain::network::{Bytes, Charge, Decision, Kind, Reason};
use belljar_domain::rows::{
    AttributedRow, CallKind, CallRow, ChangeKind, ConnectionRow, FileChange, RowBody,
};
use belljar_domain::{Attribution, EndReason, ExecId, NodeNumber, RunId, SandboxId};
use belljar_journal::{Address, Charged, MostRows, RowStore as _, StoredRows};
use belljar_store::{Rows, Store};
use time::OffsetDateTime;

use super::runs::begun;
use super::{LEASE, id, made, node, store};

fn run(tenant: &str) -> Address {
    Address { tenant: tenant.to_owned(), run: RunId::from_bits([1; 16]) }
}

fn call(id: &str, sandbox: &SandboxId, turn: u32) -> AttributedRow {
    let files = vec![FileChange {
        path: "/home/user/a\0b".to_owned(),
        change: ChangeKind::Created,
        bytes: Some(u64::MAX),
    }];
    let call = CallRow {
        number: 4,
        kind: CallKind::Cell,
        is_ok: false,
        reason: EndReason::Oom,
        exit_code: None,
        cpu_micros: 5,
        peak_bytes: Some(6),
        output_bytes: 7,
        files,
        is_cut: true,
    };
    AttributedRow {
        id: id.to_owned(),
        tenant: "ann".to_owned(),
        sandbox: sandbox.clone(),
        attribution: Some(Attribution {
            run: run("ann").run,
            turn,
            call: Some(ExecId::from_bits([2; 16])),
        }),
        began: 1_800_000_000_000_001,
        micros: 8,
        body: RowBody::Call(call),
    }
}

fn connection(id: &str, sandbox: &SandboxId, turn: u32) -> AttributedRow {
    let charge = Charge { model: "m".to_owned(), input: 3, nano_dollars: 9, ..Charge::default() };
    let row = ConnectionRow {
        sequence: 3,
        kind: Kind::Operation,
        decision: Decision::Denied,
        reason: Reason::NotAllowed,
        host: Some("a.test".to_owned()),
        port: Some(443),
        operation: Some("llm".to_owned()),
        method: Some("POST".to_owned()),
        path: None,
        status: Some(403),
        bytes: Bytes { out: 1, into: 2 },
        charge: Some(charge),
        is_late: true,
    };
    let began = 1_800_000_000_000_002;
    AttributedRow { began, body: RowBody::Connection(row), ..call(id, sandbox, turn) }
}

/// A sandbox of `ann` on a node.
async fn placed(store: &Store) -> (SandboxId, NodeNumber) {
    let node = node(store, "one", LEASE).await.number;
    let row = made(store, "ann", 1).await;
    store.place("ann", &row.id, row.epoch, &id(9), node).await.unwrap().unwrap();
    begun(store, &run("ann")).await;
    (id(9), NodeNumber::new(node).unwrap())
}

const MOST: MostRows = MostRows { rows: 100, bytes: 100_000 };

async fn found(rows: &Rows, tenant: &str, turn: u32) -> Vec<AttributedRow> {
    let found = rows.of_turn(&run(tenant), turn, MOST).await.unwrap();
    assert!(!found.is_cut);
    found.rows.into_iter().map(|found| found.row).collect()
}

#[tokio::test]
async fn rows_come_back_as_they_were_sent_and_a_batch_may_come_twice() {
    let store = store().await;
    let ((sandbox, node), rows) = (placed(&store).await, store.rows());
    let batch = [call("a", &sandbox, 1), connection("b", &sandbox, 1), call("c", &sandbox, 2)];
    let stored = rows.put_of_node(node, &batch).await.unwrap();
    let charged = Charged { models: 9, egress: 0 };
    assert_eq!(stored, StoredRows { calls: 2, connections: 1, charged });
    assert_eq!(rows.put_of_node(node, &batch).await.unwrap(), StoredRows::default());
    assert_eq!(rows.put(&batch).await.unwrap(), StoredRows::default());
    let first = found(&rows, "ann", 1).await;
    assert_eq!(first[1], batch[1]);
    // Values that the database cannot hold are bounded, and hold nothing up.
    let mut expected = batch[0].clone();
    if let RowBody::Call(call) = &mut expected.body {
        call.files[0].path = "/home/user/a\u{fffd}b".to_owned();
        call.files[0].bytes = Some(i64::MAX.unsigned_abs());
    }
    assert_eq!(first[0], expected);
    assert_eq!((first.len(), found(&rows, "ann", 2).await.len()), (2, 1));
    assert!(found(&rows, "bob", 1).await.is_empty());
}

#[tokio::test]
async fn a_node_speaks_for_its_own_sandboxes_alone() {
    let store = store().await;
    let ((sandbox, own), rows) = (placed(&store).await, store.rows());
    let other = NodeNumber::new(node(&store, "two", LEASE).await.number).unwrap();
    let none = StoredRows::default();
    assert_eq!(rows.put_of_node(other, &[call("a", &sandbox, 1)]).await.unwrap(), none);
    assert_eq!(rows.put_of_node(own, &[call("b", &id(77), 1)]).await.unwrap(), none);
    let foreign = AttributedRow { tenant: "bob".to_owned(), ..call("c", &sandbox, 1) };
    assert_eq!(rows.put_of_node(own, &[foreign]).await.unwrap(), none);
    // The control: its own. This process vouches for rows of no sandbox, those of models.
    assert_eq!(rows.put_of_node(own, &[call("d", &sandbox, 1)]).await.unwrap().calls, 1);
    assert_eq!(rows.put(&[connection("e", &id(77), 1)]).await.unwrap().connections, 1);
    assert_eq!(found(&rows, "ann", 1).await.len(), 2);
}

#[tokio::test]
async fn a_node_names_only_runs_that_the_tenant_has() {
    let store = store().await;
    let ((sandbox, node), rows) = (placed(&store).await, store.rows());
    let of_bob = Address { run: RunId::from_bits([3; 16]), ..run("bob") };
    begun(&store, &of_bob).await;
    let unknown = Address { run: RunId::from_bits([4; 16]), ..run("ann") };
    let naming = |id: &str, of: &Address| AttributedRow {
        attribution: Some(Attribution { run: of.run.clone(), turn: 1, call: None }),
        ..connection(id, &sandbox, 1)
    };
    let sent = [naming("a", &of_bob), naming("b", &unknown), naming("c", &run("ann"))];
    // They are stored, as rows of no run.
    assert_eq!(rows.put_of_node(node, &sent).await.unwrap().connections, 3);
    rows.put(&[naming("d", &run("ann"))]).await.unwrap();
    for address in [&of_bob, &unknown] {
        let of_ann = Address { tenant: "ann".to_owned(), ..address.clone() };
        for address in [address, &of_ann] {
            assert!(rows.of_turn(address, 1, MOST).await.unwrap().rows.is_empty());
        }
    }
    let found = rows.of_turn(&run("ann"), 1, MOST).await.unwrap().rows;
    let writers: Vec<_> = found.iter().map(|it| (&*it.row.id, it.is_of_node)).collect();
    assert_eq!(writers, [("c", true), ("d", false)]);
}

#[tokio::test]
async fn a_turn_is_read_up_to_a_number_of_rows_and_bytes() {
    let store = store().await;
    let ((sandbox, _), rows) = (placed(&store).await, store.rows());
    rows.put(&[call("a", &sandbox, 1), call("b", &sandbox, 1), connection("c", &sandbox, 1)])
        .await
        .unwrap();
    let read = async |most: MostRows| {
        let found = rows.of_turn(&run("ann"), 1, most).await.unwrap();
        let ids: Vec<_> = found.rows.into_iter().map(|found| found.row.id).collect();
        (ids.concat(), found.is_cut)
    };
    assert_eq!(read(MOST).await, ("abc".to_owned(), false));
    assert_eq!(read(MostRows { rows: 3, ..MOST }).await, ("abc".to_owned(), false));
    assert_eq!(read(MostRows { rows: 2, ..MOST }).await, ("ab".to_owned(), true));
    assert_eq!(read(MostRows { rows: 1, ..MOST }).await, ("a".to_owned(), true));
    // A row of each kind is within any number of bytes.
    assert_eq!(read(MostRows { bytes: 2, ..MOST }).await, ("ac".to_owned(), true));
}

#[tokio::test]
async fn rows_are_forgotten_after_their_time() {
    let store = store().await;
    let ((sandbox, node), rows) = (placed(&store).await, store.rows());
    rows.put_of_node(node, &[call("a", &sandbox, 1), connection("b", &sandbox, 1)]).await.unwrap();
    let now = OffsetDateTime::now_utc();
    rows.forget(now - time::Duration::HOUR).await.unwrap();
    assert_eq!(found(&rows, "ann", 1).await.len(), 2);
    rows.forget(now + time::Duration::HOUR).await.unwrap();
    assert!(found(&rows, "ann", 1).await.is_empty());
}

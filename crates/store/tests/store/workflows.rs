//! Workflows and their leases.

use std::time::{Duration, Instant};

use belljar_journal::{
    NewWorkflow, WorkflowAddress, WorkflowAppendError, WorkflowCreated, WorkflowDirectory,
    WorkflowStore,
};
use belljar_testkit::Postgres;

use super::{LEASE, store, store_at};

fn new(tenant: &str, number: u32) -> NewWorkflow {
    let address = WorkflowAddress { tenant: tenant.to_owned(), id: format!("wf_{number:032x}") };
    let (name, first) = ("report".to_owned(), r#"{"kind":"created"}"#.to_owned());
    NewWorkflow { address, name, first, most_unfinished: 2 }
}

#[tokio::test]
async fn a_workflow_has_one_worker_and_survives_its_death() {
    let rows = store().await.workflows();
    let new = new("ann", 1);
    assert_eq!(rows.create(&new).await.unwrap(), WorkflowCreated::Made);
    let again = rows.create(&new).await.unwrap();
    assert_eq!(again, WorkflowCreated::Already(new.first.clone()));
    let short = Duration::from_millis(200);
    let lost = rows.claim("one", short, &[], None).await.unwrap().unwrap();
    assert_eq!(rows.claim("two", LEASE, &[], None).await.unwrap(), None);
    rows.append(&lost, &["1".to_owned(), "2".to_owned()], None).await.unwrap();
    tokio::time::sleep(2 * short).await;
    let lease = rows.claim("two", LEASE, &[], None).await.unwrap().unwrap();
    assert_eq!(lease.generation, lost.generation + 1);
    let late = rows.append(&lost, &["late".to_owned()], None).await;
    assert!(matches!(late, Err(WorkflowAppendError::Fenced)), "{late:?}");
    assert!(matches!(rows.renew(&lost, LEASE).await, Err(WorkflowAppendError::Fenced)));
    assert!(!rows.renew(&lease, LEASE).await.unwrap());
    assert!(rows.cancel(&new.address).await.unwrap());
    assert!(rows.renew(&lease, LEASE).await.unwrap());
    rows.append(&lease, &["3".to_owned()], Some("cancelled")).await.unwrap();
    let read = rows.read(&new.address).await.unwrap().unwrap();
    assert_eq!(read.events, [new.first.as_str(), "1", "2", "3"]);
    assert_eq!((read.row.events, read.row.outcome.as_deref()), (4, Some("cancelled")));
    assert!(!rows.cancel(&new.address).await.unwrap());
    assert_eq!(rows.claim("one", LEASE, &[], None).await.unwrap(), None);
}

#[tokio::test]
async fn a_tenant_has_its_own_workflows_and_a_quota() {
    let rows = store().await.workflows();
    for number in [1, 2] {
        assert_eq!(rows.create(&new("ann", number)).await.unwrap(), WorkflowCreated::Made);
    }
    assert_eq!(rows.create(&new("ann", 3)).await.unwrap(), WorkflowCreated::TooMany);
    assert_eq!(rows.create(&new("bob", 4)).await.unwrap(), WorkflowCreated::Made);
    assert_eq!(rows.list("ann", 9).await.unwrap().len(), 2);
    let foreign = new("ann", 4).address;
    assert_eq!(rows.read(&foreign).await.unwrap(), None);
    assert!(!rows.cancel(&foreign).await.unwrap());
    let busy = ["ann".to_owned()];
    let lease = rows.claim("one", LEASE, &busy, None).await.unwrap().unwrap();
    assert_eq!(lease.address.tenant, "bob");
    rows.release(&lease).await.unwrap();
    let id = new("ann", 2).address.id;
    let lease = rows.claim("one", LEASE, &[], Some(&id)).await.unwrap().unwrap();
    assert_eq!(lease.address.id, id);
}

/// The time of a durable step: one write before it is executed, and one with its result.
async fn steps(store: &dyn WorkflowStore, number: u32, count: usize) -> (f64, f64) {
    let new = NewWorkflow { most_unfinished: 10, ..new("ann", number) };
    store.create(&new).await.unwrap();
    let lease = store.claim("one", LEASE, &[], Some(&new.address.id)).await.unwrap().unwrap();
    let mut times = Vec::new();
    for step in 0..count {
        let begin = Instant::now();
        for part in ["started", "ended"] {
            let event = format!(r#"{{"kind":"step_{part}","step":"step","item":{step}}}"#);
            store.append(&lease, &[event], None).await.unwrap();
        }
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    (times[count / 2], times[count * 99 / 100])
}

/// The figures of docs/design/0045-workflows.md.
#[tokio::test]
#[ignore = "a measurement"]
#[expect(clippy::print_stdout, reason = "its result")]
async fn measure_a_step() {
    const COUNT: usize = 200;
    let directory = tempfile::tempdir().unwrap();
    let local = WorkflowDirectory::open(directory.path()).unwrap();
    let postgres = Postgres::start_durable().unwrap();
    let rows = store_at(&postgres.schema()).await.workflows();
    for round in 1..=3 {
        for (name, store) in [("directory", &local as &dyn WorkflowStore), ("PostgreSQL", &rows)] {
            // Each round is a workflow of its own.
            let (p50, p99) = steps(store, round, COUNT).await;
            println!("{name}: {COUNT} steps, p50 {p50:.2} ms, p99 {p99:.2} ms, 2 commits a step");
        }
    }
}

//! Workflows of a server, or of a platform: the parts that their process has for them.

use std::path::Path;
use std::sync::Arc;

use belljar_client::{Client, Within};
use belljar_control::Control;
use belljar_domain::OperationCaps;
use belljar_journal::WorkflowDirectory;
use belljar_runs::{Runs, WorkflowFiles};
use belljar_sandboxes::{Actions, Tenant};
use belljar_server::Inside;
use belljar_store::Store;
use belljar_workflow::{Parts, Settings, Signal, Workflows};

use crate::output::Hint as _;

fn signal(signal: Signal) {
    let metrics = belljar_telemetry::metrics().workflows();
    match signal {
        Signal::Workflow { outcome } => metrics.ended(outcome),
        Signal::Step { kind, outcome } => metrics.step_ended(kind, outcome),
    }
}

/// With a store in a directory, and runs and sandboxes of this process.
pub(super) fn of_server(
    at_once: usize,
    actions: &Actions,
    runs: &Runs,
    data: &Path,
) -> anyhow::Result<Workflows> {
    let store = WorkflowDirectory::open(&data.join("served").join("workflows"));
    let store = store.hint("choose a writable directory with --data")?;
    let tenant = Tenant::new(super::runs::TENANT);
    let inside = Inside::with_runs(actions.clone(), runs.clone(), tenant);
    let clients = move |tenant: &str, caps: &OperationCaps| {
        let (inside, caps) = (inside.of(Tenant::new(tenant)), caps.clone());
        Client::new(Within::new(move |mut request| {
            let inside = inside.clone();
            request.extensions_mut().insert(caps.clone());
            async move { inside.answer(request).await }
        }))
    };
    let parts = Parts {
        store: Arc::new(store),
        files: Arc::new(WorkflowFiles::new(runs.data().clone())),
        clients: Box::new(clients),
        signal: Box::new(signal),
    };
    let owner = format!("serve-{}", std::process::id());
    Ok(Workflows::new(parts, Settings { owner, at_once, ..Settings::default() }))
}

/// With a store in the database. Every replica works on them.
pub(super) fn of_platform(
    at_once: usize,
    control: &Control,
    runs: &Runs,
    store: &Store,
) -> Workflows {
    let inside = control.inside();
    let clients = move |tenant: &str, caps: &OperationCaps| {
        let (inside, tenant, cap) = (inside.clone(), tenant.to_owned(), caps.key.clone());
        Client::new(Within::new(move |mut request| {
            let (inside, tenant) = (inside.clone(), tenant.clone());
            // Control adds the cap of the tenant, as it is now.
            request.extensions_mut().insert(cap.clone());
            async move { inside.answer(&tenant, request).await }
        }))
    };
    let parts = Parts {
        store: Arc::new(store.workflows()),
        files: Arc::new(WorkflowFiles::new(runs.data().clone())),
        clients: Box::new(clients),
        signal: Box::new(signal),
    };
    let owner = runs.settings().owner.clone();
    let workflows = Workflows::new(parts, Settings { owner, at_once, ..Settings::default() });
    let surface = Inside::of_workflows(workflows.clone(), Tenant::new(super::runs::TENANT));
    control.offer_workflows(move |tenant, request| {
        let surface = surface.of(Tenant::new(tenant));
        async move { surface.pass(request).await }
    });
    workflows
}

//! Workflows of this machine: a server without a port, for as long as the command lasts.

use std::cell::RefCell;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use belljar_api::workflow::Workflow;
use belljar_client::{Client, Outcome, RunWish, Within};
use belljar_domain::MaxLimits;
use belljar_node::PoolSize;
use belljar_runs::Runs;
use belljar_sandboxes::{Actions, Keys, Tenant};
use belljar_server::Inside;
use belljar_webhooks::Directory;
use belljar_workflow::{StepKind, Workflows};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cli::Running;
use crate::commands::{running, runs, webhooking, workflowing};
use crate::config::Config;
use crate::output::Hint as _;

fn client(inside: Inside) -> Client {
    Client::new(Within::new(move |request| {
        let inside = inside.clone();
        async move { inside.answer(request).await }
    }))
}

/// Sandboxes, runs and workflows of this process. Transcripts and results stay in the data
/// directory, so that an interrupted workflow can go on.
pub(super) struct Local {
    /// To create, read and cancel workflows. Each is worked on with runs of its own.
    workflows: Workflows,
    actions: Actions,
    hooks: Directory,
    options: Running,
    data: PathBuf,
    stop: watch::Sender<bool>,
    tasks: RefCell<Vec<JoinHandle<()>>>,
    _state: TempDir,
}

impl Local {
    pub(super) async fn open(config: &Config, gateway: Option<&Path>) -> anyhow::Result<Self> {
        let state = tempfile::Builder::new().prefix("belljar-workflow-").tempdir();
        let state = state.context("cannot create a directory for sandboxes")?;
        // The user ids of sandboxes must be able to pass through.
        std::fs::set_permissions(state.path(), Permissions::from_mode(0o711))?;
        let data = config.data.join("workflow");
        std::fs::create_dir_all(&data)
            .with_context(|| format!("cannot create `{}`", data.display()))?;
        let mut settings =
            belljar_sandboxes::Config::new(state.path().to_owned(), config.store.clone());
        settings.engine_state.clone_from(&config.state);
        settings.offers_host = true;
        // The caller owns the host, as with `belljar run`.
        settings.max_limits = MaxLimits::UNBOUNDED;
        settings.networks.gateway = gateway.map(Path::to_owned);
        settings.networks.environment = config.environment.clone();
        settings.datasets = Some(running::of_tenants(&data));
        settings.pool = PoolSize { least: 0, ..settings.pool };
        settings.warms_on_demand = false;
        let actions = Actions::start(settings, Keys::elsewhere()).await;
        let actions = actions.hint("`belljar doctor` shows what this host can run")?;
        let hooks = webhooking::open(&data)?;
        let options = Running::of_command();
        let made = running::of_server(&options, &actions, &data, &hooks).await?;
        let workflows = workflowing::of_server(options.workflows, &actions, &made, &data)?;
        let (stop, tasks) = (watch::channel(false).0, RefCell::default());
        Ok(Self { workflows, actions, hooks, options, data, stop, tasks, _state: state })
    }

    pub(super) fn client(&self) -> Client {
        client(Inside::of_workflows(self.workflows.clone(), Tenant::new(runs::TENANT)))
    }

    /// The runs of one workflow, if it exists.
    async fn runs_of(&self, id: &str) -> anyhow::Result<Option<Runs>> {
        let found = self.workflows.find(runs::TENANT, id).await;
        if found.context("cannot read the workflow")?.is_none() {
            return Ok(None);
        }
        let transcripts = running::runs_of_workflow(&self.data, id);
        let (options, actions) = (&self.options, &self.actions);
        let made =
            running::of_transcripts(options, actions, &self.data, &transcripts, &self.hooks).await;
        made.map(Some)
    }

    /// Works on this workflow and its runs, and on no other one that was interrupted.
    pub(super) async fn work_on(&self, id: &str) -> anyhow::Result<()> {
        let Some(made) = self.runs_of(id).await? else { return Ok(()) };
        let at_once = self.options.workflows;
        let workflows = workflowing::of_server(at_once, &self.actions, &made, &self.data)?;
        let (mut stopping, stopped) = (self.stop.subscribe(), self.stop.subscribe());
        let id = id.to_owned();
        let runs_working = tokio::spawn(async move {
            made.work(async { drop(stopping.wait_for(|is| *is).await) }).await;
        });
        let working =
            tokio::spawn(async move { workflows.work_on(runs::TENANT, &id, stopped).await });
        self.tasks.borrow_mut().extend([runs_working, working]);
        Ok(())
    }

    /// Cancels the runs of a workflow that are under way: after an interruption, no worker does.
    pub(super) async fn cancel_runs(&self, workflow: &Workflow) -> anyhow::Result<()> {
        let Some(made) = self.runs_of(&workflow.id).await? else { return Ok(()) };
        let tenant = Tenant::new(runs::TENANT);
        let client = client(Inside::with_runs(self.actions.clone(), made, tenant));
        let steps = workflow.steps.iter().filter(|step| step.kind == StepKind::Run.as_str());
        let attempts = steps.flat_map(|step| &step.attempts);
        for attempt in attempts.filter(|attempt| attempt.outcome.is_none()) {
            let Some(id) = &attempt.id else { continue };
            match client.steer_run(id, &RunWish::Cancel, None).await {
                // It is over.
                Err(error) if error.outcome() == Outcome::Refused => {}
                done => drop(done.with_context(|| format!("cannot cancel run {id}"))?),
            }
        }
        Ok(())
    }

    /// Gives back what is under way, and ends every sandbox.
    pub(super) async fn close(self) {
        let _ = self.stop.send(true);
        for task in self.tasks.into_inner() {
            let _ = task.await;
        }
        self.actions.stop().await;
    }
}

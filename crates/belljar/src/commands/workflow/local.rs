//! Workflows of this machine: a server without a port, for as long as the command lasts.

use std::cell::RefCell;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use belljar_actions::{Actions, Keys, Tenant};
use belljar_client::{Client, Within};
use belljar_model::MaxLimits;
use belljar_node::PoolSize;
use belljar_server::Inside;
use belljar_workflow::Workflows;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cli::Running;
use crate::commands::{running, runs, webhooking, workflowing};
use crate::config::Config;
use crate::output::Hint as _;

/// Sandboxes, runs and workflows of this process. Transcripts and results stay in the data
/// directory, so that an interrupted workflow can go on.
pub(super) struct Local {
    workflows: Workflows,
    actions: Actions,
    stop: watch::Sender<bool>,
    tasks: RefCell<Vec<JoinHandle<()>>>,
    _state: TempDir,
}

impl Local {
    /// `works` is false for a command that only reads.
    pub(super) async fn open(
        config: &Config,
        gateway: Option<&Path>,
        works: bool,
    ) -> anyhow::Result<Self> {
        let state = tempfile::Builder::new().prefix("belljar-workflow-").tempdir();
        let state = state.context("cannot create a directory for sandboxes")?;
        // The user ids of sandboxes must be able to pass through.
        std::fs::set_permissions(state.path(), Permissions::from_mode(0o711))?;
        let data = config.data.join("workflow");
        std::fs::create_dir_all(&data)
            .with_context(|| format!("cannot create `{}`", data.display()))?;
        let mut settings =
            belljar_actions::Config::new(state.path().to_owned(), config.store.clone());
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
        let (stop, stopped) = watch::channel(false);
        let mut tasks = Vec::new();
        if works {
            let mut stopped = stopped.clone();
            tasks.push(tokio::spawn(async move {
                made.work(async { drop(stopped.wait_for(|is| *is).await) }).await;
            }));
        }
        Ok(Self { workflows, actions, stop, tasks: RefCell::new(tasks), _state: state })
    }

    pub(super) fn client(&self) -> Client {
        let inside = Inside::of_workflows(self.workflows.clone(), Tenant::new(runs::TENANT));
        Client::new(Within::new(move |request| {
            let inside = inside.clone();
            async move { inside.answer(request).await }
        }))
    }

    /// Works on this workflow, and on no other one that was interrupted.
    pub(super) fn work_on(&self, id: &str) {
        let (workflows, stopped) = (self.workflows.clone(), self.stop.subscribe());
        let id = id.to_owned();
        let working =
            tokio::spawn(async move { workflows.work_on(runs::TENANT, &id, stopped).await });
        self.tasks.borrow_mut().push(working);
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

//! From the first connection to an orderly end.

use belljar_actions::Actions;
use belljar_listen::{Doors, Listener, Settings};
use belljar_runs::Runs;
use belljar_webhooks::Webhooks;
use tokio::sync::oneshot;

use crate::behind::Cluster;
use crate::route::Surfaces;

/// Why a server stopped that nobody told to.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox process ended, and all sandboxes with it")]
pub struct EngineGone;

/// What answers requests.
#[derive(Debug)]
pub struct Server {
    actions: Actions,
    surfaces: Surfaces,
    runs: Option<Runs>,
    webhooks: Option<Webhooks>,
    settings: Settings,
}

impl Server {
    pub fn new(actions: Actions, settings: Settings) -> Self {
        let surfaces = Surfaces::new(&actions, None, None, None);
        Self { actions, surfaces, runs: None, webhooks: None, settings }
    }

    /// One that also answers questions, and works on them.
    #[must_use]
    pub fn with_runs(self, runs: Runs) -> Self {
        let hooks = self.webhooks.clone();
        let surfaces = Surfaces::new(&self.actions, Some(runs.clone()), hooks, None);
        Self { surfaces, runs: Some(runs), ..self }
    }

    /// One that also calls webhooks.
    #[must_use]
    pub fn with_webhooks(self, webhooks: Webhooks) -> Self {
        let hooks = Some(webhooks);
        let surfaces = Surfaces::new(&self.actions, self.runs.clone(), hooks.clone(), None);
        Self { surfaces, webhooks: hooks, ..self }
    }

    /// A node of a platform, which believes what control says of who asks.
    pub fn behind(actions: Actions, settings: Settings, cluster: Cluster) -> Self {
        let identity = cluster.identity().clone();
        belljar_telemetry::metrics().before_scrape(move |metrics| {
            metrics.set_certificate_left(identity.certificate_left());
        });
        let surfaces = Surfaces::new(&actions, None, None, Some(cluster));
        Self { actions, surfaces, runs: None, webhooks: None, settings }
    }

    /// Answers until `shutdown`, then lets what runs finish for a while and ends
    /// every sandbox, on record.
    pub async fn run(
        self,
        listeners: Vec<Listener>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), EngineGone> {
        let after = tokio::spawn({
            let actions = self.actions.clone();
            async move { actions.look_after().await }
        });
        let (stop_work, work_stopped) = oneshot::channel::<()>();
        let working = self.runs.map(|runs| {
            tokio::spawn(async move { runs.work(async { drop(work_stopped.await) }).await })
        });
        let delivering =
            self.webhooks.map(|webhooks| tokio::spawn(async move { webhooks.work().await }));
        self.actions.observe();
        let surfaces = self.surfaces;
        let doors = Doors::open(listeners, self.settings, move |request| {
            let surfaces = surfaces.clone();
            belljar_telemetry::observe(request, move |request| surfaces.answer_later(request))
        });
        // A server that can make nothing any more must not look as if it could.
        let stopped = tokio::select! {
            () = shutdown => Ok(()),
            () = self.actions.node().gone() => Err(EngineGone),
        };
        // Runs are given back while their sandboxes still answer.
        drop(stop_work);
        if let Some(working) = working {
            let _ = working.await;
        }
        // Who comes meanwhile is told that the server is about to stop.
        self.actions.drain();
        doors.close().await;
        after.abort();
        self.actions.stop().await;
        // Messages that were not sent are sent by the next server.
        if let Some(delivering) = delivering {
            delivering.abort();
        }
        stopped
    }
}

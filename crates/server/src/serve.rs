//! From the first connection to an orderly end.

use belljar_console::Console;
use belljar_listen::{Doors, Listener, Settings};
use belljar_runs::Runs;
use belljar_sandboxes::Actions;
use belljar_webhooks::Webhooks;
use belljar_workflow::Workflows;
use tokio::sync::oneshot;

use crate::behind::Cluster;
use crate::route::Surfaces;
use crate::v1::Offers;

/// Why a server stopped that nobody told to.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox process ended, and all sandboxes with it")]
pub struct EngineGone;

/// What answers requests.
#[derive(Debug)]
pub struct Server {
    actions: Actions,
    surfaces: Surfaces,
    offers: Offers,
    settings: Settings,
}

impl Server {
    pub fn new(actions: Actions, settings: Settings) -> Self {
        let offers = Offers::default();
        let surfaces = Surfaces::new(&actions, offers.clone(), None);
        Self { actions, surfaces, offers, settings }
    }

    /// One that also answers questions, and works on them.
    #[must_use]
    pub fn with_runs(self, runs: Runs) -> Self {
        let offers = Offers { runs: Some(runs), ..self.offers.clone() };
        self.offering(offers)
    }

    /// One that also calls webhooks.
    #[must_use]
    pub fn with_webhooks(self, webhooks: Webhooks) -> Self {
        let offers = Offers { webhooks: Some(webhooks), ..self.offers.clone() };
        self.offering(offers)
    }

    /// One that also works on workflows.
    #[must_use]
    pub fn with_workflows(self, workflows: Workflows) -> Self {
        let offers = Offers { workflows: Some(workflows), ..self.offers.clone() };
        self.offering(offers)
    }

    /// One that also serves the console.
    #[must_use]
    pub fn with_console(self, console: Console) -> Self {
        let offers = Offers { console: Some(console), ..self.offers.clone() };
        self.offering(offers)
    }

    fn offering(self, offers: Offers) -> Self {
        let surfaces = Surfaces::new(&self.actions, offers.clone(), None);
        Self { surfaces, offers, ..self }
    }

    /// A node of a platform, which believes what control says of who asks.
    pub fn behind(actions: Actions, settings: Settings, cluster: Cluster) -> Self {
        let identity = cluster.identity().clone();
        belljar_telemetry::metrics().before_scrape(move |metrics| {
            metrics.set_certificate_left(identity.certificate_left());
        });
        let offers = Offers::default();
        let surfaces = Surfaces::new(&actions, offers.clone(), Some(cluster));
        Self { actions, surfaces, offers, settings }
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
        let Offers { runs, webhooks, workflows, console: _ } = self.offers;
        let working = runs.map(|runs| {
            tokio::spawn(async move { runs.work(async { drop(work_stopped.await) }).await })
        });
        let (stop_workflows, workflows_stopped) = oneshot::channel::<()>();
        let driving = workflows.map(|workflows| {
            let stopped = async { drop(workflows_stopped.await) };
            tokio::spawn(async move { workflows.work(stopped).await })
        });
        let delivering =
            webhooks.map(|webhooks| tokio::spawn(async move { webhooks.work().await }));
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
        drop(stop_workflows);
        if let Some(driving) = driving {
            let _ = driving.await;
        }
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

//! The gateway of this server, and which rows are whose.
//!
//! The gateway is started by the first sandbox that needs it. A sandbox without
//! a network costs nothing here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use belljar_domain::SandboxId;
use belljar_domain::network::{Row, Subject};
use belljar_domain::rows::AttributedRow;
use belljar_node::{BudgetLessor, Gateway, GatewayError, GatewayOptions};
use belljar_peer_proto::gateway::Session;
use tokio::sync::OnceCell;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::approvals::count_approvals;
use super::{Network, Rows};
use crate::budgets::{BudgetFile, counted_budgets};
use crate::charges::{CHARGE_LOG_FOLDER, settle_charges};
use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::row_queue::RowQueue;
use crate::sandbox::{Live, Sandbox};
use crate::start::Actions;

/// By machine, of which a sandbox may have several, one after the other.
type Routes = Arc<Mutex<HashMap<SandboxId, Weak<Rows>>>>;

#[derive(Debug, Default)]
pub(crate) struct Ways {
    gateway: OnceCell<Gateway>,
    routes: Routes,
}

/// How long rows of a sandbox that has ended may be on their way.
const LAST_ROWS: Duration = Duration::from_secs(5);

impl Ways {
    /// The gateway, if a sandbox needed it.
    pub(super) fn started(&self) -> Option<&Gateway> {
        self.gateway.get()
    }

    fn route(&self, machine: &SandboxId, rows: &Arc<Rows>) {
        let mut routes = lock(&self.routes);
        routes.retain(|_, rows| rows.strong_count() > 0);
        routes.insert(machine.clone(), Arc::downgrade(rows));
    }
}

impl Actions {
    /// Starts the gateway, if it does not run yet.
    pub async fn start_gateway(&self) -> Result<(), GatewayError> {
        self.gateway().await.map(drop)
    }

    /// The gateway, which the first one who asks for it starts.
    pub async fn gateway(&self) -> Result<&Gateway, GatewayError> {
        self.ways().gateway.get_or_try_init(|| self.begin_gateway()).await
    }

    /// Has the gateway say its last rows and give unused parts of budgets back, if it runs. No
    /// sandbox gets out from now on.
    pub async fn finish_gateway(&self) {
        let Some(gateway) = self.ways().gateway.get() else { return };
        if let Err(error) = gateway.finish().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "gateway not finished");
        }
    }

    async fn begin_gateway(&self) -> Result<Gateway, GatewayError> {
        let config = self.config();
        let data = config.state.join("gateway");
        crate::private::make_dir(&data).map_err(GatewayError::Start)?;
        let lessor: Arc<dyn BudgetLessor> = match &config.networks.budgets {
            Some(lessor) => lessor.clone(),
            None => Arc::new(BudgetFile::of_gateway(&data)),
        };
        // Without a queue, nothing would say that a row is stored.
        let charges = config.rows.as_ref().map(|_| {
            config.networks.charges.clone().unwrap_or_else(|| data.join(CHARGE_LOG_FOLDER))
        });
        let gateway = Gateway::start(GatewayOptions {
            config: config.networks.gateway.clone().unwrap_or_default(),
            data,
            charges: charges.unwrap_or_default(),
            // Credentials may be named by a variable.
            environment: config.networks.environment.clone(),
            lessor: Some(counted_budgets(lessor)),
        })
        .await?;
        tokio::spawn(take(gateway.rows(), self.ways().routes.clone(), config.rows.clone()));
        if let Some(queue) = &config.rows {
            settle_charges(&gateway, queue);
        }
        count_approvals(&gateway);
        Ok(gateway)
    }

    /// Gives a machine that nobody has yet its way out, if it shall have one.
    pub(crate) async fn connect_machine(
        &self,
        machine: &belljar_node::Sandbox,
        tenant: &Tenant,
        network: &Network,
        rows: &Arc<Rows>,
    ) -> Result<(), Problem> {
        if !network.needs_gateway() {
            return Ok(());
        }
        let gateway = self.gateway().await;
        let gateway = gateway.map_err(|error| Problem::internal("start the gateway", &error))?;
        self.ways().route(machine.id(), rows);
        let subject = Subject {
            tenant: tenant.as_str().to_owned(),
            sandbox: machine.id().clone(),
            run: None,
            turn: None,
            call: None,
            process: None,
        };
        let policy = network.wish.policy.clone();
        let charged = Some(rows.sandbox().clone());
        let session = Session { subject, policy, operations: network.operations.clone(), charged };
        let connected = machine.connect_gateway(gateway, session).await;
        connected.map_err(|error| unserved("connect the sandbox", &error))?;
        tell(machine, network).await
    }

    /// As [`Self::connect_machine`]; a machine that gets no way out is ended.
    pub(crate) async fn connect_or_end(
        &self,
        machine: &belljar_node::Sandbox,
        tenant: &Tenant,
        network: &Network,
        rows: &Arc<Rows>,
    ) -> Result<(), Problem> {
        let connected = self.connect_machine(machine, tenant, network, rows).await;
        if connected.is_err()
            && let Err(error) = machine.end().await
        {
            let error = &error as &dyn std::error::Error;
            tracing::error!(sandbox.id = %machine.id(), error, "cannot remove a sandbox");
        }
        connected
    }

    /// Has the gateway serve a running sandbox by its new policy.
    pub(super) async fn change_way(
        &self,
        sandbox: &Sandbox,
        live: &Live,
        new: &Network,
    ) -> Result<(), Problem> {
        if live.machine.is_connected() {
            let changed = live.machine.change_policy(new.wish.policy.clone()).await;
            changed.map_err(|error| unserved("change the network", &error))?;
            return tell(&live.machine, new).await;
        }
        self.connect_machine(&live.machine, &sandbox.facts().tenant, new, &sandbox.rows).await
    }

    /// Rows of a sandbox that has just ended are still taken for a moment.
    pub(crate) fn take_last_rows(&self, sandbox: &Sandbox) {
        if self.ways().gateway.initialized() {
            let rows = sandbox.rows.clone();
            tokio::spawn(async move {
                tokio::time::sleep(LAST_ROWS).await;
                drop(rows);
            });
        }
    }
}

/// Puts in what package managers inside look for in files.
async fn tell(machine: &belljar_node::Sandbox, network: &Network) -> Result<(), Problem> {
    for (path, text) in &network.files {
        let told = machine.tell(path, text).await;
        told.map_err(|error| Problem::internal("configure package managers", &error))?;
    }
    Ok(())
}

/// What to say of a gateway that does not do it.
pub(super) fn unserved(attempted: &str, error: &GatewayError) -> Problem {
    match error {
        GatewayError::Refused(why) => {
            Problem::new(Kind::Invalid, "network_refused", format!("the gateway refused: {why}"))
        }
        GatewayError::Unfit(_) => Problem::invalid("the network policy is too large"),
        GatewayError::NotConnected => {
            let message = "the sandbox has no network";
            Problem::new(Kind::Conflict, "no_network", message)
                .hint("set a network policy, or create the sandbox with operations")
        }
        error => Problem::internal(attempted, error),
    }
}

/// Gives rows to those whose they are, until the gateway is gone. Those of model requests of runs
/// are no sandbox's. A request that may be charged is, whether its sandbox is still there or not.
async fn take(mut rows: Receiver<Arc<[Row]>>, routes: Routes, queue: Option<RowQueue>) {
    loop {
        match rows.recv().await {
            Ok(batch) => batch.iter().for_each(|row| {
                crate::observe::row(row);
                let whose = lock(&routes).get(&row.subject.sandbox).and_then(Weak::upgrade);
                match (whose, &queue) {
                    (Some(rows), _) => rows.push(row.clone()),
                    (None, Some(queue)) if row.subject.run.is_some() || row.charge_id.is_some() => {
                        queue.push(AttributedRow::of_connection(row));
                    }
                    (None, _) => {}
                }
            }),
            Err(RecvError::Lagged(missed)) => {
                belljar_telemetry::metrics().rows_missed(missed);
                tracing::error!(missed, "packets of connection rows lost");
            }
            Err(RecvError::Closed) => return,
        }
    }
}

fn lock(routes: &Routes) -> std::sync::MutexGuard<'_, HashMap<SandboxId, Weak<Rows>>> {
    routes.lock().unwrap_or_else(PoisonError::into_inner)
}

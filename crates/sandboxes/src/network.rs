//! What sandboxes reach: asked for, decided, changed while they run, and seen.
//!
//! ```text
//!   wish ──► ceiling ──► indexes of its template ──► way ──► gateway
//!                                                              │
//!                       connections ◄── rows of the sandbox ◄──┘
//! ```
//!
//! A wish is what a tenant asks for. The operator's ceiling is held against it;
//! what remains is the policy that the gateway gets, which decides.

mod approvals;
mod cassette;
mod ceiling;
mod connections;
mod indexes;
mod operations;
mod rows;
mod transfers;
mod way;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_domain::network::Policy;
use belljar_node::{BudgetLessor, Variables};
use belljar_packages::Told;
use serde::{Deserialize, Serialize};

use crate::create::Create;
use crate::keys::Tenant;
use crate::lifecycle::unhurried;
use crate::problem::Problem;
use crate::sandbox::{Paused, Sandbox, State};
use crate::start::Actions;
use crate::template::Known;

pub use approvals::Approval;
pub use belljar_domain::network::{Ceiling, UnknownCeiling};
pub use connections::{Following, TokenWish};
pub use operations::{capped, unknown_operation};
pub use rows::RowQuery;
pub(crate) use rows::Rows;
pub use transfers::Transfer;
pub(crate) use transfers::Transfers;
pub(crate) use way::Ways;

/// How far sandboxes of this server may reach.
#[derive(Debug, Clone)]
pub struct Networks {
    /// The gateway's configuration; `None`: what it does by itself.
    pub gateway: Option<PathBuf>,
    /// For whoever asks for nothing.
    pub default: NetworkWish,
    /// For the commands of template builds.
    pub builds: NetworkWish,
    pub most: Ceiling,
    /// The operator's environment: the gateway's credentials may be named in it,
    /// and package indexes for sandboxes whose template has none.
    pub environment: Variables,
    /// The books of operations' budgets. None: a file among those of the gateway.
    pub budgets: Option<Arc<dyn BudgetLessor>>,
    /// The charge log of the gateway. None: below its data. It is kept only where rows are.
    pub charges: Option<PathBuf>,
}

impl Default for Networks {
    fn default() -> Self {
        Self {
            gateway: None,
            default: NetworkWish::default(),
            builds: NetworkWish::default(),
            most: Ceiling::Open,
            environment: Variables::default(),
            budgets: None,
            charges: None,
        }
    }
}

/// What somebody wants to reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NetworkWish {
    pub policy: Policy,
    /// The indexes that the template's package managers are configured for.
    pub packages: bool,
}

/// What one sandbox reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// The wish, with the package indexes that were found.
    pub wish: NetworkWish,
    /// Which operations of the gateway its tokens can be given.
    pub operations: Vec<String>,
    /// What package managers inside must know.
    pub(crate) env: BTreeMap<String, String>,
    /// The same, where it has to be in a file, by its path.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
}

impl Network {
    /// Whether there is anything that the gateway would do for it.
    pub(crate) fn needs_gateway(&self) -> bool {
        !self.wish.policy.is_none() || !self.operations.is_empty()
    }
}

impl Actions {
    /// What a sandbox to be made will reach: what was asked for, or else what it
    /// reached before, or else what the server gives by itself.
    pub(crate) async fn plan_network(
        &self,
        wish: &Create,
        before: Option<&Network>,
        template: &Arc<Known>,
    ) -> Result<Network, Problem> {
        let mut network = before.cloned().unwrap_or_else(|| {
            let wish = self.config().networks.default.clone();
            Network { wish, ..Network::default() }
        });
        if let Some(wish) = &wish.network {
            network.wish = wish.clone();
        }
        if !wish.operations.is_empty() {
            network.operations.clone_from(&wish.operations);
        }
        self.settle(network, template).await
    }

    /// The network of the commands of a build on this template.
    pub(crate) async fn plan_build_network(
        &self,
        template: &Arc<Known>,
    ) -> Result<Network, Problem> {
        let wish = self.config().networks.builds.clone();
        self.settle(Network { wish, ..Network::default() }, template).await
    }

    /// Holds what somebody wants against what there is.
    async fn settle(&self, network: Network, template: &Arc<Known>) -> Result<Network, Problem> {
        let Network { mut wish, operations, .. } = network;
        wish.check(self.config().networks.most)?;
        self.check_operations(&operations)?;
        wish.policy.packages.clear();
        let mut told = Told::default();
        if wish.packages {
            let host = self.config().networks.environment.texts().collect();
            let whose = indexes::Whose::of(template, self.config().networks.most);
            (wish.policy.packages, told) = indexes::of(template.clone(), whose, host).await?;
        }
        let (env, files) = (told.variables.into_iter().collect(), told.files.into_iter().collect());
        Ok(Network { wish, operations, env, files })
    }

    /// What a sandbox reaches now.
    pub fn network(&self, tenant: &Tenant, id: &str) -> Result<Arc<Network>, Problem> {
        Ok(self.registry().find(tenant, id)?.network())
    }

    /// Changes what a sandbox reaches; what it may not reach any more is cut.
    pub async fn set_network(
        &self,
        tenant: &Tenant,
        id: &str,
        wish: NetworkWish,
    ) -> Result<Arc<Network>, Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        let actions = self.clone();
        unhurried(async move {
            let changed = Box::pin(async {
                let _changing = sandbox.changing.lock().await;
                actions.change_network(&sandbox, wish).await
            });
            sandbox.ending.unless_due(changed).await
        })
        .await
    }

    /// For whoever holds the lock.
    async fn change_network(
        &self,
        sandbox: &Arc<Sandbox>,
        wish: NetworkWish,
    ) -> Result<Arc<Network>, Problem> {
        let new = Network { wish, ..(*sandbox.network()).clone() };
        let new = self.settle(new, sandbox.template()).await?;
        match sandbox.state() {
            // It is connected when it comes back.
            State::Paused(Paused::Saved(_) | Paused::Suspended(_)) => {}
            _ => {
                let live = sandbox.live()?;
                self.change_way(sandbox, &live, &new).await?;
            }
        }
        sandbox.set_network(new);
        self.write_down(sandbox)?;
        Ok(sandbox.network())
    }
}

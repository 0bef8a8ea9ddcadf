//! Where code runs: in sandboxes of this process, or of a server.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use belljar_agent::Room;
use belljar_client::{Client, Within};
use belljar_domain::{MaxLimits, Tier};
use belljar_journal::event::{Brought, Environment, NetworkAccess};
use belljar_node::PoolSize;
use belljar_objects::Shelf;
use belljar_runs::{NetworkOffer, NetworkRefused};
use belljar_sandboxes::{Actions, BudgetFile, CHARGE_LOG_FOLDER, Keys, RowQueue, Tenant};
use belljar_server::Inside;
use tempfile::TempDir;

use crate::approvals::{self, Asking};
use crate::cli::Place;
use crate::commands::server;
use crate::config::Config;
use crate::output::{Hint as _, hinted};

pub(super) struct Sandboxes {
    pub(super) client: Client,
    own: Option<Own>,
}

/// Sandboxes of this process: they end with it.
struct Own {
    actions: Actions,
    /// Asks for approvals of operations that want them.
    asking: OnceLock<Asking>,
    /// Removed after them.
    _state: TempDir,
}

impl Sandboxes {
    pub(super) async fn open(
        place: &Place,
        config: &Config,
        (shelf, rows): (&Shelf, &RowQueue),
        gateway: Option<&Path>,
    ) -> anyhow::Result<Self> {
        match &place.server {
            Some(url) => {
                let client = server::client(url, place.server_key.as_deref(), config)?;
                Ok(Self { client, own: None })
            }
            None => Self::make(config, (shelf, rows), gateway).await,
        }
    }

    async fn make(
        config: &Config,
        (shelf, rows): (&Shelf, &RowQueue),
        gateway: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let state = tempfile::Builder::new().prefix("belljar-ask-").tempdir();
        let state = state.context("cannot create a directory for sandboxes")?;
        // The user ids of sandboxes must be able to pass through.
        std::fs::set_permissions(state.path(), Permissions::from_mode(0o711))?;
        let mut settings =
            belljar_sandboxes::Config::new(state.path().to_owned(), config.store.clone());
        settings.engine_state.clone_from(&config.state);
        settings.offers_host = true;
        // The caller owns the host, as with `belljar run`.
        settings.max_limits = MaxLimits::UNBOUNDED;
        settings.shelf = Some(shelf.clone());
        settings.rows = Some(rows.clone());
        settings.networks.gateway = gateway.map(Path::to_owned);
        settings.networks.environment = config.environment.clone();
        // Beside those of the model's gateway: both spend from the same budgets.
        let data = config.data.join("gateway");
        std::fs::create_dir_all(&data)
            .with_context(|| format!("cannot create `{}`", data.display()))?;
        settings.networks.budgets = Some(Arc::new(BudgetFile::of_gateway(&data)));
        // The state is removed with this process; the next one reads the log.
        settings.networks.charges = Some(data.join(CHARGE_LOG_FOLDER));
        // One sandbox is made: none has to wait for another.
        settings.pool = PoolSize { least: 0, ..settings.pool };
        settings.warms_on_demand = false;
        let actions = Actions::start(settings, Keys::elsewhere()).await;
        let actions = actions.hint("`belljar doctor` shows what this host can run")?;
        let inside = Inside::new(actions.clone(), Tenant::new(super::runs::TENANT));
        let client = Client::new(Within::new(move |request| {
            let inside = inside.clone();
            async move { inside.answer(request).await }
        }));
        Ok(Self { client, own: Some(Own { actions, asking: OnceLock::new(), _state: state }) })
    }

    /// What sandboxes of a template have in this environment. An environment that no sandbox
    /// would be given is refused.
    pub(super) async fn room(
        &self,
        template: &str,
        environment: &Environment,
    ) -> anyhow::Result<Room> {
        let known = self.client.templates().await.context("cannot list the server's templates")?;
        let found = known.items.iter().find(|one| one.name == template);
        let found = found.with_context(|| format!("there is no template `{template}`"));
        let found = found.map_err(|error| {
            let names: Vec<_> = known.items.iter().map(|one| one.name.as_str()).collect();
            let hint = format!(
                "build it with `belljar template build {template}`, or choose one with \
                 --template: {}",
                names.join(", ")
            );
            hinted(error, hint)
        })?;
        let (tier, chosen) = (environment.tier, environment.limits);
        let max = known.max_limits.map_or(MaxLimits::UNBOUNDED, Into::into);
        let checked = chosen.check(&max).context("the sandbox cannot have these limits");
        checked.hint("see --memory, --cpus, --disk, --pids and --call-time")?;
        if let (Some(tier), Some(offered)) = (tier, &known.tiers)
            && !offered.contains(&tier)
        {
            let names: Vec<_> = offered.iter().map(|tier| tier.as_str()).collect();
            let error = anyhow::anyhow!("runs cannot use the tier `{tier}` here");
            return Err(hinted(error, format!("choose one with --tier: {}", names.join(", "))));
        }
        Ok(Room {
            memory_bytes: chosen.memory_bytes.unwrap_or(found.limits.memory_bytes),
            disk_bytes: chosen.disk_bytes.unwrap_or(found.limits.disk_bytes),
            data: self.data(tier.or(found.tier)),
        })
    }

    /// Refuses network access that no sandbox would be given.
    pub(super) async fn check_network(&self, access: &NetworkAccess) -> anyhow::Result<()> {
        if access.is_default() {
            return Ok(());
        }
        let known = self.client.templates().await.context("cannot list the server's templates")?;
        let most = known.max_network.and_then(|most| most.parse().ok());
        let offer = NetworkOffer { operations: known.operations, most };
        offer.check(access).map_err(|error| {
            let hint = match (&error, &offer.operations) {
                (NetworkRefused::TooMuch { .. }, _) => "ask for less with --network".to_owned(),
                (_, Some(names)) if !names.is_empty() => {
                    format!("choose with --operations: {}", names.join(", "))
                }
                _ => "the file of --gateway configures operations".to_owned(),
            };
            hinted(error, hint)
        })?;
        if let Some(own) = self.own.as_ref().filter(|_| !access.operations.is_empty()) {
            let gateway = own.actions.gateway().await?;
            own.asking.get_or_init(|| approvals::ask(gateway));
        }
        Ok(())
    }

    /// How data comes into sandboxes for which the run or the template names this tier. A server
    /// has no shelf of ours.
    fn data(&self, tier: Option<Tier>) -> Brought {
        let shows = |own: &Own| {
            tier.unwrap_or_else(|| own.actions.config().tiers.default_tier()).shows_files()
        };
        if self.own.as_ref().is_some_and(shows) { Brought::Mounted } else { Brought::Copied }
    }

    /// Twice the memory, if sandboxes are ours and this host can spare it.
    pub(super) fn larger(&self, memory_bytes: u64) -> Option<u64> {
        self.own.as_ref()?;
        let wanted = memory_bytes.checked_mul(2)?;
        let host = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = host.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        (wanted <= kibibytes.saturating_mul(1024) / 2).then_some(wanted)
    }

    pub(super) async fn close(self) {
        if let Some(Own { actions, asking, _state }) = self.own {
            drop(asking);
            actions.stop().await;
        }
    }
}

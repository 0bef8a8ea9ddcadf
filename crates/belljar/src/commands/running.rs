//! Runs of a server, or of a platform: what their process has to offer to them.

mod budgets;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use belljar_client::{Client, Within};
use belljar_control::Control;
use belljar_domain::Tier;
use belljar_journal::{
    AnswerFolder, Directory, FigureFile, Journal, LedgerDirectory, RowDirectory,
};
use belljar_node::Gateway;
use belljar_objects::Place;
use belljar_runs::{
    Data, DataLimits, FixedRules, Models, NoQuota, Parts, Quotas, RunBounds, RunQuota, Runs,
    Settings, WordHub,
};
use belljar_sandboxes::{Actions, RowQueue, Tenant};
use belljar_server::Inside;
use belljar_store::Store;
use belljar_webhooks::{AnnouncedJournal, Directory as Hooks};

use super::brand;
use super::models::{self, Behind};
use crate::cli::Running;
use crate::config::Config;
use crate::output::Hint as _;

/// A server is alone with its runs: nobody else makes work for it.
const ALONE: Duration = Duration::from_secs(10);

/// Where a server keeps its runs, apart from those of `belljar ask`: no server takes those over.
fn served(data: &Path) -> PathBuf {
    data.join("served")
}

/// The place of files of a server's tenants.
pub(super) fn of_tenants(data: &Path) -> Place {
    Place::Directory(served(data).join("data"))
}

/// The rows of a server's runs.
pub(super) fn rows_of_server(data: &Path) -> RowDirectory {
    rows_of(data, &runs_of_server(data))
}

fn rows_of(data: &Path, transcripts: &Path) -> RowDirectory {
    let ledger = ledger_of_server(data);
    RowDirectory::new(served(data).join("rows"), transcripts.to_owned(), ledger)
}

/// The transcripts of a server's runs.
pub(super) fn runs_of_server(data: &Path) -> PathBuf {
    served(data).join("runs")
}

/// The transcripts of the runs of one workflow on this machine.
pub(super) fn runs_of_workflow(data: &Path, id: &str) -> PathBuf {
    served(data).join("runs-of-workflows").join(id)
}

/// The charges of a server's tenants.
pub(super) fn ledger_of_server(data: &Path) -> LedgerDirectory {
    LedgerDirectory::new(served(data).join("ledger"))
}

/// Where a platform keeps files of its tenants, among its objects. Nodes remove what no template
/// names, where they keep templates.
pub(super) fn shared(objects: &Place) -> Place {
    objects.below("runs")
}

/// With a journal in a directory, sandboxes of this process, and its gateway.
pub(super) async fn of_server(
    options: &Running,
    actions: &Actions,
    data: &Path,
    hooks: &Hooks,
) -> anyhow::Result<Runs> {
    of_transcripts(options, actions, data, &runs_of_server(data), hooks).await
}

/// The same with transcripts in this directory. A worker has no other runs.
pub(super) async fn of_transcripts(
    options: &Running,
    actions: &Actions,
    data: &Path,
    transcripts: &Path,
    hooks: &Hooks,
) -> anyhow::Result<Runs> {
    let place = served(data);
    let journal = Directory::open(transcripts);
    let journal = journal.hint("choose a writable directory with --data")?;
    let journal = AnnouncedJournal::new(Arc::new(journal), hooks.clone());
    journal.recover().await.hint("choose a readable directory with --data")?;
    let journal: Arc<dyn Journal> = Arc::new(journal);
    let models: Box<dyn Models> = match &actions.config().networks.gateway {
        Some(path) => {
            let gateway = actions.gateway().await?.clone();
            Box::new(Behind::new(path, gateway, journal.clone())?)
        }
        None => Box::new(FixedRules),
    };
    let own = actions.clone();
    let mounts =
        move |tenant: &str, tier: Option<Tier>| own.mounts_files(&Tenant::new(tenant), tier);
    let inside = Inside::new(actions.clone(), Tenant::new(super::runs::TENANT));
    let clients = move |tenant: &str| {
        let inside = inside.of(Tenant::new(tenant));
        Client::new(Within::new(move |request| {
            let inside = inside.clone();
            async move { inside.answer(request).await }
        }))
    };
    let parts = Parts {
        journal,
        figures: Arc::new(FigureFile::open(&place.join("figures.json"))),
        rows: Arc::new(rows_of(data, transcripts)),
        ledger: Arc::new(ledger_of_server(data)),
        data: Data::new(of_tenants(data), place.join("scratch"), limits(options)),
        clients: Box::new(clients),
        models,
        describer: Some(std::env::current_exe().context("cannot find this executable")?),
        mounts: Box::new(mounts),
        quotas: {
            let quota = quota(options);
            Box::new(move |_| Box::pin(async move { Ok(quota) }))
        },
        words: WordHub::default(),
    };
    let owner = format!("serve-{}", std::process::id());
    Ok(Runs::new(parts, Settings { owner, look: ALONE, ..settings(options)? }))
}

/// With a journal in the database, sandboxes of the platform's nodes, data where all
/// replicas find it, and a gateway of this replica's own, which is for the caller to finish.
pub(super) async fn of_platform(
    options: &Running,
    control: &Control,
    store: &Store,
    place: &Place,
    (gateway, queue): (Option<&Path>, RowQueue),
    config: &Config,
) -> anyhow::Result<(Runs, Option<Gateway>)> {
    let scratch = config.data.join("control");
    let answers = AnswerFolder::create(&scratch.join("answers"));
    let answers = answers.context("cannot make the folder of kept answers");
    let answers = answers.hint("choose a writable directory with BELLJAR_DATA")?;
    let journal = store.runs().keep_answers_in(answers);
    let sharing = journal.clone();
    tokio::spawn(async move { sharing.share_answers().await });
    let journal: Arc<dyn Journal> = Arc::new(journal);
    let mut started = None;
    let models: Box<dyn Models> = match gateway {
        Some(path) => {
            let data = scratch.join("gateway");
            let budgets = Arc::new(budgets::StoreBudgets::new(store));
            let hint = models::CONFIGURATION;
            let gateway = models::start(path, &data, config, budgets, hint).await?;
            belljar_server::forward_rows(&gateway, queue);
            started = Some(gateway.clone());
            Box::new(Behind::new(path, gateway, journal.clone())?)
        }
        None => Box::new(FixedRules),
    };
    let inside = control.inside();
    let clients = move |tenant: &str| {
        let (inside, tenant) = (inside.clone(), tenant.to_owned());
        Client::new(Within::new(move |request| {
            let (inside, tenant) = (inside.clone(), tenant.clone());
            async move { inside.answer(&tenant, request).await }
        }))
    };
    let parts = Parts {
        journal,
        figures: Arc::new(store.figures()),
        rows: Arc::new(store.rows()),
        ledger: Arc::new(store.ledger()),
        data: Data::new(shared(place), scratch.join("scratch"), limits(options)),
        clients: Box::new(clients),
        models,
        describer: Some(std::env::current_exe().context("cannot find this executable")?),
        // Which node a sandbox comes to, in which tier, is not known yet. It mounts what it can.
        mounts: Box::new(|_, _| false),
        quotas: quotas_of_tenants(options, store),
        words: words::of_platform(store),
    };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let owner = format!("control-{}-{}", host.trim(), std::process::id());
    let runs = Runs::new(parts, Settings { owner, ..settings(options)? });
    let surface = Inside::of_runs(runs.clone(), Tenant::new(super::runs::TENANT));
    control.offer_runs(move |tenant, request| {
        let surface = surface.of(Tenant::new(tenant));
        async move { surface.pass(request).await }
    });
    Ok((runs, started))
}

fn quota(options: &Running) -> RunQuota {
    RunQuota { runs: options.max_runs, nano_dollars_per_day: options.max_run_dollars_per_day }
}

/// Quotas that tenants have of their own, over the default.
fn quotas_of_tenants(options: &Running, store: &Store) -> Quotas {
    let (default, store) = (quota(options), store.clone());
    Box::new(move |tenant| {
        let (store, tenant) = (store.clone(), tenant.to_owned());
        Box::pin(async move {
            let own = store.run_quota(&tenant).await;
            let own = own.map_err(|error| NoQuota(Box::new(error)))?;
            Ok(RunQuota {
                runs: own.runs.map_or(default.runs, u64::from),
                nano_dollars_per_day: own.nano_dollars_per_day.or(default.nano_dollars_per_day),
            })
        })
    })
}

fn settings(options: &Running) -> anyhow::Result<Settings> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let bounds = RunBounds {
        wall_ms: options.max_run_time.map(millis),
        nano_dollars: options.max_run_cost,
        output_tokens: options.max_run_output_tokens,
    };
    let template = options.run_template.clone();
    let brand = Arc::new(brand::read(options.report_brand.as_deref())?);
    Ok(Settings { at_once: options.runs, template, bounds, brand, ..Settings::default() })
}

fn limits(options: &Running) -> DataLimits {
    DataLimits {
        file_bytes: options.run_file,
        tenant_bytes: options.run_data,
        ..DataLimits::default()
    }
}

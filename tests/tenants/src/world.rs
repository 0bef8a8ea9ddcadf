//! A server with two tenants.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_client::Within;
use belljar_domain::OperationCaps;
use belljar_journal::{
    Directory, FigureFile, FigureStore, Journal, LedgerDirectory, LedgerStore, RowDirectory,
    RowStore, WorkflowDirectory, WorkflowStore,
};
use belljar_node::PoolSize;
use belljar_objects::Place;
use belljar_runs::{Data, DataLimits, Parts, RunQuota, Runs, WordHub, WorkflowFiles};
use belljar_sandboxes::{
    Actions, Ceiling, Config, EventKind, EventObserver, Keys, RowQueue, Tenant,
};
use belljar_server::{EngineGone, Inside, KEEP_ROWS, Listener, RowKeeper, Server, Settings};
use belljar_webhooks::{
    Directory as Hooks, EventKind as HookKind, Message, Reach, Schedule, Sender, Shelf, Webhooks,
};
use belljar_workflow::Workflows;
use serde_json::{Value, json};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cases::console::CONSOLE;
use crate::client::{Answer, Client};
use crate::models::Scripted;
use crate::planted::Planted;

const KEY_A: &str = "e2b_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const SPARE_A: &str = "e2b_acacacacacacacacacacacacacacacacacacacac";
const KEY_B: &str = "e2b_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// An operation for which a token can be made; nothing listens where it leads.
pub(crate) const OPERATIONS: &str = "[operations.echo]\nkind = \"http\"\nplaintext = true\n\
    upstream = \"http://127.0.0.1:9\"\nmethods = [\"GET\"]\npaths = [\"/\"]\n";

pub(crate) struct World {
    pub(crate) a: Client,
    pub(crate) b: Client,
    pub(crate) nobody: Client,
    /// A runtime that the engine takes for `runc`.
    pub(crate) planted: Arc<Planted>,
    /// Where the engine keeps what belongs to sandboxes that run.
    pub(crate) engine: PathBuf,
    /// The files of its tenants.
    pub(crate) data: Data,
    /// The transcripts of its runs.
    pub(crate) journal: Directory,
    keeper: RowKeeper,
    keys: PathBuf,
    actions: Actions,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), EngineGone>>,
    working: JoinHandle<()>,
    _directory: TempDir,
}

/// Departures from the usual setup.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) quota: usize,
    /// The most network access of its tenants.
    pub(crate) most: Ceiling,
    pub(crate) models: Scripted,
    /// The gateway's settings.
    pub(crate) operations: String,
}

impl Setup {
    pub(crate) fn of(quota: usize) -> Self {
        let (most, models) = (Ceiling::Open, Scripted::default());
        Self { quota, most, models, operations: OPERATIONS.to_owned() }
    }
}

/// Runs of this model. Without a script, no worker works on them: each stays as it is.
pub(crate) fn runs(
    journal: Arc<dyn Journal>,
    figures: Arc<dyn FigureStore>,
    (rows, ledger): (Arc<dyn RowStore>, Arc<dyn LedgerStore>),
    place: &Path,
    models: Scripted,
    clients: impl Fn(&str) -> belljar_client::Client + Send + Sync + 'static,
) -> Runs {
    let (data, scratch) = (Place::Directory(place.join("data")), place.join("scratch"));
    let parts = Parts {
        journal,
        figures,
        rows,
        ledger,
        data: Data::new(data, scratch, DataLimits::default()),
        clients: Box::new(clients),
        models: Box::new(models),
        describer: None,
        mounts: Box::new(|_, _| false),
        quotas: Box::new(|_| {
            let quota = RunQuota { runs: 10_000, nano_dollars_per_day: None };
            Box::pin(async move { Ok(quota) })
        }),
        words: WordHub::default(),
    };
    let settings = belljar_runs::Settings {
        at_once: if models.has_script() { 4 } else { 0 },
        template: "base".to_owned(),
        ..belljar_runs::Settings::default()
    };
    Runs::new(parts, settings)
}

/// The one address that webhooks may have although it is not public.
pub(crate) const OPENED: &str = "127.0.0.7";

/// Webhooks with three attempts: at once, after a quarter of a second, and after one more.
pub(crate) fn webhooks(shelf: Arc<dyn Shelf>) -> anyhow::Result<Webhooks> {
    let sender = Sender::new(Reach::new(vec![OPENED.parse()?]))?;
    let schedule = Schedule { attempts: 3, first_wait: Duration::from_millis(250) };
    let settings = belljar_webhooks::Settings {
        schedule,
        poll: Duration::from_millis(50),
        ..belljar_webhooks::Settings::default()
    };
    Ok(Webhooks::new(shelf, sender, settings, |_| {}))
}

/// Workflows that a worker takes over two seconds after another one was killed.
pub(crate) fn workflows(
    store: Arc<dyn WorkflowStore>,
    data: &Data,
    at_once: usize,
    clients: impl Fn(&str, &OperationCaps) -> belljar_client::Client + Send + Sync + 'static,
) -> Workflows {
    let parts = belljar_workflow::Parts {
        store,
        files: Arc::new(WorkflowFiles::new(data.clone())),
        clients: Box::new(clients),
        signal: Box::new(|_| {}),
    };
    let settings = belljar_workflow::Settings {
        lease: Duration::from_secs(2),
        at_once,
        most_unfinished: 10_000,
        ..belljar_workflow::Settings::default()
    };
    Workflows::new(parts, settings)
}

/// Something of a tenant's, to name in requests.
#[derive(Debug, Clone)]
pub(crate) struct Belongings {
    pub(crate) sandbox: String,
    pub(crate) call: String,
    pub(crate) context: String,
    pub(crate) checkpoint: String,
    /// Of the E2B surface: a template with a build, a volume, a secret.
    pub(crate) template: String,
    pub(crate) build: String,
    pub(crate) volume: String,
    pub(crate) secret: String,
    /// Nobody works on it.
    pub(crate) run: String,
    pub(crate) data: String,
    pub(crate) webhook: String,
    /// No worker takes it, unless the world has models.
    pub(crate) workflow: String,
}

impl World {
    pub(crate) async fn start(quota: usize, planted: &Arc<Planted>) -> anyhow::Result<Self> {
        Self::start_below(Ceiling::Open, quota, planted).await
    }

    /// One whose tenants may reach no further than this.
    pub(crate) async fn start_below(
        most: Ceiling,
        quota: usize,
        planted: &Arc<Planted>,
    ) -> anyhow::Result<Self> {
        Self::start_as(Setup { most, ..Setup::of(quota) }, planted).await
    }

    pub(crate) async fn start_as(setup: Setup, planted: &Arc<Planted>) -> anyhow::Result<Self> {
        let Setup { quota, most, models, operations } = setup;
        let template = belljar_warmed::template()?;
        let directory = tempfile::tempdir()?;
        // The user ids of sandboxes must be able to pass through.
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o711))?;
        let keys = directory.path().join("keys");
        std::fs::write(&keys, format!("{KEY_A} a\n{SPARE_A} a\n{KEY_B} b\n"))?;
        let store = std::env::var_os("BELLJAR_STORE").filter(|value| !value.is_empty());
        let store = store.map_or_else(|| "/var/lib/belljar/templates".into(), PathBuf::from);
        let mut config = Config::new(directory.path().join("state"), store);
        config.aliases = BTreeMap::from([("base".to_owned(), vec![template.name])]);
        config.quota.sandboxes = quota;
        let gateway = directory.path().join("gateway.toml");
        std::fs::write(&gateway, operations)?;
        config.networks.gateway = Some(gateway);
        config.networks.most = most;
        let engine = directory.path().join("engine");
        config.engine_state = Some(engine.clone());
        config.pool = PoolSize { least: 0, ..config.pool };
        let queue = RowQueue::new()?;
        config.rows = Some(queue.clone());
        let hooks = Hooks::open(&directory.path().join("webhooks"))?;
        let announced = hooks.clone();
        config.event_observer = EventObserver::new(move |event| {
            if event.kind == EventKind::Ended {
                let (at, kind) = (OffsetDateTime::now_utc(), HookKind::SandboxEnded);
                let data = Message::of_sandbox(&event.sandbox, event.detail.as_deref());
                let message = Message::new(format!("msg_{}", event.sandbox), kind, at, data);
                announced.announce(event.tenant.as_str().to_owned(), message);
            }
        });
        let actions = Actions::start(config, Keys::read(&keys)?).await?;
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None)?;
        let address = listener.address().context("the server has no address")?;
        let (stop, stopped) = oneshot::channel();
        let inside = Inside::new(actions.clone(), Tenant::new("nobody"));
        let place = directory.path().join("served");
        let journal = Directory::open(&place.join("runs"))?;
        let figures = FigureFile::open(&place.join("figures.json"));
        let ledger = LedgerDirectory::new(place.join("ledger"));
        let kept = RowDirectory::new(place.join("rows"), place.join("runs"), ledger.clone());
        let kept = Arc::new(kept);
        let keeper = RowKeeper::start(queue, kept.clone(), KEEP_ROWS);
        let (own, figures) = (Arc::new(journal.clone()), Arc::new(figures));
        let kept = (kept as Arc<dyn RowStore>, Arc::new(ledger) as Arc<dyn LedgerStore>);
        let runs = runs(own, figures, kept, &place, models, move |tenant| {
            let inside = inside.of(Tenant::new(tenant));
            belljar_client::Client::new(Within::new(move |request| {
                let inside = inside.clone();
                async move { inside.answer(request).await }
            }))
        });
        let worker = runs.clone();
        let working = tokio::spawn(async move { worker.work(std::future::pending()).await });
        let with_runs = Inside::with_runs(actions.clone(), runs.clone(), Tenant::new("nobody"));
        let flows = Arc::new(WorkflowDirectory::open(&place.join("workflows"))?);
        let at_once = if models.has_script() { 4 } else { 0 };
        let flows = workflows(flows, runs.data(), at_once, move |tenant, caps| {
            let (inside, caps) = (with_runs.of(Tenant::new(tenant)), caps.clone());
            belljar_client::Client::new(Within::new(move |mut request| {
                let inside = inside.clone();
                request.extensions_mut().insert(caps.clone());
                async move { inside.answer(request).await }
            }))
        });
        let data = runs.data().clone();
        let hooks = webhooks(Arc::new(hooks))?;
        let server = Server::new(actions.clone(), Settings::default());
        let server = server.with_webhooks(hooks).with_runs(runs).with_workflows(flows);
        let server = server.with_console(CONSOLE);
        let server =
            tokio::spawn(
                async move { server.run(vec![listener], async { drop(stopped.await) }).await },
            );
        let client = |key: Option<&str>| Client { address, key: key.map(str::to_owned) };
        Ok(Self {
            a: client(Some(KEY_A)),
            b: client(Some(KEY_B)),
            nobody: client(None),
            planted: planted.clone(),
            engine,
            data,
            journal,
            keeper,
            keys,
            actions,
            stop,
            server,
            working,
            _directory: directory,
        })
    }

    /// Warms interpreters up: for cases that make contexts, which take seconds each without.
    pub(crate) async fn warm_up(&self) {
        self.actions.warm_up().await;
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.working.abort();
        let _ = self.stop.send(());
        self.keeper.stop().await;
        self.server.await.context("the server panicked")?.context("the server ended by itself")
    }

    /// The first tenant, with another key.
    pub(crate) fn spare(&self) -> Client {
        Client { key: Some(SPARE_A.to_owned()), ..self.a.clone() }
    }

    /// Takes the only key of `b` away, and the spare one of `a`.
    pub(crate) fn revoke(&self) -> anyhow::Result<()> {
        Ok(std::fs::write(&self.keys, format!("{KEY_A} a\n"))?)
    }

    /// Puts options on the lines of the spare key of `a` and of its other key.
    pub(crate) fn cap(&self, spare: &str, other: &str) -> anyhow::Result<()> {
        let keys = format!("{KEY_A} a {other}\n{SPARE_A} a {spare}\n{KEY_B} b\n");
        Ok(std::fs::write(&self.keys, keys)?)
    }

    /// Gives `b` a floor of its own; `a` has none.
    pub(crate) fn raise(&self, floor: &str) -> anyhow::Result<()> {
        let keys = format!("{KEY_A} a\n{SPARE_A} a\n{KEY_B} b floor={floor}\n");
        Ok(std::fs::write(&self.keys, keys)?)
    }
}

impl Client {
    /// Makes a sandbox, and answers its id.
    pub(crate) async fn sandbox(&self, wish: &Value) -> anyhow::Result<String> {
        let made = self.json("POST", "/v1/sandboxes", wish).await?.expect(201)?.value()?;
        Ok(made["id"].as_str().context("a sandbox without an id")?.to_owned())
    }

    /// Runs a script and answers the whole result.
    pub(crate) async fn run(&self, sandbox: &str, script: &str) -> anyhow::Result<Value> {
        let path = format!("/v1/sandboxes/{sandbox}/calls");
        self.json("POST", &path, &json!({ "script": script })).await?.expect(200)?.value()
    }

    /// Removes all of it, so that no quota is used up.
    pub(crate) async fn clear(&self, of: &Belongings) -> anyhow::Result<()> {
        for path in [
            format!("/v1/sandboxes/{}", of.sandbox),
            format!("/v1/checkpoints/{}", of.checkpoint),
            format!("/templates/{}", of.template),
            format!("/volumes/{}", of.volume),
            format!("/secrets/{}", of.secret),
            format!("/v1/data/{}", of.data),
            format!("/v1/webhooks/{}", of.webhook),
        ] {
            self.send("DELETE", &path, "").await?;
        }
        Ok(())
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.send("GET", path, "").await
    }

    /// One of everything.
    pub(crate) async fn belongings(&self) -> anyhow::Result<Belongings> {
        let sandbox = self.sandbox(&json!({ "operations": ["echo"] })).await?;
        let at = |rest: &str| format!("/v1/sandboxes/{sandbox}/{rest}");
        self.send("PUT", &at("files/content?path=/tmp/secret"), "the owner's")
            .await?
            .expect(200)?;
        // Before the call: a process that runs cannot be copied.
        let kept = self.json("POST", &at("checkpoints"), &json!({})).await?.expect(201)?.value()?;
        let context = self.json("POST", &at("contexts"), &json!({})).await?.expect(201)?.value()?;
        let call = json!({ "argv": ["cat"], "stdin_open": true, "background": true });
        let call = self.json("POST", &at("calls"), &call).await?.expect(201)?.value()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let name = format!("of-{}", &sandbox[..12]);
        let named = json!({ "name": name, "value": "secret" });
        let template = self.json("POST", "/v3/templates", &named).await?.expect(202)?.value()?;
        let volume = self.json("POST", "/volumes", &named).await?.expect(201)?.value()?;
        self.json("POST", "/secrets", &named).await?.expect(201)?;
        let data = self.send("POST", "/v1/data", sandbox.clone()).await?.expect(201)?.value()?;
        let run = json!({ "question": "How much is it?" });
        let run = self.json("POST", "/v1/runs", &run).await?.expect(201)?.value()?;
        let hook = json!({ "url": "https://hooks.invalid/", "kinds": ["run.waiting"] });
        let hook = self.json("POST", "/v1/webhooks", &hook).await?.expect(201)?.value()?;
        let flow =
            "name = \"wait\"\n[steps.wait]\nkind = \"call\"\ncall = { script = \"sleep 60\" }";
        let flow = json!({ "definition": flow });
        let flow = self.json("POST", "/v1/workflows", &flow).await?.expect(201)?.value()?;
        let belongings = Belongings {
            workflow: text(&flow["id"]).context("no workflow")?,
            webhook: text(&hook["id"]).context("no webhook")?,
            template: text(&template["templateID"]).context("no template")?,
            build: text(&template["buildID"]).context("no build")?,
            volume: text(&volume["volumeID"]).context("no volume")?,
            secret: name,
            run: text(&run["id"]).context("no run")?,
            data: text(&data["sha256"]).context("no data")?,
            call: call["id"].to_string(),
            context: text(&context["id"]).context("no context")?,
            checkpoint: text(&kept["id"]).context("no checkpoint")?,
            sandbox,
        };
        ensure!(belongings.call != "null", "no call");
        Ok(belongings)
    }
}

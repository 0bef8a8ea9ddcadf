//! Who answers: models behind the gateway, which holds the keys.
//!
//! A run gets a session of its own with the gateway, and a token in it that may spend
//! what the run may, so that no mistake of the loop costs more. Its connections are
//! pairs of sockets, one end of which the gateway has: there is no port that another
//! process could use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_agent::Prices;
use belljar_domain::SandboxId;
use belljar_domain::network::{Policy, Subject};
use belljar_journal::event::{Brief, Budget};
use belljar_journal::{Address, Journal, ReadError, RunView};
use belljar_llm::rewrite::Models as Allowed;
use belljar_llm::{Dialect, Table};
use belljar_node::{BudgetLessor, Desk, Gateway, GatewayOptions};
use belljar_peer_proto::gateway::{Belongs, Budget as Allowance, Grant, PORT, Session};
use belljar_provider::{
    Client, Provider, Retries, Transport, TransportError, Upstream, WallClock, check_parameters,
};
use belljar_runs::{Choice, FixedRules, Models, NoModel, NoProvider, Priced, UnsupportedBrief};
use belljar_sandboxes::{CHARGE_LOG_FOLDER, counted_budgets};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::HOST;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::runs;
use crate::config::Config;
use crate::output::Hint as _;

/// How long a token lives when nobody renews it, and after what it is renewed.
const TOKEN_SECONDS: u32 = 600;
const RENEWED: Duration = Duration::from_secs(200);
/// Events of a run that are read at once.
const PART: usize = 500;

/// What to do about a gateway that cannot start.
pub(super) const CONFIGURATION: &str =
    "correct the file of --gateway; docs/operations.md lists its keys";

/// Operations of one gateway that speak to models.
#[derive(Debug)]
pub(super) struct Behind {
    gateway: Gateway,
    /// Where runs say what they may spend.
    journal: Arc<dyn Journal>,
    operations: BTreeMap<String, Operation>,
    prices: Prices,
}

/// As much of the gateway's configuration as matters here. The gateway reads all of
/// it, and says what is wrong with it.
#[derive(Debug, Deserialize)]
struct Settings {
    #[serde(default)]
    operations: BTreeMap<String, Operation>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Operation {
    kind: String,
    dialects: Vec<Dialect>,
    models: Option<Vec<String>>,
    aliases: BTreeMap<String, String>,
    pin: toml::Table,
    prices: Option<PathBuf>,
}

impl Operation {
    /// What it lets through: as the gateway reads it.
    fn allowed(&self) -> Allowed {
        Allowed {
            pin: self.pin.get("model").and_then(|model| model.as_str()).map(str::to_owned),
            alias: self.aliases.clone(),
            allow: self.models.clone().unwrap_or_else(|| vec!["*".to_owned()]),
        }
    }
}

/// Starts a gateway for this process alone, which shares its budgets with others. `hint`: what to
/// do if it cannot start.
pub(super) async fn start(
    path: &Path,
    data: &Path,
    config: &Config,
    budgets: Arc<dyn BudgetLessor>,
    hint: &'static str,
) -> anyhow::Result<Gateway> {
    let options = GatewayOptions {
        config: path.to_owned(),
        data: data.to_owned(),
        charges: data.join(CHARGE_LOG_FOLDER),
        environment: config.environment.clone(),
        lessor: Some(counted_budgets(budgets)),
    };
    std::fs::create_dir_all(&options.data)
        .with_context(|| format!("cannot create `{}`", options.data.display()))
        .hint("choose a writable directory with BELLJAR_DATA")?;
    Gateway::start(options).await.hint(hint)
}

impl Behind {
    /// What a gateway that was started with this configuration has for models.
    pub(super) fn new(
        path: &Path,
        gateway: Gateway,
        journal: Arc<dyn Journal>,
    ) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text
            .with_context(|| format!("cannot read `{}`", path.display()))
            .hint("pass the gateway configuration with --gateway; docs/runs.md has an example")?;
        let settings: Settings =
            toml::from_str(&text).with_context(|| format!("`{}` is not valid", path.display()))?;
        let mut operations = settings.operations;
        operations.retain(|_, operation| operation.kind == "model");
        let mut prices = Prices::embedded().context("the price table cannot be used")?;
        for path in operations.values().filter_map(|operation| operation.prices.as_ref()) {
            let text = std::fs::read_to_string(path);
            let text = text.with_context(|| format!("cannot read `{}`", path.display()))?;
            prices = prices.with(Table::parse(&text)?);
        }
        Ok(Self { gateway, journal, operations, prices })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn named(&self, operation: Option<&str>) -> Result<(&str, &Operation), NoModel> {
        let found = match operation {
            Some(name) => self.operations.get_key_value(name),
            None if self.operations.len() > 1 => {
                let names: Vec<_> = self.operations.keys().map(String::as_str).collect();
                let names = names.join(", ");
                return Err(NoModel(format!("several operations are for models: {names}")));
            }
            None => self.operations.first_key_value(),
        };
        let (name, operation) = found.ok_or_else(|| match operation {
            Some(name) => NoModel(format!("there is no operation `{name}` for models")),
            None => NoModel("there is no operation for models".to_owned()),
        })?;
        Ok((name, operation))
    }

    async fn ask_for(&self, run: &Address, operation: &str) -> anyhow::Result<Arc<dyn Provider>> {
        let (name, operation) = self.named(Some(operation))?;
        let dialect = operation.dialects.first().copied();
        let dialect = dialect.with_context(|| format!("the operation `{name}` has no dialect"))?;
        let counter = Counter {
            gateway: self.gateway.clone(),
            journal: self.journal.clone(),
            operation: name.to_owned(),
            run: run.clone(),
            dialect,
            open: Mutex::default(),
            seen: Mutex::default(),
        };
        // What is wrong with the operation is said now, not in the first turn.
        counter.opened(&mut *counter.open.lock().await).await?;
        Ok(Arc::new(Client::new(Upstream::new(dialect), counter, WallClock)?))
    }
}

impl Models for Behind {
    fn choose(&self, operation: Option<&str>, model: Option<&str>) -> Result<Choice, NoModel> {
        if operation.is_none() && (self.operations.is_empty() || model == Some(FixedRules::NAME)) {
            return FixedRules.choose(None, model);
        }
        let (name, operation) = self.named(operation)?;
        let allowed = operation.allowed();
        let listed = || allowed.allow.iter().find(|model| !model.contains('*')).cloned();
        let model = model.map(str::to_owned).or_else(listed);
        let model =
            model.ok_or_else(|| NoModel(format!("the operation `{name}` names no model")))?;
        let Some(upstream) = allowed.find(&model) else {
            let names = allowed.allow.join(", ");
            return Err(NoModel(format!("`{name}` has no model `{model}`; it has {names}")));
        };
        if !self.prices.has(upstream) {
            return Err(NoModel(format!(
                "no price is known for the model `{upstream}`; add it to the file that `prices` \
                 names"
            )));
        }
        Ok(Choice { operation: Some(name.to_owned()), model })
    }

    fn choose_speaking(
        &self,
        dialect: &str,
        operation: Option<&str>,
        model: Option<&str>,
    ) -> Result<Choice, NoModel> {
        let speaks = |it: &Operation| it.dialects.iter().any(|one| one.as_str() == dialect);
        let fitting: Vec<&str> = self
            .operations
            .iter()
            .filter(|(name, it)| speaks(it) && operation.is_none_or(|asked| asked == name.as_str()))
            .map(|(name, _)| name.as_str())
            .collect();
        match fitting[..] {
            [one] => self.choose(Some(one), model),
            [] => Err(NoModel(match operation {
                Some(name) => format!("no operation `{name}` speaks {dialect}"),
                None => format!("no operation speaks {dialect}"),
            })),
            _ => {
                Err(NoModel(format!("several operations speak {dialect}: {}", fitting.join(", "))))
            }
        }
    }

    fn check(&self, choice: &Choice, brief: &Brief) -> Result<(), UnsupportedBrief> {
        let Some(operation) = &choice.operation else { return FixedRules.check(choice, brief) };
        let dialects = self.operations.get(operation).map(|found| found.dialects.as_slice());
        // One without a dialect is refused when it is asked.
        let Some(dialect) = dialects.and_then(|dialects| dialects.first()) else { return Ok(()) };
        let version = Upstream::new(*dialect).version;
        Ok(check_parameters(*dialect, version, &brief.parameters)?)
    }

    fn provider<'a>(
        &'a self,
        run: &'a Address,
        operation: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Priced, NoProvider>> {
        Box::pin(async move {
            let Some(operation) = operation else {
                return FixedRules.provider(run, None).await;
            };
            let provider = self.ask_for(run, operation).await;
            Ok((provider.map_err(|error| NoProvider(error.into()))?, self.prices.clone()))
        })
    }
}

/// Where the loop hands in its requests.
struct Counter {
    gateway: Gateway,
    journal: Arc<dyn Journal>,
    operation: String,
    run: Address,
    dialect: Dialect,
    open: Mutex<Option<Open>>,
    /// The run, as far as it was read.
    seen: Mutex<RunView>,
}

struct Open {
    desk: Desk,
    token: HeaderValue,
    /// Of which the token may spend what was left.
    budget: Budget,
    renewed: Instant,
}

impl Counter {
    /// The session, opened anew if the gateway has been, or if the run was given another
    /// budget; and the turn that asks now.
    async fn opened<'o>(
        &self,
        open: &'o mut Option<Open>,
    ) -> anyhow::Result<(&'o Open, Option<u32>)> {
        let view = self.view().await?;
        let is_of_now = |open: &Open| open.desk.is_open() && open.budget == view.budget;
        if !open.as_ref().is_some_and(is_of_now) {
            // The old one ends before the new one begins, and its token with it.
            *open = None;
            *open = Some(self.begin(&view).await?);
        }
        let open = open.as_mut().context("there is no session")?;
        if open.renewed.elapsed() > RENEWED {
            open.desk.renew(TOKEN_SECONDS).await?;
            open.renewed = Instant::now();
        }
        Ok((open, view.asked.map(|asked| asked.turn)))
    }

    /// The run as it stands; nothing of one that is not written down yet.
    async fn view(&self) -> anyhow::Result<RunView> {
        let mut seen = self.seen.lock().await;
        loop {
            let part = match self.journal.read(&self.run, seen.head.next(), PART).await {
                Err(ReadError::NoRun) => return Ok(RunView::default()),
                part => part?,
            };
            part.iter().for_each(|event| seen.apply(event));
            if part.len() < PART {
                return Ok(seen.clone());
            }
        }
    }

    async fn begin(&self, view: &RunView) -> anyhow::Result<Open> {
        let subject = Subject {
            tenant: self.run.tenant.clone(),
            sandbox: SandboxId::from_random(runs::random()?),
            run: Some(self.run.run.to_string()),
            turn: None,
            call: None,
            process: None,
        };
        let operations = vec![self.operation.clone()];
        let session = Session {
            subject,
            policy: Policy::default(),
            operations: operations.clone(),
            charged: None,
        };
        let desk = self.gateway.desk(session).await?;
        let agent = Some("run".to_owned());
        let budget = Some(allowed(view));
        // The worker itself asks before it makes a call.
        let seconds = TOKEN_SECONDS;
        let grant = Grant { operations, agent, seconds, budget, approvals: None };
        let minted = desk.mint(grant).await;
        let minted = minted.hint("use the name of an operation in the gateway configuration")?;
        let (_, before) = self.dialect.usual_credential().header();
        let mut token = HeaderValue::from_str(&format!("{before}{}", minted.token))?;
        token.set_sensitive(true);
        Ok(Open { desk, token, budget: view.budget, renewed: Instant::now() })
    }
}

/// What a token may spend: what is left for the run. Of its tokens the gateway would
/// put aside many times what is used; the loop counts those.
fn allowed(view: &RunView) -> Allowance {
    let Budget { turns, nano_dollars, .. } = view.budget;
    // One more than there are turns: the last answer.
    let answers = turns.map(|turns| u64::from(turns.saturating_sub(view.turns)) + 1);
    let attempts = u64::from(Retries::default().attempts);
    Allowance {
        requests: answers.map(|answers| answers * attempts),
        nano_dollars: nano_dollars.map(|most| most.saturating_sub(view.spent.nano_dollars)),
        ..Allowance::default()
    }
}

impl Transport for Counter {
    type Body = Incoming;

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Incoming>, TransportError> {
        let (stream, token) = {
            let mut open = self.open.lock().await;
            let (open, turn) = self.opened(&mut open).await?;
            let run = Some(self.run.run.to_string());
            let belongs = Belongs { run, turn, ..Belongs::default() };
            (open.desk.connect(belongs)?, open.token.clone())
        };
        let stream = TokioIo::new(tokio::net::UnixStream::from_std(stream)?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        tokio::spawn(connection);
        let mut request = request.map(Full::new);
        let host = HeaderValue::from_str(&format!("127.0.0.1:{PORT}"))?;
        request.headers_mut().insert(HOST, host);
        let (name, _) = self.dialect.usual_credential().header();
        request.headers_mut().insert(HeaderName::from_static(name), token);
        Ok(sender.send_request(request).await?)
    }
}

//! The way out of the sandbox of one command.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use belljar_domain::approval::ToolApprovals;
use belljar_domain::network::{Charge, Decision, Host, Kind, Reason, Row, Subject};
use belljar_node::{Gateway, GatewayError, GatewayOptions, Sandbox};
use belljar_packages::{Indexes, Told, configured};
use belljar_peer_proto::gateway::{Budget, Grant, Session};
use belljar_template::Template;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::approvals::{self, Asking};
use crate::cli;
use crate::cli::Preset;
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted};

/// Who acts, where nobody else is served.
const TENANT: &str = "local";

/// How long the token of a command lives if it is not renewed; it dies with the sandbox.
const TOKEN_SECONDS: u32 = 600;

/// How often the token is renewed.
const RENEWAL: Duration = Duration::from_secs(TOKEN_SECONDS as u64 / 3);

/// Renews the tokens of a sandbox for as long as the future is polled.
pub(crate) async fn renew_tokens(sandbox: &Sandbox) -> Infallible {
    loop {
        tokio::time::sleep(RENEWAL).await;
        // The next request of the program is refused and says why.
        let _ = sandbox.renew(TOKEN_SECONDS).await;
    }
}

/// Keeps the gateway for as long as the sandbox needs it.
pub(crate) struct Network {
    /// Variables for what runs inside.
    pub(crate) env: Vec<(String, String)>,
    rows: tokio::task::JoinHandle<Seen>,
    access: Access,
    /// The file of --gateway.
    config_file: Option<PathBuf>,
    asking: Asking,
    /// Its end tells the task that no more rows matter.
    gateway: Gateway,
}

impl std::fmt::Debug for Network {
    /// Without the variables: a token is among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

/// The network access of the sandbox; its forks get the same.
struct Access {
    session: Session,
    /// Configuration of package managers: path and text.
    files: Vec<(String, String)>,
    /// The token to mint, if any operation is allowed.
    grant: Option<Grant>,
}

/// What a token is bound to, beside its operations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms {
    pub(crate) agent: Option<String>,
    pub(crate) budget: Option<Budget>,
    pub(crate) approvals: Option<ToolApprovals>,
}

/// All that was asked for, in numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traffic {
    /// To operations, as far as they were let through.
    pub(crate) requests: u64,
    pub(crate) refused_requests: u64,
    /// Of everything else.
    pub(crate) refused_connections: u64,
    /// Of all requests together; of no model.
    pub(crate) charge: Charge,
}

/// What was seen of the traffic.
#[derive(Debug, Default)]
struct Seen {
    traffic: Traffic,
    denied: Vec<Row>,
    /// Addresses that were refused because they are private.
    private: BTreeSet<IpAddr>,
    error: Option<std::io::Error>,
}

impl Network {
    /// Connects the sandbox, if anything is to be reached.
    pub(crate) async fn open(
        options: &cli::Network,
        sandbox: &Sandbox,
        template: &Template,
        config: &Config,
        printer: &Printer,
    ) -> anyhow::Result<Option<Self>> {
        if options.is_none() {
            return Ok(None);
        }
        let mut policy = options.policy();
        let mut told = Told::default();
        if options.network == Preset::Packages {
            let indexes;
            (indexes, told) = self::indexes(template, config, printer)?;
            policy.packages = indexes.to_policy();
        }
        let start = GatewayOptions {
            config: options.gateway.clone().unwrap_or_default(),
            data: config.data.join("gateway"),
            // There is no ledger.
            charges: PathBuf::new(),
            environment: config.environment.clone(),
            // A budget in the file is that of one command.
            lessor: None,
        };
        std::fs::create_dir_all(&start.data)
            .with_context(|| format!("cannot create `{}`", start.data.display()))
            .hint("choose a writable directory with BELLJAR_DATA")?;
        let gateway = Gateway::start(start).await;
        let gateway = gateway.hint(
            "pass the gateway configuration with --gateway; docs/network.md has an example",
        )?;
        let subject = Subject {
            tenant: TENANT.to_owned(),
            sandbox: sandbox.id().clone(),
            run: None,
            turn: None,
            call: None,
            process: None,
        };
        let file = options.connections.as_deref().map(open_file).transpose()?;
        let rows = tokio::spawn(watch(gateway.rows(), file));
        let session =
            Session { subject, policy, operations: options.operation.clone(), charged: None };
        let grant = (!options.operation.is_empty()).then(|| {
            let operations = options.operation.clone();
            let Terms { agent, budget, approvals } = options.terms.clone();
            Grant { operations, agent, seconds: TOKEN_SECONDS, budget, approvals }
        });
        let access = Access { session, files: told.files.into_iter().collect(), grant };
        let mut env = told.variables;
        env.extend(access.give(sandbox, &gateway).await?);
        let config_file = options.gateway.clone();
        let asking = approvals::ask(&gateway);
        Ok(Some(Self { env, rows, access, config_file, asking, gateway }))
    }

    /// Gives a fork of the sandbox the same access. Answers the variables of its own token.
    pub(crate) async fn connect(&self, fork: &Sandbox) -> anyhow::Result<Vec<(String, String)>> {
        self.access.give(fork, &self.gateway).await
    }

    /// Waits for the last rows and says what was refused.
    pub(crate) async fn close(self, printer: &Printer) -> anyhow::Result<Traffic> {
        let Self { rows, gateway, config_file, asking, .. } = self;
        // It has a handle on the gateway, whose end is waited for.
        drop(asking);
        // A gateway that died has nothing more to say.
        let _ = gateway.finish().await;
        drop(gateway);
        let Ok(seen) = rows.await else { return Ok(Traffic::default()) };
        if let Some(row) = seen.denied.first() {
            let host = row.host.as_ref().map_or("?".to_owned(), ToString::to_string);
            let reason = serde_json::to_value(row.reason).unwrap_or_default();
            let reason = reason.as_str().unwrap_or("policy");
            let more = seen.denied.len() - 1;
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            let hint = match row.reason {
                Reason::Private => openings(&seen.private, config_file.as_deref()),
                _ => "--allow HOST allows a host; --connections - shows all connections".to_owned(),
            };
            printer.note(format_args!("network: refused {host} ({reason}){more}\nhint: {hint}"));
        }
        let written = seen.error.map_or(Ok(()), Err);
        written.context("cannot write the connections").map(|()| seen.traffic)
    }
}

impl Access {
    /// Connects a sandbox to the gateway. Answers the variables of its token.
    async fn give(
        &self,
        sandbox: &Sandbox,
        gateway: &Gateway,
    ) -> anyhow::Result<Vec<(String, String)>> {
        let connected = sandbox.connect_gateway(gateway, self.session.clone()).await;
        let opened = connected.map_err(unconnected)?;
        for (path, text) in &self.files {
            let written = sandbox.tell(path, text).await;
            written.with_context(|| format!("cannot write `{path}` in the sandbox"))?;
        }
        let Some(grant) = &self.grant else { return Ok(Vec::new()) };
        let minted = sandbox.mint(grant.clone()).await;
        let minted = minted.hint("use the name of an operation in the gateway configuration")?;
        let mut variables = token_variables(&minted.token);
        if opened.otlp.is_some() {
            // The endpoint is set by the sandbox itself.
            let header = format!("authorization=Bearer%20{}", minted.token);
            variables.push(("OTEL_EXPORTER_OTLP_HEADERS".to_owned(), header));
        }
        Ok(variables)
    }
}

impl Traffic {
    fn add(&mut self, row: &Row) {
        match (row.kind, row.decision) {
            (Kind::Operation, Decision::Denied) => self.refused_requests += 1,
            (Kind::Operation, _) => self.requests += 1,
            (Kind::Connection | Kind::Exchange, Decision::Denied) => self.refused_connections += 1,
            _ => {}
        }
        if let Some(charge) = &row.charge {
            let sum = &mut self.charge;
            sum.input += charge.input;
            sum.cache_read += charge.cache_read;
            sum.cache_write += charge.cache_write;
            sum.output += charge.output;
            sum.nano_dollars += charge.nano_dollars;
            sum.assumed |= charge.assumed;
        }
    }
}

/// The private address that a row is about. That of a name is in the row of its look-up.
fn private_address(row: &Row) -> Option<IpAddr> {
    if row.decision != Decision::Denied || row.reason != Reason::Private {
        return None;
    }
    match row.host {
        Some(Host::Address(address)) => Some(address),
        _ => row.address,
    }
}

/// How to allow the private addresses that were refused: the whole configuration.
fn openings(addresses: &BTreeSet<IpAddr>, file: Option<&Path>) -> String {
    let quoted: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    let list = if quoted.is_empty() { "\"10.0.0.0/8\"".to_owned() } else { quoted.join(", ") };
    let how = match file {
        Some(file) => format!("add this to `{}`", file.display()),
        None => "write this to a file, and pass it with --gateway FILE".to_owned(),
    };
    format!("its address is private; to allow it, {how}:\n\n[gateway]\nopenings = [{list}]\n")
}

fn unconnected(error: GatewayError) -> anyhow::Error {
    let hint = match &error {
        GatewayError::Refused(_) => "--record NAME records a cassette; --replay NAME replays it",
        _ => "the process tier has no separate network; choose another --tier",
    };
    hinted(error, hint)
}

/// How model clients find the gateway, and what they show it.
fn token_variables(token: &str) -> Vec<(String, String)> {
    let base = format!("http://127.0.0.1:{}", belljar_peer_proto::gateway::PORT);
    [
        ("BELLJAR_GATEWAY", base.clone()),
        ("BELLJAR_TOKEN", token.to_owned()),
        ("ANTHROPIC_BASE_URL", base.clone()),
        ("ANTHROPIC_AUTH_TOKEN", token.to_owned()),
        ("OPENAI_BASE_URL", format!("{base}/v1")),
        ("OPENAI_API_KEY", token.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The indexes of the template's package managers; of the host's where those
/// have none of their own, and then with what is told inside to find them.
fn indexes(
    template: &Template,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<(Indexes, Told)> {
    let host = config.environment.texts().collect();
    let found = configured::of_template(&template.root, &template.env, &host);
    let (indexes, told) = found.context("cannot read the configuration of the package managers")?;
    if indexes.all().next().is_none() {
        printer.note(
            "warning: no package index is configured, neither in the template nor on this host\n\
             hint: set PIP_INDEX_URL or npm_config_registry, or use --allow",
        );
    }
    Ok((indexes, told))
}

fn open_file(path: &Path) -> anyhow::Result<Box<dyn std::io::Write + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stderr()));
    }
    let file = File::create(path).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}

/// Takes rows until the gateway is gone.
async fn watch(
    mut rows: broadcast::Receiver<Arc<[Row]>>,
    mut file: Option<Box<dyn std::io::Write + Send>>,
) -> Seen {
    let mut seen = Seen::default();
    loop {
        let rows = match rows.recv().await {
            Ok(rows) => rows,
            // The file then has a gap in its numbers.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => break,
        };
        for row in &*rows {
            seen.traffic.add(row);
            seen.private.extend(private_address(row));
            if row.decision == Decision::Denied
                && matches!(row.kind, Kind::Connection | Kind::Exchange)
            {
                seen.denied.push(row.clone());
            }
            if let Some(file) = &mut file
                && let Err(error) = write(file, row)
            {
                seen.error.get_or_insert(error);
            }
        }
    }
    if let Some(error) = file.and_then(|mut file| file.flush().err()) {
        seen.error.get_or_insert(error);
    }
    seen
}

fn write(file: &mut dyn std::io::Write, row: &Row) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(row)?;
    line.push(b'\n');
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn row(more: Value) -> Row {
        let mut row = json!({
            "sequence": 0, "tenant": "local", "sandbox": "c6cncbwgfwt2oo3dk65opt7m5n",
            "decision": "denied", "reason": "private", "host": "index.example",
            "bytes": { "out": 0, "in": 0 }, "began": 0, "micros": 0,
        });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn the_address_of_a_refused_name_is_in_the_hint() {
        let rows = [
            row(json!({ "kind": "lookup", "address": "203.0.113.80" })),
            row(json!({ "kind": "exchange", "method": "GET", "path": "/simple/idna/" })),
            row(json!({ "kind": "connection", "host": "10.1.2.3" })),
            row(
                json!({ "kind": "lookup", "decision": "allowed", "reason": "rule", "address": "192.0.2.1" }),
            ),
        ];
        let addresses: BTreeSet<IpAddr> = rows.iter().filter_map(private_address).collect();
        let hint = openings(&addresses, None);
        let (_, file) = hint.split_once("--gateway FILE:\n\n").unwrap();
        assert_eq!(file, "[gateway]\nopenings = [\"10.1.2.3\", \"203.0.113.80\"]\n");
    }
}

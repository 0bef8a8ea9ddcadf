//! The set-up, once for each process.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::metrics::{self, Scrape};
use crate::traces::{self, EndpointError, ExportOptions, Exporter};
use crate::trail::Trail;

/// What this process is; every metric and trace says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Serve,
    Control,
    Node,
    /// `belljar ask`, which is no server: it has traces alone.
    Ask,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Control => "control",
            Self::Node => "node",
            Self::Ask => "ask",
        }
    }
}

/// How lines of the log look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Compact,
    Json,
}

/// What is wanted.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub format: Format,
    /// Where `GET /metrics` is answered.
    pub metrics: Option<SocketAddr>,
    /// Where traces are sent, as `http://host:port`.
    pub otlp: Option<String>,
    pub export: ExportOptions,
    /// The instance's name in traces, for instance a node's.
    pub instance: Option<String>,
}

/// Why it cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot serve metrics on {address}")]
    Metrics { address: SocketAddr, source: io::Error },
    #[error("cannot send traces to `{url}`")]
    Traces { url: String, source: EndpointError },
    #[error("logs are set up already")]
    Twice,
}

/// What was set up. To drop it ends the listener and the exporter.
#[derive(Debug)]
pub struct Telemetry {
    address: Option<SocketAddr>,
    exporter: Option<Exporter>,
    listening: Option<tokio::task::AbortHandle>,
}

impl Telemetry {
    /// Where metrics are; tells the port when any free one was asked for.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Sends what waits, for a moment. The last thing that a process does.
    pub async fn stop(mut self) {
        if let Some(exporter) = self.exporter.take() {
            exporter.stop().await;
        }
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

/// Serves the metrics of this process, and sets up nothing else: for one with logs of its own.
pub fn serve_metrics(role: Role, address: SocketAddr) -> Result<Telemetry, StartError> {
    let (address, listening) = listen(role, address)?;
    Ok(Telemetry { address: Some(address), exporter: None, listening: Some(listening) })
}

fn listen(
    role: Role,
    address: SocketAddr,
) -> Result<(SocketAddr, tokio::task::AbortHandle), StartError> {
    let listening = metrics::listen(address, Arc::new(Scrape::new(role)));
    listening.map_err(|source| StartError::Metrics { address, source })
}

/// Sets up logs, metrics and traces of this process. To be called within a
/// runtime, before anything that should be seen.
pub fn start(role: Role, settings: &Settings) -> Result<Telemetry, StartError> {
    let exporter = exporter(role, settings)?;
    let listening = settings.metrics.map(|address| listen(role, address)).transpose()?;
    let (address, listening) = listening.unzip();
    subscribe(Some(settings.format), exporter.as_ref())?;
    Ok(Telemetry { address, exporter, listening })
}

/// Sets up traces alone, for a command that prints for people. Without a collector, nothing.
pub fn start_traces(role: Role, settings: &Settings) -> Result<Telemetry, StartError> {
    let exporter = exporter(role, settings)?;
    if exporter.is_some() {
        subscribe(None, exporter.as_ref())?;
    }
    Ok(Telemetry { address: None, exporter, listening: None })
}

fn exporter(role: Role, settings: &Settings) -> Result<Option<Exporter>, StartError> {
    let Some(url) = settings.otlp.as_deref() else { return Ok(None) };
    let started = Exporter::start(url, &settings.export, role, settings.instance.as_deref());
    let started = started.map_err(|source| StartError::Traces { url: url.to_owned(), source });
    started.map(Some)
}

fn subscribe(format: Option<Format>, exporter: Option<&Exporter>) -> Result<(), StartError> {
    let queue = exporter.map(Exporter::queue);
    if let Some(queue) = &queue {
        traces::install(queue.clone());
    }
    let subscriber =
        tracing_subscriber::registry().with(LevelFilter::INFO).with(Trail { format, queue });
    subscriber.try_init().map_err(|_| StartError::Twice)
}

//! What operators see of a server: the same flags for every role.

use std::net::SocketAddr;
use std::path::PathBuf;

use belljar_telemetry::{ExportOptions, Format, Role, Settings, Telemetry};
use clap::Args;

use crate::output::Hint as _;

const HINT: &str = "use a URL like http://127.0.0.1:4318 or https://collector:4318 for the \
                    collector; docs/observability.md lists the variables";

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Observability")]
pub(crate) struct Observe {
    /// Address for Prometheus metrics (`/metrics`): plain HTTP, without secrets or the names of
    /// tenants
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Collector for traces (OTLP over HTTP), like http://127.0.0.1:4318 [env:
    /// OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Write logs as JSON
    #[arg(long)]
    pub(crate) json_logs: bool,
}

impl Observe {
    /// Sets up what was asked for. `instance` is this process's name in traces,
    /// where it has one.
    pub(crate) fn start(&self, role: Role, instance: Option<&str>) -> anyhow::Result<Telemetry> {
        let settings = Settings {
            format: if self.json_logs { Format::Json } else { Format::Compact },
            metrics: self.metrics,
            otlp: self.otlp.clone().or_else(|| variable("ENDPOINT")).filter(|url| !url.is_empty()),
            export: export(),
            instance: instance.map(str::to_owned),
        };
        let started = belljar_telemetry::start(role, &settings);
        started.hint(format!("use a free address for --metrics; {HINT}"))
    }
}

/// Sets up traces of a command, if the environment names a collector.
pub(crate) fn trace_command(role: Role) -> anyhow::Result<Telemetry> {
    let otlp = variable("ENDPOINT");
    let settings = Settings { otlp, export: export(), ..Settings::default() };
    belljar_telemetry::start_traces(role, &settings).hint(HINT)
}

fn export() -> ExportOptions {
    let file = |name: &str| variable(name).map(PathBuf::from);
    ExportOptions {
        headers: variable("HEADERS"),
        authorities: file("CERTIFICATE"),
        client_certificate: file("CLIENT_CERTIFICATE"),
        client_key: file("CLIENT_KEY"),
    }
}

/// A variable of OpenTelemetry's exporters; an empty one counts as none.
fn variable(name: &str) -> Option<String> {
    std::env::var(format!("OTEL_EXPORTER_OTLP_{name}")).ok().filter(|text| !text.is_empty())
}

//! What operators see of a server: the same flags for every role.

use std::net::SocketAddr;

use belljar_telemetry::{Format, Role, Settings, Telemetry};
use clap::Args;

use crate::output::Hint as _;

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
        let variable = || std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok();
        let otlp = self.otlp.clone().or_else(variable).filter(|url| !url.is_empty());
        let settings = Settings {
            format: if self.json_logs { Format::Json } else { Format::Compact },
            metrics: self.metrics,
            otlp,
            instance: instance.map(str::to_owned),
        };
        belljar_telemetry::start(role, &settings)
            .hint("use a free address for --metrics, a URL like http://127.0.0.1:4318 for --otlp")
    }
}

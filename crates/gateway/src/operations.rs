//! Operations: what sandboxes ask the gateway to do for them.
//!
//! A sandbox holds a token and no key. It asks the gateway, on its own listener,
//! for an operation by name or by the path of a model's API; the gateway checks
//! the token, bends the request into what the operator allows, puts money aside,
//! adds the credential and asks the upstream.
//!
//! ```text
//!   request ─► serve: token ─► scope ─► operation
//!                                          │
//!              model: read, rewrite, price ┤├ http: method, path
//!         git: head, pack, approval, forge ┤└ otlp: read, attribute
//!                                          ▼
//!              reserve ─► headers, credential ─► connect ─► upstream
//!                                          │
//!              stream: search, meter ◄─────┘
//!                │
//!                ├─► settle, row
//!                └─► hold: tool calls that wait for a human
//! ```

mod config;
mod connect;
mod desk;
mod echo;
mod git;
mod headers;
mod hold;
mod http;
mod metering;
mod mint;
mod model;
mod operation;
mod otlp;
mod read;
mod refuse;
mod secret;
mod serve;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_peer_proto::gateway::GitRemote;
use tokio_rustls::rustls::ClientConfig;

pub(crate) use config::Table;
pub(crate) use desk::Desk;
pub(crate) use hold::Holder;
pub use mint::MintError;
pub(crate) use mint::mint;
pub(crate) use otlp::accepted;
pub(crate) use serve::{HEALTH, is_authorised, refuse, serve, takes_telemetry};

use config::Name;
use operation::{Does, InvalidOperation, Operation};

/// Below this path every operation is found by its name.
const PREFIX: &str = "/operations/";

/// The name of the operation in a path, if it has one.
pub(crate) fn name_in(path: &str) -> Option<String> {
    let name = path.strip_prefix(PREFIX)?.split('/').next()?;
    belljar_domain::is_operation_name(name).then(|| name.to_owned())
}

/// All operations, as the settings have them now.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    by_name: BTreeMap<Name, Arc<Operation>>,
}

/// Why settings of operations cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the operation `{name}` cannot be offered")]
pub struct InvalidOperations {
    name: String,
    #[source]
    why: Box<InvalidOperation>,
}

impl Operations {
    /// Checks everything, and reads credentials.
    pub(crate) fn new(
        table: &Table,
        tls: &Arc<ClientConfig>,
        desk: &Desk,
    ) -> Result<Self, InvalidOperations> {
        let by_name = table.iter().map(|(name, settings)| {
            let operation = Operation::new(name, settings, tls, desk)
                .map_err(|why| InvalidOperations { name: name.to_string(), why: Box::new(why) })?;
            Ok((name.clone(), Arc::new(operation)))
        });
        Ok(Self { by_name: by_name.collect::<Result<_, _>>()? })
    }

    /// The path of the first of these that takes OpenTelemetry.
    pub(crate) fn otlp_path(&self, names: &[String]) -> Option<String> {
        let takes = |name: &&String| {
            self.get(name).is_some_and(|operation| matches!(operation.does, Does::Otlp(_)))
        };
        names.iter().find(takes).map(|name| format!("{PREFIX}{name}"))
    }

    /// The git servers that these of the operations stand for.
    pub(crate) fn git_remotes(&self, names: &[String]) -> Vec<GitRemote> {
        let remote = |name: &String| {
            let operation = self.get(name)?;
            let is_git = matches!(operation.does, Does::Git(_));
            let path = format!("{PREFIX}{name}/");
            is_git.then(|| GitRemote { path, url: format!("{}/", operation.upstream.url()) })
        };
        names.iter().filter_map(remote).collect()
    }

    fn get(&self, name: &str) -> Option<&Arc<Operation>> {
        self.by_name.get(name)
    }
}

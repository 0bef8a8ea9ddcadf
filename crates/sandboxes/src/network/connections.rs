//! What sandboxes reached, also those that have ended; and tokens.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use belljar_domain::approval::ToolApprovals;
use belljar_domain::network::Row;
use belljar_peer_proto::gateway::{Budget, Grant, Minted};
use tokio::sync::watch;

use super::rows::{self, RowQuery};
use super::way::unserved;
use crate::keys::Tenant;
use crate::problem::Problem;
use crate::sandbox::Sandbox;
use crate::start::Actions;

/// What somebody wants a token for.
#[derive(Debug, Clone, Default)]
pub struct TokenWish {
    /// None: all that the sandbox has.
    pub operations: Vec<String>,
    pub seconds: Option<u32>,
    /// Who acts, for the log.
    pub agent: Option<String>,
    pub budget: Option<Budget>,
    /// The tool calls in answers of models that wait for a human.
    pub approvals: Option<ToolApprovals>,
}

/// How long a token lives when nobody says.
const TOKEN_LIFE: u32 = 300;

/// How long after a sandbox's end its last rows may come.
const LAST_ROWS: Duration = Duration::from_secs(1);

/// Rows that are read at once.
const BATCH: usize = 256;

/// Where the rows of a sandbox are.
#[derive(Debug, Clone)]
enum Source {
    Live(Arc<Sandbox>),
    /// Of one that has ended.
    File(PathBuf),
}

/// Somebody who is told of every row.
#[derive(Debug)]
pub struct Following {
    source: Source,
    tenant: Tenant,
    query: RowQuery,
    /// Changes with every row.
    count: Option<watch::Receiver<u64>>,
    is_over: bool,
}

impl Actions {
    /// The rows of a sandbox's traffic, also of one that has ended.
    pub async fn connections(
        &self,
        tenant: &Tenant,
        id: &str,
        query: RowQuery,
    ) -> Result<Vec<Arc<Row>>, Problem> {
        read(self.rows_of(tenant, id)?, tenant, query).await
    }

    /// As [`Self::connections`], and all that come later, until the sandbox ends.
    pub fn follow_connections(
        &self,
        tenant: &Tenant,
        id: &str,
        query: RowQuery,
    ) -> Result<Following, Problem> {
        let source = self.rows_of(tenant, id)?;
        let count = match &source {
            Source::Live(sandbox) => Some(sandbox.rows.watch()),
            Source::File(_) => None,
        };
        let query = RowQuery { limit: BATCH, ..query };
        Ok(Following { source, tenant: tenant.clone(), query, count, is_over: false })
    }

    fn rows_of(&self, tenant: &Tenant, id: &str) -> Result<Source, Problem> {
        match self.registry().find(tenant, id) {
            Ok(sandbox) => Ok(Source::Live(sandbox)),
            Err(unknown) => {
                let ended = id.parse().ok().filter(|id| self.journal().has_ended(tenant, id));
                ended.map(|id| Source::File(self.journal().rows(&id))).ok_or(unknown)
            }
        }
    }

    /// Makes a token for operations of a sandbox. It works inside alone.
    pub async fn mint_token(
        &self,
        tenant: &Tenant,
        id: &str,
        wish: TokenWish,
    ) -> Result<Minted, Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        let live = sandbox.live()?;
        let TokenWish { mut operations, seconds, agent, budget, approvals } = wish;
        if operations.is_empty() {
            operations.clone_from(&sandbox.network().operations);
        }
        let seconds = seconds.unwrap_or(TOKEN_LIFE);
        let grant = Grant { operations, agent, seconds, budget, approvals };
        let minted = live.machine.mint(grant).await;
        minted.map_err(|error| unserved("create a token", &error))
    }
}

impl Actions {
    /// Extends the living tokens of a sandbox. Those that have expired stay dead.
    pub async fn renew_tokens(
        &self,
        tenant: &Tenant,
        id: &str,
        seconds: u32,
    ) -> Result<(), Problem> {
        let sandbox = self.registry().find(tenant, id)?;
        let live = sandbox.live()?;
        let renewed = live.machine.renew(seconds).await;
        renewed.map_err(|error| unserved("renew the tokens", &error))
    }
}

impl Following {
    /// The next rows; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<Vec<Arc<Row>>, Problem>> {
        loop {
            if let Some(count) = &mut self.count {
                count.mark_unchanged();
            }
            let found = read(self.source.clone(), &self.tenant, self.query.clone()).await;
            match found {
                Ok(found) if found.is_empty() => {}
                Ok(found) => {
                    self.query.after = found.last().map(|row| row.sequence);
                    return Some(Ok(found));
                }
                Err(problem) => return Some(Err(problem)),
            }
            let (Source::Live(sandbox), Some(count)) = (&self.source, &mut self.count) else {
                return None;
            };
            if self.is_over {
                return None;
            }
            tokio::select! {
                changed = count.changed() => if changed.is_err() { return None },
                () = sandbox.ended() => {
                    // Whatever it was in the middle of is told with its end.
                    tokio::time::sleep(LAST_ROWS).await;
                    self.is_over = true;
                }
            }
        }
    }
}

async fn read(source: Source, tenant: &Tenant, query: RowQuery) -> Result<Vec<Arc<Row>>, Problem> {
    let read = move || -> io::Result<Vec<Arc<Row>>> {
        match source {
            Source::Live(sandbox) => sandbox.rows.find(&query),
            Source::File(path) => rows::read(&path, &query),
        }
    };
    let rows = tokio::task::spawn_blocking(read).await;
    let rows = rows.unwrap_or_else(|error| Err(io::Error::other(error)));
    let mut rows = rows.map_err(|error| Problem::internal("read connections", &error))?;
    // Whoever finds the sandbox owns it; a row says so itself as well.
    rows.retain(|row| row.subject.tenant == tenant.as_str());
    Ok(rows)
}

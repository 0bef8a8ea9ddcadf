//! The network of a run's calls: the token for its operations, and what the gateway refused.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use belljar_api::bounds::OutOfBounds;
use belljar_api::network::{Connection, CreateToken, ListConnections, OperationName};
use belljar_client::{Error, Sandbox};
use belljar_journal::NewEvent;
use belljar_journal::event::{Body, CallRef, NetworkUsed};
use tokio::sync::Mutex;

use super::{Work, WorkError};
use crate::network;
use crate::room::{self, TOKEN_FILE};

/// Lifetime of a token, and the age at which it is replaced. A call that begins just before
/// that has a valid one all the time.
pub(super) const TOKEN_SECONDS: u64 = 600;
pub(super) const TOKEN_RENEWAL: Duration = Duration::from_secs(200);
/// Interval of looks at a token's age while a call runs.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(20);
/// The gateway hands its rows on within this time; and how often rows are asked for in vain.
const ROW_DELAY: Duration = Duration::from_millis(100);
const MAX_VAIN_QUERIES: u32 = 3;
/// Rows of one page, and pages of one call. What is left is counted with the next call.
const PAGE_ROWS: u64 = 1000;
const MAX_PAGES: usize = 20;
/// Time for all pages of one call.
const ROWS_TIMEOUT: Duration = Duration::from_secs(10);

/// The last token that a sandbox was given, and when.
#[derive(Debug, Default)]
pub(super) struct GivenToken(Mutex<Option<(String, Instant)>>);

impl Work<'_> {
    /// Does a call while the sandbox has a valid token for the run's operations.
    pub(super) async fn with_token<T>(
        &self,
        sandbox: &Sandbox,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if self.story.view.network.operations.is_empty() {
            return call.await;
        }
        if let Err(error) = self.give_token(sandbox).await {
            if ends_call(&error) {
                return Err(error);
            }
            // The call may be running since another worker made it. It is not given up for this.
            self.warn_of_token(&error);
        }
        tokio::select! {
            done = call => done,
            never = self.renew_token(sandbox) => match never {},
        }
    }

    /// Replaces the token again and again, for as long as the future is polled.
    async fn renew_token(&self, sandbox: &Sandbox) -> Infallible {
        loop {
            tokio::time::sleep(TOKEN_CHECK_INTERVAL).await;
            // Requests with the old token are refused, and the model is told so.
            if let Err(error) = self.give_token(sandbox).await {
                self.warn_of_token(&error);
            }
        }
    }

    pub(super) fn warn_of_token(&self, error: &Error) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(error, run.id = %self.lease.address.run, "token not renewed");
    }

    /// Puts a token for exactly the run's operations into the sandbox, unless it has a young one.
    async fn give_token(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let mut given = self.token.0.lock().await;
        let is_young =
            |(id, at): &(String, Instant)| id == sandbox.id() && at.elapsed() < TOKEN_RENEWAL;
        if given.as_ref().is_some_and(is_young) {
            return Ok(());
        }
        let wish = CreateToken {
            operations: self.operation_names()?,
            seconds: TOKEN_SECONDS.try_into().ok(),
            renew_seconds: None,
            agent: "run".to_owned().try_into().ok(),
            budget: None,
            approvals: None,
            approval_seconds: None,
        };
        let token = sandbox.create_token(&wish).await?;
        sandbox.write_file(TOKEN_FILE, token.token).await?;
        *given = Some((sandbox.id().to_owned(), Instant::now()));
        Ok(())
    }

    /// The run's operations, as a request for a token names them.
    pub(super) fn operation_names(&self) -> Result<Vec<OperationName>, OutOfBounds> {
        let names = self.story.view.network.operations.iter().cloned();
        names.map(TryInto::try_into).collect()
    }

    /// Writes down what a call did with the network. Answers lines for the model on what was
    /// refused.
    pub(super) async fn count_network(&self, call: &CallRef) -> Result<Option<String>, WorkError> {
        let access = &self.story.view.network;
        if !access.is_connected() {
            return Ok(None);
        }
        // The worker before may have died between this event and the end of the call.
        if let Some(before) = self.network_uses().find(|used| used.call == *call) {
            return Ok(network::told(before, access));
        }
        // The gateway may let us wait.
        self.flush().await?;
        let rows = self.new_rows().await;
        let Some(used) = network::used(call, &rows) else { return Ok(None) };
        let told = network::told(&used, access);
        self.append(NewEvent::new(used).waiting()).await?;
        Ok(told)
    }

    fn network_uses(&self) -> impl Iterator<Item = &NetworkUsed> {
        self.events.iter().rev().filter_map(|event| match &event.body {
            Body::NetworkUsed(used) => Some(used),
            _ => None,
        })
    }

    /// The rows of the run's sandbox that no event counts yet.
    pub(super) async fn new_rows(&self) -> Vec<Connection> {
        let Some(id) = &self.story.view.sandbox else { return Vec::new() };
        let sandbox = self.worker.rooms.at(id, self.lease.generation);
        let attached = |body: &Body| matches!(body, Body::SandboxAttached(_));
        let of_sandbox = self.events.iter().rev().take_while(|event| !attached(&event.body));
        let mut counted = of_sandbox
            .filter_map(|event| match &event.body {
                Body::NetworkUsed(used) => used.through,
                _ => None,
            })
            .max();
        let mut rows: Vec<Connection> = Vec::new();
        let reading = add_all_rows(&sandbox, &mut counted, &mut rows);
        let run = &self.lease.address.run;
        match tokio::time::timeout(ROWS_TIMEOUT, reading).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(error, run.id = %run, "connections not read");
            }
            Err(_) => tracing::debug!(run.id = %run, "connections not read in time"),
        }
        rows
    }
}

/// Reads rows until no more come.
async fn add_all_rows(
    sandbox: &Sandbox,
    counted: &mut Option<u64>,
    rows: &mut Vec<Connection>,
) -> Result<(), Error> {
    for _ in 0..MAX_VAIN_QUERIES {
        tokio::time::sleep(ROW_DELAY).await;
        let before = rows.len();
        add_rows(sandbox, counted, rows).await?;
        if before > 0 && rows.len() == before {
            break;
        }
    }
    Ok(())
}

/// Returns true if no call can be made in the sandbox after this error.
fn ends_call(error: &Error) -> bool {
    room::is_gone(error) || error.code() == Some("stale_generation")
}

/// Reads all rows after the one that was counted last.
async fn add_rows(
    sandbox: &Sandbox,
    counted: &mut Option<u64>,
    rows: &mut Vec<Connection>,
) -> Result<(), Error> {
    for _ in 0..MAX_PAGES {
        let query = ListConnections {
            after: counted.and_then(|after| after.try_into().ok()),
            limit: PAGE_ROWS.try_into().ok(),
            ..ListConnections::default()
        };
        let page = sandbox.connections(&query).await?;
        *counted = page.items.last().map(|row| row.sequence).or(*counted);
        rows.extend(page.items);
        if page.next.is_none() {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use belljar_client::Protocol;

    use super::*;

    #[test]
    fn a_token_that_is_not_given_ends_a_call_only_where_the_call_would_end_too() {
        assert!(ends_call(&Error::SandboxGone));
        assert!(!ends_call(&Error::Protocol(Protocol::LongBody(1))));
        assert!(!ends_call(&Error::Protocol(Protocol::NotBegun)));
    }
}

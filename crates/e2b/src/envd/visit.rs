//! One request to the agent of a sandbox that runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use belljar_domain::User;
use belljar_sandboxes::{Actions, Live, Problem, Sandbox};
use http::{HeaderMap, HeaderValue, header};
use serde_json::json;

use super::connect::Error;
use super::user;

pub(super) struct Visit {
    pub(super) actions: Actions,
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) live: Arc<Live>,
    pub(super) headers: HeaderMap,
}

/// Silence after which a stream says that it is still there.
const SILENCE: Duration = Duration::from_secs(90);

impl Visit {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// As whom the caller does something; unless it says, as the template says.
    pub(super) fn user(&self) -> Result<User, Problem> {
        user::of(&self.headers, self.sandbox.template().user())
    }

    pub(super) fn user_named(&self, name: Option<&str>) -> Result<User, Problem> {
        user::named(name, self.sandbox.template().user())
    }

    /// How long the caller waits; for a process, how long it may run.
    pub(super) fn timeout(&self) -> Result<Option<Duration>, Error> {
        let Some(text) = self.header("connect-timeout-ms") else { return Ok(None) };
        let millis: u64 = text
            .trim()
            .parse()
            .map_err(|_| Error::invalid(format!("'{text}' is no number of milliseconds")))?;
        Ok((millis > 0).then(|| Duration::from_millis(millis)))
    }

    pub(super) fn keepalive(&self) -> Duration {
        let seconds = self.header("keepalive-ping-interval").and_then(|text| text.parse().ok());
        seconds.filter(|&seconds| seconds > 0).map_or(SILENCE, Duration::from_secs)
    }

    /// Does something within the time that the caller waits, and while the
    /// sandbox runs.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let timeout = self.timeout()?;
        let too_late = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            () = self.sandbox.interrupted() => Err(Error::gone()),
            () = too_late => Err(Error::too_late()),
        }
    }

    /// What every process can learn about where it is.
    pub(super) fn own_env(&self) -> BTreeMap<String, String> {
        let facts = self.sandbox.facts();
        let own = [
            ("E2B_SANDBOX", "true"),
            ("E2B_SANDBOX_ID", self.sandbox.id().as_str()),
            ("E2B_TEMPLATE_ID", facts.template.as_str()),
        ];
        own.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    pub(super) fn envs(&self) -> Response {
        let mut all = self.own_env();
        all.extend(self.sandbox.facts().env.clone());
        let mut response = Json(all).into_response();
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(header::CACHE_CONTROL, no_store);
        response
    }

    pub(super) async fn metrics(&self) -> Response {
        let (tenant, id) = (&self.sandbox.facts().tenant, self.sandbox.id().as_str());
        let newest = self.actions.newest_figures(tenant, &[id]).await;
        let Some((_, figures)) = newest.into_iter().next() else {
            return crate::error::sandbox_gone(id);
        };
        Json(json!({
            "ts": figures.at.unix(),
            "cpu_count": figures.cpu_count,
            "cpu_used_pct": figures.cpu_percent,
            "mem_total": figures.memory_total,
            "mem_used": figures.memory_used,
            "mem_cache": figures.memory_cache,
            "mem_total_mib": figures.memory_total >> 20,
            "mem_used_mib": figures.memory_used >> 20,
            "disk_used": figures.disk_used,
            "disk_total": figures.disk_total,
        }))
        .into_response()
    }
}

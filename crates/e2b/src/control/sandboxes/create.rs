//! Making a sandbox.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use belljar_domain::ChosenLimits;
use belljar_sandboxes::{Actions, Create, NetworkWish, OnTimeout, PauseMode, Problem, Tenant};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::Made;
use super::network::{Network, not_here};
use crate::control::auth::{Called, Caller};
use crate::control::body::Body;
use crate::control::domain::Domain;
use crate::error::RestError;

/// Clients leave out what nobody chose, so a field that is not known here is a
/// wish that would be ignored: it is refused.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewSandbox {
    #[serde(rename = "templateID")]
    template: String,
    timeout: Option<u64>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    env_vars: Option<BTreeMap<String, String>>,
    auto_pause: Option<bool>,
    auto_pause_memory: Option<bool>,
    auto_resume: Option<AutoResume>,
    #[serde(rename = "allow_internet_access")]
    allow_internet_access: Option<bool>,
    network: Option<Network>,
    iam: Option<Iam>,
    mcp: Option<Value>,
    volume_mounts: Option<Vec<Value>>,
    /// Every sandbox has a token.
    #[serde(rename = "secure")]
    _secure: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct AutoResume {
    enabled: bool,
}

#[derive(Debug, Deserialize)]
struct Iam {
    #[serde(default)]
    tokens: BTreeMap<String, Value>,
}

/// Which of two paths a request came by; clients that know only the first say
/// everything explicitly, also what nobody chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    First,
    Second,
}

/// How long a sandbox lives when a client of the first path does not say.
const FIRST_DEFAULT: Duration = Duration::from_secs(15);

pub(crate) async fn create_v1(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Called(ids): Called,
    domain: Domain,
    headers: HeaderMap,
    Body(body): Body<NewSandbox>,
) -> Result<Response, RestError> {
    let mut wish = body.wish(Generation::First, &actions.config().networks.default)?;
    wish.id = ids.into_iter().next();
    make(&actions, &tenant, &domain, &headers, wish).await
}

pub(crate) async fn create(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Called(ids): Called,
    domain: Domain,
    headers: HeaderMap,
    Body(body): Body<NewSandbox>,
) -> Result<Response, RestError> {
    let mut wish = body.wish(Generation::Second, &actions.config().networks.default)?;
    wish.id = ids.into_iter().next();
    make(&actions, &tenant, &domain, &headers, wish).await
}

async fn make(
    actions: &Actions,
    tenant: &Tenant,
    domain: &Domain,
    headers: &HeaderMap,
    wish: Create,
) -> Result<Response, RestError> {
    // E2B's sandboxes have a root that installs packages and adds users. One that is made of a
    // snapshot has the profile of its original.
    let most = actions.config().max_profile;
    let is_fork = actions.find_snapshot(tenant, &wish.template).is_ok();
    let wish = Create { profile: (!is_fork).then_some(most), ..wish };
    let made = match headers.get("idempotency-key").map(HeaderValue::to_str) {
        None => actions.create(tenant, &wish).await,
        Some(key) => actions.create_once(tenant, key.unwrap_or_default(), &wish).await,
    };
    let made = made?;
    Ok((StatusCode::CREATED, Json(Made::new(domain, &made))).into_response())
}

impl NewSandbox {
    fn wish(self, generation: Generation, default: &NetworkWish) -> Result<Create, Problem> {
        if self.iam.is_some_and(|iam| !iam.tokens.is_empty()) {
            let instead = "an operation of the gateway adds what code must not hold";
            return Err(not_here("iam", instead));
        }
        if self.mcp.is_some_and(|mcp| !mcp.is_null()) {
            return Err(not_here("mcp", "run the MCP server in the sandbox"));
        }
        if self.volume_mounts.is_some_and(|mounts| !mounts.is_empty()) {
            let problem = Problem::unsupported("volumeMounts: volumes cannot be mounted yet");
            return Err(problem.hint("read and write them through the Volume methods"));
        }
        let auto_resume = self.auto_resume.is_some_and(|auto| auto.enabled);
        let on_timeout = match (self.auto_pause, self.auto_pause_memory) {
            (Some(true), Some(false)) if auto_resume => {
                let message = "autoResume needs a pause that keeps memory";
                return Err(Problem::invalid(message));
            }
            (Some(true), Some(false)) => OnTimeout::Pause(PauseMode::Filesystem),
            (Some(true), _) => OnTimeout::Pause(PauseMode::Full),
            _ => OnTimeout::Kill,
        };
        let mut network = self.network.unwrap_or_default();
        // Clients of the first path send `true` whether or not anybody asked.
        let internet = match self.allow_internet_access {
            Some(true) if generation == Generation::First => None,
            said => said,
        };
        network.allow_internet_access = network.allow_internet_access.or(internet);
        let reached = network.wish(default)?;
        let life = (generation == Generation::First).then_some(FIRST_DEFAULT);
        Ok(Create {
            template: self.template,
            timeout: self.timeout.map(Duration::from_secs).or(life),
            metadata: self.metadata.unwrap_or_default(),
            env: self.env_vars.unwrap_or_default(),
            on_timeout,
            auto_resume,
            private_traffic: network.allow_public_traffic == Some(false),
            mask_host: network.mask_request_host,
            // Clients have no word for it: the template's, or the server's.
            tier: None,
            profile: None,
            limits: ChosenLimits::default(),
            network: reached,
            // Nor for operations and datasets.
            operations: Vec::new(),
            data: Vec::new(),
            id: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wish(body: Value, generation: Generation) -> Result<Create, String> {
        let body: NewSandbox = serde_json::from_value(body).map_err(|error| error.to_string())?;
        body.wish(generation, &NetworkWish::default()).map_err(|problem| problem.message)
    }

    #[test]
    fn bodies_of_both_sdks_are_understood() {
        let python = json!({"templateID": "base", "metadata": {}, "envVars": {}});
        let made = wish(python, Generation::Second).unwrap();
        assert_eq!((made.template.as_str(), made.timeout), ("base", None));
        let old = json!({"templateID": "base", "timeout": 30, "secure": true,
            "allow_internet_access": true, "autoPause": false, "network": {}, "mcp": null});
        let made = wish(old, Generation::First).unwrap();
        assert_eq!(made.timeout, Some(Duration::from_secs(30)));
        assert_eq!(made.on_timeout, OnTimeout::Kill);
        // What is sent unasked is not a wish.
        assert_eq!(made.network, None);
        let silent = wish(json!({"templateID": "base"}), Generation::First).unwrap();
        assert_eq!(silent.timeout, Some(FIRST_DEFAULT));
    }

    #[test]
    fn the_end_of_time_is_chosen_by_two_fields() {
        let mut body = json!({"templateID": "base", "autoPause": true});
        let on_timeout = |body: &Value| wish(body.clone(), Generation::Second).unwrap().on_timeout;
        assert_eq!(on_timeout(&body), OnTimeout::Pause(PauseMode::Full));
        body["autoPauseMemory"] = false.into();
        assert_eq!(on_timeout(&body), OnTimeout::Pause(PauseMode::Filesystem));
        body["autoResume"] = json!({"enabled": true});
        assert!(wish(body, Generation::Second).is_err());
    }

    #[test]
    fn what_cannot_be_given_is_refused_by_name() {
        for (field, value) in [
            ("iam", json!({"tokens": {"a": {"audience": "b", "tokenType": "JWT-SVID"}}})),
            ("mcp", json!({"time": {}})),
            ("volumeMounts", json!([{"name": "a", "path": "/a"}])),
            ("network.egressProxy", json!({"address": "10.0.0.1:1080"})),
            ("frobnicate", json!(1)),
        ] {
            let mut body = json!({"templateID": "base"});
            match field.split_once('.') {
                Some((outer, inner)) => body[outer] = json!({ inner: value }),
                None => body[field] = value,
            }
            let refusal = wish(body, Generation::Second).unwrap_err();
            assert!(refusal.contains(field), "{field}: {refusal}");
        }
    }

    #[test]
    fn what_asks_for_nothing_is_accepted() {
        let body = json!({"templateID": "base", "allow_internet_access": false, "mcp": null,
            "iam": {"tokens": {}}, "volumeMounts": [], "autoResume": {"enabled": false},
            "network": {"allowPublicTraffic": false, "denyOut": ["0.0.0.0/0"], "egressProxy": null}});
        assert!(wish(body, Generation::Second).unwrap().private_traffic);
    }
}

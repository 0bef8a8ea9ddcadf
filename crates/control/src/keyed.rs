//! What needs a key: to which node it goes, and what is remembered of it.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::Query;
use axum::response::{IntoResponse as _, Response};
use belljar_api::bounds::DateTime;
use belljar_api::sandbox::{Ended, EndedList, ListEnded};
use belljar_domain::{EndReason, NodeNumber, SandboxId};
use belljar_listen::PeerAddress;
use belljar_store::SandboxRow;
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tracing::Instrument as _;

use crate::answer::{as_long_as_the_key, cleared};
use crate::believe::asked_for;
use crate::control::Control;
use crate::create::Demand;
use crate::forward::{Held, Unreached};
use crate::keys::{self, Caller, Proof, ShownKey};
use crate::refuse::{Refusal, Surface};
use crate::route::{mark, passed};
use crate::scope::{self, Subject};

/// What a request with a key is for.
#[derive(Debug, PartialEq, Eq)]
enum Wants<'a> {
    Create,
    Fork(&'a str),
    /// A snapshot of this sandbox, which may get a name.
    Keep(&'a str),
    End(&'a str),
    /// Anything else of this sandbox.
    Sandbox(&'a str),
    /// Something of this snapshot, or a sandbox made from it.
    Snapshot(&'a str),
    ForkSnapshot(&'a str),
    List,
    Figures,
    Ended,
    Events,
    /// Requests that wait on any node.
    Approvals,
    /// A template by this name, which may be a snapshot.
    Named(&'a str),
    /// The list of templates.
    Templates,
    /// Runs, their figures, or their data.
    Runs,
    Webhooks,
    Workflows,
    Home,
}

/// The longest body of a request, or of a node's answer, that is read as a whole.
pub(crate) const LONGEST: usize = 8 << 20;

pub(crate) async fn answer(
    control: &Control,
    surface: Surface,
    request: Request<Body>,
) -> Response {
    let hash = match keys::shown(request.headers()) {
        ShownKey::Hash(hash) => hash,
        ShownKey::Malformed => {
            belljar_telemetry::metrics().refused_key("malformed");
            return unknown_key(surface);
        }
        ShownKey::None => return Refusal::unauthenticated().into_response(surface),
    };
    let from = request.extensions().get::<PeerAddress>().copied();
    let caller = match control.proofs().prove(control.store(), &hash, from).await {
        Ok(Proof::Of(caller)) => caller,
        Ok(Proof::Unknown) => return unknown_key(surface),
        Ok(proof @ (Proof::TooManyWrong | Proof::Busy)) => {
            control.proofs().delay_refusal(&hash).await;
            return Refusal::key_not_looked_up(&proof).into_response(surface);
        }
        Err(error) => return control.database(&error).into_response(surface),
    };
    tracing::Span::current().record("tenant", caller.proven.tenant.as_str());
    let path = request.uri().path();
    // The answer is a link that lets whoever has it write.
    let is_slot = path.starts_with("/templates/") && path.contains("/files/");
    let method = if is_slot { &Method::PUT } else { request.method() };
    if let Some(missing) = scope::missing(&caller.proven.scopes, method, subject(path)) {
        return Refusal::forbidden(missing.as_str()).into_response(surface);
    }
    let response = match serve(control, surface, &caller, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(surface),
    };
    let response = cleared(&caller, response).await;
    as_long_as_the_key(control, hash, caller, response)
}

fn unknown_key(surface: Surface) -> Response {
    let refusal = match surface {
        Surface::Own => Refusal::unauthenticated(),
        // The words that SDKs look for.
        Surface::E2b => {
            Refusal::new(StatusCode::UNAUTHORIZED, "invalid_api_key", "Invalid API key")
                .hint("send a key of this platform as X-API-Key")
        }
    };
    refusal.into_response(surface)
}

fn subject(path: &str) -> Subject {
    let path = path.trim_start_matches("/v1").trim_start_matches("/v2").trim_start_matches("/v3");
    if path.starts_with("/templates") { Subject::Templates } else { Subject::Sandboxes }
}

fn wants<'a>(method: &Method, path: &'a str) -> Wants<'a> {
    let mut parts = path.trim_matches('/').split('/').peekable();
    if matches!(parts.peek(), Some(&("v1" | "v2" | "v3"))) {
        parts.next();
    }
    let parts: Vec<_> = parts.collect();
    let (get, post) = (method == Method::GET, method == Method::POST);
    match parts[..] {
        ["sandboxes"] if post => Wants::Create,
        ["sandboxes" | "snapshots" | "checkpoints"] if get => Wants::List,
        ["sandboxes", "metrics"] => Wants::Figures,
        ["sandboxes", id] if method == Method::DELETE => Wants::End(id),
        ["sandboxes", id, "fork"] if post => Wants::Fork(id),
        ["sandboxes", id, "snapshots" | "checkpoints"] if post => Wants::Keep(id),
        ["sandboxes", id, ..] => Wants::Sandbox(id),
        ["checkpoints", id, "fork"] if post => Wants::ForkSnapshot(id),
        ["checkpoints", id, ..] => Wants::Snapshot(id),
        ["runs" | "data", ..] | ["stats" | "usage"] => Wants::Runs,
        ["webhooks", ..] => Wants::Webhooks,
        ["workflows", ..] => Wants::Workflows,
        ["ended"] => Wants::Ended,
        ["approvals"] => Wants::Approvals,
        ["approvals", id] if id.starts_with("run.") => Wants::Runs,
        // Its id begins with that of its sandbox.
        ["approvals", id] => Wants::Sandbox(id.split_once('.').map_or(id, |(sandbox, _)| sandbox)),
        ["events"] => Wants::Events,
        ["templates"] if get => Wants::Templates,
        ["templates", id] if id != "tags" => Wants::Named(id),
        _ => Wants::Home,
    }
}

pub(crate) async fn serve(
    control: &Control,
    surface: Surface,
    caller: &Arc<Caller>,
    request: Request<Body>,
) -> Result<Response, Refusal> {
    let path = request.uri().path().to_owned();
    match wants(request.method(), &path) {
        Wants::Create => {
            let (control, caller, held) = (control.clone(), caller.clone(), hold(request).await?);
            unhurried(async move { control.create(surface, &caller, held).await }).await
        }
        Wants::Fork(id) => {
            let (id, node) = placed(id)?;
            let (control, caller, held) = (control.clone(), caller.clone(), hold(request).await?);
            unhurried(async move { control.fork(surface, &caller, &id, node, held).await }).await
        }
        Wants::Keep(id) => {
            let (_, node) = placed(id)?;
            let held = hold(request).await?;
            let response = to(control, surface, caller, node, held.request()).await;
            control.remember(caller, node, &held.body, response).await
        }
        Wants::End(id) => {
            let (id, node) = placed(id)?;
            // To end one is as much work for a node as to make one, so both take turns.
            // Nobody is refused: who waited too long goes on.
            let (tenant, patience) = (&caller.proven.tenant, control.settings().patience);
            let _working = control.turns().wait(tenant, patience).await;
            let response = to(control, surface, caller, node, request).await;
            if response.status().is_success() {
                // The place is free when this answers. What fails here, the node says
                // again.
                let place = control.places().turn(tenant).await;
                let ended = control.store().end(tenant, &id, None, EndReason::Killed).await;
                drop(place);
                ended.map_err(|error| control.database(&error))?;
            }
            Ok(response)
        }
        Wants::Sandbox(id) => {
            let (_, node) = placed(id)?;
            Ok(to(control, surface, caller, node, request).await)
        }
        Wants::Snapshot(id) => {
            let node = control.snapshot(caller, id).await?;
            let node = match node {
                Some(node) => node,
                None => control.home(caller).await?,
            };
            Ok(to(control, surface, caller, node, request).await)
        }
        Wants::ForkSnapshot(id) => {
            let node = control.snapshot(caller, id).await?;
            let (control, caller, held) = (control.clone(), caller.clone(), hold(request).await?);
            let id = id.to_owned();
            unhurried(
                // Its node is known, and checks the checkpoint's tier and limits.
                async move {
                    let (demand, site) = (Demand::default(), node.into());
                    control.create_at(surface, &caller, held, &id, demand, site).await
                },
            )
            .await
        }
        Wants::List => control.list(surface, caller, hold(request).await?).await,
        Wants::Figures => control.figures(caller, hold(request).await?).await,
        Wants::Approvals => control.approvals(caller, hold(request).await?).await,
        Wants::Ended => control.ended(caller, request.uri()).await,
        Wants::Events => control.events(caller, hold(request).await?).await,
        Wants::Named(name) => {
            let is_read = request.method() == Method::GET;
            // Warm templates are the operator's, and come before snapshots of the same name.
            let is_operators = is_read && control.roster().is_warm(name);
            let snapshot = match is_operators {
                true => None,
                false => control.snapshot(caller, name).await?,
            };
            if let Some(node) = snapshot {
                return Ok(to(control, surface, caller, node, request).await);
            }
            let home = control.home(caller).await?;
            match is_read {
                true => control.read_templates(surface, caller, home, Some(name), request).await,
                false => Ok(to(control, surface, caller, home, request).await),
            }
        }
        Wants::Runs if surface == Surface::Own => control.answer_runs(caller, request).await,
        Wants::Webhooks if surface == Surface::Own => {
            control.answer_webhooks(caller, request).await
        }
        Wants::Workflows if surface == Surface::Own => {
            control.answer_workflows(caller, request).await
        }
        Wants::Templates => {
            let home = control.home(caller).await?;
            let response = control.read_templates(surface, caller, home, None, request).await?;
            match surface {
                Surface::Own => control.add_offers(caller, response).await,
                Surface::E2b => Ok(response),
            }
        }
        Wants::Home | Wants::Runs | Wants::Webhooks | Wants::Workflows => {
            let node = control.home(caller).await?;
            let method = request.method().clone();
            let response = to(control, surface, caller, node, request).await;
            match method {
                Method::POST if path.ends_with("/templates") => {
                    control.remember_template(caller, node, response).await
                }
                _ => Ok(response),
            }
        }
    }
}

/// Where a sandbox is. What is no id names nothing.
fn placed(id: &str) -> Result<(SandboxId, NodeNumber), Refusal> {
    let parsed: Option<SandboxId> = id.parse().ok();
    let node = parsed.as_ref().and_then(SandboxId::node);
    parsed.zip(node).ok_or_else(|| Refusal::unknown_sandbox(id))
}

async fn to(
    control: &Control,
    surface: Surface,
    caller: &Caller,
    node: NodeNumber,
    request: Request<Body>,
) -> Response {
    let path = request.uri().path().to_owned();
    match control.forward_for(caller, &[], node, request).await {
        // A node that is no more has no sandboxes; what else it has may come back.
        Err(Unreached::Gone) => {
            // An approval's id begins with that of its sandbox, and a dot.
            let id = path.split(['/', '.']).find(|part| part.parse::<SandboxId>().is_ok());
            let refusal = id.map_or_else(
                || Refusal::busy("node_unreachable", "the node of this resource is not available"),
                Refusal::unknown_sandbox,
            );
            refusal.into_response(surface)
        }
        answer => passed(answer, surface),
    }
}

/// Reads a request that may have to be sent more than once, or is read here.
pub(crate) async fn hold(request: Request<Body>) -> Result<Held, Refusal> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, LONGEST).collect().await.map_err(|_| {
        let message = "the body is incomplete or too large";
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    })?;
    Ok(Held { parts, body: body.to_bytes() })
}

/// Reads an answer of a node's as a whole.
pub(crate) async fn whole(response: Response) -> Option<(http::response::Parts, Bytes)> {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, LONGEST).collect().await.ok()?;
    Some((parts, body.to_bytes()))
}

impl Control {
    pub(crate) fn database(&self, error: &belljar_store::StoreError) -> Refusal {
        if error.is_unstorable_text() {
            return Refusal::invalid_text();
        }
        tracing::error!(error = error as &dyn std::error::Error, "database query failed");
        if matches!(error, belljar_store::StoreError::UnknownTenant(_)) {
            return Refusal::unauthenticated();
        }
        Refusal::database()
    }

    /// The node of the tenant's templates, volumes and secrets.
    async fn home(&self, caller: &Caller) -> Result<NodeNumber, Refusal> {
        let candidate = self.roster().any(std::time::Instant::now());
        let tenant = &caller.proven.tenant;
        let home = self.known_tenants().home(self.store(), tenant, candidate).await;
        let home = home.map_err(|error| self.database(&error))?;
        home.ok_or_else(|| Refusal::busy("no_node", "no node is available"))
    }

    /// The node of a snapshot, by its id or its name.
    pub(crate) async fn snapshot(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<Option<NodeNumber>, Refusal> {
        // One with the mark of a node that never was is nobody's.
        let marked = name.strip_prefix("snap").filter(|rest| rest.len() == 20).and_then(mark);
        if let Some(node) = marked.filter(|node| self.epoch(*node).is_some()) {
            return Ok(Some(node));
        }
        let plain = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        let plain = plain.strip_suffix(":default").unwrap_or(&plain);
        let found = self.store().whereabouts(&caller.proven.tenant, "snapshot", plain).await;
        found.map_err(|error| self.database(&error))
    }

    /// Remembers where a snapshot is that got the name which was `asked` for.
    async fn remember(
        &self,
        caller: &Caller,
        node: NodeNumber,
        asked: &[u8],
        response: Response,
    ) -> Result<Response, Refusal> {
        if !response.status().is_success() {
            return Ok(response);
        }
        let (parts, body) = whole(response).await.ok_or_else(Refusal::unknown_outcome)?;
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let names = said["names"].as_array().into_iter().flatten().chain([&said["name"]]);
        for name in asked_for(asked, names.filter_map(Value::as_str)) {
            let kept = self.store().is_at(&caller.proven.tenant, "snapshot", name, node).await;
            kept.map_err(|error| self.database(&error))?;
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }

    /// How the tenant's last sandboxes ended.
    async fn ended(&self, caller: &Caller, uri: &Uri) -> Result<Response, Refusal> {
        let Query(query) = Query::<ListEnded>::try_from_uri(uri).map_err(|rejection| {
            let message = format!("invalid query: {}", rejection.body_text());
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_query", message)
        })?;
        let limit = query.limit.and_then(|limit| u32::try_from(limit.get()).ok()).unwrap_or(100);
        let rows = self.store().ended(&caller.proven.tenant, limit).await;
        let rows = rows.map_err(|error| self.database(&error))?;
        let items = rows.into_iter().filter_map(ended).collect();
        Ok(Json(EndedList { items }).into_response())
    }
}

/// An end, as our API describes it. A row that has ended has a moment and a reason.
fn ended(row: SandboxRow) -> Option<Ended> {
    let moment = |at: OffsetDateTime| at.format(&Rfc3339).ok().map(DateTime);
    Some(Ended {
        id: row.id.to_string(),
        template: row.template,
        started_at: moment(row.started_at.unwrap_or(row.made_at))?,
        ended_at: moment(row.ended_at?)?,
        reason: row.reason?,
        tier: row.tier,
    })
}

/// Goes through with it, whether or not anybody still waits: half of it would leave
/// a row that nobody has.
async fn unhurried(
    work: impl Future<Output = Result<Response, Refusal>> + Send + 'static,
) -> Result<Response, Refusal> {
    let done = tokio::spawn(work.in_current_span()).await;
    done.unwrap_or_else(|_| Err(Refusal::unknown_outcome()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_both_surfaces_are_understood() {
        let (get, post, delete) = (&Method::GET, &Method::POST, &Method::DELETE);
        assert_eq!(wants(post, "/sandboxes"), Wants::Create);
        assert_eq!(wants(post, "/v2/sandboxes"), Wants::Create);
        assert_eq!(wants(post, "/v1/sandboxes"), Wants::Create);
        assert_eq!(wants(get, "/v2/sandboxes"), Wants::List);
        assert_eq!(wants(get, "/v1/checkpoints"), Wants::List);
        assert_eq!(wants(get, "/sandboxes/metrics"), Wants::Figures);
        assert_eq!(wants(delete, "/v1/sandboxes/x"), Wants::End("x"));
        assert_eq!(wants(post, "/sandboxes/x/fork"), Wants::Fork("x"));
        assert_eq!(wants(post, "/sandboxes/x/snapshots"), Wants::Keep("x"));
        assert_eq!(wants(get, "/v2/sandboxes/x/logs"), Wants::Sandbox("x"));
        assert_eq!(wants(post, "/v1/checkpoints/s/fork"), Wants::ForkSnapshot("s"));
        assert_eq!(wants(delete, "/templates/s"), Wants::Named("s"));
        assert_eq!(wants(post, "/templates/tags"), Wants::Home);
        assert_eq!(wants(get, "/v1/approvals"), Wants::Approvals);
        assert_eq!(wants(post, "/v1/approvals/x.y"), Wants::Sandbox("x"));
        assert_eq!(wants(post, "/v1/approvals/run.x.y"), Wants::Runs);
        assert_eq!(wants(get, "/v1/templates"), Wants::Templates);
        assert_eq!(wants(get, "/templates"), Wants::Templates);
        assert_eq!(wants(post, "/templates"), Wants::Home);
        assert_eq!(wants(post, "/v1/runs"), Wants::Runs);
        assert_eq!(wants(get, "/v1/runs/r/events"), Wants::Runs);
        assert_eq!(wants(delete, "/v1/data/d"), Wants::Runs);
        assert_eq!(wants(get, "/v1/data/d/description"), Wants::Runs);
        assert_eq!(wants(get, "/v1/stats"), Wants::Runs);
        assert_eq!(wants(get, "/v1/usage"), Wants::Runs);
        assert_eq!(wants(post, "/v1/webhooks/w/test"), Wants::Webhooks);
        assert_eq!(wants(post, "/v1/workflows/w/cancel"), Wants::Workflows);
        assert_eq!(wants(get, "/volumes"), Wants::Home);
        assert_eq!(wants(post, "/v3/templates"), Wants::Home);
    }

    #[test]
    fn templates_have_a_scope_of_their_own() {
        assert_eq!(subject("/v3/templates"), Subject::Templates);
        assert_eq!(subject("/v1/templates/x"), Subject::Templates);
        assert_eq!(subject("/v1/sandboxes/x"), Subject::Sandboxes);
        assert_eq!(subject("/secrets"), Subject::Sandboxes);
    }
}

//! A sandbox: its turn, its place, its row, and then the node.

use std::time::Instant;

use axum::body::Body;
use axum::response::Response;
use belljar_domain::{ChosenLimits, EndReason, NodeNumber, SandboxId, Tier};
use belljar_store::{Admitted, NewSandbox, Requested, SandboxRow, SandboxState};
use http::StatusCode;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::control::Control;
use crate::forward::{Held, Unreached};
use crate::keyed::whole;
use crate::keys::Caller;
use crate::placement::{NoNode, Wish};
use crate::refuse::{Refusal, Surface};
use crate::route::unreached;
use crate::templates::{Site, home_away};
use crate::turns::NoTurn;

/// What a sandbox of our own API is made from when nothing is said.
const BASE: &str = "base";
/// How many nodes are tried before somebody is told that none will do.
const ATTEMPTS: usize = 4;
/// A template has an id and a few names; a node that says more is not believed.
const MAX_TEMPLATE_NAMES: usize = 8;

/// The requirements of a sandbox on the node that makes it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Demand {
    tier: Option<Tier>,
    limits: ChosenLimits,
}

impl Demand {
    /// Reads a request. What makes no sense is left out: the node that is asked says so.
    fn of(surface: Surface, body: &Value) -> Self {
        let tier = body["tier"].as_str().and_then(|tier| tier.parse().ok());
        let limits = match surface {
            Surface::Own => serde_json::from_value(body["limits"].clone()).unwrap_or_default(),
            // E2B's clients have no word for them.
            Surface::E2b => ChosenLimits::default(),
        };
        Self { tier, limits }
    }
}

impl Control {
    pub(crate) async fn create(
        &self,
        surface: Surface,
        caller: &Caller,
        held: Held,
    ) -> Result<Response, Refusal> {
        let body: Value = serde_json::from_slice(&held.body).unwrap_or_default();
        let template = match surface {
            Surface::E2b => body["templateID"].as_str(),
            // Who says nothing of it means this one.
            Surface::Own if held.body.trim_ascii().is_empty() => Some(BASE),
            Surface::Own if body.is_object() => {
                body.get("template").map_or(Some(BASE), Value::as_str)
            }
            Surface::Own => None,
        };
        let Some(template) = template.map(str::to_owned) else {
            // Which of its parts is wrong, any node can say.
            let node = self.roster().any(Instant::now());
            let node = node.ok_or_else(|| Refusal::busy("no_node", "no node is available"))?;
            let answer = self.forward_for(caller, &[], node, held.request()).await;
            return Ok(crate::route::passed(answer, surface));
        };
        let demand = Demand::of(surface, &body);
        // What is warm somewhere is everybody's; the rest may be on one node only.
        let site = if self.roster().is_warm(&template) {
            Site::Any
        } else {
            self.site_of(caller, &template).await?
        };
        self.create_at(surface, caller, held, &template, demand, site).await
    }

    /// The nodes that have what a sandbox is to be made from.
    async fn site_of(&self, caller: &Caller, name: &str) -> Result<Site, Refusal> {
        if let Some(node) = self.snapshot(caller, name).await? {
            return Ok(Site::Only(node));
        }
        let built = self.builder_of(caller, name).await?;
        Ok(match built {
            Some(node) if !self.roster().hears(node, Instant::now()) => Site::Elsewhere,
            built => built.into(),
        })
    }

    /// Makes a sandbox on a node of `site`.
    pub(crate) async fn create_at(
        &self,
        surface: Surface,
        caller: &Caller,
        held: Held,
        template: &str,
        demand: Demand,
        site: Site,
    ) -> Result<Response, Refusal> {
        let only = site.only();
        let patience = self.settings().patience;
        let began = Instant::now();
        let _working = self.turns().wait(&caller.proven.tenant, patience).await.map_err(no_turn)?;
        let repeated = held.parts.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
        let request = repeated.map(|key| (key, digest(&held)));
        let mut tried: Vec<u16> = Vec::new();
        for attempt in 1..=ATTEMPTS {
            if site == Site::Elsewhere && tried.len() >= self.roster().len(Instant::now()) {
                break;
            }
            let span = placement(attempt);
            let (node, placement) = match only {
                Some(node) => (node, None),
                None => {
                    let left = patience.saturating_sub(began.elapsed());
                    let placement = self.place(template, demand, &tried, left);
                    let placement = placement.await.inspect_err(|_| came_to(&span, "no_place"))?;
                    let node = NodeNumber::new(placement.node);
                    (node.ok_or_else(Refusal::database)?, Some(placement))
                }
            };
            let id = self.new_id(node)?;
            span.record("node", node.get()).record("sandbox", id.as_str());
            let new = NewSandbox {
                id: &id,
                tenant: &caller.proven.tenant,
                template,
                tier: demand.tier,
                facts: &Value::Null,
                request,
            };
            let place = self.places().turn(&caller.proven.tenant).await;
            let admitted = self.store().admit(&new, node).await;
            drop(place);
            match admitted.map_err(|error| self.database(&error))? {
                Admitted::Placed(_) => {}
                Admitted::NodeGone if only.is_some() => {
                    return Err(Refusal::busy(
                        "node_unreachable",
                        "the node of this resource is not available",
                    ));
                }
                Admitted::NodeGone => {
                    came_to(&span, "node_gone");
                    tried.push(node.get());
                    continue;
                }
                Admitted::Not(Requested::Repeated(row)) => {
                    return self.repeat(surface, caller, &held, &row).await;
                }
                Admitted::Not(Requested::Mismatch) => return Err(mismatch()),
                Admitted::Not(_) => return Err(over_quota()),
            }
            belljar_fault::point("control.admitted");
            let answer = self.forward_for(caller, std::slice::from_ref(&id), node, held.request());
            match answer.instrument(span.clone()).await {
                Ok(response) if response.status().is_success() => {
                    belljar_fault::point("control.answered");
                    came_to(&span, "placed");
                    if let Some(placement) = placement {
                        placement.used();
                    }
                    return Ok(response);
                }
                Ok(response) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {
                    came_to(&span, "refused");
                    self.withdraw(caller, &id).await?;
                    if only.is_some() {
                        return Ok(response);
                    }
                    tried.push(node.get());
                }
                Ok(response)
                    if response.status() == StatusCode::NOT_FOUND && site == Site::Elsewhere =>
                {
                    // This node does not have the template. The next one may.
                    came_to(&span, "refused");
                    self.withdraw(caller, &id).await?;
                    tried.push(node.get());
                }
                Ok(response) if response.status() == StatusCode::CONFLICT && repeated.is_some() => {
                    let (parts, body) =
                        whole(response).await.ok_or_else(Refusal::unknown_outcome)?;
                    // The same request at another replica was quicker, and makes it.
                    if is_in_progress(&body) {
                        came_to(&span, "repeated");
                    } else {
                        came_to(&span, "invalid");
                        self.withdraw(caller, &id).await?;
                    }
                    return Ok(Response::from_parts(parts, Body::from(body)));
                }
                Ok(response) => {
                    came_to(&span, "invalid");
                    self.withdraw(caller, &id).await?;
                    return Ok(response);
                }
                Err(error) if error.is_safe() && only.is_none() => {
                    came_to(&span, "unreachable");
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        sandbox.id = %id,
                        "node unreachable: trying another"
                    );
                    self.withdraw(caller, &id).await?;
                    tried.push(node.get());
                }
                Err(error) => {
                    came_to(&span, "broke_off");
                    return Ok(self.broke_off(surface, caller, &id, repeated, &error).await);
                }
            }
        }
        Err(if site == Site::Elsewhere { home_away() } else { no_place() })
    }

    /// Waits for a free place.
    async fn place(
        &self,
        template: &str,
        Demand { tier, limits }: Demand,
        not: &[u16],
        patience: std::time::Duration,
    ) -> Result<crate::placement::Placement, Refusal> {
        let until = Instant::now() + patience;
        loop {
            match self.roster().place(Wish { tier, limits, template, not }, Instant::now()) {
                Ok(placement) => return Ok(placement),
                Err(NoNode::Tier) if tier.is_some() && !self.roster().is_empty(Instant::now()) => {
                    let message = "no node offers this tier";
                    return Err(Refusal::new(StatusCode::CONFLICT, "tier_unavailable", message));
                }
                Err(NoNode::Limits) => return Err(self.limits_refused(&limits)),
                Err(_) if Instant::now() >= until => {
                    return Err(self.no_node().unwrap_or_else(no_place));
                }
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    }

    /// Says which limit no node gives, in the words of a node.
    fn limits_refused(&self, limits: &ChosenLimits) -> Refusal {
        let max = self.roster().max_limits(Instant::now());
        match max.map(|max| limits.check(&max)) {
            Some(Err(error)) => {
                let message = format!("limits.{error}");
                Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "limit_out_of_range", message)
                    .hint("GET /v1/templates has the largest values in `max_limits`")
            }
            // Each is given by some node; or no node knows limits that a client chooses.
            Some(Ok(())) | None => {
                let message = "no node that takes this sandbox allows these limits together";
                Refusal::new(StatusCode::CONFLICT, "limits_unavailable", message)
                    .hint("ask for less, or for another tier")
            }
        }
    }

    pub(crate) fn new_id(&self, node: NodeNumber) -> Result<SandboxId, Refusal> {
        let bits = crate::random::bits().map_err(|error| {
            tracing::error!(%error, "cannot read random bytes");
            Refusal::busy("internal", "cannot generate an id")
        })?;
        Ok(SandboxId::on_node(node, bits))
    }

    /// It was never made.
    pub(crate) async fn withdraw(&self, caller: &Caller, id: &SandboxId) -> Result<(), Refusal> {
        let withdrawn = self.store().withdraw(&caller.proven.tenant, id).await;
        withdrawn.map_err(|error| self.database(&error))
    }

    /// The node may have made it, or not.
    async fn broke_off(
        &self,
        surface: Surface,
        caller: &Caller,
        id: &SandboxId,
        repeated: Option<&str>,
        error: &Unreached,
    ) -> Response {
        // Whoever can ask again under his key will find it; for anybody else it is
        // lost, and the node is told to end what it may have made.
        let tenant = &caller.proven.tenant;
        if repeated.is_none()
            && let Err(error) = self.store().end(tenant, id, None, EndReason::Lost).await
        {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                sandbox.id = %id,
                "end not recorded"
            );
        }
        unreached(error, surface)
    }

    /// The same request came before: the same node answers, under the same id.
    async fn repeat(
        &self,
        surface: Surface,
        caller: &Caller,
        held: &Held,
        row: &SandboxRow,
    ) -> Result<Response, Refusal> {
        let node = row.node.and_then(NodeNumber::new);
        let Some(node) = node.filter(|_| row.state != SandboxState::Ended) else {
            return Err(Refusal::unknown_sandbox(row.id.as_str()));
        };
        let ids = std::slice::from_ref(&row.id);
        match self.forward_for(caller, ids, node, held.request()).await {
            Ok(response) => Ok(response),
            Err(error) => Ok(unreached(&error, surface)),
        }
    }

    /// A template that was built has a name: it is where it was built.
    pub(crate) async fn remember_template(
        &self,
        caller: &Caller,
        node: NodeNumber,
        response: Response,
    ) -> Result<Response, Refusal> {
        if !response.status().is_success() {
            return Ok(response);
        }
        let (parts, body) = whole(response).await.ok_or_else(Refusal::unknown_outcome)?;
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let lists = ["names", "aliases"].map(|field| said[field].as_array());
        let names = lists.into_iter().flatten().flatten().chain([&said["templateID"]]);
        for name in names.filter_map(Value::as_str).take(MAX_TEMPLATE_NAMES) {
            let plain = name.rsplit('/').next().unwrap_or(name);
            let kept = self.store().is_at(&caller.proven.tenant, "template", plain, node).await;
            kept.map_err(|error| self.database(&error))?;
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

/// The digest of a request under an idempotency key: what is asked for stands in its body, and in
/// its path.
fn digest(held: &Held) -> [u8; 32] {
    let path = held.parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut digest = Sha256::new();
    for part in [held.parts.method.as_str(), path] {
        digest.update(part);
        digest.update([0]);
    }
    digest.update(&held.body);
    digest.finalize().into()
}

/// One attempt to place a sandbox, as traces show it.
fn placement(attempt: usize) -> Span {
    tracing::info_span!("placement", attempt, node = Empty, sandbox = Empty, error = Empty)
}

fn came_to(span: &Span, result: &'static str) {
    belljar_telemetry::metrics().placed(result);
    if result != "placed" {
        span.record("error", result);
    }
}

/// Whether a node says that somebody else is at the same request.
fn is_in_progress(body: &[u8]) -> bool {
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    ["code", "error_code"].iter().any(|field| said[field] == "idempotency_in_progress")
}

fn no_turn(no: NoTurn) -> Refusal {
    match no {
        NoTurn::Full(crate::fair::Full::Tenant) => {
            let message = "too many of your create requests are waiting";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_waiting", message)
        }
        NoTurn::Full(crate::fair::Full::All) | NoTurn::Late => no_place(),
    }
}

fn no_place() -> Refusal {
    Refusal::busy("no_capacity", "no node has a free slot")
}

pub(crate) fn over_quota() -> Refusal {
    let message = "your quota of sandboxes is used up";
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_sandboxes", message)
        .hint("end some, or wait for their deadlines")
}

fn mismatch() -> Refusal {
    let message = "this idempotency key was used for another request";
    Refusal::new(StatusCode::CONFLICT, "idempotency_request_mismatch", message)
}

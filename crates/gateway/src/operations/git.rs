//! Operations of kind `git`: repositories of a git server, over its smart HTTP protocol.
//!
//! ```text
//!   git in the sandbox
//!     │  info/refs ──────────► route ─► repository ──────────────► upstream
//!     │  git-upload-pack ────► route ─► repository ──────────────► upstream
//!     │  git-receive-pack ───► route ─► commands ─► branches ─► approval
//!     │                                    └─► pack: forward only? ─► upstream
//!     └  merge-requests ─────► route ─► branches ─► approval ─► forge's API
//! ```
//!
//! The credential is added here and nowhere else. What is refused is answered in git's own
//! protocol, so that its message is in git's output.

mod commands;
mod default_branch;
mod forge;
mod merge_request;
mod pack;
mod pktline;
mod push;
mod pushed;
mod refused;
mod report;
mod route;
mod source;

use std::sync::Arc;
use std::time::Duration;

use ::http::header::{self, HeaderMap, HeaderValue};
use ::http::{Method, Request};
use belljar_domain::approval::{ApprovalAction, ApprovalRequest};
use belljar_domain::network::Reason;
use http_body_util::BodyExt as _;
use tokio_rustls::rustls::ClientConfig;

use super::config::{Approve, Settings};
use super::headers;
use super::http::{body_up_to, forward, reserve};
use super::operation::{Does, Operation};
use super::read::Held;
use super::refuse::Refusal;
use super::serve::Asked;
use crate::approvals::Undecided;
use crate::body::{Answer, Inner};
use crate::budget::Amount;
use forge::{Forge, InvalidForge};
pub(super) use refused::Refused;
use route::{Action, Route, Service, fits};
use source::Source;

/// Time that a request waits for a human, and the longest that an operator may choose. Tokens live
/// for 600 seconds.
const APPROVAL_SECONDS: u64 = 300;
const MAX_APPROVAL_SECONDS: u64 = 3600;
/// Bytes that a client has and wants in a fetch. They are held until the answer's end; `max_body`
/// is for pushes, which are not.
const MAX_FETCH: u64 = 8 << 20;
/// Some servers answer git's clients only.
const USER_AGENT: &str = "git/belljar";

/// An operation on the repositories of a server.
#[derive(Debug)]
pub(crate) struct Git {
    repositories: Vec<String>,
    branches: Vec<String>,
    allows_default: bool,
    allows_force: bool,
    allows_deletions: bool,
    approve: Approve,
    approval_seconds: u64,
    forge: Option<Forge>,
}

/// The reason that a git operation cannot be offered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidGit {
    #[error("`repositories` is missing or empty")]
    Repositories,
    #[error("`approval_seconds` can be 1 to {MAX_APPROVAL_SECONDS}")]
    Approval,
    #[error("`deletions` needs `force`: a branch that was deleted can be created anew elsewhere")]
    Deletions,
    #[error("`api` needs `forge`")]
    Api,
    #[error("the API of the forge cannot be used")]
    Forge(#[source] InvalidForge),
}

impl Git {
    pub(super) fn new(settings: &Settings, tls: &Arc<ClientConfig>) -> Result<Self, InvalidGit> {
        let repositories = settings.repositories.clone().unwrap_or_default();
        if repositories.is_empty() {
            return Err(InvalidGit::Repositories);
        }
        let approval_seconds = settings.approval_seconds.unwrap_or(APPROVAL_SECONDS);
        if !(1..=MAX_APPROVAL_SECONDS).contains(&approval_seconds) {
            return Err(InvalidGit::Approval);
        }
        let allows_force = settings.force.unwrap_or(false);
        let allows_deletions = settings.deletions.unwrap_or(false);
        if allows_deletions && !allows_force {
            return Err(InvalidGit::Deletions);
        }
        let forge = match settings.forge {
            Some(kind) => Some(Forge::new(kind, settings, tls).map_err(InvalidGit::Forge)?),
            None if settings.api.is_some() => return Err(InvalidGit::Api),
            None => None,
        };
        Ok(Self {
            repositories,
            branches: settings.branches.clone().unwrap_or_else(|| vec!["*".to_owned()]),
            allows_default: settings.default_branch.unwrap_or(false),
            allows_force,
            allows_deletions,
            approve: settings.approve.unwrap_or_default(),
            approval_seconds,
            forge,
        })
    }

    fn allows_branch(&self, branch: &str) -> bool {
        self.branches.iter().any(|pattern| fits(pattern, branch, true))
    }

    fn asks_before(&self, action: ApprovalAction) -> bool {
        match (self.approve, action) {
            (Approve::Never, _)
            | (Approve::Push, ApprovalAction::MergeRequest | ApprovalAction::ToolCall) => false,
            (Approve::Push, ApprovalAction::Push) | (Approve::Always, _) => true,
        }
    }
}

/// Returns an error for a request that is not for a repository of the operation.
pub(super) fn check(
    git: &Git,
    method: &Method,
    rest: &str,
    query: Option<&str>,
) -> Result<(), Refusal> {
    find(git, method, rest, query).map(drop)
}

/// The repository and the service that a request is for.
fn find(git: &Git, method: &Method, rest: &str, query: Option<&str>) -> Result<Route, Refusal> {
    let route = Route::of(method, rest, query)?;
    if !git.repositories.iter().any(|pattern| fits(pattern, &route.repository, false)) {
        return Err(Refused::Repository(route.repository).into());
    }
    let is_push = matches!(
        route.action,
        Action::Advertise(Service::Receive) | Action::Call(Service::Receive)
    );
    if is_push && git.branches.is_empty() {
        return Err(Refused::ReadOnly.into());
    }
    if route.action == Action::MergeRequest && git.forge.is_none() {
        return Err(Refused::NoForge.into());
    }
    Ok(route)
}

pub(super) async fn ask(
    asked: &mut Asked,
    rest: &str,
    request: Request<Inner>,
) -> Result<Answer, Refusal> {
    let teller = report::Teller::of(rest, request.uri().query());
    let refusal = match answer(asked, rest, request).await {
        Ok(answer) => return Ok(answer),
        Err(refusal) => refusal,
    };
    let Some(answer) = teller.and_then(|teller| teller.tell(&refusal)) else { return Err(refusal) };
    note(asked, &refusal);
    Ok(answer)
}

/// Writes a refusal into the row whose answer has the status 200, as git wants it.
fn note(asked: &mut Asked, refusal: &Refusal) {
    if let Some(mut entry) = asked.entry.take() {
        entry.decide(refusal.decision(), refusal.reason());
        entry.row().status = Some(200);
    }
}

async fn answer(asked: &mut Asked, rest: &str, request: Request<Inner>) -> Result<Answer, Refusal> {
    let operation = Arc::clone(&asked.operation);
    let Does::Git(git) = &operation.does else { return Err(Refusal::NotFound) };
    let route = find(git, request.method(), rest, request.uri().query())?;
    match route.action {
        Action::Advertise(service) => advertise(asked, &route, service, request.headers()).await,
        Action::Call(Service::Upload) => fetch(asked, &route, request).await,
        Action::Call(Service::Receive) => push::ask(asked, git, &route, request).await,
        Action::MergeRequest => merge_request::ask(asked, git, &route, request).await,
    }
}

async fn advertise(
    asked: &mut Asked,
    route: &Route,
    service: Service,
    client: &HeaderMap,
) -> Result<Answer, Refusal> {
    let reservation = reserve(asked, Amount { requests: 1, ..Amount::default() }).await?;
    let uri = uri(asked, route, "info/refs", Some(&format!("service={}", service.name())))?;
    let mut upstream = Request::new(Inner::Empty);
    *upstream.uri_mut() = uri;
    *upstream.headers_mut() = to_upstream(asked, client, service);
    let held = Held { bytes: bytes::Bytes::new(), room: None };
    forward(asked, upstream, held, reservation, None).await
}

/// A clone or a fetch: what the client has and wants, for a pack.
async fn fetch(
    asked: &mut Asked,
    route: &Route,
    request: Request<Inner>,
) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let unpacked = Source::new(&head.headers, body, u64::MAX)?;
    let held = body_up_to(asked, Inner::Streamed(unpacked.boxed_unsync()), MAX_FETCH).await?;
    let reservation = reserve(asked, Amount { requests: 1, ..Amount::default() }).await?;
    let mut upstream = Request::new(Inner::from(held.bytes.clone()));
    *upstream.method_mut() = Method::POST;
    *upstream.uri_mut() = uri(asked, route, Service::Upload.name(), None)?;
    let mut headers = to_upstream(asked, &head.headers, Service::Upload);
    set_type(&mut headers, "application/x-git-upload-pack-request");
    *upstream.headers_mut() = headers;
    forward(asked, upstream, held, reservation, None).await
}

fn uri(
    asked: &Asked,
    route: &Route,
    last: &str,
    query: Option<&str>,
) -> Result<::http::Uri, Refusal> {
    let path = format!("{}/{last}", route.path);
    asked.operation.upstream.uri(&path, query).map_err(|_| Refusal::Path)
}

fn to_upstream(asked: &Asked, client: &HeaderMap, service: Service) -> HeaderMap {
    let tenant = &asked.session.subject.tenant;
    let mut to_upstream = headers::to_upstream(&asked.operation, client, tenant);
    to_upstream.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    // Pushes have one version alone.
    let version = client.get("git-protocol").filter(|_| service == Service::Upload);
    if version.is_some_and(|version| version == "version=2") {
        to_upstream.insert("git-protocol", HeaderValue::from_static("version=2"));
    }
    to_upstream
}

fn set_type(headers: &mut HeaderMap, media_type: &'static str) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
}

/// Waits until a human has approved, if the operator wants that.
async fn approve(
    asked: &mut Asked,
    git: &Git,
    route: &Route,
    action: ApprovalAction,
    changes: Vec<String>,
) -> Result<(), Refusal> {
    if !git.asks_before(action) {
        return Ok(());
    }
    let subject = match &mut asked.entry {
        Some(entry) => entry.row().subject.clone(),
        None => asked.session.subject.clone(),
    };
    let request = ApprovalRequest {
        subject,
        operation: asked.operation.name.to_string(),
        action,
        repository: route.repository.clone(),
        changes,
        seconds: git.approval_seconds,
        tool: None,
    };
    match asked.session.shared.approvals.ask(request).await {
        Ok(answer) if answer.is_approved => {
            asked.allowed = Reason::Approved;
            Ok(())
        }
        Ok(answer) => Err(Refused::Disapproved(answer.message).into()),
        Err(Undecided::TimeOver) => Err(Refused::Undecided(git.approval_seconds).into()),
        Err(Undecided::NoRoom) => Err(Refused::NoApprover.into()),
    }
}

impl Operation {
    /// Time until the head of an answer.
    fn answer_timeout(&self) -> Duration {
        Duration::from_secs(self.timeouts.answer_seconds)
    }
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::{RootCertStore, crypto};

    use super::*;

    fn git(more: &str) -> Result<Git, InvalidGit> {
        let provider = Arc::new(crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let text = format!(
            "kind = \"git\"\nupstream = \"https://git.example.com\"\nrepositories = [\"a/*\"]\n{more}"
        );
        Git::new(&toml::from_str(&text).unwrap(), &Arc::new(tls))
    }

    /// A deletion and a push of the same branch are a forced push.
    #[test]
    fn deletions_need_force() {
        assert!(git("").is_ok() && git("force = true").is_ok());
        assert!(git("force = true\ndeletions = true").is_ok());
        for wrong in ["deletions = true", "force = false\ndeletions = true"] {
            assert!(matches!(git(wrong), Err(InvalidGit::Deletions)), "{wrong}");
        }
    }
}

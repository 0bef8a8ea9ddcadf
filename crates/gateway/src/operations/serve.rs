//! Takes a request that is for the gateway itself.
//!
//! Order matters. Who asks is settled before anything that they say is read; what
//! they may ask for before their body is; and money is put aside before a byte
//! leaves.

use std::sync::Arc;

use ::http::StatusCode;
use ::http::header::{self, HeaderMap};
use belljar_domain::network::{Decision, Kind, Reason};
use belljar_llm::dialect::{Dialect, Endpoint, Route};
use belljar_peer_proto::gateway::OWN_NAME;

use super::PREFIX;
use super::operation::{Does, Operation};
use super::refuse::{Refusal, Shape};
use super::{git, http, model, otlp};
use crate::answer;
use crate::body::{Answer, Inner};
use crate::connection::Connection;
use crate::log::Entry;
use crate::session::Session;
use crate::tokens::{self, Presented, Token, presented};

/// The path that says that the gateway is there.
pub(crate) const HEALTH: &str = "/healthz";

/// What a request is about, once its token was checked.
pub(super) struct Asked {
    pub(super) session: Arc<Session>,
    pub(super) token: Arc<Token>,
    pub(super) operation: Arc<Operation>,
    /// Taken when the answer begins: it stays with the answer's body.
    pub(super) entry: Option<Entry>,
    /// The reason in its row if it is answered.
    pub(super) allowed: Reason,
}

/// Answers a request that is for the gateway itself.
pub(crate) async fn serve(session: &Arc<Session>, request: ::http::Request<Inner>) -> Answer {
    let Some(connection) = request.extensions().get::<Arc<Connection>>().cloned() else {
        return answer::not_found();
    };
    let mut entry = Entry::begin(&connection, Kind::Operation).await;
    entry.asks(request.method(), request.uri().path());
    if request.uri().path() == HEALTH {
        return healthy(entry);
    }
    let shape = Shape::of(request.uri().path(), request.headers());
    if is_challenge(session, &request) {
        // Git shows its token only when it is asked to. Nothing was attempted yet.
        entry.forget();
        return Refusal::Token.answer(shape);
    }
    let mut entry = Some(entry);
    match Box::pin(handle(session, request, &mut entry)).await {
        Ok(answer) => answer,
        Err(refusal) => refused(&refusal, shape, entry.as_mut()),
    }
}

fn refused(refusal: &Refusal, shape: Shape, entry: Option<&mut Entry>) -> Answer {
    let answer = refusal.answer(shape);
    if let Some(entry) = entry {
        entry.decide(refusal.decision(), refusal.reason());
        entry.row().status = Some(answer.status().as_u16());
    }
    answer
}

/// Refuses a request that the token or the settings of its operation forbid. Nothing is asked of
/// the operation.
pub(crate) fn refuse(
    session: &Arc<Session>,
    request: &::http::Request<Inner>,
    entry: &mut Entry,
) -> Option<Answer> {
    let (refusal, operation) = permitted(session, request).err()?;
    if let Some(operation) = operation {
        concerns(entry, &operation);
    }
    let shape = Shape::of(request.uri().path(), request.headers());
    Some(refused(&refusal, shape, Some(entry)))
}

/// Returns true if a request is for an operation that takes telemetry, and its token allows that.
pub(crate) fn takes_telemetry(session: &Arc<Session>, request: &::http::Request<Inner>) -> bool {
    let found = authorise(session, request.headers());
    let found = found.and_then(|token| find(session, &token, request));
    found.is_ok_and(|(operation, _)| matches!(operation.does, Does::Otlp(_)))
}

/// The token, the operation and the dialect of a request.
pub(super) type HeldRequest = (Arc<Token>, Arc<Operation>, Dialect);

/// The token, the operation and the dialect of a request whose answer may have tool calls that wait
/// for a human. It judges nothing: [`handle`] does. An error: the token has calls that wait, and it
/// cannot be said how an answer would be read.
pub(super) fn held(
    session: &Session,
    request: &::http::Request<Inner>,
) -> Result<Option<HeldRequest>, Refusal> {
    if !session.holds_calls() || request.uri().path() == HEALTH {
        return Ok(None);
    }
    let Presented::One(shown) = presented(request.headers()) else { return Ok(None) };
    let found = session.shared.desk.tokens.find(&shown, &session.owner);
    let Some(token) = found.filter(|token| token.scope().approvals.is_some()) else {
        return Ok(None);
    };
    let (operation, rest) = find(session, &token, request)?;
    let is_anthropic = request.headers().contains_key("anthropic-version");
    let Does::Model(model) = &operation.does else { return Ok(None) };
    let route = model.route(&rest, is_anthropic).ok_or(Refusal::NotFound)?;
    let dialect = (route.endpoint == Endpoint::Generate).then_some(route.dialect);
    Ok(dialect.map(|dialect| (token, Arc::clone(&operation), dialect)))
}

/// The first questions of [`handle`], and for an operation that is no model its last one.
fn permitted(
    session: &Arc<Session>,
    request: &::http::Request<Inner>,
) -> Result<(), (Refusal, Option<Arc<Operation>>)> {
    let found = authorise(session, request.headers()).and_then(|token| {
        is_for_us(request.headers())?;
        find(session, &token, request)
    });
    let (operation, rest) = found.map_err(|refusal| (refusal, None))?;
    let checked = match &operation.does {
        Does::Http(http) => http::check(http, request.method(), &rest),
        Does::Otlp(_) => otlp::check(request.method(), &rest, request.headers()),
        Does::Git(git) => git::check(git, request.method(), &rest, request.uri().query()),
        Does::Model(_) => Ok(()),
    };
    checked.map_err(|refusal| (refusal, Some(operation)))
}

/// Notes the operation in the row.
fn concerns(entry: &mut Entry, operation: &Operation) {
    let row = entry.row();
    row.operation = Some(operation.name.to_string());
    row.host = Some(operation.upstream.host.clone());
    row.port = Some(operation.upstream.port);
}

/// Returns true for the first request of a git client, which has no token yet.
fn is_challenge(session: &Session, request: &::http::Request<Inner>) -> bool {
    let name =
        super::name_in(request.uri().path()).filter(|name| session.operations.contains(name));
    let is_git = |name: String| {
        let live = session.shared.live();
        live.operations.get(&name).is_some_and(|found| matches!(found.does, Does::Git(_)))
    };
    presented(request.headers()) == Presented::Nothing && name.is_some_and(is_git)
}

fn healthy(mut entry: Entry) -> Answer {
    entry.decide(Decision::Allowed, Reason::Operation);
    entry.row().status = Some(200);
    answer::json(StatusCode::OK, None, &serde_json::json!({ "ok": true }))
}

async fn handle(
    session: &Arc<Session>,
    request: ::http::Request<Inner>,
    entry: &mut Option<Entry>,
) -> Result<Answer, Refusal> {
    let token = authorise(session, request.headers())?;
    is_for_us(request.headers())?;
    let (operation, rest) = find(session, &token, &request)?;
    if let Some(entry) = entry {
        concerns(entry, &operation);
    }
    let mut asked = Asked {
        session: Arc::clone(session),
        token,
        operation,
        entry: entry.take(),
        allowed: Reason::Operation,
    };
    let answered = match &asked.operation.does {
        Does::Model(_) => model::ask(&mut asked, rest, request).await,
        Does::Http(_) => http::ask(&mut asked, rest, request).await,
        Does::Otlp(_) => otlp::ask(&mut asked, rest, request).await,
        Does::Git(_) => Box::pin(git::ask(&mut asked, &rest, request)).await,
    };
    *entry = asked.entry.take();
    answered
}

/// Whether a request shows a token that is good for something here.
pub(crate) fn is_authorised(session: &Arc<Session>, headers: &HeaderMap) -> bool {
    authorise(session, headers).is_ok()
}

fn authorise(session: &Arc<Session>, headers: &HeaderMap) -> Result<Arc<Token>, Refusal> {
    let Presented::One(shown) = presented(headers) else { return Err(Refusal::Token) };
    session.shared.desk.tokens.check(&shown, &session.owner).map_err(|refusal| match refusal {
        tokens::Refusal::Unknown | tokens::Refusal::Expired => Refusal::Token,
        tokens::Refusal::TooMany => Refusal::TooManyTokens,
        tokens::Refusal::Foreign(home) => {
            tracing::error!(
                sandbox.id = %session.subject.sandbox,
                sandbox.home = %home,
                foreign = session.shared.desk.tokens.foreign(),
                "sandbox sent the token of another sandbox; token revoked"
            );
            Refusal::Token
        }
    })
}

/// A client whose base URL was bent sends us the name of another host. What it
/// has to say was not meant for us.
fn is_for_us(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let authority: ::http::uri::Authority =
        host.to_str().ok().and_then(|host| host.parse().ok()).ok_or(Refusal::Host)?;
    let ours = ["127.0.0.1", "localhost", "[::1]", OWN_NAME];
    if ours.contains(&authority.host()) { Ok(()) } else { Err(Refusal::Host) }
}

/// Which operation is meant, and what is asked of it.
fn find(
    session: &Session,
    token: &Token,
    request: &::http::Request<Inner>,
) -> Result<(Arc<Operation>, String), Refusal> {
    let live = session.shared.live();
    let path = request.uri().path();
    if let Some(named) = path.strip_prefix(PREFIX) {
        let (name, rest) = named.split_at(named.find('/').unwrap_or(named.len()));
        if !token.allows(name) {
            return Err(Refusal::Scope);
        }
        // A token outlives settings that no longer have its operation.
        let operation = live.operations.get(name).ok_or(Refusal::Scope)?;
        let rest = if rest.is_empty() { "/" } else { rest };
        return Ok((Arc::clone(operation), rest.to_owned()));
    }
    let is_anthropic = request.headers().contains_key("anthropic-version");
    let route = Route::find(path, is_anthropic).ok_or(Refusal::NotFound)?;
    let speaks = |operation: &&Arc<Operation>| match (&operation.does, route.endpoint) {
        (Does::Http(_) | Does::Otlp(_) | Does::Git(_), _) => false,
        (Does::Model(model), Endpoint::Models) => model.lists_models_for(is_anthropic),
        (Does::Model(model), Endpoint::Generate | Endpoint::CountTokens) => {
            model.speaks(route.dialect)
        }
    };
    let names = token.scope().operations.iter();
    let found = names.filter_map(|name| live.operations.get(name)).find(speaks);
    Ok((Arc::clone(found.ok_or(Refusal::Scope)?), path.to_owned()))
}

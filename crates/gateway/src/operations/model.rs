//! Operations that are models: what a request may ask, and what it can cost.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use ::http::{HeaderValue, Method, StatusCode, header};
use belljar_domain::network::{Decision, Reason};
use belljar_llm::dialect::{Dialect, Endpoint, Route};
use belljar_llm::json::Reader;
use belljar_llm::price::{self, InvalidTable};
use belljar_llm::request::Request;
use belljar_llm::rewrite::{Change, InvalidRules, Models, Rewritten, Rules};
use bytes::Bytes;

use super::config::Settings;
use super::metering::{Metering, State};
use super::operation::{Does, Operation};
use super::read::Held;
use super::refuse::Refusal;
use super::serve::Asked;
use super::{headers, http};
use crate::body::{Answer, Inner, whole};
use crate::budget::Amount;

/// The header that names the parameters that the gateway changed in a request.
const CHANGED_PARAMETERS: &str = "x-belljar-changed-parameters";
/// Bodies longer than this are read where nobody else waits for the thread.
const LARGE: usize = 256 << 10;

thread_local! {
    /// For bodies that are not large: its memory is kept, as growing it anew each
    /// time costs as much as the reading.
    static READER: RefCell<Reader> = RefCell::default();
}

/// A model operation's rules.
#[derive(Debug)]
pub(crate) struct Model {
    dialects: Vec<Dialect>,
    rules: Rules,
    prices: price::Table,
}

/// Why a model operation cannot be offered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidModel {
    #[error("`dialects` is missing or empty")]
    Dialects,
    #[error("its rules contradict each other")]
    Rules(#[source] InvalidRules),
    #[error("`pin` has a value that JSON cannot represent")]
    Pin(#[source] serde_json::Error),
    #[error("cannot read the prices in `{path}`")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the prices cannot be used")]
    Prices(#[source] InvalidTable),
}

impl Model {
    pub(super) fn new(settings: &Settings) -> Result<Self, InvalidModel> {
        let dialects = settings.dialects.clone().unwrap_or_default();
        if dialects.is_empty() {
            return Err(InvalidModel::Dialects);
        }
        let prices = prices(settings)?;
        let mut pinned = BTreeMap::new();
        let mut pin = None;
        for (field, value) in settings.pin.iter().flatten() {
            let value = serde_json::to_value(value).map_err(InvalidModel::Pin)?;
            match (field.as_str(), value) {
                ("model", serde_json::Value::String(model)) => pin = Some(model),
                (field, value) => drop(pinned.insert(field.to_owned(), value)),
            }
        }
        // Whatever has a price, unless the operator names some of them.
        let allow = settings.models.clone().unwrap_or_else(|| vec!["*".to_owned()]);
        let alias = settings.aliases.clone().unwrap_or_default();
        let mut rules = Rules { models: Models { pin, alias, allow }, pinned, ..Rules::default() };
        if let Some(most) = settings.max_output_tokens {
            rules.max_output = most;
        }
        rules.check().map_err(InvalidModel::Rules)?;
        Ok(Self { dialects, rules, prices })
    }

    pub(super) fn speaks(&self, dialect: Dialect) -> bool {
        self.dialects.contains(&dialect)
    }

    /// Whether this operation is meant by `/v1/models`, which two providers have.
    pub(super) fn lists_models_for(&self, is_anthropic: bool) -> bool {
        self.dialects.iter().any(|&one| (one == Dialect::AnthropicMessages) == is_anthropic)
    }

    pub(super) fn route(&self, path: &str, is_anthropic: bool) -> Option<Route> {
        let route = Route::find(path, is_anthropic)?;
        let is_served = match route.endpoint {
            Endpoint::Models => self.lists_models_for(is_anthropic),
            Endpoint::Generate | Endpoint::CountTokens => self.speaks(route.dialect),
        };
        is_served.then_some(route)
    }

    /// What goes out for this body, and what it can cost.
    fn prepare(
        &self,
        reader: &mut Reader,
        route: Route,
        bytes: Bytes,
    ) -> Result<Prepared, Refusal> {
        let value = reader.read(&bytes).map_err(|why| Refusal::Invalid(why.to_string()))?;
        let request = Request::view(route.dialect, route.endpoint, value)
            .map_err(|why| Refusal::Invalid(why.to_string()))?;
        let rewritten = Rewritten::new(&request, &self.rules).map_err(Refusal::Rewrite)?;
        for change in &rewritten.changes {
            tracing::debug!(%change, "request changed");
        }
        let changed = changed_parameters(&rewritten.changes);
        let Rewritten { body, model, max_output, drop_usage, size, .. } = rewritten;
        let body = body.map_or_else(|| bytes.clone(), Bytes::from);
        if route.endpoint != Endpoint::Generate {
            let most = Amount { requests: 1, ..Amount::default() };
            return Ok(Prepared { body, most, metering: None, changed });
        }
        let price =
            self.prices.price(&model).ok_or_else(|| Refusal::UnknownPrice(model.clone()))?;
        let reserved = price.reserve(&size, max_output);
        let nano_dollars = reserved.nano_dollars;
        let most = Amount { requests: 1, tokens: reserved.usage.tokens(), nano_dollars };
        let metering = Metering {
            dialect: route.dialect,
            model,
            price: price.clone(),
            reserved,
            drop_usage,
            state: State::Waiting,
        };
        Ok(Prepared { body, most, metering: Some(metering), changed })
    }
}

/// The operator's prices over those that come along.
fn prices(settings: &Settings) -> Result<price::Table, InvalidModel> {
    let known = price::Table::embedded().map_err(InvalidModel::Prices)?;
    let Some(path) = &settings.prices else { return Ok(known) };
    let text = fs::read_to_string(path)
        .map_err(|source| InvalidModel::Read { path: path.clone(), source })?;
    Ok(known.with(price::Table::parse(&text).map_err(InvalidModel::Prices)?))
}

struct Prepared {
    body: Bytes,
    most: Amount,
    /// None: it costs nothing.
    metering: Option<Metering>,
    changed: Option<HeaderValue>,
}

/// The parameters among changes, as the client is told of them.
fn changed_parameters(changes: &[Change]) -> Option<HeaderValue> {
    let names: BTreeSet<&str> = changes.iter().filter_map(Change::parameter).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    HeaderValue::from_str(&names).ok().filter(|names| !names.is_empty())
}

async fn prepare(
    operation: &Arc<Operation>,
    route: Route,
    bytes: Bytes,
) -> Result<Prepared, Refusal> {
    let prepare =
        move |operation: &Operation, reader: &mut Reader, bytes: Bytes| match &operation.does {
            Does::Model(model) => model.prepare(reader, route, bytes),
            Does::Http(_) | Does::Otlp(_) | Does::Git(_) => Err(Refusal::NotFound),
        };
    if bytes.len() <= LARGE {
        return READER.with_borrow_mut(|reader| prepare(operation, reader, bytes));
    }
    let operation = Arc::clone(operation);
    tokio::task::spawn_blocking(move || prepare(&operation, &mut Reader::new(), bytes))
        .await
        .unwrap_or(Err(Refusal::NoRoom))
}

pub(super) async fn ask(
    asked: &mut Asked,
    rest: String,
    request: ::http::Request<Inner>,
) -> Result<Answer, Refusal> {
    let operation = Arc::clone(&asked.operation);
    let Does::Model(model) = &operation.does else { return Err(Refusal::NotFound) };
    let is_anthropic = request.headers().contains_key("anthropic-version");
    let route = model.route(&rest, is_anthropic).ok_or(Refusal::NotFound)?;
    if request.method() != route.method {
        // Some clients try a WebSocket first, and fall back when told so.
        let is_socket = request.method() == Method::GET && rest == "/v1/responses";
        return Err(if is_socket { Refusal::NoSocket } else { Refusal::Method });
    }
    if route.endpoint == Endpoint::Models {
        return Ok(list(asked, model, route.dialect));
    }
    let (head, body) = request.into_parts();
    let Held { bytes, room } = http::body_of(asked, body).await?;
    let Prepared { body, most, metering, changed } = prepare(&operation, route, bytes).await?;
    let reservation = http::reserve(asked, most).await?;
    // The only query that a client of these adds.
    let query = head.uri.query().filter(|query| *query == "beta=true");
    let path = route.dialect.path(route.endpoint).ok_or(Refusal::NotFound)?;
    let uri = operation.upstream.uri(path, query).map_err(|_| Refusal::NotFound)?;
    let mut upstream = ::http::Request::new(Inner::from(body.clone()));
    *upstream.method_mut() = Method::POST;
    *upstream.uri_mut() = uri;
    let tenant = &asked.session.subject.tenant;
    *upstream.headers_mut() = headers::to_upstream(&operation, &head.headers, tenant);
    let held = Held { bytes: body, room };
    let mut answer = http::forward(asked, upstream, held, reservation, metering).await?;
    // No upstream says this for the gateway.
    answer.headers_mut().remove(CHANGED_PARAMETERS);
    if let Some(changed) = changed {
        answer.headers_mut().insert(CHANGED_PARAMETERS, changed);
    }
    Ok(answer)
}

/// The models that the token may use. Nothing is asked of the upstream, which
/// would tell of all that the account has.
fn list(asked: &mut Asked, model: &Model, dialect: Dialect) -> Answer {
    let names: Vec<&str> = model.rules.models.names().collect();
    let text = dialect.models(names);
    if let Some(mut entry) = asked.entry.take() {
        entry.decide(Decision::Allowed, Reason::Operation);
        let row = entry.row();
        row.status = Some(StatusCode::OK.as_u16());
        row.bytes.into = text.len() as u64;
    }
    let mut answer = Answer::new(whole(text));
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

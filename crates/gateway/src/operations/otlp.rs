//! Operations of kind `otlp`: OpenTelemetry of programs inside, for a collector of the operator.
//!
//! The gateway says who a program is, and the program does not. So every request is read as a
//! whole, attributes whose names are ours are taken out wherever they stand, and our own are added
//! to each resource. What cannot be read is refused: a collector might read it otherwise.

mod json;
mod protobuf;
mod schema;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::http::header::{self, HeaderMap, HeaderValue};
use ::http::{Method, Request};
use belljar_domain::network::Subject;
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::rustls::ClientConfig;

use super::config::{Name, Settings, TenantCollector};
use super::http::{body_of, forward, reserve};
use super::operation::{Does, InvalidOperation, Operation};
use super::read::Held;
use super::refuse::Refusal;
use super::serve::Asked;
use super::{Desk, headers};
use crate::body::{Answer, Inner, whole};
use crate::budget::Amount;

/// Resources of one request. Each gets our attributes, so they bound how much longer it becomes.
const MAX_RESOURCES: usize = 256;
/// A body of more bytes may take longer than others should wait.
const LARGE: usize = 64 << 10;
/// The beginning of the names of our attributes.
const PREFIX: &str = "belljar";

/// An operation that takes telemetry.
#[derive(Debug)]
pub(crate) struct Otlp {
    /// The same for tenants with a collector or a credential of their own.
    by_tenant: BTreeMap<String, Arc<Operation>>,
}

/// One of OpenTelemetry's signals, each with a path and a message of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Traces,
    Metrics,
    Logs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Protobuf,
    Json,
}

/// An attribute of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Attribute {
    name: &'static str,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    Number(u32),
}

/// A body that is not OpenTelemetry's, or is too much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Malformed {
    #[error("the body is not a valid OTLP request in protobuf")]
    Protobuf,
    #[error("the body is not a valid OTLP request in JSON")]
    Json,
    #[error("the body has a field that this version does not know")]
    Field,
    #[error("the body has more than {MAX_RESOURCES} resources")]
    Resources,
    #[error("the body has more than {} values", json::MAX_VALUES)]
    Values,
}

impl Otlp {
    pub(super) fn new(
        name: &Name,
        settings: &Settings,
        tls: &Arc<ClientConfig>,
        desk: &Desk,
    ) -> Result<Self, InvalidOperation> {
        let tenants = settings.tenants.iter().flatten().map(|(tenant, own)| {
            let settings = of_tenant(settings, own);
            Ok((tenant.clone(), Arc::new(Operation::new(name, &settings, tls, desk)?)))
        });
        Ok(Self { by_tenant: tenants.collect::<Result<_, _>>()? })
    }
}

/// The settings of a tenant's collector. The operation's credential is sent to its upstream alone.
fn of_tenant(settings: &Settings, own: &TenantCollector) -> Settings {
    let mut of_tenant = Settings { tenants: None, ..settings.clone() };
    if let Some(upstream) = &own.upstream {
        of_tenant.upstream.clone_from(upstream);
        of_tenant.plaintext = own.plaintext;
        of_tenant.credential = None;
    }
    if own.credential.is_some() {
        of_tenant.credential.clone_from(&own.credential);
    }
    of_tenant
}

pub(super) async fn ask(
    asked: &mut Asked,
    rest: String,
    request: Request<Inner>,
) -> Result<Answer, Refusal> {
    let (signal, form) = read_head(request.method(), &rest, request.headers())?;
    let Does::Otlp(otlp) = &asked.operation.does else { return Err(Refusal::NotFound) };
    let tenant = asked.session.subject.tenant.clone();
    let own = otlp.by_tenant.get(&tenant).cloned();
    let mut subject = asked.session.subject.clone();
    if let Some(entry) = &mut asked.entry {
        let row = entry.row();
        subject = row.subject.clone();
        if let Some(own) = &own {
            row.host = Some(own.upstream.host.clone());
            row.port = Some(own.upstream.port);
        }
    }
    let (head, body) = request.into_parts();
    let Held { bytes, room } = body_of(asked, body).await?;
    // The budget is that of the requested operation, also if a tenant's own collector takes it.
    let mut reservation = reserve(asked, Amount { requests: 1, ..Amount::default() }).await?;
    if let Some(own) = own {
        asked.operation = own;
    }
    // To read a body costs the gateway something, so one that cannot be read counts as well.
    reservation.dispatch();
    let permit = Arc::clone(&asked.session.shared.desk.rewrites).acquire_owned().await;
    let permit = permit.map_err(|_| Refusal::NoRoom)?;
    let attributed = attributed(signal, form, bytes, attributes(&subject), permit).await?;
    let held = Held { bytes: attributed, room };
    let uri = asked.operation.upstream.uri(&rest, None).map_err(|_| Refusal::Path)?;
    let mut upstream = Request::new(Inner::from(held.bytes.clone()));
    *upstream.method_mut() = Method::POST;
    *upstream.uri_mut() = uri;
    let mut to_upstream = headers::to_upstream(&asked.operation, &head.headers, &tenant);
    // The collector reads the body as it was read here.
    to_upstream.insert(header::CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    *upstream.headers_mut() = to_upstream;
    forward(asked, upstream, held, reservation, None).await
}

/// Returns an error for a request that is not one of OpenTelemetry's, whatever its body is.
pub(super) fn check(method: &Method, rest: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    read_head(method, rest, headers).map(drop)
}

fn read_head(method: &Method, rest: &str, headers: &HeaderMap) -> Result<(Signal, Form), Refusal> {
    let signal = Signal::of(rest).ok_or(Refusal::Path)?;
    if method != Method::POST {
        return Err(Refusal::Method);
    }
    Ok((signal, Form::of(headers)?))
}

/// The answer of a collector that took everything.
pub(crate) fn accepted(headers: &HeaderMap) -> Answer {
    let form = Form::of(headers).unwrap_or(Form::Json);
    // A response of OpenTelemetry's in protobuf without any field is empty.
    let empty = match form {
        Form::Protobuf => "",
        Form::Json => "{}",
    };
    let mut answer = Answer::new(whole(empty));
    let media_type = HeaderValue::from_static(form.media_type());
    answer.headers_mut().insert(header::CONTENT_TYPE, media_type);
    answer
}

/// The body with our attributes. One that takes long to read is read beside the connections.
/// `permit` is for as long as it is in memory as values.
async fn attributed(
    signal: Signal,
    form: Form,
    body: Bytes,
    own: Vec<Attribute>,
    permit: OwnedSemaphorePermit,
) -> Result<Bytes, Refusal> {
    let is_large = body.len() > LARGE;
    let rewrite = move || {
        let _permit = permit;
        match form {
            Form::Protobuf => protobuf::attributed(signal, &body, &own),
            Form::Json => json::attributed(signal, &body, &own),
        }
    };
    let written = if is_large {
        tokio::task::spawn_blocking(rewrite).await.map_err(|_| Refusal::NoRoom)?
    } else {
        rewrite()
    };
    written.map(Bytes::from).map_err(|error| Refusal::Invalid(error.to_string()))
}

impl Signal {
    fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/traces" => Some(Self::Traces),
            "/v1/metrics" => Some(Self::Metrics),
            "/v1/logs" => Some(Self::Logs),
            _ => None,
        }
    }
}

impl Form {
    fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let is_encoded = headers.get_all(header::CONTENT_ENCODING).iter().any(|v| v != "identity");
        if is_encoded {
            let message =
                "the body must not be compressed: set OTEL_EXPORTER_OTLP_COMPRESSION=none";
            return Err(Refusal::Invalid(message.to_owned()));
        }
        let mut types = headers.get_all(header::CONTENT_TYPE).iter();
        let only = types.next().filter(|_| types.next().is_none());
        let text = only.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/x-protobuf" => Ok(Self::Protobuf),
            "application/json" => Ok(Self::Json),
            _ => {
                let message = "the content type must be application/x-protobuf or application/json";
                Err(Refusal::Invalid(message.to_owned()))
            }
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }
}

/// The attributes that say whose a resource is.
fn attributes(subject: &Subject) -> Vec<Attribute> {
    let text = |name, text: &str| Attribute { name, value: Value::Text(text.to_owned()) };
    let number = |name, number| Attribute { name, value: Value::Number(number) };
    let mut all = vec![
        text("belljar.tenant", &subject.tenant),
        text("belljar.sandbox", &subject.sandbox.to_string()),
    ];
    all.extend(subject.run.as_deref().map(|run| text("belljar.run", run)));
    all.extend(subject.turn.map(|turn| number("belljar.turn", turn)));
    all.extend(subject.call.as_ref().map(|call| number("belljar.call", call.number)));
    all
}

/// Returns true if an attribute of this name could be taken for ours. Many backends write names
/// with `_` for everything that is no letter or digit, or in lower case.
fn is_reserved(name: &str) -> bool {
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
    let plain: String = name.chars().map(plain).collect::<String>().to_ascii_lowercase();
    let rest = plain.trim_start_matches('_').strip_prefix(PREFIX);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_ours_are_ours() {
        for ours in ["belljar.tenant", "belljar_tenant", "BELLJAR.Tenant", "belljar", "_belljar-x"]
        {
            assert!(is_reserved(ours), "{ours}");
        }
        for theirs in ["service.name", "belljars", "tenant", "my.belljar.tenant", ""] {
            assert!(!is_reserved(theirs), "{theirs}");
        }
    }

    #[test]
    fn a_body_has_one_type_and_no_encoding() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            Form::of(&headers).ok()
        };
        let json = ("content-type", "application/json; charset=utf-8");
        let protobuf = ("content-type", "application/x-protobuf");
        assert_eq!(of(&[json]), Some(Form::Json));
        assert_eq!(of(&[protobuf, ("content-encoding", "identity")]), Some(Form::Protobuf));
        assert_eq!(of(&[protobuf, json]), None);
        assert_eq!(of(&[protobuf, ("content-encoding", "gzip")]), None);
        assert_eq!(of(&[]), None);
    }
}

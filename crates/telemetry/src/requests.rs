//! Requests that come in: one span, one count and one time for each.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, Method, Request, Response};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::fields::TRACEPARENT;
use crate::metrics::metrics;
use crate::traces::{Context, here};

/// The pattern of the route that answered, like `/v1/sandboxes/{id}`. Whoever
/// answers puts it among the extensions of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route(pub Cow<'static, str>);

/// What nobody gave a pattern.
const OTHER: Route = Route(Cow::Borrowed("other"));

/// Has a request answered, and watches. Spans and events on the way belong to it,
/// and it to the trace that its `traceparent` names.
///
/// What is learned on the way may be recorded in the span: `request_id`,
/// `tenant`, `sandbox`, `node`.
pub async fn observe<A, B, F>(
    request: Request<A>,
    answer: impl FnOnce(Request<A>) -> F,
) -> Response<B>
where
    F: Future<Output = Response<B>>,
{
    let timer = metrics().request();
    let method = method(request.method());
    let span = span(request.headers(), method);
    let mut response = answer(request).instrument(span.clone()).await;
    let Route(route) = response.extensions_mut().remove::<Route>().unwrap_or(OTHER);
    let status = response.status();
    span.record("route", &*route).record("status", status.as_u16());
    if status.is_server_error() {
        span.record("error", status.as_str());
    }
    timer.answered(method, route, status.as_u16());
    response
}

fn span(headers: &HeaderMap, method: &'static str) -> Span {
    let traceparent = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok());
    tracing::info_span!(
        "request",
        traceparent,
        method,
        route = Empty,
        status = Empty,
        request_id = Empty,
        tenant = Empty,
        sandbox = Empty,
        node = Empty,
        error = Empty,
    )
}

/// Tells the request's span which sandbox its path names, if it names one.
pub fn name_sandbox(pattern: &str, path: &str) {
    if let Some(id) = sandbox_in(pattern, path) {
        Span::current().record("sandbox", id);
    }
}

/// What stands in the path where the pattern has an id of a sandbox.
fn sandbox_in<'a>(pattern: &str, path: &'a str) -> Option<&'a str> {
    let (mut words, mut names) = (pattern.split('/'), path.split('/'));
    loop {
        let (word, _) = (words.next()?, names.next()?);
        if word == "sandboxes" {
            let is_id = words.next()?.starts_with('{');
            return names.next().filter(|_| is_id);
        }
    }
}

/// Says in a request to another of our processes which span it belongs to. When
/// nothing is traced here, what came in goes on as it is.
pub fn pass_on(headers: &mut HeaderMap) {
    if let Some(value) = here().and_then(|here| HeaderValue::try_from(here).ok()) {
        headers.insert(TRACEPARENT, value);
    }
}

/// The span that what a request makes comes from, as a `traceparent`: the request's own, or where
/// nothing is traced, the one that its client names.
pub fn origin(headers: &HeaderMap) -> Option<String> {
    here().or_else(|| {
        let named = headers.get(TRACEPARENT)?.to_str().ok()?;
        Context::parse(named).map(|context| context.to_string())
    })
}

/// Methods that a client made up are one to us.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_sandbox_where_its_pattern_does() {
        let found = sandbox_in("/v1/sandboxes/{id}/calls/{call}", "/v1/sandboxes/abc/calls/7");
        assert_eq!(found, Some("abc"));
        assert_eq!(sandbox_in("/sandboxes/{id}", "/sandboxes/x"), Some("x"));
        assert_eq!(sandbox_in("/sandboxes/metrics", "/sandboxes/metrics"), None);
        assert_eq!(sandbox_in("/v1/sandboxes", "/v1/sandboxes"), None);
        assert_eq!(sandbox_in("/templates/{id}", "/templates/x"), None);
    }

    #[test]
    fn where_nothing_is_traced_the_client_names_the_origin() {
        let headers = |text: &'static str| {
            HeaderMap::from_iter([(
                http::HeaderName::from_static("traceparent"),
                HeaderValue::from_static(text),
            )])
        };
        let named = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        assert_eq!(origin(&headers(named)).as_deref(), Some(named));
        assert_eq!(origin(&headers("00-what")), None);
        assert_eq!(origin(&HeaderMap::new()), None);
    }

    #[test]
    fn made_up_methods_are_one() {
        assert_eq!(method(&Method::PATCH), "PATCH");
        assert_eq!(method(&Method::from_bytes(b"MADEUP").unwrap()), "other");
    }
}

//! Requests, made from the table of operations.

use belljar_api::Operation;
use belljar_domain::Attribution;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, header};
use http_body_util::{BodyExt as _, Empty, Full};
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Protocol};
use crate::key::Key;
use crate::server::Body;

const GENERATION: HeaderName = HeaderName::from_static("run-generation");
const ATTRIBUTION: HeaderName = HeaderName::from_static("run-attribution");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const ONCE: HeaderName = HeaderName::from_static("idempotency-key");

/// A request that is being put together.
pub(crate) struct Asking {
    builder: http::request::Builder,
    path: String,
    body: Body,
}

impl Asking {
    /// `names` are what the operation's path has places for, in order.
    pub(crate) fn new(operation: Operation, names: &[&str]) -> Self {
        let route = operation.route();
        let mut names = names.iter();
        let mut path = String::new();
        for part in route.path.split('/').skip(1) {
            path.push('/');
            if part.starts_with('{') {
                escape(names.next().copied().unwrap_or_default(), &mut path);
            } else {
                path.push_str(part);
            }
        }
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        Self { builder: Request::builder().method(route.method.as_str()), path, body }
    }

    /// What stands after the `?`: the fields of a type of the API.
    pub(crate) fn query(mut self, query: &impl Serialize) -> Result<Self, Error> {
        let Value::Object(fields) = serde_json::to_value(query).map_err(Protocol::Json)? else {
            return Ok(self);
        };
        let mut joint = '?';
        for (name, value) in fields {
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text,
                other => other.to_string(),
            };
            self.path.push(joint);
            joint = '&';
            escape(&name, &mut self.path);
            self.path.push('=');
            escape(&text, &mut self.path);
        }
        Ok(self)
    }

    pub(crate) fn json(self, body: &impl Serialize) -> Result<Self, Error> {
        let text = serde_json::to_vec(body).map_err(Protocol::Json)?;
        let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
        let json = HeaderValue::from_static("application/json");
        Ok(self.header(header::CONTENT_TYPE, json).body(body))
    }

    pub(crate) fn body(self, body: Body) -> Self {
        Self { body, ..self }
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.builder = self.builder.header(name, value);
        self
    }

    /// To be answered with events.
    pub(crate) fn streamed(self) -> Self {
        self.header(header::ACCEPT, HeaderValue::from_static("text/event-stream"))
    }

    pub(crate) fn once(self, key: Option<&Key>) -> Self {
        // A key is made of what a header may have.
        match key.and_then(|key| HeaderValue::from_str(key.as_str()).ok()) {
            Some(key) => self.header(ONCE, key),
            None => self,
        }
    }

    pub(crate) fn driven(self, generation: Option<u64>) -> Self {
        match generation {
            Some(generation) => self.header(GENERATION, HeaderValue::from(generation)),
            None => self,
        }
    }

    pub(crate) fn attributed(self, attribution: Option<&Attribution>) -> Self {
        // It is made of what a header may have.
        match attribution.and_then(|it| HeaderValue::from_str(&it.to_string()).ok()) {
            Some(attribution) => self.header(ATTRIBUTION, attribution),
            None => self,
        }
    }

    pub(crate) fn traced(self, traceparent: Option<&str>) -> Self {
        match traceparent.and_then(|it| HeaderValue::from_str(it).ok()) {
            Some(traceparent) => self.header(TRACEPARENT, traceparent),
            None => self,
        }
    }

    pub(crate) fn request(self) -> Result<Request<Body>, Error> {
        let request = self.builder.uri(self.path).body(self.body);
        Ok(request.map_err(Protocol::Request)?)
    }
}

/// Escapes everything that could mean something else in a path or in a query.
fn escape(text: &str, into: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            into.push('%');
            into.push(char::from(DIGITS[usize::from(byte >> 4)]));
            into.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use belljar_api::file::FileQuery;

    use super::*;

    #[test]
    fn nothing_in_a_name_or_a_path_leaves_its_place() {
        let asking = Asking::new(Operation::RunCell, &["a/../b", "ä?x#y"]);
        let request = asking.request().unwrap();
        let path = "/v1/sandboxes/a%2F..%2Fb/contexts/%C3%A4%3Fx%23y/cells";
        assert_eq!((request.method().as_str(), request.uri().path()), ("POST", path));
        let path = "/tmp/a b&c=d".to_owned().try_into().unwrap();
        let query = FileQuery { path, user: None };
        let asking = Asking::new(Operation::ReadFile, &["x"]).query(&query).unwrap();
        let request = asking.request().unwrap();
        assert_eq!(request.uri().query(), Some("path=%2Ftmp%2Fa%20b%26c%3Dd"));
    }

    #[test]
    fn every_operation_can_be_asked_for() {
        for &operation in Operation::ALL {
            let names: Vec<&str> = operation.route().parameters().map(|_| "n").collect();
            let request = Asking::new(operation, &names).request().unwrap();
            assert!(!request.uri().path().contains('{'), "{}", request.uri());
        }
    }

    #[test]
    fn generations_and_keys_are_headers() {
        let key = "k-1".parse().unwrap();
        let asking =
            Asking::new(Operation::RunCall, &["x"]).once(Some(&key)).driven(Some(u64::MAX));
        let request = asking.traced(Some("00-a-b-01")).request().unwrap();
        assert_eq!(request.headers()["traceparent"], "00-a-b-01");
        assert_eq!(request.headers()["idempotency-key"], "k-1");
        assert_eq!(request.headers()["run-generation"], "18446744073709551615");
    }
}

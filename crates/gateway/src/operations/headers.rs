//! Which headers cross the gateway.
//!
//! Into an upstream goes only what an operation needs; whatever could choose an
//! account, a proxy or a way around the checks stays here. Out of it comes
//! everything but what belongs to one connection, sets cookies or tells whose
//! account it is.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

use super::operation::Operation;

/// Longer than any that a library makes.
const LONGEST_KEY: usize = 512;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What a client of an operation that is no model may say besides.
const PLAIN: [HeaderName; 6] = [
    header::ACCEPT_LANGUAGE,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::CACHE_CONTROL,
];

/// The head of the request to the upstream, credential and all.
///
/// No `range`: a credential that came back in pieces would not be found. No
/// compression, for the same reason, and because usage could not be read.
pub(super) fn to_upstream(operation: &Operation, client: &HeaderMap, whose: &str) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(10);
    headers.insert(header::HOST, operation.upstream.host_header.clone());
    let mut copy = |name: &HeaderName| {
        for value in client.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    };
    copy(&header::CONTENT_TYPE);
    copy(&header::ACCEPT);
    match operation.does {
        super::operation::Does::Model(_) => {
            for name in belljar_llm::dialect::FORWARDED {
                copy(&HeaderName::from_static(name));
            }
        }
        super::operation::Does::Http(_) => PLAIN.iter().for_each(copy),
        super::operation::Does::Otlp(_) | super::operation::Does::Git(_) => {}
    }
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("belljar"));
    if let Some(key) = client.get(IDEMPOTENCY_KEY).and_then(|key| own_key(key, operation, whose)) {
        headers.insert(IDEMPOTENCY_KEY, key);
    }
    if let Some(secret) = &operation.secret {
        secret.add_to(&mut headers);
    }
    headers
}

/// A key that no other tenant can hit: upstreams see one account for all of them.
fn own_key(key: &HeaderValue, operation: &Operation, whose: &str) -> Option<HeaderValue> {
    if key.len() > LONGEST_KEY {
        return None;
    }
    let mut hash = Sha256::new();
    for part in [operation.name.as_str().as_bytes(), whose.as_bytes(), key.as_bytes()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let text = hash.finalize().iter().fold(String::from("bj-"), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    });
    HeaderValue::try_from(text).ok()
}

/// Takes out of an answer what is not for the sandbox.
pub(super) fn from_upstream(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    let unwanted: Vec<HeaderName> =
        headers.keys().filter(|name| is_unwanted(name.as_str())).cloned().collect();
    for name in unwanted {
        headers.remove(name);
    }
}

fn is_unwanted(name: &str) -> bool {
    const EXACT: [&str; 20] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "set-cookie",
        "set-cookie2",
        "www-authenticate",
        "authorization",
        "alt-svc",
        "strict-transport-security",
        "public-key-pins",
        "clear-site-data",
        "openai-organization",
        "openai-project",
        "anthropic-organization-id",
    ];
    EXACT.contains(&name) || name.starts_with("x-belljar-") || name.starts_with("access-control-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_loses_what_is_not_for_the_sandbox() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("connection", "close, X-Odd"),
            ("x-odd", "1"),
            ("set-cookie", "a=b"),
            ("anthropic-organization-id", "o"),
            ("x-belljar-reason", "rule"),
            ("request-id", "r"),
            ("retry-after", "3"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        from_upstream(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-type", "request-id", "retry-after"]);
    }
}

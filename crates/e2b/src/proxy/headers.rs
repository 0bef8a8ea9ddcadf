//! Headers of requests and answers that are passed on.
//!
//! What is between two neighbours stays between them (RFC 9110, 7.6.1), and what
//! opens our own doors does not go inside.

use axum::body::Body;
use belljar_egress::http1::is_hop_by_hop;
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Version, header};

use super::TRAFFIC_TOKEN;

/// The protocol that a message asks or agrees to go on with.
pub(super) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = words(headers).any(|word| word == "upgrade");
    headers.get(header::UPGRADE).filter(|_| asked).cloned()
}

/// What the `Connection` headers name, in lower case.
fn words(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let all = headers.get_all(header::CONNECTION).into_iter();
    let texts = all.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    texts.map(|word| word.trim().to_ascii_lowercase()).filter(|word| !word.is_empty())
}

/// Takes away what opens our own doors. Servers inside may use the same names for
/// what is theirs, so that only values which are ours go.
pub(super) fn keep_secrets(headers: &mut HeaderMap, is_ours: impl Fn(&str) -> bool) {
    headers.remove(TRAFFIC_TOKEN);
    for name in ["x-access-token", "x-api-key", "authorization"] {
        let ours = |value: &HeaderValue| {
            // Whatever stands before it: schemes are spelled in many ways.
            String::from_utf8_lossy(value.as_bytes()).split_whitespace().any(&is_ours)
        };
        if headers.get_all(name).iter().any(ours) {
            headers.remove(name);
        }
    }
}

/// Makes a request one for the server inside.
pub(super) fn outward(
    request: &mut Request<Body>,
    port: u16,
    mask: Option<&str>,
    upgrade: Option<&HeaderValue>,
) {
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    // A length beside chunks is a trap that some servers step into.
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    strip(headers, upgrade);
    // Has been answered here when the body was first asked for.
    headers.remove(header::EXPECT);
    if upgrade.is_none() {
        // Servers inside come and go; a connection serves one request.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    set_host(headers, authority, port, mask);
}

fn set_host(headers: &mut HeaderMap, authority: Option<String>, port: u16, mask: Option<&str>) {
    let text = |text: &str| HeaderValue::from_str(text).ok();
    // HTTP/2 has it in the address.
    let host = headers.get(header::HOST).cloned();
    let host = authority.as_deref().and_then(text).or(host);
    let masked = mask.and_then(|mask| text(&mask.replace("${PORT}", &port.to_string())));
    match (masked, host) {
        (Some(masked), host) => {
            if let Some(host) = host {
                headers.insert(HeaderName::from_static("x-forwarded-host"), host);
            }
            headers.insert(header::HOST, masked);
        }
        (None, Some(host)) => {
            headers.insert(header::HOST, host);
        }
        (None, None) => {
            if let Some(host) = text(&format!("localhost:{port}")) {
                headers.insert(header::HOST, host);
            }
        }
    }
}

/// Makes an answer one for the client.
pub(super) fn inward(headers: &mut HeaderMap, upgrade: Option<&HeaderValue>) {
    strip(headers, upgrade);
}

/// Takes away what is between neighbours, and puts back what both agreed on.
fn strip(headers: &mut HeaderMap, upgrade: Option<&HeaderValue>) {
    let named: Vec<String> = words(headers).collect();
    for name in named {
        headers.remove(name.as_str());
    }
    let between: Vec<HeaderName> =
        headers.keys().filter(|name| is_hop_by_hop(name.as_str())).cloned().collect();
    for name in between {
        headers.remove(name);
    }
    if let Some(protocol) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, protocol.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn what_is_between_neighbours_stays_there() {
        let mut headers = map(&[
            ("connection", "keep-alive, X-Private"),
            ("connection", "close"),
            ("keep-alive", "timeout=5"),
            ("x-private", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("proxy-authorization", "Basic x"),
            ("accept", "*/*"),
        ]);
        strip(&mut headers, None);
        assert_eq!(headers, map(&[("accept", "*/*")]));
    }

    #[test]
    fn what_opens_our_doors_stays_outside() {
        let theirs = [("authorization", "Bearer theirs"), ("x-api-key", "theirs")];
        let mut headers = map(&theirs);
        headers.insert("x-access-token", HeaderValue::from_static("ours"));
        headers.insert(TRAFFIC_TOKEN, HeaderValue::from_static("any"));
        keep_secrets(&mut headers, |value| value == "ours");
        assert_eq!(headers, map(&theirs));
        let mut headers = map(&[("authorization", "Bearer ours"), ("x-api-key", "ours")]);
        keep_secrets(&mut headers, |value| value == "ours");
        assert!(headers.is_empty(), "{headers:?}");
    }

    #[test]
    fn an_upgrade_must_be_asked_for_twice() {
        let asked = map(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        assert_eq!(upgrade(&asked), Some(HeaderValue::from_static("websocket")));
        assert_eq!(upgrade(&map(&[("upgrade", "websocket")])), None);
        assert_eq!(upgrade(&map(&[("connection", "upgrade")])), None);
        let mut headers = asked;
        strip(&mut headers, Some(&HeaderValue::from_static("websocket")));
        assert_eq!(headers, map(&[("connection", "Upgrade"), ("upgrade", "websocket")]));
    }

    #[test]
    fn a_host_is_kept_unless_it_is_masked() {
        let host = |headers: &HeaderMap| headers.get("host").cloned();
        let mut headers = map(&[("host", "80-abc.example.com")]);
        set_host(&mut headers, None, 80, None);
        assert_eq!(host(&headers), Some(HeaderValue::from_static("80-abc.example.com")));
        set_host(&mut headers, None, 80, Some("localhost:${PORT}"));
        assert_eq!(host(&headers), Some(HeaderValue::from_static("localhost:80")));
        let before = headers.get("x-forwarded-host").cloned();
        assert_eq!(before, Some(HeaderValue::from_static("80-abc.example.com")));
        let mut none = HeaderMap::new();
        set_host(&mut none, Some("80-abc.example.com".to_owned()), 80, None);
        assert_eq!(host(&none), Some(HeaderValue::from_static("80-abc.example.com")));
    }
}

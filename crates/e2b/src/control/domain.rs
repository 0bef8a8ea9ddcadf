//! The domain that clients build hosts of sandboxes with: `8080-<id>.<domain>`.
//!
//! A client that is told none takes E2B's own, and sends requests of its users there. So there is
//! always one: the server's, or else the name that the client itself reached the server by.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use belljar_sandboxes::Actions;
use http::header;
use http::request::Parts;

/// For a server that is reached by an address. `.internal` is reserved for private use: it is
/// nobody's domain.
const NAMELESS: &str = "sandboxes.internal";

#[derive(Debug, Clone)]
pub(crate) struct Domain(pub(crate) String);

impl FromRequestParts<Actions> for Domain {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, actions: &Actions) -> Result<Self, Infallible> {
        if let Some(domain) = &actions.config().domain {
            return Ok(Self(domain.clone()));
        }
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        Ok(Self(of_host(host.unwrap_or_default())))
    }
}

/// The domain of a server that is reached as `host`, with its port.
fn of_host(host: &str) -> String {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => (name, format!(":{port}")),
        _ => (host, String::new()),
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let name = match address {
        Ok(address) if address.is_loopback() => "localhost",
        Ok(_) => NAMELESS,
        Err(_) if is_name(name) => name.strip_prefix("api.").unwrap_or(name),
        Err(_) => NAMELESS,
    };
    format!("{name}{port}")
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    !name.is_empty() && name.len() <= 253 && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_never_a_foreign_one() {
        for (host, want) in [
            ("127.0.0.1:3000", "localhost:3000"),
            ("[::1]:3000", "localhost:3000"),
            ("localhost:3000", "localhost:3000"),
            ("10.0.0.5:3000", "sandboxes.internal:3000"),
            ("belljar.example.com", "belljar.example.com"),
            ("api.sb.example.com:8443", "sb.example.com:8443"),
            ("", "sandboxes.internal"),
            ("a b", "sandboxes.internal"),
        ] {
            assert_eq!(of_host(host), want, "{host}");
        }
    }
}

//! Where traces are sent.

use http::Uri;
use http::uri::{PathAndQuery, Scheme};

/// Why that is no place to send traces to.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("not a URL like http://host:4318")]
    Url,
    #[error("only http is supported; run a collector next to this process for TLS")]
    Scheme,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Host and port, to connect to.
    pub(super) address: String,
    /// As the header `Host` has it.
    pub(super) authority: String,
    pub(super) path: String,
}

const PATH: &str = "/v1/traces";
const PORT: u16 = 80;

impl Endpoint {
    pub(super) fn parse(url: &str) -> Result<Self, EndpointError> {
        let uri: Uri = url.parse().map_err(|_| EndpointError::Url)?;
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => {}
            Some(_) => return Err(EndpointError::Scheme),
            None => return Err(EndpointError::Url),
        }
        let authority = uri.authority().ok_or(EndpointError::Url)?;
        let base = uri.path_and_query().map_or("", PathAndQuery::path).trim_end_matches('/');
        let path = if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") };
        let port = authority.port_u16().unwrap_or(PORT);
        Ok(Self {
            address: format!("{}:{port}", authority.host()),
            authority: format!("{}:{port}", authority.host()),
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collectors_address_is_enough() {
        let at = |url: &str| Endpoint::parse(url).map(|at| (at.address, at.path));
        let of = |address: &str, path: &str| (address.to_owned(), path.to_owned());
        assert_eq!(at("http://c:4318").unwrap(), of("c:4318", "/v1/traces"));
        assert_eq!(at("http://c/").unwrap(), of("c:80", "/v1/traces"));
        assert_eq!(at("http://c:1/v1/traces").unwrap(), of("c:1", "/v1/traces"));
        assert_eq!(at("http://[::1]:1/otlp/").unwrap(), of("[::1]:1", "/otlp/v1/traces"));
        assert!(matches!(at("https://c:4318"), Err(EndpointError::Scheme)));
        assert!(matches!(at("c:4318"), Err(EndpointError::Url | EndpointError::Scheme)));
        assert!(matches!(at("/v1/traces"), Err(EndpointError::Url)));
    }
}

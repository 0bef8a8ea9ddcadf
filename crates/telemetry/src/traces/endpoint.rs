//! The address of the collector.

use http::Uri;
use http::uri::PathAndQuery;
use rustls_pki_types::ServerName;

use super::tls::TlsError;

/// A collector that traces cannot be sent to.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("not a URL like http://host:4318")]
    Url,
    #[error("only http and https are supported")]
    Scheme,
    #[error("OTEL_EXPORTER_OTLP_HEADERS is not a list like `name=value,name=value`")]
    Headers,
    #[error(transparent)]
    Tls(#[from] TlsError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Host and port, to connect to.
    pub(super) address: String,
    /// As the header `Host` has it.
    pub(super) authority: String,
    pub(super) path: String,
    /// The name in the certificate; none: without TLS.
    pub(super) tls: Option<ServerName<'static>>,
}

const PATH: &str = "/v1/traces";

impl Endpoint {
    pub(super) fn parse(url: &str) -> Result<Self, EndpointError> {
        let uri: Uri = url.parse().map_err(|_| EndpointError::Url)?;
        let (is_tls, usual_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            Some(_) => return Err(EndpointError::Scheme),
            None => return Err(EndpointError::Url),
        };
        let authority = uri.authority().ok_or(EndpointError::Url)?;
        let base = uri.path_and_query().map_or("", PathAndQuery::path).trim_end_matches('/');
        let path = if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") };
        let port = authority.port_u16().unwrap_or(usual_port);
        let host = authority.host();
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(|_| EndpointError::Url);
        let tls = if is_tls { Some(name?) } else { None };
        Ok(Self {
            address: format!("{host}:{port}"),
            authority: format!("{host}:{port}"),
            path,
            tls,
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
        assert_eq!(at("https://c/").unwrap(), of("c:443", "/v1/traces"));
        assert_eq!(at("http://c:1/v1/traces").unwrap(), of("c:1", "/v1/traces"));
        assert_eq!(at("http://[::1]:1/otlp/").unwrap(), of("[::1]:1", "/otlp/v1/traces"));
        assert!(matches!(at("ftp://c:4318"), Err(EndpointError::Scheme)));
        assert!(matches!(at("c:4318"), Err(EndpointError::Url | EndpointError::Scheme)));
        assert!(matches!(at("/v1/traces"), Err(EndpointError::Url)));
    }

    #[test]
    fn only_https_is_encrypted() {
        assert_eq!(Endpoint::parse("http://c:1").unwrap().tls, None);
        let name = Endpoint::parse("https://[::1]:1").unwrap().tls.unwrap();
        assert!(matches!(name, ServerName::IpAddress(_)));
        let name = Endpoint::parse("https://c.example").unwrap().tls.unwrap();
        assert_eq!(name.to_str(), "c.example");
    }
}

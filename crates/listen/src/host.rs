//! The one host that a request is for.
//!
//! A request can name its host twice: in its target (the absolute form of HTTP/1.1, `:authority`
//! of HTTP/2) and in the `Host` field. Two services that read different ones disagree on where a
//! request goes, and each believes what the other has checked. So a request that names two hosts
//! is refused, and the others leave here with a single `Host` field and a target without a host.

use http::header::{self, HeaderMap};
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Method, Request, Uri};

/// Why a request's host is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("the request has more than one `Host` field")]
    Repeated,
    #[error("the request's host is not a host name or address with an optional port")]
    Malformed,
    #[error("the request's `Host` field and its target name different hosts")]
    Differs,
}

/// Leaves a request with one host, in its `Host` field, or refuses it.
///
/// A request without any host stays without one.
pub fn settle<B>(request: &mut Request<B>) -> Result<(), HostError> {
    let field = field(request.headers())?;
    let Some(target) = request.uri().authority() else { return Ok(()) };
    let target = checked(target.clone())?;
    match field {
        Some(field) if !is_same(&field, &target, request.uri().scheme()) => {
            return Err(HostError::Differs);
        }
        Some(_) => {}
        None => {
            let value = HeaderValue::from_str(target.as_str());
            let value = value.map_err(|_| HostError::Malformed)?;
            request.headers_mut().insert(header::HOST, value);
        }
    }
    // The target of CONNECT is nothing but a host. No surface answers that method.
    if request.method() != Method::CONNECT {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    }
    Ok(())
}

fn field(headers: &HeaderMap) -> Result<Option<Authority>, HostError> {
    let mut fields = headers.get_all(header::HOST).iter();
    let Some(field) = fields.next() else { return Ok(None) };
    if fields.next().is_some() {
        return Err(HostError::Repeated);
    }
    // Allowed by RFC 9112, 3.2, for a target that has no host either.
    if field.is_empty() {
        return Ok(None);
    }
    let field = Authority::try_from(field.as_bytes()).map_err(|_| HostError::Malformed)?;
    checked(field).map(Some)
}

/// User information reads like another host to whoever does not expect it, and a port that is
/// no number like none.
fn checked(authority: Authority) -> Result<Authority, HostError> {
    let text = authority.as_str();
    let port = text.strip_prefix(authority.host()).filter(|_| !authority.host().is_empty());
    let is_plain = port.is_some_and(|port| port.is_empty() || authority.port_u16().is_some());
    if is_plain { Ok(authority) } else { Err(HostError::Malformed) }
}

fn is_same(one: &Authority, other: &Authority, scheme: Option<&Scheme>) -> bool {
    let usual = match scheme {
        Some(scheme) if *scheme == Scheme::HTTP => Some(80),
        Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
        _ => None,
    };
    let port = |authority: &Authority| authority.port_u16().or(usual);
    one.host().eq_ignore_ascii_case(other.host()) && port(one) == port(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(uri: &str, hosts: &[&str]) -> Result<(String, Option<String>), HostError> {
        let mut request = Request::builder().uri(uri);
        for host in hosts {
            request = request.header("host", *host);
        }
        let mut request = request.body(()).unwrap();
        settle(&mut request)?;
        let host = request.headers().get("host").map(|host| host.to_str().unwrap().to_owned());
        Ok((request.uri().to_string(), host))
    }

    #[track_caller]
    fn check(uri: &str, hosts: &[&str], host: Option<&str>) {
        let (uri, found) = settled(uri, hosts).unwrap();
        assert_eq!((uri.as_str(), found.as_deref()), ("/a?b", host));
    }

    #[test]
    fn one_host_is_left_in_one_place() {
        check("/a?b", &["api.example.com"], Some("api.example.com"));
        check("/a?b", &[], None);
        check("/a?b", &[""], Some(""));
        check("http://api.example.com/a?b", &[], Some("api.example.com"));
        check("http://api.example.com/a?b", &["API.example.com"], Some("API.example.com"));
        check("http://api.example.com/a?b", &["api.example.com:80"], Some("api.example.com:80"));
        check("https://api.example.com:443/a?b", &["api.example.com"], Some("api.example.com"));
        check("http://[::1]:3000/a?b", &["[::1]:3000"], Some("[::1]:3000"));
        assert_eq!(settled("http://h", &[]).unwrap(), ("/".to_owned(), Some("h".to_owned())));
    }

    #[test]
    fn two_hosts_are_refused() {
        let api = "http://api.example.com/a";
        for (uri, host) in [
            (api, "8080-abc.example.com"),
            ("http://8080-abc.example.com/a", "api.example.com"),
            (api, "api.example.com:8080"),
            (api, "api.example.com."),
            ("https://api.example.com/a", "api.example.com:80"),
        ] {
            assert_eq!(settled(uri, &[host]), Err(HostError::Differs), "{uri} {host}");
        }
        assert_eq!(settled("/a", &["h", "h"]), Err(HostError::Repeated));
        assert_eq!(settled(api, &["api.example.com", "x"]), Err(HostError::Repeated));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for host in
            ["8080-abc.example.com@api.example.com", "a b", "a/b", "h:port", "h:", ":80", "h:65536"]
        {
            assert_eq!(settled("/a", &[host]), Err(HostError::Malformed), "{host}");
        }
        let user = "http://8080-abc.example.com@api.example.com/a";
        assert_eq!(settled(user, &["api.example.com"]), Err(HostError::Malformed));
        assert_eq!(settled(user, &[]), Err(HostError::Malformed));
    }
}

//! The address of a receiver: parsed once, resolved once for each attempt, and vetted.
//!
//! The rules are those of the gateway ([`belljar_egress::vet`]): every address of the name is
//! vetted, and a name that also leads to a refused address leads nowhere. The connection goes to
//! the vetted addresses, so a second answer of the name server changes nothing.

use std::net::{IpAddr, SocketAddr};

use belljar_domain::network::{Block, Policy};
use belljar_egress::{Openings, own, vet};
use http::Uri;
use http::uri::Scheme;

const LONGEST_URL: usize = 2048;
/// A name with more addresses is refused.
const MAX_ADDRESSES: usize = 16;

/// The addresses that webhooks may have, besides public ones.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    openings: Openings,
    opened: Vec<Block>,
}

/// The URL is not one that webhooks can have, or leads to a refused address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("the URL is too long: at most {LONGEST_URL} characters")]
    TooLong,
    #[error("the URL is not valid")]
    Form,
    #[error("the URL needs https")]
    NoTls,
    #[error("the URL must have no user name, password or fragment")]
    Extra,
    #[error("the address of the receiver is not public")]
    Private,
    #[error("the host of the receiver has no address")]
    NoAddress,
}

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
    /// The value of the header `Host`.
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl Reach {
    /// `opened` are the ranges that the operator allows although they are not public. Loopback
    /// addresses in them may also be reached without TLS.
    pub fn new(opened: Vec<Block>) -> Self {
        Self { openings: Openings::of(opened.clone()), opened }
    }

    /// Reads a URL. An address in it is vetted here; a name, when it is resolved.
    pub(crate) fn target(&self, url: &str) -> Result<Target, TargetError> {
        if url.len() > LONGEST_URL {
            return Err(TargetError::TooLong);
        }
        let uri: Uri = url.parse().map_err(|_| TargetError::Form)?;
        let authority = uri.authority().ok_or(TargetError::Form)?;
        if authority.as_str().contains('@') || url.contains('#') {
            return Err(TargetError::Extra);
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(TargetError::Form),
        };
        let address = host.parse::<IpAddr>().ok();
        let may_be_plain = address.is_some_and(|address| {
            let address = address.to_canonical();
            address.is_loopback() && self.opened.iter().any(|block| block.contains(address))
        });
        if !is_tls && !may_be_plain {
            return Err(TargetError::NoTls);
        }
        if host.is_empty() {
            return Err(TargetError::Form);
        }
        let default = if is_tls { 443 } else { 80 };
        let port = match authority.port() {
            Some(port) => port.as_str().parse::<u16>().map_err(|_| TargetError::Form)?,
            None => default,
        };
        if let Some(address) = address {
            self.vet(&[SocketAddr::new(address, port)], own::addresses())?;
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Target { host, port, is_tls, authority: authority.as_str().to_owned(), path })
    }

    /// Vets addresses for a host with its own ones.
    fn vet(&self, addresses: &[SocketAddr], own: Vec<IpAddr>) -> Result<(), TargetError> {
        let (policy, openings) = (Policy::default(), self.openings.clone().with_own(own));
        let mut vetted = addresses.iter().map(|address| vet(*address, &policy, &openings));
        vetted.try_for_each(|vetted| vetted.map_err(|_| TargetError::Private))
    }

    /// Resolves the host once and vets every address.
    pub(crate) async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, TargetError> {
        let found = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
        let found: Vec<_> =
            found.map_err(|_| TargetError::NoAddress)?.take(MAX_ADDRESSES + 1).collect();
        if found.is_empty() || found.len() > MAX_ADDRESSES {
            return Err(TargetError::NoAddress);
        }
        self.vet(&found, own::addresses())?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed() -> Reach {
        Reach::default()
    }

    fn opened() -> Reach {
        Reach::new(vec!["127.0.0.0/8".parse().unwrap(), "10.1.0.0/16".parse().unwrap()])
    }

    #[test]
    fn a_url_is_https_without_extras() {
        let target = closed().target("https://hooks.example.com/a?b=c").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("hooks.example.com", 443));
        assert_eq!((target.path.as_str(), target.is_tls), ("/a?b=c", true));
        let refused = |url: &str| closed().target(url).unwrap_err();
        assert_eq!(refused("http://hooks.example.com/"), TargetError::NoTls);
        assert_eq!(refused("http://127.0.0.1/"), TargetError::NoTls);
        assert_eq!(refused("https://user:secret@hooks.example.com/"), TargetError::Extra);
        assert_eq!(refused("https://hooks.example.com/#part"), TargetError::Extra);
        assert_eq!(refused(&format!("https://a/{}", "x".repeat(2048))), TargetError::TooLong);
        for url in ["", "hooks.example.com", "/path", "ftp://a/", "file:///etc/passwd", "https://"]
        {
            assert!(closed().target(url).is_err(), "{url}");
        }
    }

    /// Addresses that are not public are refused however they are written.
    #[test]
    fn private_addresses_are_refused() {
        for host in [
            "127.0.0.1",
            "10.1.2.3",
            "169.254.169.254",
            "192.168.0.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[fe80::1]",
            "0.0.0.0",
        ] {
            let url = format!("https://{host}/");
            assert_eq!(closed().target(&url), Err(TargetError::Private), "{url}");
        }
        assert!(closed().target("https://1.1.1.1/").is_ok());
    }

    #[test]
    fn the_operator_opens_ranges_by_name() {
        assert!(opened().target("https://10.1.2.3/").is_ok());
        assert!(opened().target("http://127.0.0.1:8080/").is_ok());
        assert_eq!(opened().target("https://10.2.0.1/"), Err(TargetError::Private));
        // Without TLS, loopback alone.
        assert_eq!(opened().target("http://10.1.2.3/"), Err(TargetError::NoTls));
        assert_eq!(opened().target("http://localhost/"), Err(TargetError::NoTls));
    }

    /// The addresses of this host are refused although they are public or in an opened range.
    #[test]
    fn this_host_is_refused() {
        let own: Vec<IpAddr> = vec!["10.1.0.7".parse().unwrap(), "1.1.1.1".parse().unwrap()];
        let vet = |address: &str| opened().vet(&[address.parse().unwrap()], own.clone());
        assert_eq!(vet("10.1.0.7:443"), Err(TargetError::Private));
        assert_eq!(vet("1.1.1.1:443"), Err(TargetError::Private));
        assert_eq!(vet("10.1.0.8:443"), Ok(()));
        assert_eq!(vet("1.0.0.1:443"), Ok(()));
        let here = own::addresses().into_iter().find(IpAddr::is_ipv4);
        let everything = Reach::new(vec!["0.0.0.0/0".parse().unwrap()]);
        if let Some(here) = here {
            let url = format!("https://{here}/");
            assert_eq!(everything.target(&url), Err(TargetError::Private));
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_to_loopback_is_refused_when_it_is_resolved() {
        let target = closed().target("https://localhost/").unwrap();
        assert_eq!(closed().addresses(&target).await, Err(TargetError::Private));
    }
}

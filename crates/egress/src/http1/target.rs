//! Request targets: who is asked for what.

use belljar_domain::network::Host;

use super::Malformed;
use super::bytes::is_target;
use crate::Destination;

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// `CONNECT host:port`.
    Authority(Destination),
    /// `GET http://host/path`: for somebody else, by way of us.
    Absolute { destination: Destination, path: String },
    /// `GET /path`: for whoever this connection leads to.
    Origin(String),
}

impl Target {
    /// Whom the target names, if it does.
    pub fn destination(&self) -> Option<&Destination> {
        match self {
            Self::Authority(destination) | Self::Absolute { destination, .. } => Some(destination),
            Self::Origin(_) => None,
        }
    }

    /// Path and query, as sent; a tunnel has none.
    pub fn path_and_query(&self) -> Option<&str> {
        match self {
            Self::Authority(_) => None,
            Self::Absolute { path, .. } | Self::Origin(path) => Some(path),
        }
    }

    /// The path alone.
    pub fn path(&self) -> Option<&str> {
        let target = self.path_and_query()?;
        Some(target.split_once('?').map_or(target, |(path, _query)| path))
    }

    pub(super) fn parse(method: &str, target: &[u8]) -> Result<Self, Malformed> {
        if target.is_empty() || !is_target(target) {
            return Err(Malformed::Target);
        }
        let target = std::str::from_utf8(target).map_err(|_| Malformed::Target)?;
        if method == "CONNECT" {
            if target.starts_with('/') || target.contains("://") {
                return Err(Malformed::TargetForm);
            }
            let (host, port) = authority(target)?;
            let port = port.ok_or(Malformed::Port)?;
            return Ok(Self::Authority(Destination { host, port }));
        }
        if target.starts_with('/') {
            return Ok(Self::Origin(target.to_owned()));
        }
        let Some((scheme, rest)) = target.split_once("://") else {
            return Err(Malformed::TargetForm);
        };
        if scheme != "http" {
            return Err(Malformed::Scheme);
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (named, path) = rest.split_at(end);
        let (host, port) = authority(named)?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self::Absolute { destination: Destination { host, port: port.unwrap_or(80) }, path })
    }
}

/// `host` or `host:port`. A name and password before an `@` have no place here:
/// what looks like the host to one reader is the name to another.
pub(super) fn authority(text: &str) -> Result<(Host, Option<u16>), Malformed> {
    // The colons of an IPv6 address stand in brackets, the port behind them.
    let after_brackets = text.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match text[after_brackets..].find(':') {
        Some(at) => {
            let (host, port) = text.split_at(after_brackets + at);
            (host, Some(parse_port(&port[1..])?))
        }
        None => (text, None),
    };
    Ok((host.parse().map_err(|_| Malformed::Host)?, port))
}

/// One number, one spelling: `0443`, `+443` and `65979` are not 443.
fn parse_port(text: &str) -> Result<u16, Malformed> {
    let is_plain = (1..=5).contains(&text.len())
        && !text.starts_with('0')
        && text.bytes().all(|b| b.is_ascii_digit());
    if !is_plain {
        return Err(Malformed::Port);
    }
    text.parse().map_err(|_| Malformed::Port)
}

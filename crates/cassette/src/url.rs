//! Where a request went.

use std::fmt;
use std::str::FromStr;

use belljar_domain::network::{Host, Scheme};
use serde::{Deserialize, Serialize};

/// As it stands in the index: one text, its usual port left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Url {
    pub scheme: Scheme,
    pub host: Host,
    pub port: u16,
    /// Begins with `/`.
    pub path: String,
    /// Without its `?`.
    pub query: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a URL of http or https, in its usual form and without a fragment")]
pub struct InvalidUrl;

impl Url {
    /// Refuses what cannot stand in a request line.
    pub fn new(
        scheme: Scheme,
        host: Host,
        port: u16,
        path: &str,
        query: Option<&str>,
    ) -> Result<Self, InvalidUrl> {
        let is_plain = |text: &str| text.bytes().all(|b| (b'!'..=b'~').contains(&b) && b != b'#');
        if !path.starts_with('/') || path.contains('?') || !is_plain(path) {
            return Err(InvalidUrl);
        }
        if !query.is_none_or(is_plain) {
            return Err(InvalidUrl);
        }
        Ok(Self { scheme, host, port, path: path.to_owned(), query: query.map(str::to_owned) })
    }

    /// Name and value of each parameter, as written; a name without `=` has none.
    pub(crate) fn parameters(&self) -> Vec<(&str, Option<&str>)> {
        let parts = self.query.as_deref().unwrap_or_default().split('&');
        parts
            .filter(|part| !part.is_empty())
            .map(|part| match part.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (part, None),
            })
            .collect()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)?;
        if self.port != self.scheme.port() {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.path)?;
        match &self.query {
            Some(query) => write!(f, "?{query}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Url {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            _ => return Err(InvalidUrl),
        };
        let (authority, target) = rest.split_at(rest.find('/').ok_or(InvalidUrl)?);
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let (host, port) = match authority.rsplit_once(':') {
            // Inside brackets a colon belongs to the address.
            Some((host, port)) if !port.ends_with(']') => {
                let port: u16 = port.parse().map_err(|_| InvalidUrl)?;
                (host, port)
            }
            _ => (authority, scheme.port()),
        };
        let host = host.parse().map_err(|_| InvalidUrl)?;
        let url = Self::new(scheme, host, port, path, query)?;
        // One spelling of each: what is read is what would be written.
        if url.to_string() == text { Ok(url) } else { Err(InvalidUrl) }
    }
}

impl TryFrom<String> for Url {
    type Error = InvalidUrl;

    fn try_from(text: String) -> Result<Self, InvalidUrl> {
        text.parse()
    }
}

impl From<Url> for String {
    fn from(url: Url) -> Self {
        url.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_one_spelling() {
        for text in [
            "https://a.org/",
            "http://a.org:8080/x?y=%20&z",
            "https://[::1]/",
            "https://[::1]:80/?",
            "http://192.0.2.1/a//b?c?d",
        ] {
            assert_eq!(text.parse::<Url>().map(|url| url.to_string()), Ok(text.to_owned()));
        }
        for text in [
            "https://a.org",
            "https://A.org/",
            "https://a.org:443/",
            "ftp://a.org/",
            "/x",
            "https://a.org:080/",
            "https://a.org/ b",
            "https://a.org/#f",
            "https://a.org/\r\nx",
            "https://u@a.org/",
            "https://a.org:+81/",
            "https:///x",
            "https://a.org:/",
        ] {
            assert_eq!(text.parse::<Url>(), Err(InvalidUrl), "{text}");
        }
    }
}

//! Addresses of indexes and of the files that they name, read strictly.
//!
//! A URL is compared by its [`Key`], in which spellings that clients use for one
//! another (`+` and `%2B`) are the same. What could be read in two ways, by us
//! and by whoever is asked, is no URL: backslashes, control characters, dots in
//! disguise, anything outside ASCII.

use std::fmt;

use belljar_domain::network::{Host, InvalidHost, Scheme};

#[cfg(test)]
mod tests;

/// An `http` or `https` address, without fragment and without credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Url {
    scheme: Scheme,
    host: Host,
    port: u16,
    /// Begins with `/`, holds no `.` and `..` segments, spelled as it came.
    path: String,
    query: Option<String>,
}

/// What two spellings of one URL have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

/// Whether there was a user or a password in a URL. Only that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Credential {
    Absent,
    Removed,
}

/// Why a text is not a URL. Never holds the text, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    #[error("only http and https are supported")]
    Scheme,
    #[error("the host of the URL is invalid")]
    Host(#[source] InvalidHost),
    #[error("the port of the URL is invalid")]
    Port,
    #[error("the URL has ambiguous characters")]
    Characters,
    #[error("the URL is longer than 8192 characters")]
    Length,
    #[error("the URL contains a user name or a password")]
    Credential,
}

const LONGEST: usize = 8192;

impl Key {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Url {
    /// A URL that somebody else wrote: credentials in it are refused.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        match Self::configured(text)? {
            (url, Credential::Absent) => Ok(url),
            (_, Credential::Removed) => Err(InvalidUrl::Credential),
        }
    }

    /// A URL that the operator or the template's maker wrote: credentials in it
    /// are removed, and that they were there is told.
    pub fn configured(text: &str) -> Result<(Self, Credential), InvalidUrl> {
        if text.len() > LONGEST {
            return Err(InvalidUrl::Length);
        }
        let (scheme, rest) = text.split_once("://").ok_or(InvalidUrl::Scheme)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(InvalidUrl::Scheme),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (credential, authority) = match authority.rsplit_once('@') {
            Some((_, authority)) => (Credential::Removed, authority),
            None => (Credential::Absent, authority),
        };
        let (host, port) = split_port(authority, scheme)?;
        let host = host.parse().map_err(InvalidUrl::Host)?;
        let (path, query) = path_and_query(rest)?;
        let path = without_dots(if path.is_empty() { "/" } else { path });
        Ok((Self { scheme, host, port, path, query: query.map(str::to_owned) }, credential))
    }

    /// The URL that a request is about, from the parts that a proxy has.
    ///
    /// `target` is the path with its query.
    pub fn of_request(
        scheme: Scheme,
        host: Host,
        port: u16,
        target: &str,
    ) -> Result<Self, InvalidUrl> {
        if target.len() > LONGEST {
            return Err(InvalidUrl::Length);
        }
        if !target.starts_with('/') || target.contains('#') {
            return Err(InvalidUrl::Characters);
        }
        let (path, query) = path_and_query(target)?;
        let query = query.map(str::to_owned);
        Ok(Self { scheme, host, port, path: without_dots(path), query })
    }

    /// What `reference` means on the page at this URL; its fragment is dropped.
    pub fn join(&self, reference: &str) -> Result<Self, InvalidUrl> {
        if reference.len() > LONGEST {
            return Err(InvalidUrl::Length);
        }
        let reference = reference.split('#').next().unwrap_or_default();
        if has_scheme(reference) {
            return Self::parse(reference);
        }
        if reference.starts_with("//") {
            return Self::parse(&format!("{}:{reference}", self.scheme.as_str()));
        }
        let (path, query) = path_and_query(reference)?;
        let query = query.map(str::to_owned);
        let path = match path {
            "" => {
                let query = query.or_else(|| self.query.clone());
                return Ok(Self { query, ..self.clone() });
            }
            path if path.starts_with('/') => without_dots(path),
            path => {
                let directory = self.path.rfind('/').and_then(|end| self.path.get(..=end));
                let directory = directory.unwrap_or("/");
                without_dots(&format!("{directory}{path}"))
            }
        };
        Ok(Self { path, query, ..self.clone() })
    }

    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// Whether both are asked of the same server in the same way.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        (self.scheme, self.port) == (other.scheme, other.port) && self.host == other.host
    }

    /// This URL with another path, which is resolved as on a page.
    pub(crate) fn with_path(&self, path: &str) -> Self {
        Self { path: without_dots(path), query: None, ..self.clone() }
    }

    pub(crate) fn with_suffix(&self, suffix: &str) -> Self {
        Self { path: format!("{}{suffix}", self.path), ..self.clone() }
    }

    pub fn key(&self) -> Key {
        let mut text = format!("{}://{}:{}", self.scheme.as_str(), self.host, self.port);
        let bytes = self.path.as_bytes();
        let mut at = 0;
        while let Some(&first) = bytes.get(at) {
            let (byte, was_escaped) = match escaped(bytes, at) {
                Some(byte) => (byte, true),
                None => (first, false),
            };
            at += if was_escaped { 3 } else { 1 };
            let is_plain = byte.is_ascii_alphanumeric()
                || matches!(byte, b'-' | b'.' | b'_' | b'~')
                || (byte == b'/' && !was_escaped);
            if is_plain {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
        if let Some(query) = &self.query {
            text.push('?');
            text.push_str(query);
        }
        Key(text)
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

fn split_port(authority: &str, scheme: Scheme) -> Result<(&str, u16), InvalidUrl> {
    // The colons of an IPv6 address stand before its bracket.
    let from = authority.rfind(']').unwrap_or(0);
    let (address, after) = authority.split_at(from);
    match after.split_once(':') {
        None => Ok((authority, scheme.port())),
        Some((name, digits)) => {
            let (host, _) = authority.split_at(address.len() + name.len());
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(InvalidUrl::Port);
            }
            match digits.parse() {
                Ok(0) | Err(_) => Err(InvalidUrl::Port),
                Ok(port) => Ok((host, port)),
            }
        }
    }
}

/// Whether a reference names a scheme of its own, whichever.
fn has_scheme(reference: &str) -> bool {
    let end = reference.find(['/', '?']).unwrap_or(reference.len());
    reference.split_at(end).0.contains(':')
}

fn path_and_query(text: &str) -> Result<(&str, Option<&str>), InvalidUrl> {
    let text = text.split('#').next().unwrap_or_default();
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    let is_fine = check(path, Part::Path) && query.is_none_or(|query| check(query, Part::Query));
    if is_fine { Ok((path, query)) } else { Err(InvalidUrl::Characters) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Query,
}

fn check(text: &str, part: Part) -> bool {
    let bytes = text.as_bytes();
    let characters = bytes.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => escaped(bytes, at).is_some_and(|byte| {
            part == Part::Query || (byte >= 0x20 && !matches!(byte, 0x7f | b'\\'))
        }),
        b'?' => part == Part::Query,
        byte => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(byte),
    });
    // `%2e%2e` is `..` to some servers and a name to others.
    let hides_dots = |segment: &str| {
        segment.contains('%') && {
            let plain = segment.replace("%2e", ".").replace("%2E", ".");
            plain == "." || plain == ".."
        }
    };
    characters && (part == Part::Query || !text.split('/').any(hides_dots))
}

/// The byte that `%` and two digits stand for.
fn escaped(bytes: &[u8], at: usize) -> Option<u8> {
    if bytes.get(at) != Some(&b'%') {
        return None;
    }
    let digit = |at: usize| bytes.get(at).and_then(|&b| char::from(b).to_digit(16));
    u8::try_from(digit(at + 1)? * 16 + digit(at + 2)?).ok()
}

/// Removes `.` and `..` as RFC 3986, section 5.2.4, says; never climbs out.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

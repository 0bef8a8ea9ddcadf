//! Heads of requests.

use belljar_domain::network::Host;

use super::target::authority;
use super::{Fields, Malformed, Scan, Target, line};
use crate::Destination;

/// A request up to its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    method: String,
    target: Target,
    version: Version,
    fields: Fields,
    framing: Framing,
    host: Option<(Host, Option<u16>)>,
    keeps_alive: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    Http10,
    Http11,
}

/// How long the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    None,
    Length(u64),
    /// In pieces, each with its length: see [`super::Chunked`].
    Chunked,
}

impl Head {
    /// Reads a head from the start of `buffer`: with its length, or none while
    /// it is not whole.
    pub fn parse(buffer: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        Self::parse_growing(&mut Scan::default(), buffer)
    }

    /// The same for a buffer that grows from call to call: `scan` remembers how
    /// far it was looked at. It belongs to one head.
    pub fn parse_growing(
        scan: &mut Scan,
        buffer: &[u8],
    ) -> Result<Option<(Self, usize)>, Malformed> {
        let Some(end) = scan.find_end(buffer)? else { return Ok(None) };
        Ok(Some((Self::parse_scanned(&buffer[..end])?, end)))
    }

    /// From the first byte of a head to its last.
    fn parse_scanned(head: &[u8]) -> Result<Self, Malformed> {
        let first = head.iter().position(|b| *b == b'\r').ok_or(Malformed::LineEnd)?;
        let (method, target, version) = line::parse(&head[..first])?;
        let fields = Fields::parse(&head[first + 2..head.len() - 2])?;
        let host = host(&fields, &target, version)?;
        let framing = framing(&fields, &method, version)?;
        let keeps_alive = keeps_alive(&fields, version)?;
        // Of two, one would be judged and the other believed.
        fields.only("authorization")?;
        Ok(Self { method, target, version, fields, framing, host, keeps_alive })
    }

    pub fn method(&self) -> &str {
        &self.method
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// All of them, in their order. See [`Fields::forwarded`].
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// What the Host field says.
    pub fn host(&self) -> Option<(&Host, Option<u16>)> {
        self.host.as_ref().map(|(host, port)| (host, *port))
    }

    /// Whether this is for `destination`, on a connection that leads there and
    /// on which `usual` is the port that is not written.
    pub fn is_for(&self, destination: &Destination, usual: u16) -> bool {
        let named = match (&self.target, &self.host) {
            (Target::Origin(_), Some((host, port))) => (host, port.unwrap_or(usual)),
            (Target::Origin(_), None) => return false,
            (Target::Authority(named) | Target::Absolute { destination: named, .. }, _) => {
                (&named.host, named.port)
            }
        };
        named == (&destination.host, destination.port)
    }

    /// Whether the client waits for another answer on this connection.
    pub fn keeps_alive(&self) -> bool {
        self.keeps_alive
    }

    /// Whether the client waits for a word before it sends the body.
    pub fn expects_continue(&self) -> bool {
        self.fields.all("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue"))
    }

    /// Appends the head as it would be sent.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let target = match &self.target {
            Target::Authority(destination) => destination.to_string(),
            Target::Absolute { destination, path } => format!("http://{destination}{path}"),
            Target::Origin(path) => path.clone(),
        };
        let version: &[u8] = match self.version {
            Version::Http10 => b" HTTP/1.0\r\n",
            Version::Http11 => b" HTTP/1.1\r\n",
        };
        for part in [self.method.as_bytes(), b" ", target.as_bytes(), version] {
            out.extend_from_slice(part);
        }
        for (name, value) in self.fields.iter() {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// The Host field, which must not name another place than the target does. Of a
/// tunnel, clients write it with or without the port.
fn host(
    fields: &Fields,
    target: &Target,
    version: Version,
) -> Result<Option<(Host, Option<u16>)>, Malformed> {
    let Some(value) = fields.only("host")? else {
        return if version == Version::Http10 { Ok(None) } else { Err(Malformed::NoHost) };
    };
    let text = std::str::from_utf8(value).map_err(|_| Malformed::Host)?;
    let (host, port) = authority(text)?;
    let agrees = match target {
        Target::Origin(_) => true,
        Target::Absolute { destination, .. } => {
            host == destination.host && port.unwrap_or(80) == destination.port
        }
        Target::Authority(destination) => {
            host == destination.host && port.is_none_or(|port| port == destination.port)
        }
    };
    if agrees { Ok(Some((host, port))) } else { Err(Malformed::HostMismatch) }
}

fn framing(fields: &Fields, method: &str, version: Version) -> Result<Framing, Malformed> {
    let length = fields.only("content-length")?.map(content_length).transpose()?;
    let coding = fields.only("transfer-encoding")?;
    let framing = match (length, coding) {
        (Some(_), Some(_)) => return Err(Malformed::TwoLengths),
        // A list, another case or a parameter is legal. Nobody sends it but to
        // find out who reads it how.
        (None, Some(b"chunked")) => Framing::Chunked,
        (None, Some(_)) => return Err(Malformed::Coding),
        (Some(length), None) => Framing::Length(length),
        (None, None) => return Ok(Framing::None),
    };
    // HTTP/1.0 knows no chunks, and servers differ in when its bodies end.
    let may_have_body = method != "CONNECT" && method != "TRACE" && version == Version::Http11;
    if framing == Framing::Length(0) || may_have_body { Ok(framing) } else { Err(Malformed::Body) }
}

fn content_length(value: &[u8]) -> Result<u64, Malformed> {
    let is_plain = matches!(value, [b'0'] | [b'1'..=b'9', ..])
        && value.len() <= 19
        && value.iter().all(u8::is_ascii_digit);
    if !is_plain {
        return Err(Malformed::Length);
    }
    let text = std::str::from_utf8(value).map_err(|_| Malformed::Length)?;
    text.parse().map_err(|_| Malformed::Length)
}

fn keeps_alive(fields: &Fields, version: Version) -> Result<bool, Malformed> {
    let mut keeps = version == Version::Http11;
    for option in fields.connection_options() {
        let option = option?;
        let is = |name: &str| option.eq_ignore_ascii_case(name);
        if is("host") || is("content-length") || is("transfer-encoding") {
            return Err(Malformed::Connection);
        }
        keeps &= !is("close");
    }
    Ok(keeps)
}

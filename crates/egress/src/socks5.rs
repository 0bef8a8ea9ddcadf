//! SOCKS 5, as far as a client inside needs it: CONNECT, by name or address.
//!
//! ```text
//!   client                       gateway
//!    │ greeting: methods ─────────► │
//!    │ ◄────── method: none, or ... │
//!    │ name and password ─────────► │  only if nothing else was offered
//!    │ ◄──────────────────── LOGGED │
//!    │ request: host, port ───────► │
//!    │ ◄────────────────── answer() │
//! ```
//!
//! Each function reads one message from the start of a buffer: with its length,
//! or none while it is not whole. A client may send them all at once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use belljar_domain::network::Host;

use crate::Destination;

/// The first byte of every greeting; no HTTP request begins with it.
pub const VERSION: u8 = 5;

/// The answer to a name and password. They are not looked at, because the
/// listener tells who the client is; some clients have to send them.
pub const LOGGED: [u8; 2] = [LOGIN_VERSION, 0];

const LOGIN_VERSION: u8 = 1;

/// How a client is to say who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    None,
    Password,
    /// It offered nothing that we know. Tell it and close.
    Unacceptable,
}

impl Method {
    /// The answer to the greeting.
    pub fn answer(self) -> [u8; 2] {
        let method = match self {
            Self::None => 0,
            Self::Password => 2,
            Self::Unacceptable => 0xff,
        };
        [VERSION, method]
    }
}

/// Why a message was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("this is not version 5 of SOCKS")]
    Version,
    #[error("the message breaks its format")]
    Malformed,
    #[error("only CONNECT is served")]
    Command,
    #[error("the kind of address is not known")]
    AddressType,
    #[error("the host is not a name or an address in its usual form")]
    Host,
    #[error("a port is not 0")]
    Port,
}

/// What a client is told about its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Connected = 0,
    Failed = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    TimedOut = 6,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

impl Answer {
    /// With 0.0.0.0:0 as the address of our own end, which is nobody's business.
    pub fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Command => Self::CommandNotSupported,
            Refused::AddressType => Self::AddressTypeNotSupported,
            Refused::Version | Refused::Malformed | Refused::Host | Refused::Port => Self::Failed,
        }
    }
}

/// The greeting: which methods the client offers.
pub fn greeting(buffer: &[u8]) -> Result<Option<(Method, usize)>, Refused> {
    let [version, rest @ ..] = buffer else { return Ok(None) };
    if *version != VERSION {
        return Err(Refused::Version);
    }
    let Some((methods, length)) = counted(rest)? else { return Ok(None) };
    let method = if methods.contains(&0) {
        Method::None
    } else if methods.contains(&2) {
        Method::Password
    } else {
        Method::Unacceptable
    };
    Ok(Some((method, 1 + length)))
}

/// Name and password: their length. They are not kept.
pub fn login(buffer: &[u8]) -> Result<Option<usize>, Refused> {
    let [version, rest @ ..] = buffer else { return Ok(None) };
    if *version != LOGIN_VERSION {
        return Err(Refused::Malformed);
    }
    let Some((_name, name)) = counted(rest)? else { return Ok(None) };
    // RFC 1929 wants a password of at least one byte; clients with an empty one
    // send it empty.
    let [password, rest @ ..] = &rest[name..] else { return Ok(None) };
    let password = usize::from(*password);
    Ok((rest.len() >= password).then_some(1 + name + 1 + password))
}

/// The request: who is to be connected to.
pub fn request(buffer: &[u8]) -> Result<Option<(Destination, usize)>, Refused> {
    // Each byte as it comes, so that nonsense is refused before it is whole.
    for (at, byte) in buffer.iter().take(4).enumerate() {
        match (at, byte) {
            (0, &VERSION) | (1, 1) | (2, 0) | (3, 1 | 3 | 4) => {}
            (0, _) => return Err(Refused::Version),
            (1, _) => return Err(Refused::Command),
            (2, _) => return Err(Refused::Malformed),
            _ => return Err(Refused::AddressType),
        }
    }
    let [_, _, _, kind, rest @ ..] = buffer else { return Ok(None) };
    let (host, length) = match kind {
        1 => {
            let Some(octets) = rest.first_chunk::<4>() else { return Ok(None) };
            (Host::Address(Ipv4Addr::from(*octets).into()), 4)
        }
        4 => {
            let Some(octets) = rest.first_chunk::<16>() else { return Ok(None) };
            (Host::Address(IpAddr::from(Ipv6Addr::from(*octets)).to_canonical()), 16)
        }
        _ => {
            let Some((name, length)) = counted(rest)? else { return Ok(None) };
            let name = std::str::from_utf8(name).map_err(|_| Refused::Host)?;
            (name.parse().map_err(|_| Refused::Host)?, length)
        }
    };
    let Some(port) = rest[length..].first_chunk::<2>() else { return Ok(None) };
    match u16::from_be_bytes(*port) {
        0 => Err(Refused::Port),
        port => Ok(Some((Destination { host, port }, 4 + length + 2))),
    }
}

/// A byte that counts the bytes after it, of which there must be some; with the
/// length of both.
fn counted(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Refused> {
    match bytes {
        [] => Ok(None),
        [0, ..] => Err(Refused::Malformed),
        [count, rest @ ..] => {
            let count = usize::from(*count);
            Ok(rest.get(..count).map(|counted| (counted, 1 + count)))
        }
    }
}

#[cfg(test)]
mod tests;

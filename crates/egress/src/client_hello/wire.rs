//! The greeting itself: RFC 8446 section 4.1.2, and RFC 6066 for names.

use belljar_domain::network::HostName;

use super::{Hello, MOST_EXTENSIONS, NotHello};

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const EARLY_DATA: u16 = 42;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
const HOST_NAME: u8 = 0;
/// The inner greeting of ECH says this of itself; it never travels in the open.
const INNER: u8 = 1;

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], NotHello> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(NotHello::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, NotHello> {
        self.take(1).map(|taken| taken[0])
    }

    fn number(&mut self) -> Result<u16, NotHello> {
        self.take(2).map(|taken| u16::from_be_bytes([taken[0], taken[1]]))
    }

    /// What a one-byte count says.
    fn short(&mut self) -> Result<&'a [u8], NotHello> {
        let count = self.byte()?;
        self.take(count.into())
    }

    /// What a two-byte count says.
    fn long(&mut self) -> Result<&'a [u8], NotHello> {
        let count = self.number()?;
        self.take(count.into())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn end(&self) -> Result<(), NotHello> {
        if self.is_empty() { Ok(()) } else { Err(NotHello::Malformed) }
    }
}

/// Reads a greeting without the header of its message.
pub(super) fn parse(body: &[u8]) -> Result<Hello, NotHello> {
    let mut rest = Rest(body);
    let [major, _] = rest.number()?.to_be_bytes();
    rest.take(32)?;
    let session = rest.short()?;
    let ciphers = rest.long()?;
    let compressions = rest.short()?;
    let is_sound = major == 3
        && session.len() <= 32
        && !ciphers.is_empty()
        && ciphers.len().is_multiple_of(2)
        && !compressions.is_empty();
    if !is_sound {
        return Err(NotHello::Malformed);
    }
    let mut hello = Hello { sni: None, alpn: vec![], has_ech: false, has_early_data: false };
    // The oldest greetings end here.
    if rest.is_empty() {
        return Ok(hello);
    }
    let mut extensions = Rest(rest.long()?);
    rest.end()?;
    let mut seen = Vec::with_capacity(32);
    while !extensions.is_empty() {
        let kind = extensions.number()?;
        let data = extensions.long()?;
        // Of two, one would be judged and the other answered.
        if seen.contains(&kind) || seen.len() == MOST_EXTENSIONS {
            return Err(NotHello::Extensions);
        }
        seen.push(kind);
        match kind {
            SERVER_NAME => hello.sni = Some(server_name(data)?),
            EARLY_DATA => hello.has_early_data = true,
            ALPN => hello.alpn = protocols(data)?,
            ENCRYPTED_CLIENT_HELLO if data.first() == Some(&INNER) => {
                return Err(NotHello::Malformed);
            }
            ENCRYPTED_CLIENT_HELLO => hello.has_ech = true,
            _ => {}
        }
    }
    Ok(hello)
}

/// The only entry of the list, which is a host name.
fn server_name(data: &[u8]) -> Result<HostName, NotHello> {
    let mut data = Rest(data);
    let mut list = Rest(data.long()?);
    data.end()?;
    let kind = list.byte()?;
    let name = list.long()?;
    if !list.is_empty() {
        return Err(NotHello::SeveralNames);
    }
    let text = std::str::from_utf8(name).map_err(|_| NotHello::Name)?;
    // A dot at the end is not sent, and servers differ in what they make of it.
    if kind != HOST_NAME || text.ends_with('.') {
        return Err(NotHello::Name);
    }
    text.parse().map_err(|_| NotHello::Name)
}

fn protocols(data: &[u8]) -> Result<Vec<Vec<u8>>, NotHello> {
    let mut data = Rest(data);
    let mut list = Rest(data.long()?);
    data.end()?;
    let mut protocols = vec![];
    while !list.is_empty() {
        match list.short()? {
            [] => return Err(NotHello::Malformed),
            protocol => protocols.push(protocol.to_vec()),
        }
    }
    Ok(protocols)
}

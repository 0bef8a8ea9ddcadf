//! The first bytes inside a tunnel: is it TLS, and for whom?

use std::time::Duration;

use belljar_domain::network::{Policy, Reason};
use belljar_egress::client_hello::{Again, Hello, NotHello, Reader};
use belljar_egress::{Destination, judge_name};
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::wire::Ahead;

/// How long a greeting may take, from its first byte or, where TLS is the rule,
/// from the tunnel's beginning.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// What a tunnel begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    /// TLS, for the name that was asked for.
    Tls,
    Other,
    /// The client left without a word.
    Nothing,
}

/// Reads ahead until the greeting is whole.
pub(super) async fn read(
    inside: &mut Ahead,
    policy: &Policy,
    to: &Destination,
) -> Result<Greeting, Reason> {
    let mut listener = Listener::default();
    let listening = async {
        loop {
            if let Some(greeting) = listener.hear(&inside.buffer, policy, to)? {
                return Ok(greeting);
            }
            if !matches!(inside.fill().await, Ok(1..)) {
                return if inside.buffer.is_empty() {
                    Ok(Greeting::Nothing)
                } else {
                    Err(Reason::NoName)
                };
            }
        }
    };
    tokio::time::timeout(PATIENCE, listening).await.unwrap_or(Err(Reason::NoName))
}

/// What a client said first.
#[derive(Debug)]
pub(super) struct First {
    pub(super) bytes: BytesMut,
    /// Behind a greeting of TLS: where it ends, and what looks for a second one.
    pub(super) again: Option<(usize, Again)>,
}

/// The same where anything may pass: with the bytes, however long it takes until
/// the first of them comes. None: the client left without a word.
pub(super) async fn first(
    inside: &mut (impl AsyncRead + Unpin),
    policy: &Policy,
    to: &Destination,
) -> Result<Option<First>, Reason> {
    let mut buffer = BytesMut::with_capacity(4096);
    if !matches!(inside.read_buf(&mut buffer).await, Ok(1..)) {
        return Ok(None);
    }
    let mut listener = Listener::default();
    let listening = async {
        loop {
            if listener.hear(&buffer, policy, to)?.is_some() {
                return Ok(());
            }
            buffer.reserve(4096);
            if !matches!(inside.read_buf(&mut buffer).await, Ok(1..)) {
                // A few bytes that only look like the beginning of TLS are
                // nothing to a server either.
                return Err(Reason::NoName);
            }
        }
    };
    let heard = tokio::time::timeout(PATIENCE, listening).await;
    heard.unwrap_or(Err(Reason::NoName))?;
    let end = listener.reader.seen();
    let again = listener.hello.map(|hello| (end, Again::after(&hello)));
    Ok(Some(First { bytes: buffer, again }))
}

/// Judges the name in a greeting of TLS.
pub(super) fn judge(
    policy: &Policy,
    to: &Destination,
    hello: Result<Hello, NotHello>,
) -> Result<Hello, Reason> {
    match hello {
        Ok(hello) => judge_name(policy, to, hello.sni.as_ref()).map(|()| hello),
        // A name that cannot be read, or two of them, is not the right one.
        Err(NotHello::Name | NotHello::SeveralNames) => Err(Reason::NameMismatch),
        Err(_) => Err(Reason::Malformed),
    }
}

#[derive(Default)]
struct Listener {
    reader: Reader,
    heard: usize,
    hello: Option<Hello>,
}

impl Listener {
    /// `buffer` begins with what it held at the last call. None: not whole.
    fn hear(
        &mut self,
        buffer: &[u8],
        policy: &Policy,
        to: &Destination,
    ) -> Result<Option<Greeting>, Reason> {
        let new = buffer.get(self.heard..).unwrap_or_default();
        if new.is_empty() {
            return Ok(None);
        }
        self.heard = buffer.len();
        let hello = match self.reader.push(new) {
            Ok(None) => return Ok(None),
            Err(NotHello::NotTls) => return Ok(Some(Greeting::Other)),
            Ok(Some(hello)) => Ok(hello),
            Err(error) => Err(error),
        };
        self.hello = Some(judge(policy, to, hello)?);
        Ok(Some(Greeting::Tls))
    }
}

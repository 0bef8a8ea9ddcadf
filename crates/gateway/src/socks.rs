//! SOCKS 5, up to the tunnel.

use std::io;
use std::time::Duration;

use belljar_domain::network::{Decision, Kind, Reason};
use belljar_egress::Destination;
use belljar_egress::socks5::{self, Answer, LOGGED, Method, Refused};
use bytes::Buf as _;
use tokio::io::AsyncWriteExt as _;

use crate::front::{Front, linger};
use crate::log::Entry;
use crate::tunnel::{self, Asked};
use crate::wire::{Reader, Writer};

pub(crate) use belljar_egress::socks5::VERSION;

/// For the whole of what comes before a tunnel.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why there is no tunnel.
enum Failed {
    /// The client is gone, or has been told.
    Gone,
    Refused(Refused),
}

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Serves a client that speaks SOCKS.
pub(crate) async fn serve(mut front: Front) {
    let asked = tokio::time::timeout(PATIENCE, ask(&mut front)).await;
    match asked.unwrap_or(Err(Failed::Gone)) {
        Ok(to) => tunnel::open(front, to, Asked::Socks).await,
        Err(Failed::Gone) => {}
        Err(Failed::Refused(refused)) => {
            let mut entry = Entry::begin(&front.connection, Kind::Connection).await;
            entry.decide(Decision::Denied, Reason::Malformed);
            drop(entry);
            let _ = front.writer.write_all(&Answer::from(refused).bytes()).await;
            linger(Some(front.reader), front.writer).await;
        }
    }
}

async fn ask(front: &mut Front) -> Result<Destination, Failed> {
    let Front { reader, writer, .. } = front;
    let method = message(reader, socks5::greeting).await?;
    writer.write_all(&method.answer()).await?;
    match method {
        Method::None => {}
        Method::Password => {
            message(reader, |bytes| Ok(socks5::login(bytes)?.map(|length| ((), length)))).await?;
            writer.write_all(&LOGGED).await?;
        }
        Method::Unacceptable => return Err(Failed::Gone),
    }
    message(reader, socks5::request).await
}

/// Reads one message, and nothing of what follows it.
async fn message<T>(
    reader: &mut Reader,
    parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, Refused>,
) -> Result<T, Failed> {
    loop {
        if let Some((message, length)) = parse(&reader.buffer).map_err(Failed::Refused)? {
            reader.buffer.advance(length);
            return Ok(message);
        }
        if reader.fill().await? == 0 {
            return Err(Failed::Gone);
        }
    }
}

pub(crate) async fn accept(writer: &mut Writer) -> io::Result<()> {
    writer.write_all(&Answer::Connected.bytes()).await
}

pub(crate) async fn refuse(writer: &mut Writer, reason: Reason) {
    let answer = match reason {
        Reason::Unresolved | Reason::Unreachable => Answer::HostUnreachable,
        Reason::Upstream => Answer::ConnectionRefused,
        _ => Answer::NotAllowed,
    };
    let _ = writer.write_all(&answer.bytes()).await;
}

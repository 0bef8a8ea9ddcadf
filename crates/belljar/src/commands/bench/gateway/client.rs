//! One client: a connection that asks the same question again and again.
//!
//! Written by hand, so that it costs little of the cores that are measured.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Nothing takes this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where to ask, and what exactly.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) request: Vec<u8>,
}

impl Target {
    /// `token` is shown as a client of the dialect shows its key.
    pub(super) fn new(address: SocketAddr, token: &str, body: &[u8]) -> Self {
        let mut request = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n\
             accept: application/json\r\nuser-agent: bench\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        Self { address, request }
    }
}

#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// When an answer began and when it was whole, both since it was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) first: Duration,
    pub(super) whole: Duration,
}

impl Client {
    pub(super) fn connect(target: &Target) -> io::Result<Self> {
        let stream = TcpStream::connect(target.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, buffer: vec![0; 64 << 10] })
    }

    /// Asks once and takes the whole answer. `since` is when it should have been
    /// asked, which is what times are counted from.
    pub(super) fn ask(&mut self, target: &Target, since: Instant) -> io::Result<Times> {
        self.stream.write_all(&target.request)?;
        let mut filled = 0;
        let mut first = None;
        loop {
            if filled == self.buffer.len() {
                return Err(wrong("the response is too long", &self.buffer));
            }
            let count = self.stream.read(&mut self.buffer[filled..])?;
            if count == 0 {
                return Err(wrong("the response ended early", &self.buffer[..filled]));
            }
            filled += count;
            let first = *first.get_or_insert_with(|| since.elapsed());
            let answer = &self.buffer[..filled];
            if answer.ends_with(b"\r\n0\r\n\r\n") {
                if !answer.starts_with(b"HTTP/1.1 200 ") || !is_last_event_in(answer) {
                    return Err(wrong("the response differs", answer));
                }
                return Ok(Times { first, whole: since.elapsed() });
            }
            // An answer that is no stream is none that we asked for.
            if !answer.starts_with(b"HTTP/1.1 200 ") && filled > 12 {
                return Err(wrong("the response is a refusal", answer));
            }
        }
    }

    /// The text of the events of an answer, without what frames them.
    pub(super) fn events(&mut self, target: &Target) -> io::Result<Vec<u8>> {
        self.buffer.fill(0);
        self.ask(target, Instant::now())?;
        let after = |bytes: &[u8], what: &[u8]| {
            bytes.windows(what.len()).position(|window| window == what).map(|at| at + what.len())
        };
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        let mut at = after(&self.buffer, b"\r\n\r\n").ok_or_else(malformed)?;
        let mut events = Vec::new();
        loop {
            let end = at + after(&self.buffer[at..], b"\r\n").ok_or_else(malformed)?;
            let size = std::str::from_utf8(&self.buffer[at..end - 2]).map_err(|_| malformed())?;
            let size = usize::from_str_radix(size, 16).map_err(|_| malformed())?;
            if size == 0 {
                return Ok(events);
            }
            events.extend_from_slice(self.buffer.get(end..end + size).ok_or_else(malformed)?);
            at = end + size + 2;
        }
    }
}

fn is_last_event_in(answer: &[u8]) -> bool {
    const LAST: &[u8] = b"{\"type\":\"message_stop\"}\n\n";
    let tail = &answer[answer.len().saturating_sub(64)..];
    tail.windows(LAST.len()).any(|window| window == LAST)
}

fn wrong(what: &str, answer: &[u8]) -> io::Error {
    let begin = String::from_utf8_lossy(&answer[..answer.len().min(400)]);
    io::Error::other(format!("{what}: {begin}"))
}

//! The upstream that all contestants ask: it reads a request and says the same
//! prepared answer each time, event by event.
//!
//! It is this executable in a process of its own, so that its time on the CPU is
//! told apart. A thread serves a connection: nothing about it is clever, and it
//! is the same for everybody.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use anyhow::Context as _;

use super::exchange;
use crate::output::Printer;

/// One that was started; it ends with this.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    pub(super) pid: u32,
    child: Child,
    /// Its end tells the process to end.
    stdin: Option<ChildStdin>,
}

impl Upstream {
    pub(super) fn start(events: u32) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "gateway", "--as-upstream", "--events", &events.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the upstream")?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("the upstream has no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse().context("the upstream did not print its address")?;
        Ok(Self { address, pid: child.id(), child, stdin })
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Is the upstream, until its standard input ends.
pub(super) fn serve(events: u32, printer: &Printer) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    printer.data(listener.local_addr()?)?;
    let answer = Arc::new(Answer::new(events));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            // Whoever leaves in the middle is nobody's loss.
            std::thread::spawn(move || drop(converse(stream, &answer)));
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

/// What is written, call by call: the head with the first event, then each event,
/// the last one with the end.
struct Answer(Vec<Vec<u8>>);

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    request-id: req_bench\r\ntransfer-encoding: chunked\r\n\r\n";

impl Answer {
    fn new(events: u32) -> Self {
        let mut writes: Vec<Vec<u8>> = Vec::new();
        for event in exchange::events(events) {
            let mut chunk = format!("{:x}\r\n", event.len()).into_bytes();
            chunk.extend_from_slice(&event);
            chunk.extend_from_slice(b"\r\n");
            writes.push(chunk);
        }
        if let Some(first) = writes.first_mut() {
            first.splice(0..0, HEAD.iter().copied());
        }
        if let Some(last) = writes.last_mut() {
            last.extend_from_slice(b"0\r\n\r\n");
        }
        Self(writes)
    }
}

fn converse(mut stream: TcpStream, answer: &Answer) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 128 << 10];
    let mut filled = 0;
    loop {
        let length = loop {
            if let Some(length) = request_length(&buffer[..filled])? {
                break length;
            }
            match stream.read(&mut buffer[filled..])? {
                0 => return Ok(()),
                count => filled += count,
            }
        };
        if length > buffer.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        while filled < length {
            match stream.read(&mut buffer[filled..])? {
                0 => return Ok(()),
                count => filled += count,
            }
        }
        buffer.copy_within(length..filled, 0);
        filled -= length;
        for write in &answer.0 {
            stream.write_all(write)?;
        }
    }
}

/// How long the request is with its body, once its head is there.
fn request_length(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| io::ErrorKind::InvalidData)?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let length: usize = length.ok_or(io::ErrorKind::InvalidData)?;
    Ok(Some(end + 4 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_body() {
        let request = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(request_length(request).unwrap(), Some(request.len()));
        assert_eq!(request_length(b"POST / HTTP/1.1\r\nCont").unwrap(), None);
        assert!(request_length(b"POST / HTTP/1.1\r\nhost: a\r\n\r\n").is_err());
    }
}

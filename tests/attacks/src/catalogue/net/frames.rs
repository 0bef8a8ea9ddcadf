//! Floods of HTTP/2 frames against a server's own listener.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::ingress::Front;
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::host;
use crate::harness::stage::Stage;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The memory that all floods may cost a server at first, which its allocator keeps, and
/// what the same floods may cost it again.
const MOST_AT_FIRST: u64 = 256 << 20;
const MOST_AGAIN: u64 = 24 << 20;
/// How long a flood goes on at most.
const LONGEST: Duration = Duration::from_secs(10);

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `GET /health` of localhost, in HPACK.
fn get() -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x04, 7];
    block.extend(b"/health");
    block.extend([0x01, 9]);
    block.extend(b"localhost");
    block
}

/// What became of a flood.
#[derive(Debug, Default)]
struct Flooded {
    sent: usize,
    /// The server ended the connection, or said that it will.
    ended: bool,
    /// Streams that were answered or refused.
    answers: usize,
    resets: usize,
}

/// Sends a preface, then frames until all are sent or the server ends it.
async fn flood(
    front: &Front,
    settings: &[u8],
    frames: impl Iterator<Item = Vec<u8>>,
    reads: bool,
) -> anyhow::Result<Flooded> {
    let stream = TcpStream::connect(front.address).await?;
    let (mut read, mut write) = stream.into_split();
    let reading = tokio::spawn(async move {
        let (mut seen, mut buffer) = (Flooded::default(), Vec::new());
        if !reads {
            tokio::time::sleep(LONGEST / 3).await;
        }
        let mut chunk = vec![0; 64 << 10];
        loop {
            match tokio::time::timeout(Duration::from_secs(2), read.read(&mut chunk)).await {
                Ok(Ok(0) | Err(_)) => {
                    seen.ended = true;
                    return seen;
                }
                Ok(Ok(count)) => buffer.extend_from_slice(&chunk[..count]),
                Err(_) => return seen,
            }
            while let Some(head) = buffer.get(..9) {
                let length =
                    usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
                let kind = head[3];
                if buffer.len() < 9 + length {
                    break;
                }
                seen.ended |= kind == GOAWAY;
                seen.answers += usize::from(kind == HEADERS);
                seen.resets += usize::from(kind == RST_STREAM);
                buffer.drain(..9 + length);
            }
        }
    });
    let sending = async {
        write.write_all(PREFACE).await?;
        write.write_all(&frame(SETTINGS, 0, 0, settings)).await?;
        let mut sent = 0;
        for frame in frames {
            write.write_all(&frame).await?;
            sent += 1;
        }
        std::io::Result::Ok(sent)
    };
    let sent = tokio::time::timeout(LONGEST, sending).await;
    let mut seen = reading.await.context("the reader panicked")?;
    match sent {
        Ok(Ok(sent)) => seen.sent = sent,
        Ok(Err(_)) => seen.ended = true,
        // It took no more: that is a bound as well.
        Err(_) => {}
    }
    Ok(seen)
}

fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| number * 2 + 1)
}

/// Resets, header blocks without end, streams without end, answers that nobody takes.
pub(super) async fn floods(_: Stage, control: bool) -> anyhow::Result<Seen> {
    let front = Front::start(&[], &json!({})).await?;
    let all = END_HEADERS | END_STREAM;
    let seen = if control {
        // The same frames in moderation are served.
        let some = streams(50).map(|id| frame(HEADERS, all, id, &get()));
        let seen = flood(&front, &[], some, true).await?;
        match seen.answers {
            50 => Seen::Breach("fifty requests on one connection are answered".to_owned()),
            count => Seen::Held(format!("{count} of 50 were answered: {seen:?}")),
        }
    } else {
        each(&front, all).await?
    };
    front.stop().await?;
    Ok(seen)
}

async fn each(front: &Front, all: u8) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for most in [MOST_AT_FIRST, MOST_AGAIN] {
        let before = host::own_resident();
        every_kind(front, all, &mut findings).await?;
        let grown = host::own_resident().saturating_sub(before);
        findings.expect(grown < most, "the server stays small", format!("{grown} bytes more"));
    }
    let health = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = front.send(health).await?;
    ensure!(answer.starts_with("HTTP/1.1 "), "it does not answer afterwards: {answer}");
    findings.held("and answers others");
    Ok(findings.seen())
}

async fn every_kind(front: &Front, all: u8, findings: &mut Findings) -> anyhow::Result<()> {
    let reset = [0, 0, 0, 8];
    let rapid = streams(50_000)
        .map(|id| [frame(HEADERS, all, id, &get()), frame(RST_STREAM, 0, id, &reset)].concat());
    let seen = flood(front, &[], rapid, true).await?;
    findings.expect(seen.ended, "rapid resets end the connection", format!("{seen:?}"));
    // Fields that are new each time, in a block that never ends.
    let field = [&[0x00, 8][..], b"x-filler", &[100], &[b'a'; 100]].concat().repeat(100);
    let begin = std::iter::once(frame(HEADERS, END_STREAM, 1, &get()));
    let endless = begin.chain((0..20_000).map(|_| frame(CONTINUATION, 0, 1, &field)));
    let seen = flood(front, &[], endless, true).await?;
    findings.expect(seen.ended, "a header block without end does, too", format!("{seen:?}"));
    let many = streams(10_000).map(|id| frame(HEADERS, END_HEADERS, id, &get()));
    let seen = flood(front, &[], many, true).await?;
    let bounded = seen.ended || seen.resets + seen.answers > 8000;
    findings.expect(bounded, "streams beyond the bound are refused", format!("{seen:?}"));
    // A window of nothing: answers have to wait, and may not pile up.
    let window = [0, 4, 0, 0, 0, 0];
    let held = streams(10_000).map(|id| frame(HEADERS, all, id, &get()));
    flood(front, &window, held, false).await?;
    let pings = (0..200_000).map(|_| frame(PING, 0, 0, &[7; 8]));
    flood(front, &[], pings, false).await?;
    let settings = (0..200_000).map(|_| frame(SETTINGS, 0, 0, &[]));
    flood(front, &[], settings, false).await?;
    let empty = std::iter::once(frame(HEADERS, END_HEADERS, 1, &get()));
    let empty = empty.chain((0..200_000).map(|_| frame(DATA, 0, 1, &[])));
    flood(front, &[], empty, false).await?;
    Ok(())
}

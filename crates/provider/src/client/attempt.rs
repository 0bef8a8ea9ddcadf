//! One request and its answer, within limits.

use belljar_llm::json::Reader;
use belljar_llm::sse::{Event, Splitter};
use belljar_llm::{Form as Comes, Usage};
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Request, Response};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout};

use super::{Client, Limits};
use crate::answer::Answer;
use crate::clock::Clock;
use crate::failure::{Failure, shortened, words};
use crate::provider::OnDelta;
use crate::retry::retry_after;
use crate::transport::{Transport, TransportError};
use crate::wire::{self, Assemble};

/// More is not read of an error.
const LARGEST_ERROR: usize = 64 << 10;

/// What a frame counts at least, so that nobody can send them for ever.
const SMALLEST_FRAME: usize = 16;

/// An attempt that failed, and what it had used by then.
pub(super) struct Tried {
    pub(super) failure: Failure,
    pub(super) usage: Option<Usage>,
}

impl<T: Transport, C: Clock> Client<T, C> {
    pub(super) async fn attempt(
        &self,
        request: Request<Bytes>,
        on_delta: &mut OnDelta<'_>,
    ) -> Result<Answer, Tried> {
        let mut assembly = wire::assemble(self.upstream.dialect);
        let whole = self.limits.whole;
        match timeout(whole, self.exchange(request, &mut *assembly, on_delta)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(failure)) => Err(Tried { failure, usage: assembly.usage() }),
            Err(_) => Err(Tried { failure: Failure::Slow(whole), usage: assembly.usage() }),
        }
    }

    async fn exchange(
        &self,
        request: Request<Bytes>,
        assembly: &mut dyn Assemble,
        on_delta: &mut OnDelta<'_>,
    ) -> Result<Answer, Failure> {
        let sent = timeout(self.limits.head, self.transport.send(request)).await;
        let response = sent.map_err(|_| Failure::Stalled(self.limits.head))?;
        let (head, body) = response.map_err(Failure::Unreachable)?.into_parts();
        let mut pieces = Pieces::new(body, &self.limits);
        if !head.status.is_success() {
            let response = Response::from_parts(head, ());
            return Err(self.refusal(&response, pieces).await);
        }
        if header(&head.headers, CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return Err(Failure::Compressed);
        }
        match Comes::of(header(&head.headers, CONTENT_TYPE)) {
            Comes::Stream => stream(&mut pieces, assembly, on_delta).await?,
            Comes::Whole => {
                let body = pieces.all().await?;
                assembly.whole(Reader::new().read(&body).map_err(Failure::Json)?)?;
            }
        }
        let mut answer = assembly.finish()?;
        answer.applied = answer.applied.with_headers(&head.headers);
        Ok(answer)
    }

    /// What an error says. Whatever it is, the status counts.
    async fn refusal<B>(&self, response: &Response<()>, mut body: Pieces<B>) -> Failure
    where
        B: Body<Data = Bytes, Error: Into<TransportError>> + Unpin,
    {
        body.bytes = LARGEST_ERROR;
        let text = body.all().await.unwrap_or_default();
        let mut reader = Reader::new();
        let error = reader.read(&text).ok();
        let (kind, message) = match error.and_then(|answer| answer.get("error")) {
            Some(error) => words(error),
            None => (String::new(), shortened(&String::from_utf8_lossy(&text), 200)),
        };
        let headers = response.headers();
        Failure::Status {
            status: response.status().as_u16(),
            kind,
            message,
            retry_after: retry_after(headers, self.clock.now()),
            should_retry: match headers.get("x-should-retry").map(|value| value.as_bytes()) {
                Some(b"true") => Some(true),
                Some(b"false") => Some(false),
                _ => None,
            },
        }
    }
}

fn header(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Reads events until the answer is over, whatever follows.
async fn stream<B>(
    pieces: &mut Pieces<B>,
    assembly: &mut dyn Assemble,
    on_delta: &mut OnDelta<'_>,
) -> Result<(), Failure>
where
    B: Body<Data = Bytes, Error: Into<TransportError>> + Unpin,
{
    let mut splitter = Splitter::default();
    let mut reader = Reader::new();
    while !assembly.is_over() {
        let piece = match pieces.next().await {
            Ok(Some(piece)) => piece,
            Ok(None) => {
                // A last event without the line that should end it, if it is whole.
                let _ = block(splitter.rest(), &mut reader, assembly, on_delta);
                return Ok(());
            }
            // With everything said, it does not matter how the connection ends.
            Err(failure) => return if assembly.is_complete() { Ok(()) } else { Err(failure) },
        };
        let mut result = Ok(());
        splitter.push(&piece, |event| {
            if result.is_ok() && !assembly.is_over() {
                result = block(event, &mut reader, assembly, on_delta);
            }
        });
        result?;
        if splitter.is_blind() {
            return Err(Failure::Large(pieces.bytes));
        }
    }
    Ok(())
}

fn block(
    block: &[u8],
    reader: &mut Reader,
    assembly: &mut dyn Assemble,
    on_delta: &mut OnDelta<'_>,
) -> Result<(), Failure> {
    let event = Event::read(block);
    match &*event.data {
        b"" => Ok(()),
        b"[DONE]" => {
            assembly.mark();
            Ok(())
        }
        data => assembly.event(reader.read(data).map_err(Failure::Json)?, on_delta),
    }
}

/// A body, piece by piece, that neither stalls nor goes on for ever.
struct Pieces<B> {
    body: B,
    came: usize,
    bytes: usize,
    idle: std::time::Duration,
}

impl<B> Pieces<B>
where
    B: Body<Data = Bytes, Error: Into<TransportError>> + Unpin,
{
    fn new(body: B, limits: &Limits) -> Self {
        Self { body, came: 0, bytes: limits.bytes, idle: limits.idle }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        // Empty frames and trailers are no sign of life, and not free either.
        let until = Instant::now() + self.idle;
        loop {
            let frame = tokio::time::timeout_at(until, self.body.frame()).await;
            let frame = match frame.map_err(|_| Failure::Stalled(self.idle))? {
                None => return Ok(None),
                Some(frame) => frame.map_err(|error| Failure::Broken(error.into()))?,
            };
            let data = frame.into_data().unwrap_or_default();
            self.came = self.came.saturating_add(data.len().max(SMALLEST_FRAME));
            if self.came > self.bytes {
                return Err(Failure::Large(self.bytes));
            }
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
    }

    async fn all(&mut self) -> Result<Vec<u8>, Failure> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }
}

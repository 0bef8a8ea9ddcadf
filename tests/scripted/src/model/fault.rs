//! Answers, and what goes wrong with them.

use std::io::{self, Write as _};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::answer::json_answer;
use super::ask::Ask;
use super::dialect::Dialect;
use super::reply::Reply;
use super::sse::halves;
use crate::body::{Step, Steps};
use crate::io::Slip;
use crate::script::{Endless, Fault, Place, Turn};

/// Time for what was sent to leave before the connection is cut.
const BEFORE_CUT: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) ask: &'a Ask,
    pub(crate) turn: &'a Turn,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) slip: &'a Slip,
}

pub(crate) fn answer(context: &Context<'_>, mut reply: Reply) -> Response<Steps> {
    let Some(fault) = context.turn.strike() else {
        return context.respond(context.parts(&reply), None);
    };
    match fault {
        Fault::Status { status, code, retry_after, should_retry } => {
            let message = "The script says that this fails.";
            let body = context.dialect.error(*status, code.as_deref(), message);
            let mut response = json_answer(*status, &body);
            if let Some(seconds) = retry_after {
                response.headers_mut().insert("retry-after", HeaderValue::from(*seconds));
            }
            if let Some(should) = should_retry {
                let value = HeaderValue::from_static(if *should { "true" } else { "false" });
                response.headers_mut().insert("x-should-retry", value);
            }
            response
        }
        Fault::Cut { after } => {
            let end = [Step::Wait(BEFORE_CUT), Step::Cut];
            context.respond(context.parts(&reply), Some((*after, end.into())))
        }
        Fault::End { after } => context.respond(context.parts(&reply), Some((*after, Vec::new()))),
        Fault::Stall { after } => {
            context.respond(context.parts(&reply), Some((*after, vec![Step::Stall])))
        }
        Fault::ErrorEvent { after, code } if context.ask.stream => {
            let end = Step::Send(context.dialect.error_event(code.as_deref()));
            context.respond(context.parts(&reply), Some((*after, vec![end])))
        }
        Fault::ErrorEvent { code, .. } => {
            let message = "The script says that this fails.";
            json_answer(500, &context.dialect.error(500, code.as_deref(), message))
        }
        Fault::Echo { place } => context.echo(*place, reply),
        Fault::Redirect { status, to } => {
            let mut response = Response::new(Steps::empty());
            *response.status_mut() = StatusCode::from_u16(*status).unwrap_or(StatusCode::FOUND);
            if let Ok(to) = HeaderValue::from_str(to) {
                response.headers_mut().insert(LOCATION, to);
            }
            response
        }
        Fault::Endless { what: Endless::Line } => {
            let line = Step::Forever(Bytes::from_static(&[b'a'; 8192]));
            context.respond(vec![Bytes::from_static(b"data: \"")], Some((1, vec![line])))
        }
        Fault::Endless { what: Endless::Events } => {
            let parts = context.parts(&reply);
            // The last but two is a delta or its end, in every dialect.
            let again = parts.get(parts.len().saturating_sub(4)).cloned().unwrap_or_default();
            context.respond(parts, Some((4, vec![Step::Forever(again)])))
        }
        Fault::Gzip => {
            let plain = context.parts(&reply).concat();
            context.compressed(gzip(|encoder| encoder.write_all(&plain)))
        }
        Fault::GzipBomb { megabytes } => {
            let zeros = vec![0; 1 << 20];
            context.compressed(gzip(|encoder| {
                (0..*megabytes).try_for_each(|_| encoder.write_all(&zeros))
            }))
        }
        Fault::Informational { count } => {
            let hint = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n";
            context.slip.flood(Bytes::from_static(hint), *count);
            context.respond(context.parts(&reply), None)
        }
        Fault::NoUsage => {
            reply.usage = None;
            context.respond(context.parts(&reply), None)
        }
        Fault::Garbage => {
            let garbage = Bytes::from_static(b"\x00\xff{{{ data: not of this dialect \r\n\r\n");
            context.respond(vec![garbage], None)
        }
    }
}

impl Context<'_> {
    /// The answer in the pieces in which it is sent.
    fn parts(&self, reply: &Reply) -> Vec<Bytes> {
        if self.ask.stream {
            return self.dialect.events(self.ask, reply);
        }
        vec![self.dialect.unary(self.ask, reply).to_string().into()]
    }

    /// Sends `parts`, or so many of them and then something else.
    fn respond(&self, parts: Vec<Bytes>, end: Option<(usize, Vec<Step>)>) -> Response<Steps> {
        let gap = Duration::from_millis(self.turn.gap_ms);
        let mut steps = Vec::with_capacity(parts.len());
        let is_whole = end.is_none();
        let (count, end) = end.unwrap_or((usize::MAX, Vec::new()));
        if !self.ask.stream && !is_whole && count > 0 {
            // An answer in one piece breaks in its middle.
            let whole = parts.concat();
            steps.push(Step::Send(Bytes::copy_from_slice(&whole[..whole.len() / 2])));
        } else {
            for (index, part) in parts.into_iter().take(count).enumerate() {
                if index > 0 && !gap.is_zero() {
                    steps.push(Step::Wait(gap));
                }
                steps.push(Step::Send(part));
            }
        }
        steps.extend(end);
        let mut response = Response::new(Steps::new(steps.into()));
        let stream = self.ask.stream;
        let kind = if stream { "text/event-stream" } else { "application/json" };
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let request = if self.dialect == Dialect::Messages { "request-id" } else { "x-request-id" };
        if let Ok(id) = HeaderValue::from_str(&format!("req_{}", self.ask.id)) {
            response.headers_mut().insert(request, id);
        }
        response
    }

    fn compressed(&self, bytes: io::Result<Vec<u8>>) -> Response<Steps> {
        let mut response = self.respond(vec![bytes.unwrap_or_default().into()], None);
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    }

    fn echo(&self, place: Place, mut reply: Reply) -> Response<Steps> {
        let pairs = || self.headers.iter().map(|(name, value)| (name, value.as_bytes()));
        let line = |(name, value): (&HeaderName, &[u8])| {
            format!("{name}: {}", String::from_utf8_lossy(value))
        };
        match place {
            Place::Body => {
                let message = pairs().map(line).collect::<Vec<_>>().join("\n");
                json_answer(500, &self.dialect.error(500, None, &message))
            }
            Place::Headers => {
                let mut response = self.respond(self.parts(&reply), None);
                for (name, value) in self.headers {
                    if let Ok(name) = HeaderName::try_from(format!("x-echo-{name}")) {
                        response.headers_mut().insert(name, value.clone());
                    }
                }
                response
            }
            Place::Text => {
                reply.pieces = pairs().map(line).collect();
                self.respond(self.parts(&reply), None)
            }
            Place::Split => {
                reply.pieces.clear();
                for (_, value) in pairs() {
                    let text = String::from_utf8_lossy(value);
                    let (first, second) = halves(&text);
                    reply.pieces.extend([first.to_owned(), format!("{second}\n")]);
                }
                self.respond(self.parts(&reply), None)
            }
        }
    }
}

fn gzip(fill: impl FnOnce(&mut GzEncoder<Vec<u8>>) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    fill(&mut encoder)?;
    encoder.finish()
}

//! Records exchanges.
//!
//! ```text
//!   Recorder ──begin──► Begun ──answer──► Exchange ──push*──┬─finish─► whole
//!                         │                  │              └─abort──► broken
//!                       dropped            dropped: nothing is kept
//! ```
//!
//! One recorder at a time holds a cassette; its exchanges may overlap. They are
//! in the order of their ends. An answer that breaks off is kept with
//! [`Exchange::abort`] and breaks off at the same byte when it is played: a
//! client's retry is part of what happened. Where there was no answer at all,
//! there is nothing to keep.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::network::CassetteId;

use crate::blob::{BlobError, Blobs, Writer};
use crate::index::{Answered, End, Entry, Index, header};
use crate::limits::INDEX_BYTES;
use crate::pieces::Timing;
use crate::redact::{Form, Stream};
use crate::request::{DecodeEnd, Question, decode, encoding, kept_headers};
use crate::store::{Tenant, at};
use crate::{IndexError, Limits, Redactor, Request, RequestError, StoreError};

/// Cheap to clone; the cassette is free when the last clone and exchange is gone.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    blobs: Blobs,
    redactor: Mutex<Redactor>,
    limits: Limits,
    tail: Mutex<Tail>,
    /// Plain bytes, those on their way included.
    bytes: AtomicU64,
    /// Those that are in memory.
    held: AtomicU64,
    _cassette: File,
    _tenant: File,
}

/// The end of the index.
#[derive(Debug)]
struct Tail {
    file: File,
    length: u64,
    exchanges: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("cannot store a body")]
    Blob(#[from] BlobError),
    #[error("the exchange is larger than is recorded")]
    ExchangeTooLarge,
    #[error("too much is being recorded at the same time")]
    Memory,
    #[error("the cassette is full")]
    CassetteFull,
    #[error("an answer encoded as `{0}` cannot be looked into; ask for `identity`")]
    Encoding(String),
    #[error("the exchange does not fit a line of the index")]
    Unfit,
    #[error("cannot write to the index")]
    Index(#[source] io::Error),
}

impl Tenant {
    /// Begins or goes on with a cassette.
    pub fn record(&self, name: &CassetteId, redactor: Redactor) -> Result<Recorder, StoreError> {
        let tenant = self.hold()?;
        let cassette = self.lock(name)?;
        let index = match self.read(name) {
            Err(StoreError::Index { source: IndexError::Absent, .. }) => Index::default(),
            index => index?,
        };
        let path = self.index(name);
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        let file = options.open(&path).map_err(at("open", &path))?;
        // Cuts off a line that was never finished.
        file.set_len(index.length).map_err(at("cut", &path))?;
        let exchanges = index.entries.len() as u64;
        Ok(Recorder(Arc::new(Shared {
            blobs: self.blobs.clone(),
            redactor: Mutex::new(redactor),
            limits: self.limits,
            tail: Mutex::new(Tail { file, length: index.length, exchanges }),
            bytes: AtomicU64::new(index.entries.iter().map(Entry::bytes).sum()),
            held: AtomicU64::new(0),
            _cassette: cassette,
            _tenant: tenant,
        })))
    }
}

impl Recorder {
    pub fn begin(&self, request: &Request<'_>) -> Result<Begun, RecordError> {
        let began = Instant::now();
        let shared = self.0.clone();
        let redactor = shared.redactor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let question = Question::new(request, &redactor, shared.limits.held_bytes)?;
        let mut share = Share { shared, bytes: 0, held: 0 };
        share.grow(question.body.len())?;
        share.hold(question.body.len())?;
        let redactor = redactor.and_shown(request.headers);
        Ok(Begun { share, redactor, question, began })
    }

    /// Redacts otherwise from now on: secrets come and go while a cassette is
    /// recorded. Exchanges that have begun keep what they began with.
    pub fn redact_with(&self, redactor: Redactor) {
        *self.0.redactor.lock().unwrap_or_else(PoisonError::into_inner) = redactor;
    }
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Begun {
    share: Share,
    redactor: Redactor,
    question: Question,
    began: Instant,
}

/// What one exchange takes of its cassette; given back unless it is kept.
#[derive(Debug)]
struct Share {
    shared: Arc<Shared>,
    bytes: u64,
    held: u64,
}

impl Share {
    fn grow(&mut self, more: usize) -> Result<(), RecordError> {
        let limits = &self.shared.limits;
        let more = more as u64;
        if self.bytes + more > limits.exchange_bytes {
            return Err(RecordError::ExchangeTooLarge);
        }
        self.bytes += more;
        let before = self.shared.bytes.fetch_add(more, Ordering::Relaxed);
        if before + more > limits.cassette_bytes {
            return Err(RecordError::CassetteFull);
        }
        Ok(())
    }

    fn hold(&mut self, more: usize) -> Result<(), RecordError> {
        let more = more as u64;
        self.held += more;
        let before = self.shared.held.fetch_add(more, Ordering::Relaxed);
        if before + more > self.shared.limits.memory_bytes {
            return Err(RecordError::Memory);
        }
        Ok(())
    }

    fn keep(mut self, entry: &Entry) -> Result<(), RecordError> {
        self.shared.append(entry)?;
        self.bytes = 0;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shared.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.shared.held.fetch_sub(self.held, Ordering::Relaxed);
    }
}

impl Begun {
    /// The head of the answer has come: the final one, not a 1xx.
    pub fn answer(self, status: u16, headers: &[(&str, &[u8])]) -> Result<Exchange, RecordError> {
        let shared = &self.share.shared;
        let headers = kept_headers(headers, &self.redactor);
        let form = Form::of(header(&headers, "content-type"));
        // Names are looked for in the whole of a text, known secrets in a stream.
        let sink = if form == Form::Opaque && encoding(&headers).is_none() {
            let writer = Box::new(shared.blobs.writer()?);
            Sink::Through { writer, stream: self.redactor.stream() }
        } else {
            Sink::Held(Vec::new())
        };
        let timing = Timing::new(form);
        let answer = Answered { status, headers, body: None, pieces: None, end: End::Broken };
        Ok(Exchange {
            share: self.share,
            redactor: self.redactor,
            question: self.question,
            began: self.began,
            form,
            answer,
            sink,
            timing,
        })
    }
}

/// An exchange whose answer is coming in.
pub struct Exchange {
    share: Share,
    redactor: Redactor,
    question: Question,
    began: Instant,
    form: Form,
    answer: Answered,
    sink: Sink,
    timing: Timing,
}

enum Sink {
    Held(Vec<u8>),
    Through { writer: Box<Writer>, stream: Stream },
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("url", &self.question.asked.url).finish_non_exhaustive()
    }
}

impl Exchange {
    /// A piece of the body, as it came. After an error the exchange cannot be
    /// kept; drop it.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), RecordError> {
        self.push_at(self.began.elapsed(), piece)
    }

    /// A piece that came this long after the request.
    pub fn push_at(&mut self, when: Duration, piece: &[u8]) -> Result<(), RecordError> {
        self.share.grow(piece.len())?;
        match &mut self.sink {
            Sink::Held(content) => {
                if content.len() + piece.len() > self.share.shared.limits.held_bytes {
                    return Err(RecordError::ExchangeTooLarge);
                }
                self.share.hold(piece.len())?;
                content.extend_from_slice(piece);
                self.timing.push(when, piece.len());
            }
            Sink::Through { writer, stream } => {
                let passed = stream.push(piece);
                writer.write(&passed)?;
                self.timing.push(when, passed.len());
            }
        }
        Ok(())
    }

    /// The answer is whole.
    pub fn finish(self) -> Result<Entry, RecordError> {
        self.end(End::Whole)
    }

    /// The answer broke off here.
    pub fn abort(self) -> Result<Entry, RecordError> {
        self.end(End::Broken)
    }

    fn end(mut self, end: End) -> Result<Entry, RecordError> {
        let shared = self.share.shared.clone();
        let blob = match self.sink {
            Sink::Through { mut writer, mut stream } => {
                let rest = stream.finish();
                writer.write(&rest)?;
                self.timing.extend(rest.len());
                (writer.bytes() > 0).then(|| writer.finish()).transpose()?
            }
            Sink::Held(content) => {
                let content = match encoding(&self.answer.headers).filter(|_| !content.is_empty()) {
                    Some(encoding) => {
                        let plain = plain(encoding, &content, end, &shared.limits)?;
                        self.answer.headers.retain(|(name, _)| name != "content-encoding");
                        self.timing.become_one(plain.len());
                        plain
                    }
                    None => content,
                };
                let mut ends = self.timing.ends();
                let content = self.redactor.body(self.form, content, &mut ends);
                self.timing.set_ends(&ends);
                (!content.is_empty()).then(|| shared.blobs.put(&content)).transpose()?
            }
        };
        if let (Some(blob), End::Whole) = (blob, end) {
            // Redacted and decoded content has another length. Where the body
            // broke off, the length that was promised is what shows it.
            let lengths =
                self.answer.headers.iter_mut().filter(|(name, _)| name == "content-length");
            lengths.for_each(|(_, value)| *value = blob.bytes.to_string());
        }
        self.answer.body = blob;
        self.answer.pieces =
            self.timing.encode().map(|list| shared.blobs.put(&list)).transpose()?;
        self.answer.end = end;
        if !self.question.body.is_empty() {
            shared.blobs.put(&self.question.body)?;
        }
        let entry = Entry { request: self.question.asked, answer: self.answer };
        self.share.keep(&entry)?;
        Ok(entry)
    }
}

fn plain(
    encoding: &str,
    content: &[u8],
    end: End,
    limits: &Limits,
) -> Result<Vec<u8>, RecordError> {
    match (decode(encoding, content, limits.held_bytes), end) {
        (Some((plain, DecodeEnd::Whole)), _) | (Some((plain, DecodeEnd::Broken)), End::Broken) => {
            Ok(plain)
        }
        (Some((_, DecodeEnd::TooLarge)), _) => Err(RecordError::ExchangeTooLarge),
        (Some((_, DecodeEnd::Broken)), End::Whole) | (None, _) => {
            Err(RecordError::Encoding(encoding.to_owned()))
        }
    }
}

impl Shared {
    fn append(&self, entry: &Entry) -> Result<(), RecordError> {
        let line = entry.to_line().ok_or(RecordError::Unfit)?;
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let length = tail.length + line.len() as u64;
        if tail.exchanges >= self.limits.exchanges || length > INDEX_BYTES {
            return Err(RecordError::CassetteFull);
        }
        // Half a line, on a full disk, must not become part of the next one. It
        // is cut before each line, so that a failed cut is tried again.
        let before = tail.length;
        tail.file.set_len(before).map_err(RecordError::Index)?;
        tail.file.write_all(&line).map_err(RecordError::Index)?;
        tail.length = length;
        tail.exchanges += 1;
        Ok(())
    }
}

//! The cassette of a session, opened when it is first needed.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use belljar_cassette::{
    End, Miss, NotPlayed, PlayError, Playback, Played, Player, RecordError, Recorder, Redactor,
    StoreError, Tenant,
};
use belljar_domain::network::{CassetteId, Tape};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;

use super::asked::Asked;
use super::recording::Begun;
use crate::body::Answer;

/// A cassette in use.
#[derive(Debug)]
pub(crate) struct Deck {
    tape: Tape,
    name: CassetteId,
    tenant: Tenant,
    player: Option<Player>,
    recorder: Mutex<Option<Recorder>>,
}

/// Why a tape cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeckError {
    #[error("no cassette is in use")]
    Off,
    #[error("the gateway has no directory for cassettes")]
    NoPlace,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Play(#[from] PlayError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Find(#[from] NotPlayed),
    #[error("work on the cassette was aborted")]
    GivenUp,
}

/// What a deck has for a request.
pub(crate) enum Found {
    Played(Box<Answer>),
    Missed(Box<Missing>),
    /// Nothing is played; it is to be recorded.
    Unrecorded(Asked),
}

/// A request that is not on the cassette.
pub(crate) struct Missing {
    pub(crate) miss: Miss,
    pub(crate) asked: Asked,
}

impl Deck {
    /// Reads the disk.
    pub(crate) fn open(tenant: Tenant, tape: &Tape) -> Result<Self, DeckError> {
        let (name, player, recorder) = match tape {
            Tape::Off => return Err(DeckError::Off),
            Tape::Record { cassette } => {
                (cassette, None, Some(tenant.record(cassette, Redactor::by_name())?))
            }
            Tape::Replay { cassette, .. } => {
                let playback = Playback::default();
                (cassette, Some(tenant.play(cassette, Redactor::by_name(), playback)?), None)
            }
        };
        let (name, tape) = (name.clone(), tape.clone());
        Ok(Self { tape, name, tenant, player, recorder: Mutex::new(recorder) })
    }

    pub(crate) fn plays(&self, tape: &Tape) -> bool {
        self.tape == *tape
    }

    /// What is on the tape for this request.
    pub(crate) async fn find(self: &Arc<Self>, asked: Asked) -> Result<Found, DeckError> {
        if self.player.is_none() {
            return Ok(Found::Unrecorded(asked));
        }
        let deck = Arc::clone(self);
        off_thread(move || {
            let Some(player) = &deck.player else { return Ok(Found::Unrecorded(asked)) };
            match asked.with(|request| player.find(request)) {
                Ok(played) => Ok(Found::Played(Box::new(answer(played)))),
                Err(NotPlayed::Missed(miss)) => {
                    Ok(Found::Missed(Box::new(Missing { miss: *miss, asked })))
                }
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    /// Begins to record an exchange.
    pub(crate) async fn record(self: &Arc<Self>, asked: Asked) -> Result<Begun, DeckError> {
        let deck = Arc::clone(self);
        off_thread(move || {
            let recorder = deck.recorder()?;
            let begun = asked.with(|request| recorder.begin(request))?;
            Ok(Begun::new(begun, Arc::clone(&deck)))
        })
        .await
    }

    /// What falls through is recorded on the same cassette, from then on.
    fn recorder(&self) -> Result<Recorder, DeckError> {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorder) = &*recorder {
            return Ok(recorder.clone());
        }
        let opened = self.tenant.record(&self.name, Redactor::by_name())?;
        Ok(recorder.insert(opened).clone())
    }

    /// What was just recorded can be played from now on.
    pub(super) fn learn(&self, entry: belljar_cassette::Entry) {
        if let Some(player) = &self.player
            && let Err(error) = player.learn(entry)
        {
            tracing::warn!(%error, "recorded exchange cannot be replayed");
        }
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DeckError> + Send + 'static,
) -> Result<T, DeckError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(DeckError::GivenUp))
}

fn answer(played: Played) -> Answer {
    let body = Playing { pieces: played.pieces, left: played.bytes, end: played.end };
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = StatusCode::from_u16(played.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in played.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&value)) {
            answer.headers_mut().append(name, value);
        }
    }
    if played.bytes > 0 {
        // Said by the body itself.
        answer.headers_mut().remove(CONTENT_LENGTH);
    }
    answer
}

/// A recorded body, as fast as it is read: a replayed run need not wait for what
/// the world took its time over.
struct Playing {
    pieces: belljar_cassette::Pieces,
    left: u64,
    end: End,
}

impl Body for Playing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        Poll::Ready(match this.pieces.next() {
            Some(Ok(piece)) => {
                this.left = this.left.saturating_sub(piece.data.len() as u64);
                Some(Ok(Frame::data(piece.data.into())))
            }
            Some(Err(error)) => Some(Err(error)),
            None if this.end == End::Broken => Some(Err(io::ErrorKind::ConnectionAborted.into())),
            None => None,
        })
    }

    fn size_hint(&self) -> SizeHint {
        match self.end {
            End::Whole => SizeHint::with_exact(self.left),
            End::Broken => SizeHint::default(),
        }
    }
}

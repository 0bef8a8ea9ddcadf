//! The outbox's way into a stream, acknowledged.
//!
//! A message bears its id, and the stream keeps the first of those that bear the
//! same within two minutes. Later ones are told apart by who reads them.
//!
//! A stream can lose what it acknowledged: somebody deletes it, a server's disk is
//! new, a machine loses power before it wrote. Each shows, as the places that are
//! given to messages start again or go back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    CreateStreamErrorKind, GetStreamErrorKind, PublishAckFuture, PublishError, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, StorageType};
use belljar_peer_proto::platform::{OUTBOX, STREAM};
use serde_json::Value;

use crate::{ANSWER, Doorbell};

/// Those that bear the same id within this are one.
const DUPLICATES: Duration = Duration::from_mins(2);
/// Who reads the stream may be away for so long.
const LONGEST: Duration = Duration::from_hours(24);
/// A server sets this aside when it makes the stream.
const MOST_BYTES: i64 = 256 << 20;
/// How many servers of a cluster keep it: one may be lost.
const KEEPERS: usize = 3;

/// A message that waits to be published.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    /// The same each time that it is sent.
    pub id: &'a str,
    pub subject: &'a str,
    pub body: &'a Value,
}

/// What became of the stream since it was last looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// As far as is known, it has what it acknowledged.
    Whole,
    /// It has lost some of it.
    Lessened,
    /// There is none.
    Missing,
}

/// Why messages are perhaps not in the stream. They may be sent again.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    #[error("NATS is unavailable")]
    Away,
    /// Also when a cluster has none that speaks for it just now: look.
    #[error("no stream accepts the outbox")]
    NoStream,
    #[error("NATS refused the outbox: {0}")]
    Refused(String),
}

impl Doorbell {
    /// Publishes messages and waits until all are in the stream. Never takes longer
    /// than a few seconds.
    ///
    /// What no server would ever take (a subject that is none, a body too long) is
    /// counted, logged and passed over: it must not hold up all that follow.
    pub async fn publish_outbox(&self, messages: &[Waiting<'_>]) -> Result<Stream, OutboxError> {
        if !self.is_connected() {
            return Err(OutboxError::Away);
        }
        // Whatever is sent from here on comes after this place.
        let before = self.shared.highest.load(Ordering::Relaxed);
        let all = async {
            let mut acks = Vec::new();
            for &waiting in messages {
                acks.extend(self.send(waiting).await?);
            }
            self.acknowledged(acks, before).await
        };
        tokio::time::timeout(ANSWER, all).await.map_err(|_| OutboxError::Away)?
    }

    /// Nothing: it is one that nobody would ever take.
    async fn send(
        &self,
        Waiting { id, subject, body }: Waiting<'_>,
    ) -> Result<Option<PublishAckFuture>, OutboxError> {
        if !is_subject(subject) {
            return Ok(self.pass_over(id, subject));
        }
        let message = PublishMessage::build().message_id(id).payload(body.to_string().into());
        let sent = self.shared.streams.send_publish(format!("{OUTBOX}.{subject}"), message).await;
        match sent {
            Ok(ack) => Ok(Some(ack)),
            Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                Ok(self.pass_over(id, subject))
            }
            Err(error) => Err(why(&error)),
        }
    }

    fn pass_over<T>(&self, id: &str, subject: &str) -> Option<T> {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        tracing::error!(id, subject, "outbox message can never be sent");
        None
    }

    async fn acknowledged(
        &self,
        acks: Vec<PublishAckFuture>,
        before: u64,
    ) -> Result<Stream, OutboxError> {
        let shared = &self.shared;
        let mut found = Stream::Whole;
        let mut last = 0;
        for ack in acks {
            let ack = ack.await.map_err(|error| why(&error))?;
            shared.published.fetch_add(1, Ordering::Relaxed);
            if ack.duplicate {
                continue;
            }
            last = last.max(ack.sequence);
            if ack.sequence <= before {
                found = Stream::Lessened;
            }
        }
        // Not before all is well: else nobody would be told, now or later.
        match found {
            Stream::Lessened => shared.highest.store(last, Ordering::Relaxed),
            _ => _ = shared.highest.fetch_max(last, Ordering::Relaxed),
        }
        Ok(found)
    }

    /// Whether there is a stream. One of a cluster that fewer servers keep than could is
    /// given to more.
    pub async fn look(&self) -> Result<Stream, OutboxError> {
        if !self.is_connected() {
            return Err(OutboxError::Away);
        }
        let shared = &self.shared;
        let stream = match shared.streams.get_stream(STREAM).await {
            Ok(stream) => stream,
            Err(error) => {
                return match error.kind() {
                    GetStreamErrorKind::JetStream(said) => match said.error_code() {
                        ErrorCode::STREAM_NOT_FOUND => Ok(Stream::Missing),
                        ErrorCode::CLUSTER_NOT_AVAILABLE => Err(OutboxError::Away),
                        _ => Err(OutboxError::Refused(said.to_string())),
                    },
                    _ => Err(OutboxError::Away),
                };
            }
        };
        let info = stream.cached_info();
        if info.config.num_replicas < self.keepers() {
            // Refused while a server is missing. The next look tries again.
            let wider = Config { num_replicas: self.keepers(), ..info.config.clone() };
            let _ = shared.streams.update_stream(wider).await;
        }
        // One that goes back is not believed yet: whoever has just begun to speak for a
        // cluster may not have read all of it. What it acknowledges is believed.
        shared.highest.fetch_max(info.state.last_sequence, Ordering::Relaxed);
        Ok(Stream::Whole)
    }

    /// Makes the stream. Done also when somebody else has made it meanwhile.
    pub async fn make_stream(&self) -> Result<(), OutboxError> {
        let shared = &self.shared;
        let wished = self.keepers();
        // A cluster that lacks a server just now, or has only two.
        let fewer = if wished > 1 { &[KEEPERS, 1][..] } else { &[1][..] };
        let mut refused = OutboxError::Away;
        for &keepers in fewer {
            match shared.streams.create_stream(config(keepers)).await {
                Ok(_) => {
                    shared.highest.store(0, Ordering::Relaxed);
                    return Ok(());
                }
                Err(error) => match error.kind() {
                    CreateStreamErrorKind::JetStream(said) => match said.error_code() {
                        ErrorCode::STREAM_NAME_EXIST => return Ok(()),
                        _ => refused = OutboxError::Refused(said.to_string()),
                    },
                    _ => return Err(OutboxError::Away),
                },
            }
        }
        Err(refused)
    }

    fn keepers(&self) -> usize {
        let server = self.shared.client.server_info();
        if server.cluster.is_some() { KEEPERS } else { 1 }
    }
}

fn config(keepers: usize) -> Config {
    Config {
        name: STREAM.to_owned(),
        subjects: vec![format!("{OUTBOX}.>")],
        storage: StorageType::File,
        num_replicas: keepers,
        max_age: LONGEST,
        max_bytes: MOST_BYTES,
        duplicate_window: DUPLICATES,
        ..Config::default()
    }
}

fn why(error: &PublishError) -> OutboxError {
    match error.kind() {
        PublishErrorKind::StreamNotFound => OutboxError::NoStream,
        PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => OutboxError::Away,
        _ => OutboxError::Refused(error.to_string()),
    }
}

/// Names without wildcards, dots between them.
fn is_subject(text: &str) -> bool {
    let is_name = |name: &str| {
        let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'*' && byte != b'>';
        !name.is_empty() && name.bytes().all(fits)
    };
    text.split('.').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::is_subject;

    #[test]
    fn subjects_have_no_gaps_and_no_wildcards() {
        for good in ["sandbox.ended", "a", "a-b.c_d.9"] {
            assert!(is_subject(good), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a b", "a.*", "a.>", "a\r\nb", "ä"] {
            assert!(!is_subject(bad), "{bad}");
        }
    }
}

//! Words of models between replicas, through notifications of the database.
//!
//! Not over the bus: nodes are on it, and a stolen node must not hear what models say to tenants.
//! A replica passes words on only while another one follows that run, so that a run without
//! followers costs the database nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_journal::Address;
use belljar_runs::{WordHub, WordRelay, Words};
use belljar_store::{Store, WordNote};
use tokio::sync::mpsc;

/// For how long a run is followed after a replica said so: twice as long as until it says so again.
const FOLLOWED: Duration = Duration::from_secs(10);
/// Notes that wait for the database. More are dropped: what they say is in the log soon.
const WAITING: usize = 256;
/// Before the database is asked again that could not be reached.
const REST: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Relay {
    notes: mpsc::Sender<WordNote>,
    /// Runs that other replicas follow, and when they said so last.
    followed: Arc<Mutex<HashMap<Address, Instant>>>,
    origin: String,
}

impl WordRelay for Relay {
    fn pass(&self, run: &Address, words: &Words) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        prune(&mut followed);
        if !followed.contains_key(run) {
            return;
        }
        drop(followed);
        for (from, text) in pieces(words.from, &words.text) {
            let said = Some((words.turn, from, text));
            drop(self.notes.try_send(self.note(run, said)));
        }
    }

    fn follow(&self, run: &Address) {
        drop(self.notes.try_send(self.note(run, None)));
    }
}

impl Relay {
    fn note(&self, run: &Address, said: Option<(u32, u64, String)>) -> WordNote {
        let (origin, run) = (self.origin.clone(), run.clone());
        WordNote { origin, tenant: run.tenant, run: run.run, said }
    }
}

/// A hub that is connected with those of the other replicas for as long as this process lives.
pub(super) fn of_platform(store: &Store) -> WordHub {
    let (notes, mut waiting) = mpsc::channel::<WordNote>(WAITING);
    let followed: Arc<Mutex<HashMap<Address, Instant>>> = Arc::default();
    let origin = format!("{}-{:x}", std::process::id(), started());
    let relay = Relay { notes, followed: followed.clone(), origin: origin.clone() };
    let hub = WordHub::default().with_relay(Arc::new(relay));
    let sending = store.clone();
    tokio::spawn(async move {
        while let Some(note) = waiting.recv().await {
            if let Err(error) = sending.notify_words(&note).await {
                tracing::debug!(%error, "words of a model are not passed on");
            }
        }
    });
    let (store, heard) = (store.clone(), hub.clone());
    tokio::spawn(async move {
        loop {
            let listened = store.hear_words(|note| {
                if note.origin == origin {
                    return;
                }
                let run = Address { tenant: note.tenant, run: note.run };
                match note.said {
                    Some((turn, from, text)) => heard.receive(run, Words { turn, from, text }),
                    None => {
                        let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
                        // A replica whose own runs are idle passes no words on.
                        prune(&mut followed);
                        followed.insert(run, Instant::now());
                    }
                }
            });
            if let Err(error) = listened.await {
                tracing::warn!(%error, "words of models from other replicas are not heard");
            }
            tokio::time::sleep(REST).await;
        }
    });
    hub
}

/// Forgets runs that no replica follows any more.
fn prune(followed: &mut HashMap<Address, Instant>) {
    followed.retain(|_, since| since.elapsed() < FOLLOWED);
}

fn started() -> u128 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_nanos()
}

/// Cuts a text so that each piece fits into a notification, whatever JSON makes of it.
fn pieces(from: u64, text: &str) -> Vec<(u64, String)> {
    const MOST_CHARS: usize = 600;
    let chars: Vec<char> = text.chars().collect();
    let mut at = from;
    let mut pieces = Vec::new();
    for piece in chars.chunks(MOST_CHARS) {
        pieces.push((at, piece.iter().collect()));
        at += piece.len() as u64;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use belljar_domain::RunId;

    use super::*;

    #[test]
    fn a_run_that_is_not_followed_any_more_is_forgotten() {
        let run = |bits| Address { tenant: "a".into(), run: RunId::from_bits([bits; 16]) };
        let now = Instant::now();
        let Some(long_ago) = now.checked_sub(FOLLOWED) else { return };
        let mut followed = HashMap::from([(run(1), long_ago), (run(2), now)]);
        prune(&mut followed);
        assert_eq!(followed.into_keys().collect::<Vec<_>>(), [run(2)]);
    }

    #[test]
    fn pieces_are_the_text_and_fit_into_a_notification() {
        // Each of these characters takes six bytes in JSON.
        let text = "\u{1}".repeat(1500);
        let pieces = pieces(7, &text);
        assert_eq!(pieces.iter().map(|piece| piece.0).collect::<Vec<_>>(), [7, 607, 1207]);
        assert_eq!(pieces.iter().map(|piece| piece.1.as_str()).collect::<String>(), text);
        for (_, piece) in &pieces {
            assert!(serde_json::to_string(piece).unwrap().len() < 7000);
        }
    }
}

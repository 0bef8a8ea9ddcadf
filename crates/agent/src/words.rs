//! Words of the model while they arrive, for callers that watch a run.
//!
//! They are joined for a moment, bounded by turn, and stored nowhere: the answer in the log has
//! them all. The worker never waits for a listener.

use std::fmt;
use std::time::{Duration, Instant};

use belljar_journal::Address;
use belljar_provider::Delta;

/// The time for which words are joined.
const JOINED: Duration = Duration::from_millis(200);
/// The most bytes of one turn that are passed on.
const MOST_OF_TURN: usize = 64 << 10;

/// Words of one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    pub turn: u32,
    /// Characters of this turn before these. At 0 the answer begins, or begins anew.
    pub from: u64,
    pub text: String,
}

/// A listener to the words of runs. It must not block.
pub trait WordListener: fmt::Debug + Send + Sync {
    fn hear(&self, run: &Address, words: Words);
}

/// Joins the words of one answer.
pub(crate) struct Joiner<'a> {
    listener: Option<&'a dyn WordListener>,
    run: &'a Address,
    turn: u32,
    held: String,
    /// Characters that were passed on, and bytes of all words.
    passed: u64,
    bytes: usize,
    last: Option<Instant>,
}

impl<'a> Joiner<'a> {
    pub(crate) fn new(listener: Option<&'a dyn WordListener>, run: &'a Address, turn: u32) -> Self {
        Self { listener, run, turn, held: String::new(), passed: 0, bytes: 0, last: None }
    }

    pub(crate) fn add(&mut self, delta: &Delta<'_>) {
        match delta {
            Delta::Text(text) if self.bytes + text.len() <= MOST_OF_TURN => {
                self.bytes += text.len();
                self.held.push_str(text);
                if self.last.is_none_or(|last| last.elapsed() >= JOINED) {
                    self.pass();
                }
            }
            Delta::Again { .. } => {
                (self.passed, self.bytes, self.last) = (0, 0, None);
                self.held.clear();
            }
            _ => {}
        }
    }

    /// Passes on what is held.
    pub(crate) fn pass(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.held);
        let from = self.passed;
        self.passed += text.chars().count() as u64;
        self.last = Some(Instant::now());
        if let Some(listener) = self.listener {
            listener.hear(self.run, Words { turn: self.turn, from, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use belljar_domain::RunId;

    use super::*;

    #[derive(Debug, Default)]
    struct Ear(Mutex<Vec<Words>>);

    impl WordListener for Ear {
        fn hear(&self, _: &Address, words: Words) {
            self.0.lock().unwrap().push(words);
        }
    }

    fn heard(say: impl FnOnce(&mut Joiner<'_>)) -> Vec<Words> {
        let ear = Ear::default();
        let run = Address { tenant: "t".into(), run: RunId::from_bits([1; 16]) };
        let mut joiner = Joiner::new(Some(&ear), &run, 3);
        say(&mut joiner);
        joiner.pass();
        ear.0.into_inner().unwrap()
    }

    #[test]
    fn the_first_word_comes_at_once_and_the_others_are_joined() {
        let words = heard(|joiner| {
            for text in ["Grün", " ist", " die", " Au"] {
                joiner.add(&Delta::Text(text));
            }
        });
        let parts: Vec<_> = words.iter().map(|words| (words.from, words.text.as_str())).collect();
        assert_eq!(parts, [(0, "Grün"), (4, " ist die Au")]);
    }

    #[test]
    fn a_turn_passes_on_a_bounded_number_of_bytes() {
        let long = "x".repeat(MOST_OF_TURN - 1);
        let words = heard(|joiner| {
            for text in [&long[..], "ab", "c"] {
                joiner.add(&Delta::Text(text));
            }
        });
        let text: String = words.into_iter().map(|words| words.text).collect();
        assert_eq!((text.len(), text.ends_with("xc")), (MOST_OF_TURN, true));
    }
}

//! A second greeting: a server may ask for one (HelloRetryRequest, RFC 8446 section 4.1.4), and
//! goes by the name in that one.
//!
//! ```text
//!   client: hello ─► [early data] ─► [change cipher spec, alerts] ─► hello again │ anything else
//!                    only if the     servers ignore them             judged        the handshake
//!                    first one says so                                             goes on: over
//! ```

use super::{Hello, NotHello, Reader};

const CHANGE_CIPHER_SPEC: u8 = 20;
/// OpenSSL passes over warnings.
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
/// Type, length and the version's first byte: enough to tell a greeting from what is encrypted.
const BEGINNING: usize = 5;

/// What the bytes after a greeting are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// Not known yet.
    More,
    Hello(Hello),
    /// No greeting, and none can follow.
    Over,
}

/// Looks for a second greeting in what a client sends after its first.
#[derive(Debug, Clone)]
pub struct Again {
    state: State,
    /// Whether encrypted records may come before it.
    has_early_data: bool,
}

#[derive(Debug, Clone)]
enum State {
    /// A record's header, and the beginning of what may be a greeting.
    Record(Vec<u8>),
    /// The rest of a record that is passed over.
    Skip(usize),
    Hello(Reader),
    Over,
}

impl Again {
    pub fn after(first: &Hello) -> Self {
        Self { state: State::Record(Vec::new()), has_early_data: first.has_early_data }
    }

    /// Takes the next bytes of the stream, from the first one behind the first greeting on.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<After, NotHello> {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Over => return Ok(After::Over),
                State::Skip(left) => {
                    let count = (*left).min(bytes.len());
                    *left -= count;
                    bytes = bytes.get(count..).unwrap_or_default();
                    if *left == 0 {
                        self.state = State::Record(Vec::new());
                    }
                }
                State::Record(begin) => {
                    let [first, rest @ ..] = bytes else { break };
                    begin.push(*first);
                    bytes = rest;
                    self.record()?;
                }
                State::Hello(reader) => {
                    return match reader.push(bytes)? {
                        Some(hello) => {
                            self.state = State::Over;
                            Ok(After::Hello(hello))
                        }
                        None => Ok(After::More),
                    };
                }
            }
        }
        Ok(if self.is_over() { After::Over } else { After::More })
    }

    /// Returns true if no second greeting can follow.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// How many of the last bytes may be the beginning of a greeting. They must not pass before
    /// it is judged.
    pub fn held(&self) -> usize {
        match &self.state {
            State::Record(begin) => begin.len(),
            State::Hello(reader) => reader.seen(),
            State::Skip(_) | State::Over => 0,
        }
    }

    /// Judges the beginning of a record, as far as it is there.
    fn record(&mut self) -> Result<(), NotHello> {
        let State::Record(begin) = &self.state else { return Ok(()) };
        let [kind, _, _, high, low, message @ ..] = begin.as_slice() else {
            // Whatever this is, it is no record.
            let is_record = begin.first().is_some_and(|kind| (20..=24).contains(kind));
            if !is_record {
                self.state = State::Over;
            }
            return Ok(());
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        self.state = match *kind {
            CHANGE_CIPHER_SPEC | ALERT => State::Skip(length),
            APPLICATION_DATA if self.has_early_data => State::Skip(length),
            // Nobody sends it but to find out who reads it how.
            HANDSHAKE if length == 0 => return Err(NotHello::Record),
            HANDSHAKE if !is_greeting(message) => State::Over,
            HANDSHAKE if message.len() < BEGINNING.min(length) || message.is_empty() => {
                return Ok(());
            }
            HANDSHAKE => {
                let mut reader = Reader::default();
                reader.push(begin)?;
                State::Hello(reader)
            }
            _ => State::Over,
        };
        Ok(())
    }
}

/// Returns true if a message may be a greeting, as far as it is there. Of encrypted messages, one
/// in four million looks like one.
fn is_greeting(message: &[u8]) -> bool {
    // OpenSSL takes greetings of up to 131,396 bytes, and any minor version. One that is longer
    // than ours may be is refused by its reader.
    let want: [(u8, u8); BEGINNING] = [(1, 1), (0, 3), (0, 255), (0, 255), (3, 3)];
    message.iter().zip(want).all(|(byte, (low, high))| (low..=high).contains(byte))
}

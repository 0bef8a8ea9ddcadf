//! What a cassette promises, seen from outside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ask;
mod damage;
mod diff;
mod format;
mod limits;
mod matching;
mod miss;
mod replay;
mod secrets;
mod speed;
mod transfer;

//! The bytes of every message, kept for good.
//!
//! `tests/golden/generation-N` holds one file for each message of generation N,
//! as hexadecimal text. The files are only ever added to: a change of these
//! bytes is a new generation, in a new directory, and the old one stays.
//! A missing file is written by `BELLJAR_WRITE_GOLDEN=1 cargo test`; one that
//! exists is never overwritten.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/samples.rs"]
mod samples;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use belljar_guest_proto::{Decoder, FromGuest, GENERATION, Reply, Request, ToGuest};
use samples::{Message, all};

/// The channel of every golden frame.
const CHANNEL: u32 = 0x0403_0201;

/// Files that each generation has: raised with each new one, never lowered.
const FILES: [usize; GENERATION as usize] = [45, 47, 56, 59, 59];

fn directory_of(generation: usize) -> PathBuf {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(format!("generation-{generation}"))
}

fn directory() -> PathBuf {
    directory_of(GENERATION.into())
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    text
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

#[test]
fn every_message_has_its_golden_bytes() {
    let may_write = std::env::var_os("BELLJAR_WRITE_GOLDEN").is_some();
    for (name, message) in all() {
        let path = directory().join(format!("{name}.hex"));
        let mut bytes = Vec::new();
        message.encode(&mut bytes, CHANNEL);
        if may_write && !path.exists() {
            fs::write(&path, hex(&bytes)).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{name} has no file"));
        assert_eq!(hex(&bytes), golden, "{name} is written differently than before");
    }
}

#[test]
fn every_golden_file_is_read_as_its_message() {
    for (name, message) in all() {
        let golden = fs::read_to_string(directory().join(format!("{name}.hex"))).unwrap();
        let mut decoder = Decoder::default();
        decoder.push(&unhex(&golden));
        let (header, body) = decoder.next_frame().unwrap().expect("a whole frame");
        assert_eq!(header.channel, CHANNEL, "{name}");
        match message {
            Message::To(want) => assert_eq!(ToGuest::decode(header, body), Ok(want), "{name}"),
            Message::From(want) => assert_eq!(FromGuest::decode(header, body), Ok(want), "{name}"),
        }
        assert!(decoder.next_frame().unwrap().is_none(), "{name} has something behind it");
    }
}

#[test]
fn no_golden_file_is_ever_removed() {
    let names: BTreeSet<String> =
        all().into_iter().map(|(name, _)| format!("{name}.hex")).collect();
    let entries = fs::read_dir(directory()).unwrap();
    let files: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, names, "files and messages belong together; neither is taken away");
    for (generation, least) in (1..).zip(FILES) {
        let left = fs::read_dir(directory_of(generation)).unwrap().count();
        assert!(left >= least, "only {left} files of generation {generation} are left");
    }
}

/// Fails to compile when a message is added, and fails to pass until it has a
/// golden file.
#[test]
fn no_message_is_forgotten() {
    let request = |request: &Request| match request {
        Request::Spawn(_) => "spawn",
        Request::Signal { .. } => "signal",
        Request::Resize { .. } => "resize",
        Request::Stat { .. } => "stat",
        Request::List { .. } => "list",
        Request::MakeDir { .. } => "make-dir",
        Request::Rename { .. } => "rename",
        Request::Remove { .. } => "remove",
        Request::Read { .. } => "read",
        Request::Write { .. } => "write",
        Request::Watch { .. } => "watch",
        Request::Changed { .. } => "changed",
        Request::Context(_) => "context",
        Request::Adopt { .. } => "adopt",
        Request::Dial { .. } => "dial",
        Request::Suspend => "suspend",
        Request::Awaken(_) => "awaken",
        Request::Listen { .. } => "listen",
        Request::Accept { .. } => "accept",
    };
    let reply = |reply: &Reply| match reply {
        Reply::Done => "done",
        Reply::Started { .. } => "started",
        Reply::Entry(_) => "entry",
        Reply::Entries { .. } => "entries",
        Reply::Size(_) => "size",
        Reply::Changed(_) => "changed",
        Reply::Awake(_) => "awake",
        Reply::Listening { .. } => "listening",
    };
    for (name, message) in all() {
        let kind = match &message {
            Message::To(ToGuest::Configure(_)) => "to-configure".to_owned(),
            Message::To(ToGuest::Request(asked)) => format!("to-request-{}", request(asked)),
            Message::To(ToGuest::Data(_)) => "to-data".to_owned(),
            Message::To(ToGuest::Eof) => "to-eof".to_owned(),
            Message::To(ToGuest::Credit(_)) => "to-credit".to_owned(),
            Message::To(ToGuest::Cancel) => "to-cancel".to_owned(),
            Message::From(FromGuest::Hello(_)) => "from-hello".to_owned(),
            Message::From(FromGuest::Reply(Ok(told))) => format!("from-reply-{}", reply(told)),
            Message::From(FromGuest::Reply(Err(_))) => "from-reply-failure".to_owned(),
            Message::From(FromGuest::Stdout(_)) => "from-stdout".to_owned(),
            Message::From(FromGuest::Stderr(_)) => "from-stderr".to_owned(),
            Message::From(FromGuest::Data(_)) => "from-data".to_owned(),
            Message::From(FromGuest::Eof) => "from-eof".to_owned(),
            Message::From(FromGuest::Exited(_)) => "from-exited".to_owned(),
            Message::From(FromGuest::Changed(_)) => "from-changed".to_owned(),
            Message::From(FromGuest::Credit(_)) => "from-credit".to_owned(),
            Message::From(FromGuest::Counters(_)) => "from-counters".to_owned(),
        };
        assert!(name.starts_with(&kind), "{name} is a {kind}");
    }
}

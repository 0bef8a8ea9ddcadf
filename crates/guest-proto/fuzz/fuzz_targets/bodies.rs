//! Bodies of single messages: the first byte chooses the kind, the rest is its
//! body.
//!
//! A whole frame that happens to be right is rare among made-up bytes; this
//! gets at once to messages with much inside, such as `Awaken` and `Counters`.
#![no_main]

use belljar_guest_proto::{FromGuest, Header, MAX_BODY, ToGuest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&kind, body)) = input.split_first() else { return };
    let body = &body[..body.len().min(MAX_BODY)];
    let header = header(kind, body);
    let mut again = Vec::new();
    if let Ok(message) = ToGuest::decode(header, body) {
        message.encode(&mut again, 1);
        let body = &again[Header::SIZE..];
        assert_eq!(ToGuest::decode(self::header(kind, body), body), Ok(message));
    } else if let Ok(message) = FromGuest::decode(header, body) {
        message.encode(&mut again, 1);
        let body = &again[Header::SIZE..];
        assert_eq!(FromGuest::decode(self::header(kind, body), body), Ok(message));
    }
});

fn header(kind: u8, body: &[u8]) -> Header {
    let length = u32::try_from(body.len()).expect("a body is short");
    Header { length, kind, channel: 1 }
}

//! Frames however the stream cuts them, and streams that are not frames.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/samples.rs"]
mod samples;

use belljar_guest_proto::{
    Decoder, FrameError, FromGuest, Header, MAX_BODY, ToGuest, encode, encode_header,
};
use samples::{Message, all};

fn frames() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (channel, (_, message)) in (1..).zip(all()) {
        message.encode(&mut bytes, channel);
    }
    bytes
}

/// Takes all whole frames, and checks each against the sample of its channel.
fn take(decoder: &mut Decoder, next: &mut u32) {
    let samples = all();
    while let Some((header, body)) = decoder.next_frame().unwrap() {
        assert_eq!(header.channel, *next);
        let (name, want) = &samples[*next as usize - 1];
        match want {
            Message::To(want) => {
                assert_eq!(ToGuest::decode(header, body).as_ref(), Ok(want), "{name}");
            }
            Message::From(want) => {
                assert_eq!(FromGuest::decode(header, body).as_ref(), Ok(want), "{name}");
            }
        }
        *next += 1;
    }
}

fn last() -> u32 {
    u32::try_from(all().len()).unwrap() + 1
}

#[test]
fn a_cut_at_any_byte_changes_nothing() {
    let bytes = frames();
    for cut in 0..=bytes.len() {
        let (mut decoder, mut next) = (Decoder::default(), 1);
        decoder.push(&bytes[..cut]);
        take(&mut decoder, &mut next);
        decoder.push(&bytes[cut..]);
        take(&mut decoder, &mut next);
        assert_eq!(next, last(), "cut at {cut}");
    }
}

#[test]
fn pieces_of_any_size_change_nothing() {
    let bytes = frames();
    for size in 1..=64 {
        let (mut decoder, mut next) = (Decoder::default(), 1);
        for piece in bytes.chunks(size) {
            // As a read from a socket would do it.
            let room = decoder.space();
            room[..piece.len()].copy_from_slice(piece);
            decoder.filled(piece.len());
            take(&mut decoder, &mut next);
        }
        assert_eq!(next, last(), "pieces of {size}");
    }
}

#[test]
fn frames_that_are_not_taken_at_once_wait() {
    let (mut decoder, mut next) = (Decoder::default(), 1);
    let bytes = frames();
    for _ in 0..3 {
        decoder.push(&bytes);
    }
    for _ in 0..3 {
        next = 1;
        while next < last() {
            let before = next;
            let (header, _) = decoder.next_frame().unwrap().expect("a frame");
            assert_eq!(header.channel, next);
            next = before + 1;
        }
    }
    assert_eq!(next, last());
    assert!(decoder.next_frame().unwrap().is_none());
}

#[test]
fn a_frame_that_is_not_whole_is_waited_for() {
    for (name, message) in all() {
        let mut bytes = Vec::new();
        message.encode(&mut bytes, 9);
        for length in 0..bytes.len() {
            let mut decoder = Decoder::default();
            decoder.push(&bytes[..length]);
            assert_eq!(decoder.next_frame(), Ok(None), "{name}, {length} bytes");
        }
    }
}

#[test]
fn the_longest_frame_is_taken_and_a_longer_one_is_not() {
    let body = vec![7; MAX_BODY];
    let mut bytes = Vec::new();
    ToGuest::Data(&body).encode(&mut bytes, 1);
    let mut decoder = Decoder::default();
    for piece in bytes.chunks(100_000) {
        decoder.push(piece);
    }
    let (header, got) = decoder.next_frame().unwrap().expect("a frame");
    assert_eq!((header.length as usize, got.len()), (MAX_BODY, MAX_BODY));
    for length in [MAX_BODY + 1, u32::MAX as usize, usize::MAX] {
        let mut bytes = Vec::new();
        encode_header(&mut bytes, 0x03, 1, length);
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        assert!(matches!(decoder.next_frame(), Err(FrameError::TooLong(_))), "{length}");
        // And it stays so, whatever comes behind.
        decoder.push(&[0; 100]);
        assert!(decoder.next_frame().is_err());
    }
}

#[test]
fn a_header_that_promises_much_takes_no_memory_for_it() {
    let mut bytes = Vec::new();
    encode_header(&mut bytes, 0x03, 1, u32::MAX as usize);
    let mut decoder = Decoder::default();
    decoder.push(&bytes);
    assert!(decoder.space().len() <= 2 * MAX_BODY);
}

fn header(kind: u8, body: &[u8]) -> Header {
    Header { length: u32::try_from(body.len()).unwrap(), kind, channel: 1 }
}

#[test]
fn unknown_kinds_are_refused() {
    for kind in 0..=u8::MAX {
        let to_guest = (0x01..=0x06).contains(&kind);
        let from_guest = (0x81..=0x8a).contains(&kind);
        let unknown = Err(FrameError::UnknownKind(kind));
        let head = header(kind, &[]);
        assert_eq!(ToGuest::decode(head, &[]) == unknown.map(|()| ToGuest::Eof), !to_guest);
        assert_eq!(FromGuest::decode(head, &[]) == unknown.map(|()| FromGuest::Eof), !from_guest);
    }
}

#[test]
fn messages_of_the_other_side_are_refused() {
    for (name, message) in all() {
        let mut bytes = Vec::new();
        message.encode(&mut bytes, 1);
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        let (header, body) = decoder.next_frame().unwrap().unwrap();
        let refused = match message {
            Message::To(_) => FromGuest::decode(header, body).is_err(),
            Message::From(_) => ToGuest::decode(header, body).is_err(),
        };
        assert!(refused, "{name}");
    }
}

/// The body of an encoded message, with its kind.
fn body_of(message: &Message) -> (u8, Vec<u8>) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes, 1);
    (bytes[4], bytes[Header::SIZE..].to_vec())
}

fn decodes(message: &Message, body: &[u8]) -> bool {
    let (kind, _) = body_of(message);
    match message {
        Message::To(_) => ToGuest::decode(header(kind, body), body).is_ok(),
        Message::From(_) => FromGuest::decode(header(kind, body), body).is_ok(),
    }
}

/// Data frames carry any bytes; everything else has one form.
fn is_data(message: &Message) -> bool {
    matches!(
        message,
        Message::To(ToGuest::Data(_))
            | Message::From(FromGuest::Stdout(_) | FromGuest::Stderr(_) | FromGuest::Data(_))
    )
}

#[test]
fn garbage_behind_a_body_is_refused() {
    for (name, message) in all().into_iter().filter(|(_, message)| !is_data(message)) {
        let (_, mut body) = body_of(&message);
        assert!(decodes(&message, &body), "{name}");
        body.push(0);
        assert!(!decodes(&message, &body), "{name} with a byte more");
    }
}

#[test]
fn a_body_cut_short_is_refused() {
    for (name, message) in all().into_iter().filter(|(_, message)| !is_data(message)) {
        let (_, body) = body_of(&message);
        for length in 0..body.len() {
            assert!(!decodes(&message, &body[..length]), "{name}, {length} of {}", body.len());
        }
    }
}

/// A list that claims to be longer than the frame must not be believed, and
/// must not take memory before it is found out.
#[test]
fn lengths_that_lie_are_refused() {
    for (name, message) in all().into_iter().filter(|(_, message)| !is_data(message)) {
        let (_, body) = body_of(&message);
        for index in 0..body.len() {
            let mut lying = body[..index].to_vec();
            lying.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
            // Refused or read as something else; never a panic or a hang.
            let _ = decodes(&message, &lying);
        }
        assert!(!decodes(&message, &[0xff; 40]), "{name}");
    }
}

#[test]
fn any_change_of_a_byte_is_read_or_refused_and_reads_back() {
    for (name, message) in all() {
        let (kind, body) = body_of(&message);
        for index in 0..body.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut changed = body.clone();
                changed[index] ^= flip;
                let head = header(kind, &changed);
                let mut again = Vec::new();
                match &message {
                    Message::To(_) => {
                        let Ok(read) = ToGuest::decode(head, &changed) else { continue };
                        read.encode(&mut again, 1);
                        let body = &again[Header::SIZE..];
                        assert_eq!(ToGuest::decode(header(kind, body), body), Ok(read), "{name}");
                    }
                    Message::From(_) => {
                        let Ok(read) = FromGuest::decode(head, &changed) else { continue };
                        read.encode(&mut again, 1);
                        let body = &again[Header::SIZE..];
                        assert_eq!(FromGuest::decode(header(kind, body), body), Ok(read), "{name}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_code_prints_is_never_a_message() {
    // A whole frame as output stays output.
    let mut forged = Vec::new();
    FromGuest::Eof.encode(&mut forged, 1);
    let mut bytes = Vec::new();
    FromGuest::Stdout(&forged).encode(&mut bytes, 1);
    let mut decoder = Decoder::default();
    decoder.push(&bytes);
    let (header, body) = decoder.next_frame().unwrap().unwrap();
    assert_eq!(FromGuest::decode(header, body), Ok(FromGuest::Stdout(&forged)));
    assert!(decoder.next_frame().unwrap().is_none());
}

#[test]
fn an_empty_body_is_a_frame() {
    let mut bytes = Vec::new();
    encode(&mut bytes, 0x04, u32::MAX, &[]);
    let mut decoder = Decoder::default();
    decoder.push(&bytes);
    let (header, body) = decoder.next_frame().unwrap().unwrap();
    assert_eq!((header.channel, body.len()), (u32::MAX, 0));
}

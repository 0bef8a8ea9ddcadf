//! Bytes that a stranger sends, in whatever pieces they come.
//!
//! The first bytes say how the rest is cut. However it is cut, the same frames
//! must come out; whatever can be read must read back the same.
#![no_main]

use belljar_guest_proto::{Decoder, FrameError, FromGuest, Header, MAX_BODY, ToGuest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((cuts, bytes)) = input.split_first_chunk::<8>() else { return };
    let whole = frames(&[bytes]);
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for size in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, more) = rest.split_at(usize::from(*size).max(1).min(rest.len()));
        pieces.push(piece);
        rest = more;
    }
    assert_eq!(whole, frames(&pieces));
    for (kind, channel, body) in &whole.0 {
        let length = u32::try_from(body.len()).expect("a body is short");
        check(Header { length, kind: *kind, channel: *channel }, body);
    }
});

/// All frames of a stream, and why it ended if it did.
type Frames = (Vec<(u8, u32, Vec<u8>)>, Option<FrameError>);

fn frames(pieces: &[&[u8]]) -> Frames {
    let mut decoder = Decoder::default();
    let mut found = Vec::new();
    for piece in pieces {
        let mut piece = *piece;
        while !piece.is_empty() {
            let room = decoder.space();
            assert!(room.len() <= 2 * MAX_BODY);
            let count = room.len().min(piece.len());
            room[..count].copy_from_slice(&piece[..count]);
            decoder.filled(count);
            piece = &piece[count..];
            loop {
                match decoder.next_frame() {
                    Ok(Some((header, body))) => {
                        found.push((header.kind, header.channel, body.to_vec()));
                    }
                    Ok(None) => break,
                    Err(error) => return (found, Some(error)),
                }
            }
        }
    }
    (found, None)
}

fn check(header: Header, body: &[u8]) {
    let to = ToGuest::decode(header, body);
    let from = FromGuest::decode(header, body);
    assert!(to.is_err() || from.is_err(), "a frame goes one way");
    let mut again = Vec::new();
    match (&to, &from) {
        (Ok(message), _) => message.encode(&mut again, header.channel),
        (_, Ok(message)) => message.encode(&mut again, header.channel),
        _ => return,
    }
    let mut decoder = Decoder::default();
    decoder.push(&again);
    let (second, body) = decoder.next_frame().expect("our own frame").expect("a whole frame");
    assert_eq!((second.kind, second.channel), (header.kind, header.channel));
    if to.is_ok() {
        assert_eq!(ToGuest::decode(second, body), to);
    } else {
        assert_eq!(FromGuest::decode(second, body), from);
    }
}

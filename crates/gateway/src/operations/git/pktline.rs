//! Packets of git's protocol: four hexadecimal digits that say how long a line is, and the line.

use bytes::{Buf as _, Bytes, BytesMut};

/// The longest packet that git allows, with its length.
const MAX_PACKET: usize = 65520;
/// Of a band: its packets bear the number of the band as well.
const MAX_BAND: usize = 65515;

/// One packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Packet {
    /// The end of a list.
    Flush,
    Line(Bytes),
}

/// Bytes that are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request is not in git's protocol")]
pub(super) struct NoPacket;

/// Takes the first packet out of what has come; none: it is not complete.
pub(super) fn take(buffer: &mut BytesMut) -> Result<Option<Packet>, NoPacket> {
    let Some(digits) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = digits.iter().try_fold(0, |sum: usize, digit| -> Result<usize, NoPacket> {
        let value = char::from(*digit).to_digit(16).ok_or(NoPacket)?;
        Ok(sum * 16 + usize::try_from(value).map_err(|_| NoPacket)?)
    })?;
    match length {
        0 => {
            buffer.advance(4);
            Ok(Some(Packet::Flush))
        }
        4..=MAX_PACKET if buffer.len() < length => Ok(None),
        4..=MAX_PACKET => {
            let mut packet = buffer.split_to(length);
            packet.advance(4);
            Ok(Some(Packet::Line(packet.freeze())))
        }
        _ => Err(NoPacket),
    }
}

/// Adds a line, which is shorter than a packet.
pub(super) fn line(into: &mut Vec<u8>, text: &[u8]) {
    into.extend_from_slice(format!("{:04x}", text.len() + 4).as_bytes());
    into.extend_from_slice(text);
}

pub(super) fn flush(into: &mut Vec<u8>) {
    into.extend_from_slice(b"0000");
}

/// Adds text on a band: 1 is for the client's program, 2 for people.
pub(super) fn band(into: &mut Vec<u8>, number: u8, text: &[u8]) {
    for piece in text.chunks(MAX_BAND) {
        let mut numbered = vec![number];
        numbered.extend_from_slice(piece);
        line(into, &numbered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_taken_one_by_one() {
        let mut buffer = BytesMut::from(&b"0006a\n0004000000"[..]);
        assert_eq!(take(&mut buffer), Ok(Some(Packet::Line(Bytes::from_static(b"a\n")))));
        assert_eq!(take(&mut buffer), Ok(Some(Packet::Line(Bytes::new()))));
        assert_eq!(take(&mut buffer), Ok(Some(Packet::Flush)));
        assert_eq!(take(&mut buffer), Ok(None));
        assert_eq!(&buffer[..], b"00");
    }

    /// GW-28/packets: lengths that no git client sends.
    #[test]
    fn lengths_that_are_none_are_refused() {
        for wrong in ["fff1", "ffff", "0001", "0003", "+004", " 004", "00g4", "-001"] {
            let mut buffer = BytesMut::from(wrong.as_bytes());
            assert_eq!(take(&mut buffer), Err(NoPacket), "{wrong}");
        }
        let mut largest = BytesMut::from(&b"fff0"[..]);
        assert_eq!(take(&mut largest), Ok(None));
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut written = Vec::new();
        band(&mut written, 2, b"no\n");
        flush(&mut written);
        assert_eq!(written, b"0008\x02no\n0000");
    }
}

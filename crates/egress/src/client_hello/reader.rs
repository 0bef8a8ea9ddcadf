//! Records, put together.

use super::{Hello, LONGEST, NotHello, wire};

const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const LONGEST_RECORD: usize = 1 << 14;

/// Collects a greeting.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    /// The header of a record, while it is not whole.
    header: [u8; RECORD_HEADER],
    header_length: usize,
    /// What is left of the current record.
    left: usize,
    /// Bytes seen.
    seen: usize,
    message: Vec<u8>,
}

impl Reader {
    /// Takes the next bytes of the stream. When the greeting is whole it is
    /// returned, and nothing may be pushed after it; what follows the greeting's
    /// last record is not looked at.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Option<Hello>, NotHello> {
        while let [first, rest @ ..] = bytes {
            if self.left == 0 {
                self.see(1)?;
                bytes = rest;
                self.take_header(*first)?;
                continue;
            }
            let piece = &bytes[..self.left.min(bytes.len())];
            self.see(piece.len())?;
            bytes = &bytes[piece.len()..];
            self.left -= piece.len();
            self.message.extend_from_slice(piece);
            if let Some(length) = self.message_length()?
                && self.message.len() >= length
            {
                // Nothing can follow in the same record: the client has to wait
                // for an answer.
                if self.message.len() > length || self.left > 0 {
                    return Err(NotHello::Malformed);
                }
                return wire::parse(&self.message[MESSAGE_HEADER..]).map(Some);
            }
        }
        Ok(None)
    }

    /// The bytes that were looked at: once the greeting is whole, its own.
    pub fn seen(&self) -> usize {
        self.seen
    }

    fn see(&mut self, count: usize) -> Result<(), NotHello> {
        self.seen += count;
        if self.seen > LONGEST { Err(NotHello::TooLong) } else { Ok(()) }
    }

    /// One byte of a record's header, judged as it comes: whoever does not speak
    /// TLS is told at once.
    fn take_header(&mut self, byte: u8) -> Result<(), NotHello> {
        match (self.header_length, byte) {
            // The kind, and the version, whose second byte means nothing.
            (0, HANDSHAKE) | (1, 3) | (2, 0..=4) | (3 | 4, _) => {}
            _ => return Err(NotHello::NotTls),
        }
        self.header[self.header_length] = byte;
        self.header_length += 1;
        if self.header_length == RECORD_HEADER {
            let [.., high, low] = self.header;
            self.left = usize::from(u16::from_be_bytes([high, low]));
            self.header_length = 0;
            if self.left == 0 || self.left > LONGEST_RECORD {
                return Err(NotHello::Record);
            }
        }
        Ok(())
    }

    /// The length of the message with its header, once that is known.
    fn message_length(&self) -> Result<Option<usize>, NotHello> {
        if self.message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(NotHello::OtherMessage);
        }
        let Some([_, high, middle, low]) = self.message.first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes([0, *high, *middle, *low]);
        match usize::try_from(length) {
            Ok(length) if length <= LONGEST => Ok(Some(MESSAGE_HEADER + length)),
            _ => Err(NotHello::TooLong),
        }
    }
}

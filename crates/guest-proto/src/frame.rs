//! Cutting a byte stream into frames.

/// The largest body of a frame. What asks for more is not a peer of ours.
pub const MAX_BODY: usize = 1 << 20;

/// What stands before each body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub length: u32,
    pub kind: u8,
    pub channel: u32,
}

impl Header {
    pub const SIZE: usize = 9;

    fn read(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (&kind, rest) = rest.split_first()?;
        let (channel, _) = rest.split_first_chunk::<4>()?;
        Some(Self {
            length: u32::from_le_bytes(*length),
            kind,
            channel: u32::from_le_bytes(*channel),
        })
    }
}

/// Why a stream cannot be read on. The connection is of no more use then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {0} bytes is over the limit of {MAX_BODY}")]
    TooLong(u32),
    #[error("a frame has the unknown kind {0}")]
    UnknownKind(u8),
    #[error("the body of a frame of kind {0} cannot be read")]
    BadBody(u8),
}

/// Appends the header of a body of `length` bytes that follows it.
pub fn encode_header(out: &mut Vec<u8>, kind: u8, channel: u32, length: usize) {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(&channel.to_le_bytes());
}

/// Appends a whole frame.
pub fn encode(out: &mut Vec<u8>, kind: u8, channel: u32, body: &[u8]) {
    encode_header(out, kind, channel, body.len());
    out.extend_from_slice(body);
}

/// Collects bytes and gives back whole frames, holding at most one frame and
/// what was read behind it.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// The least room offered for a read.
const LEAST_ROOM: usize = 16 << 10;

impl Decoder {
    /// Room to read into. Say with [`Decoder::filled`] how much was read. Take
    /// all whole frames out first: room is sized by the frame in front.
    pub fn space(&mut self) -> &mut [u8] {
        let want = self.missing().max(LEAST_ROOM);
        if self.start > 0 && self.buffer.len() < self.end + want {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() < self.end + want {
            self.buffer.resize(self.end + want, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Says that `count` bytes were read into [`Decoder::space`].
    pub fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
    }

    /// Adds bytes that were read elsewhere.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.space();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.filled(count);
            bytes = &bytes[count..];
        }
    }

    /// Whether a part of a frame is held, of which the rest is to come.
    pub fn holds_part(&self) -> bool {
        self.end > self.start
    }

    /// How many bytes the frame in front still lacks; 0 when it is whole.
    fn missing(&self) -> usize {
        let held = &self.buffer[self.start..self.end];
        let whole = Header::read(held)
            .map_or(Header::SIZE, |header| Header::SIZE + (header.length as usize).min(MAX_BODY));
        whole.saturating_sub(held.len())
    }

    /// The next whole frame, if it has arrived.
    pub fn next_frame(&mut self) -> Result<Option<(Header, &[u8])>, FrameError> {
        let held = &self.buffer[self.start..self.end];
        let Some(header) = Header::read(held) else { return Ok(None) };
        let length = header.length as usize;
        if length > MAX_BODY {
            return Err(FrameError::TooLong(header.length));
        }
        if held.len() < Header::SIZE + length {
            return Ok(None);
        }
        let body = self.start + Header::SIZE;
        self.start = body + length;
        if self.start == self.end {
            // Nothing is left behind the frame: the next read starts in front.
            // The body stays where it is until then.
            let body = body..self.start;
            self.start = 0;
            self.end = 0;
            return Ok(Some((header, &self.buffer[body])));
        }
        Ok(Some((header, &self.buffer[body..body + length])))
    }
}

//! Server-sent events, split however the bytes arrive.
//!
//! A block is an event with the empty line that ends it. Blocks put together are
//! the stream, byte for byte. Lines end in LF, CRLF or CR; a CR at the end of what
//! is there waits for the next byte, which may belong to it.

use std::borrow::Cow;

/// The last event of a Responses stream repeats the whole answer.
const LARGEST: usize = 32 << 20;

/// Finds blocks in a stream.
#[derive(Debug, Default)]
pub struct Splitter {
    /// A block that has not ended.
    held: Vec<u8>,
    /// Where its last line begins.
    line: usize,
    /// Up to where that line has been searched for its end.
    searched: usize,
    is_blind: bool,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<'a> {
    pub name: Option<&'a [u8]>,
    pub data: Cow<'a, [u8]>,
}

impl Splitter {
    /// Gives every block that ends in `chunk` to `each`. What follows them is held,
    /// or, when it is too large for that, given back.
    pub fn push(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8])) -> Option<Vec<u8>> {
        if self.is_blind {
            return None;
        }
        if self.held.is_empty() {
            let used = self.split(chunk, &mut each);
            self.held.extend_from_slice(chunk.get(used..).unwrap_or_default());
        } else {
            self.held.extend_from_slice(chunk);
            let held = std::mem::take(&mut self.held);
            let used = self.split(&held, &mut each);
            self.held = held;
            self.held.drain(..used);
        }
        if self.held.len() > LARGEST {
            let blind = Self { is_blind: true, ..Self::default() };
            return Some(std::mem::replace(self, blind).held);
        }
        None
    }

    /// What is held: the beginning of an event.
    pub fn rest(&self) -> &[u8] {
        &self.held
    }

    /// An event was too large to be held; nothing is split any more.
    pub fn is_blind(&self) -> bool {
        self.is_blind
    }

    fn split(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) -> usize {
        let mut begin = 0;
        while let Some(rest) = bytes.get(self.searched..)
            && let Some(found) = memchr::memchr2(b'\n', b'\r', rest)
        {
            let at = self.searched + found;
            let end = match (bytes.get(at), bytes.get(at + 1)) {
                (Some(b'\n'), _) => at + 1,
                (_, Some(b'\n')) => at + 2,
                (_, Some(_)) => at + 1,
                (_, None) => {
                    self.searched = at;
                    self.line -= begin;
                    self.searched -= begin;
                    return begin;
                }
            };
            if at == self.line {
                each(bytes.get(begin..end).unwrap_or_default());
                begin = end;
            }
            self.line = end;
            self.searched = end;
        }
        self.searched = bytes.len() - begin;
        self.line -= begin;
        begin
    }
}

impl<'a> Event<'a> {
    /// Reads a block. Comments and other fields are left out.
    pub fn read(block: &'a [u8]) -> Self {
        let mut event = Self { name: None, data: Cow::Borrowed(&[]) };
        let mut has_data = false;
        let mut rest = block;
        while !rest.is_empty() {
            let at = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            let line = rest.get(..at).unwrap_or_default();
            // An empty line between CR and LF changes nothing.
            rest = rest.get(at + 1..).unwrap_or_default();
            if let Some(data) = field(line, b"data") {
                if has_data {
                    let all = event.data.to_mut();
                    all.push(b'\n');
                    all.extend_from_slice(data);
                } else {
                    event.data = Cow::Borrowed(data);
                    has_data = true;
                }
            } else if let Some(name) = field(line, b"event") {
                event.name = Some(name);
            }
        }
        event
    }
}

fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"\xef\xbb\xbf: hello\n\nevent: a\ndata: 1\n\ndata:2\r\ndata: 3\r\n\r\nid: 7\revent:b\rdata: 4\r\r\n\n\r\ndata: last";

    fn split(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut splitter = Splitter::default();
        let mut blocks = vec![];
        for chunk in chunks {
            splitter.push(chunk, |block| blocks.push(block.to_vec()));
        }
        (blocks, splitter.rest().to_vec())
    }

    #[test]
    fn chunks_do_not_matter() {
        let whole = split(&[STREAM]);
        assert_eq!(whole.1, b"data: last");
        let mut joined = whole.0.concat();
        joined.extend_from_slice(&whole.1);
        assert_eq!(joined, STREAM);
        for first in 0..=STREAM.len() {
            for second in first..=STREAM.len() {
                let chunks = [&STREAM[..first], &STREAM[first..second], &STREAM[second..]];
                assert_eq!(split(&chunks), whole, "{first} {second}");
            }
        }
        let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(split(&bytes), whole);
    }

    #[test]
    fn fields_are_read_as_the_standard_says() {
        let read = |block: &'static [u8]| {
            let event = Event::read(block);
            (event.name, String::from_utf8(event.data.into_owned()).unwrap())
        };
        assert_eq!(read(b"event: a\ndata: 1\n\n"), (Some(&b"a"[..]), "1".into()));
        assert_eq!(read(b"data:2\r\ndata: 3\r\n\r\n"), (None, "2\n3".into()));
        assert_eq!(read(b"id: 7\revent:b\rdata:  4\r\r"), (Some(&b"b"[..]), " 4".into()));
        assert_eq!(read(b": data: x\ndatax: 1\n\n"), (None, String::new()));
        assert_eq!(read(b"data: {\"a\":1}"), (None, "{\"a\":1}".into()));
    }

    #[test]
    fn an_endless_event_is_let_go() {
        let mut splitter = Splitter::default();
        let chunk = vec![b'x'; 1 << 20];
        let mut given_back = 0;
        for _ in 0..40 {
            let back = splitter.push(&chunk, |_| panic!("there is no event"));
            given_back += back.map_or(0, |back| back.len());
        }
        assert_eq!(given_back, LARGEST + chunk.len());
        assert!(splitter.is_blind());
        assert!(splitter.rest().is_empty());
    }
}

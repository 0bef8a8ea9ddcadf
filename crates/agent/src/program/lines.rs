//! Lines of a program's output, however they were cut.

/// A line that is longer is cut, and then no event any more.
const MAX_LINE_BYTES: usize = 8 << 20;

/// A line, and the number of bytes that came before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub offset: u64,
    pub text: String,
}

/// Cuts a stream into lines.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
    /// Offsets of the line that is being read, and of the stream.
    begin: u64,
    at: u64,
    /// True until the end of a line whose beginning is missing.
    is_torn: bool,
}

impl Lines {
    /// Takes what came, and returns the lines that are whole now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = MAX_LINE_BYTES - self.rest.len();
            self.rest.extend_from_slice(&piece[..piece.len().min(room)]);
            self.at += piece.len() as u64;
            if piece.ends_with(b"\n") {
                lines.extend(self.rest());
            }
        }
        lines
    }

    /// Notes that bytes are missing here: the line that they belong to is none.
    pub fn skip(&mut self, bytes: u64) {
        self.at += bytes;
        self.rest.clear();
        self.is_torn = true;
    }

    /// Takes a last line that has no end.
    pub fn rest(&mut self) -> Option<Line> {
        let line = std::mem::take(&mut self.rest);
        let offset = std::mem::replace(&mut self.begin, self.at);
        let is_torn = std::mem::take(&mut self.is_torn);
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        (!text.is_empty() && !is_torn).then_some(Line { offset, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: Vec<Line>) -> Vec<String> {
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn lines_come_whole_however_they_were_cut() {
        let mut lines = Lines::default();
        assert!(lines.push(b"{\"a\":").is_empty());
        assert_eq!(texts(lines.push(b"1}\r\n\n{\"b\"")), ["{\"a\":1}"]);
        let whole = lines.push(b":2}\nrest");
        assert_eq!(whole, [Line { offset: 10, text: "{\"b\":2}".to_owned() }]);
        assert_eq!(lines.rest().map(|line| line.text).as_deref(), Some("rest"));
        assert_eq!(lines.rest(), None);
    }

    #[test]
    fn a_line_without_an_end_is_bounded() {
        let mut lines = Lines::default();
        for _ in 0..=MAX_LINE_BYTES / 65536 {
            assert!(lines.push(&[b'x'; 65536]).is_empty());
        }
        let came = texts(lines.push(b"y\n{}\n"));
        assert_eq!((came[0].len(), came[1].as_str()), (MAX_LINE_BYTES, "{}"));
    }

    #[test]
    fn what_is_missing_keeps_the_place_of_what_follows() {
        let mut whole = Lines::default();
        let before = whole.push(b"one\ntwo\nthree\nfour\n");
        let mut torn = Lines::default();
        assert_eq!(torn.push(b"one\ntw"), before[..1]);
        torn.skip(5);
        assert_eq!(torn.push(b"ee\nfour\n"), before[3..]);
    }
}

//! Text to nodes, in one pass.

#![expect(
    clippy::indexing_slicing,
    reason = "nodes are named by places in the list that they were pushed to, and `at` is never \
              beyond the text: `next` fails there"
)]

use super::{Kind, Node, Value};

/// Deep enough for any schema of a tool; what is deeper is an attack on somebody
/// who reads recursively.
const DEEPEST: usize = 128;

/// The most values and keys of a text: some 16 MB of nodes. A body of `[0,0,…]` would otherwise take
/// eight times its size. Prompts are long in their strings, not in their number.
pub(super) const MAX_NODES: usize = 1 << 20;

/// Up to here every key is compared with every other one; above, they are sorted.
const FEW_KEYS: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the body is not UTF-8")]
    Utf8,
    #[error("the body is not JSON: unexpected byte at {0}")]
    Syntax(usize),
    #[error("the body is not JSON: it ends too early")]
    Short,
    #[error("the body is nested more than {DEEPEST} deep")]
    Deep,
    #[error("the body is too large, or has more than {MAX_NODES} values")]
    Large,
    #[error("the body says a key twice in one object, at {0}")]
    Twice(usize),
}

/// Reads texts one after the other, keeping its memory.
#[derive(Debug, Default)]
pub struct Reader {
    nodes: Vec<Node>,
    /// Containers that are still open.
    open: Vec<u32>,
    keys: Vec<u32>,
    is_trusting: bool,
}

impl Reader {
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks neither for keys that stand there twice nor at the encoding of strings
    /// that nobody asks for: for what configured upstreams say, where there is much
    /// to read and nobody gains by it.
    pub fn trusting() -> Self {
        Self { is_trusting: true, ..Self::default() }
    }

    pub fn read<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Value<'a>, Malformed> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(Malformed::Large);
        }
        if !self.is_trusting && std::str::from_utf8(bytes).is_err() {
            return Err(Malformed::Utf8);
        }
        self.nodes.clear();
        self.open.clear();
        let mut text = Text { bytes, at: 0 };
        self.all(&mut text)?;
        text.space();
        match text.peek() {
            None => Ok(Value { bytes, nodes: &self.nodes, at: 0 }),
            Some(_) => Err(Malformed::Syntax(text.at)),
        }
    }

    fn all(&mut self, text: &mut Text<'_>) -> Result<(), Malformed> {
        loop {
            // Here a value is due.
            text.space();
            if self.nodes.len() >= MAX_NODES {
                return Err(Malformed::Large);
            }
            let start = text.at;
            let mut is_open = false;
            match text.peek().ok_or(Malformed::Short)? {
                b'"' => {
                    let escaped = text.string()?;
                    self.leaf(Kind::String, start, text.at, escaped);
                }
                first @ (b'{' | b'[') => {
                    if self.open.len() == DEEPEST {
                        return Err(Malformed::Deep);
                    }
                    text.at += 1;
                    let is_object = first == b'{';
                    self.open.push(index(self.nodes.len()));
                    self.leaf(
                        if is_object { Kind::Object } else { Kind::Array },
                        start,
                        start,
                        false,
                    );
                    text.space();
                    let end = if is_object { b'}' } else { b']' };
                    if text.peek() == Some(end) {
                        text.at += 1;
                        self.close(text)?;
                    } else {
                        is_open = true;
                        if is_object {
                            self.key(text)?;
                        }
                    }
                }
                b't' => self.word(text, b"true", Kind::True)?,
                b'f' => self.word(text, b"false", Kind::False)?,
                b'n' => self.word(text, b"null", Kind::Null)?,
                _ => {
                    text.number()?;
                    self.leaf(Kind::Number, start, text.at, false);
                }
            }
            if is_open {
                continue;
            }
            // Here a value is over: close what ends with it.
            loop {
                let Some(&container) = self.open.last() else { return Ok(()) };
                let is_object = self.nodes[container as usize].kind == Kind::Object;
                text.space();
                match text.next()? {
                    b',' => {
                        if is_object {
                            text.space();
                            self.key(text)?;
                        }
                        break;
                    }
                    b'}' if is_object => self.close(text)?,
                    b']' if !is_object => self.close(text)?,
                    _ => return Err(Malformed::Syntax(text.at - 1)),
                }
            }
        }
    }

    fn leaf(&mut self, kind: Kind, start: usize, end: usize, escaped: bool) {
        let next = index(self.nodes.len() + 1);
        self.nodes.push(Node { start: index(start), end: index(end), next, kind, escaped });
    }

    fn word(&mut self, text: &mut Text<'_>, word: &[u8], kind: Kind) -> Result<(), Malformed> {
        let start = text.at;
        if !text.bytes[start..].starts_with(word) {
            return Err(Malformed::Syntax(start));
        }
        text.at += word.len();
        self.leaf(kind, start, text.at, false);
        Ok(())
    }

    fn key(&mut self, text: &mut Text<'_>) -> Result<(), Malformed> {
        let start = text.at;
        if text.peek().ok_or(Malformed::Short)? != b'"' {
            return Err(Malformed::Syntax(start));
        }
        let escaped = text.string()?;
        self.leaf(Kind::String, start, text.at, escaped);
        text.space();
        match text.next()? {
            b':' => Ok(()),
            _ => Err(Malformed::Syntax(text.at - 1)),
        }
    }

    fn close(&mut self, text: &Text<'_>) -> Result<(), Malformed> {
        let Some(container) = self.open.pop() else { return Ok(()) };
        let next = index(self.nodes.len());
        let node = &mut self.nodes[container as usize];
        node.end = index(text.at);
        node.next = next;
        if node.kind == Kind::Object && !self.is_trusting {
            self.once(container, text.bytes)
        } else {
            Ok(())
        }
    }

    /// Every key of the object stands there once.
    fn once(&mut self, object: u32, bytes: &[u8]) -> Result<(), Malformed> {
        let nodes = &self.nodes;
        let end = nodes[object as usize].next;
        self.keys.clear();
        let mut at = object + 1;
        let mut escaped = false;
        while at < end {
            escaped |= nodes[at as usize].escaped;
            self.keys.push(at);
            at = nodes[at as usize + 1].next;
        }
        let raw = |at: u32| {
            let node = nodes[at as usize];
            &bytes[node.start as usize..node.end as usize]
        };
        let twice = |at: u32| Malformed::Twice(nodes[at as usize].start as usize);
        if escaped {
            let mut seen = std::collections::HashSet::new();
            for &at in &self.keys {
                if !seen.insert(Value { bytes, nodes, at: at as usize }.str()) {
                    return Err(twice(at));
                }
            }
        } else if self.keys.len() <= FEW_KEYS {
            for (nth, &at) in self.keys.iter().enumerate() {
                if self.keys[..nth].iter().any(|&before| raw(before) == raw(at)) {
                    return Err(twice(at));
                }
            }
        } else {
            self.keys.sort_unstable_by_key(|&at| raw(at));
            if let Some(pair) = self.keys.windows(2).find(|pair| raw(pair[0]) == raw(pair[1])) {
                return Err(twice(pair[1]));
            }
        }
        Ok(())
    }
}

/// Whole texts are checked to fit before anything is counted in them.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

struct Text<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Text<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Result<u8, Malformed> {
        let byte = self.peek().ok_or(Malformed::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Goes past a string; whether it has escapes.
    fn string(&mut self) -> Result<bool, Malformed> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.at += ordinary(&self.bytes[self.at..]);
            match self.next()? {
                b'"' => return Ok(escaped),
                b'\\' => {
                    escaped = true;
                    match self.next()? {
                        byte if SIMPLE[usize::from(byte)] => {}
                        b'u' => {
                            for _ in 0..4 {
                                if !self.next()?.is_ascii_hexdigit() {
                                    return Err(Malformed::Syntax(self.at - 1));
                                }
                            }
                        }
                        _ => return Err(Malformed::Syntax(self.at - 1)),
                    }
                }
                _ => return Err(Malformed::Syntax(self.at - 1)),
            }
        }
    }

    fn number(&mut self) -> Result<(), Malformed> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        match self.peek() {
            _ if self.at > start => Ok(()),
            Some(_) => Err(Malformed::Syntax(self.at)),
            None => Err(Malformed::Short),
        }
    }
}

/// What may follow a backslash and is all of the escape. A table: logs and source
/// code are full of escapes, and guessing which comes next fails too often.
const SIMPLE: [bool; 256] = {
    let mut table = [false; 256];
    let all = b"\"\\/bfnrt";
    let mut at = 0;
    while at < all.len() {
        table[all[at] as usize] = true;
        at += 1;
    }
    table
};

/// How many bytes there are before the next quote, backslash or control
/// character: eight at a time, as most of a body is text.
fn ordinary(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let mut done = 0;
    for chunk in bytes.chunks_exact(8) {
        let mut eight = [0; 8];
        eight.copy_from_slice(chunk);
        let word = u64::from_le_bytes(eight);
        let quote = has_zero(word ^ (ONES * u64::from(b'"')));
        let slash = has_zero(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        // A borrow can only mark bytes after the first true one, so that one is right.
        let special = quote | slash | control;
        if special != 0 {
            return done + special.trailing_zeros() as usize / 8;
        }
        done += 8;
    }
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    done + bytes[done..].iter().position(is_special).unwrap_or(bytes.len() - done)
}

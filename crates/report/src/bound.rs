//! Makes a text small and balanced before it is parsed.
//!
//! An HTML parser repairs what it reads, and some repairs cost much more than the text is long: it
//! repeats open elements, and searches long lists of attributes. Here the text becomes one in which
//! there is nothing to repair: only known tags, each closed where it belongs, to a bounded depth.
//! The time is linear. This is no sanitiser; that comes afterwards and trusts nothing of it.

use crate::sanitise::{self, Place, Tag};

/// The most elements within each other. Deeper ones lose their tags.
const MAX_DEPTH: usize = 48;
/// The most tags. The text after them has none.
const MAX_TAGS: usize = 60_000;
/// The longest value of an attribute.
const MAX_VALUE: usize = 2048;

/// Elements whose content is not text for people.
const HIDDEN: &[&str] = &[
    "applet",
    "audio",
    "canvas",
    "embed",
    "frameset",
    "head",
    "iframe",
    "math",
    "noembed",
    "noframes",
    "noscript",
    "object",
    "plaintext",
    "script",
    "select",
    "style",
    "svg",
    "template",
    "textarea",
    "title",
    "video",
    "xmp",
];

/// Cuts a text at a length.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Returns the same text with balanced tags of the allowlist.
pub(crate) fn bound(text: &str) -> String {
    let mut reader = Reader { rest: text, lower: &text.to_ascii_lowercase() };
    let mut writer = Writer::default();
    while let Some(piece) = reader.next() {
        match piece {
            Piece::Text(text) => writer.text(text),
            Piece::Open(name, attributes) => writer.open(name, attributes),
            Piece::Close(name) => writer.close(name),
        }
    }
    writer.finish()
}

enum Piece<'a> {
    Text(&'a str),
    /// A lower-case name, and what stands between it and the end of the tag.
    Open(&'a str, &'a str),
    Close(&'a str),
}

/// Reads text and tags. Comments, declarations and hidden content are not among them.
struct Reader<'a> {
    rest: &'a str,
    /// The same as `rest`, in lower-case letters.
    lower: &'a str,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<Piece<'a>> {
        loop {
            let first = *self.rest.as_bytes().first()?;
            if first != b'<' {
                let end = self.rest.find('<').unwrap_or(self.rest.len());
                return Some(Piece::Text(self.take(end).0));
            }
            let after = self.rest.as_bytes().get(1).copied().unwrap_or_default();
            match after {
                b'!' | b'?' => self.skip_declaration(),
                b'/' if self.rest.as_bytes().get(2).is_some_and(u8::is_ascii_alphabetic) => {
                    let (_, lower) = self.take_tag();
                    return Some(Piece::Close(split_name(&lower[2..]).0));
                }
                b'/' => drop(self.take_tag()),
                _ if after.is_ascii_alphabetic() => {
                    let (tag, lower) = self.take_tag();
                    let (name, _) = split_name(&lower[1..]);
                    let attributes = tag[1 + name.len()..].trim_end_matches('>');
                    if HIDDEN.contains(&name) {
                        self.skip_content(name);
                        continue;
                    }
                    return Some(Piece::Open(name, attributes));
                }
                // No tag begins here.
                _ => return Some(Piece::Text(self.take(1).0)),
            }
        }
    }

    fn take(&mut self, length: usize) -> (&'a str, &'a str) {
        let ((taken, rest), (lower, rest_lower)) =
            (self.rest.split_at(length), self.lower.split_at(length));
        (self.rest, self.lower) = (rest, rest_lower);
        (taken, lower)
    }

    /// Takes a whole tag. A `>` within quotes does not end it.
    fn take_tag(&mut self) -> (&'a str, &'a str) {
        let mut quote = None;
        let mut is_value = false;
        let mut end = self.rest.len();
        for (at, byte) in self.rest.bytes().enumerate() {
            match (quote, byte) {
                (Some(open), byte) if open == byte => quote = None,
                (Some(_), _) => {}
                (None, b'>') => {
                    end = at + 1;
                    break;
                }
                // Quotes elsewhere than at the beginning of a value are letters.
                (None, b'"' | b'\'') if is_value => quote = Some(byte),
                (None, b'=') => is_value = true,
                (None, byte) if byte.is_ascii_whitespace() => {}
                (None, _) => is_value = false,
            }
        }
        self.take(end)
    }

    fn skip_declaration(&mut self) {
        let end = match self.rest.strip_prefix("<!--") {
            // `<!-->` and `<!--->` are whole comments.
            Some(comment) if comment.starts_with('>') => Some(5),
            Some(comment) if comment.starts_with("->") => Some(6),
            Some(comment) => {
                let is_end = |&(at, _): &(usize, &str)| {
                    comment[..at].ends_with("--") || comment[..at].ends_with("--!")
                };
                comment.match_indices('>').find(is_end).map(|(at, _)| at + 5)
            }
            None => self.rest.find('>').map(|at| at + 1),
        };
        self.take(end.unwrap_or(self.rest.len()));
    }

    /// Skips the content of an element and its end.
    fn skip_content(&mut self, name: &str) {
        let end = match name {
            // These have no end.
            "embed" => return,
            "plaintext" => None,
            _ => self.lower.find(&format!("</{name}")),
        };
        self.take(end.unwrap_or(self.rest.len()));
        if !self.rest.is_empty() {
            self.take_tag();
        }
    }
}

fn split_name(tag: &str) -> (&str, &str) {
    let is_end = |letter: char| letter.is_ascii_whitespace() || matches!(letter, '/' | '>');
    tag.split_at(tag.find(is_end).unwrap_or(tag.len()))
}

#[derive(Default)]
struct Writer {
    out: String,
    open: Vec<&'static Tag>,
    tags: usize,
}

impl Writer {
    fn text(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '\0' => {}
                letter => self.out.push(letter),
            }
        }
    }

    fn open(&mut self, name: &str, attributes: &str) {
        let Some(tag) = sanitise::tag(name) else { return };
        self.tags += 1;
        if self.tags > MAX_TAGS {
            return;
        }
        if tag.place != Place::Words {
            // Nothing of a line goes on in the next block, so no parser has to repeat it.
            self.close_while(|open| matches!(open.place, Place::Words | Place::Lines));
        }
        self.close_same(tag);
        if self.open.len() >= MAX_DEPTH {
            return;
        }
        self.out.push('<');
        self.out.push_str(tag.name);
        self.attributes(tag, attributes);
        self.out.push('>');
        if !tag.is_void {
            self.open.push(tag);
        }
    }

    /// Closes what an element ends by its beginning: a row ends the row before it.
    fn close_same(&mut self, tag: &Tag) {
        let (ends, walls): (&[&str], &[&str]) = match tag.name {
            "li" => (&["li"], &["ul", "ol"]),
            "dt" | "dd" => (&["dt", "dd"], &["dl"]),
            "td" | "th" => (&["td", "th"], &["table"]),
            "tr" => (&["tr", "caption"], &["table"]),
            "thead" | "tbody" | "tfoot" => (&["thead", "tbody", "tfoot", "caption"], &["table"]),
            "a" => (&["a"], &["td", "th"]),
            _ => return,
        };
        let mut found = None;
        for (at, open) in self.open.iter().enumerate().rev() {
            if walls.contains(&open.name) {
                break;
            }
            if ends.contains(&open.name) {
                found = Some(at);
            }
        }
        if let Some(at) = found {
            self.close_to(at);
        }
    }

    fn close(&mut self, name: &str) {
        let Some(tag) = sanitise::tag(name) else { return };
        let is_words = tag.place == Place::Words;
        for at in (0..self.open.len()).rev() {
            if self.open[at].name == tag.name {
                return self.close_to(at);
            }
            let is_cell = matches!(self.open[at].name, "td" | "th");
            // The end of a line's element ends no block, and that of a block no cell around it.
            if (is_words && self.open[at].place != Place::Words)
                || (is_cell && !matches!(tag.name, "tr" | "thead" | "tbody" | "tfoot" | "table"))
            {
                return;
            }
        }
    }

    fn close_while(&mut self, is_closed: impl Fn(&Tag) -> bool) {
        while self.open.last().is_some_and(|open| is_closed(open)) {
            self.close_to(self.open.len() - 1);
        }
    }

    fn close_to(&mut self, length: usize) {
        while self.open.len() > length {
            if let Some(tag) = self.open.pop() {
                self.out.push_str("</");
                self.out.push_str(tag.name);
                self.out.push('>');
            }
        }
    }

    /// Writes the known attributes of a tag, each once.
    fn attributes(&mut self, tag: &Tag, mut rest: &str) {
        let mut seen: Vec<&str> = Vec::new();
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            if rest.is_empty() {
                return;
            }
            // A `=` at the beginning is part of the name.
            let is_end = |(at, byte): (usize, u8)| {
                byte.is_ascii_whitespace() || byte == b'/' || (byte == b'=' && at > 0)
            };
            let end = rest.bytes().enumerate().position(is_end).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            let value;
            (value, rest) = split_value(after);
            let known = tag.attributes().find(|known| known.eq_ignore_ascii_case(name));
            let Some(known) = known.filter(|known| !seen.contains(known)) else { continue };
            seen.push(known);
            if value.len() > MAX_VALUE || !is_sensible(known, value) {
                continue;
            }
            self.out.push(' ');
            self.out.push_str(known);
            self.out.push_str("=\"");
            for letter in value.chars() {
                match letter {
                    '"' => self.out.push_str("&quot;"),
                    '<' => self.out.push_str("&lt;"),
                    '>' => self.out.push_str("&gt;"),
                    '\0' => {}
                    letter => self.out.push(letter),
                }
            }
            self.out.push('"');
        }
    }

    fn finish(mut self) -> String {
        self.close_to(0);
        self.out
    }
}

/// The value after a name, and what follows it.
fn split_value(after: &str) -> (&str, &str) {
    let Some(value) = after.trim_ascii_start().strip_prefix('=') else { return ("", after) };
    let value = value.trim_ascii_start();
    for quote in ['"', '\''] {
        if let Some(quoted) = value.strip_prefix(quote) {
            return quoted.split_once(quote).unwrap_or((quoted, ""));
        }
    }
    value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len()))
}

/// Returns false for numbers with which a small table becomes a large one.
fn is_sensible(name: &str, value: &str) -> bool {
    match name {
        "colspan" | "rowspan" => value.parse::<u8>().is_ok_and(|span| (1..=100).contains(&span)),
        _ => true,
    }
}

#[cfg(test)]
mod tests;

//! JSON as it is compared: names in order, no white space, one spelling of each
//! text.
//!
//! Numbers keep the digits they were written with, and a name that stands twice
//! is refused: a reader that rounds or drops would call two different bodies
//! the same one, and the second would be answered with what belongs to the first.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Deeper values are compared byte by byte, as if they were not JSON.
const DEEPEST: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    /// `null`, `true`, `false` and numbers, as written.
    Plain(String),
    /// With its quotes and escapes, in the one spelling.
    Text(String),
    List(Vec<Json>),
    /// Names in the same spelling as texts.
    Map(BTreeMap<String, Json>),
}

/// Where two values first differ; a side that has nothing there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parting {
    pub(crate) pointer: String,
    pub(crate) left: Option<String>,
    pub(crate) right: Option<String>,
}

impl Json {
    /// None for whatever is not exactly one JSON value.
    pub(crate) fn parse(content: &[u8]) -> Option<Self> {
        let mut reader = Reader { text: str::from_utf8(content).ok()?, at: 0 };
        let value = reader.value(0)?;
        reader.skip_space();
        (reader.at == reader.text.len()).then_some(value)
    }

    pub(crate) fn canonical(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Plain(text) | Self::Text(text) => out.push_str(text),
            Self::List(items) => {
                out.push('[');
                for (number, item) in items.iter().enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Map(fields) => {
                out.push('{');
                for (number, (name, value)) in fields.iter().enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    let _ = write!(out, "{name}:");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Removes what a JSON pointer (RFC 6901) names; `*` stands for every item
    /// of a list or every field.
    pub(crate) fn remove(&mut self, pointer: &str) {
        let Some(rest) = pointer.strip_prefix('/') else { return };
        let (first, rest) = match rest.find('/') {
            Some(end) => (rest.get(..end).unwrap_or_default(), rest.get(end..)),
            None => (rest, None),
        };
        match (self, rest) {
            (Self::Map(fields), None) if first == "*" => fields.clear(),
            (Self::Map(fields), None) => {
                fields.remove(&quoted(&unescaped(first)));
            }
            (Self::Map(fields), Some(rest)) if first == "*" => {
                fields.values_mut().for_each(|value| value.remove(rest));
            }
            (Self::Map(fields), Some(rest)) => {
                if let Some(value) = fields.get_mut(&quoted(&unescaped(first))) {
                    value.remove(rest);
                }
            }
            (Self::List(items), None) if first == "*" => items.clear(),
            // What follows moves up only when it is compared: put a hole there.
            (Self::List(items), None) => {
                if let Some(item) = first.parse().ok().and_then(|at: usize| items.get_mut(at)) {
                    *item = Self::Plain("null".into());
                }
            }
            (Self::List(items), Some(rest)) if first == "*" => {
                items.iter_mut().for_each(|item| item.remove(rest));
            }
            (Self::List(items), Some(rest)) => {
                if let Some(item) = first.parse().ok().and_then(|at: usize| items.get_mut(at)) {
                    item.remove(rest);
                }
            }
            (Self::Plain(_) | Self::Text(_), _) => {}
        }
    }

    pub(crate) fn parting(&self, other: &Self) -> Option<Parting> {
        self.parting_below(other, &mut String::new())
    }

    fn parting_below(&self, other: &Self, pointer: &mut String) -> Option<Parting> {
        let mut step = |name: &str, left: Option<&Self>, right: Option<&Self>| {
            let before = pointer.len();
            let _ = write!(pointer, "/{name}");
            let found = match (left, right) {
                (Some(left), Some(right)) => left.parting_below(right, pointer),
                (left, right) => Some(Parting {
                    pointer: pointer.clone(),
                    left: left.map(Self::canonical),
                    right: right.map(Self::canonical),
                }),
            };
            pointer.truncate(before);
            found
        };
        match (self, other) {
            (left, right) if left == right => None,
            (Self::List(left), Self::List(right)) => (0..left.len().max(right.len()))
                .find_map(|at| step(&at.to_string(), left.get(at), right.get(at))),
            (Self::Map(left), Self::Map(right)) => {
                let names: std::collections::BTreeSet<_> =
                    left.keys().chain(right.keys()).collect();
                names
                    .into_iter()
                    .find_map(|name| step(&escaped(&plain(name)), left.get(name), right.get(name)))
            }
            (left, right) => Some(Parting {
                pointer: pointer.clone(),
                left: Some(left.canonical()),
                right: Some(right.canonical()),
            }),
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn plain(quoted: &str) -> String {
    serde_json::from_str(quoted).unwrap_or_else(|_| quoted.to_owned())
}

fn escaped(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEEPEST {
            return None;
        }
        self.skip_space();
        match self.peek()? {
            b'"' => self.string().map(Json::Text),
            b'[' => self.list(depth),
            b'{' => self.map(depth),
            _ => self.plain(),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        self.take(b'[')?;
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']').is_some() {
            return Some(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(b']').is_some() {
                return Some(Json::List(items));
            }
            self.take(b',')?;
        }
    }

    fn map(&mut self, depth: usize) -> Option<Json> {
        self.take(b'{')?;
        let mut fields = BTreeMap::new();
        self.skip_space();
        if self.take(b'}').is_some() {
            return Some(Json::Map(fields));
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            self.skip_space();
            self.take(b':')?;
            let value = self.value(depth + 1)?;
            if fields.insert(name, value).is_some() {
                return None;
            }
            self.skip_space();
            if self.take(b'}').is_some() {
                return Some(Json::Map(fields));
            }
            self.take(b',')?;
        }
    }

    /// In the one spelling. What no text of ours can hold (half a surrogate
    /// pair) stays as it was written, which equals nothing else.
    fn string(&mut self) -> Option<String> {
        let begin = self.at;
        self.take(b'"')?;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        let raw = self.text.get(begin..self.at)?;
        if !raw.contains('\\') {
            return Some(raw.to_owned());
        }
        Some(serde_json::from_str::<String>(raw).map_or_else(|_| raw.to_owned(), |s| quoted(&s)))
    }

    fn plain(&mut self) -> Option<Json> {
        let begin = self.at;
        while matches!(self.peek(), Some(b'a'..=b'z' | b'0'..=b'9' | b'.' | b'+' | b'-' | b'E')) {
            self.at += 1;
        }
        let word = self.text.get(begin..self.at)?;
        let fits = matches!(word, "null" | "true" | "false") || is_number(word);
        fits.then(|| Json::Plain(word.to_owned()))
    }
}

fn is_number(word: &str) -> bool {
    let word = word.strip_prefix('-').unwrap_or(word);
    let (mantissa, exponent) = match word.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (word, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|text| digits(text.strip_prefix(['+', '-']).unwrap_or(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Option<String> {
        Json::parse(text.as_bytes()).map(|value| value.canonical())
    }

    #[test]
    fn order_space_and_escapes_do_not_matter() {
        let want = canonical(r#"{"a":[1,"é"],"b":null}"#);
        assert_eq!(canonical("{ \"b\" : null,\n\"a\":[ 1,\"\\u00e9\" ] }"), want);
        assert!(want.is_some());
    }

    #[test]
    fn different_digits_are_different_values() {
        for (a, b) in [
            ("18446744073709551617", "18446744073709551616"),
            ("0.1", "0.10000000000000000001"),
            (r#""\ud800""#, r#""\ud801""#),
            ("1", "\"1\""),
        ] {
            let (a, b) = (canonical(a).unwrap(), canonical(b).unwrap());
            assert_ne!(a, b);
        }
    }

    #[test]
    fn what_readers_disagree_about_is_not_json() {
        let deep = "[".repeat(100_000);
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            "01",
            "1.",
            ".5",
            "+1",
            "1 2",
            "[1,]",
            "{\"a\"}",
            "\"\n\"",
            "\"\\",
            "nul",
            "NaN",
            "",
            &deep,
        ] {
            assert_eq!(canonical(text), None, "{text:.20}");
        }
    }

    #[test]
    fn the_first_difference_is_a_pointer() {
        let left = Json::parse(br#"{"m":[{"a/b":1},{"t":"x"}],"z":1}"#).unwrap();
        let check = |right: &str, pointer: &str, sides: (Option<&str>, Option<&str>)| {
            let right = Json::parse(right.as_bytes()).unwrap();
            let found = left.parting(&right).unwrap();
            assert_eq!((found.pointer.as_str()), pointer);
            assert_eq!((found.left.as_deref(), found.right.as_deref()), sides);
        };
        check(r#"{"m":[{"a/b":2},{"t":"x"}],"z":1}"#, "/m/0/a~1b", (Some("1"), Some("2")));
        check(r#"{"m":[{"a/b":1},{"t":"x"},3],"z":1}"#, "/m/2", (None, Some("3")));
        check(r#"{"m":[{"a/b":1},{"t":"x"}]}"#, "/z", (Some("1"), None));
        assert_eq!(left.parting(&left.clone()), None);
    }

    #[test]
    fn pointers_remove_what_they_name() {
        let check = |pointer: &str, want: &str| {
            let mut value = Json::parse(br#"{"m":[{"id":1,"t":2},{"id":3}],"a/b":4}"#).unwrap();
            value.remove(pointer);
            assert_eq!(value.canonical(), want, "{pointer}");
        };
        check("/m/*/id", r#"{"a/b":4,"m":[{"t":2},{}]}"#);
        check("/m/0", r#"{"a/b":4,"m":[null,{"id":3}]}"#);
        check("/a~1b", r#"{"m":[{"id":1,"t":2},{"id":3}]}"#);
        check("/none/such", r#"{"a/b":4,"m":[{"id":1,"t":2},{"id":3}]}"#);
    }
}

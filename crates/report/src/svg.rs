//! Cleans SVG pictures.
//!
//! A browser shows a picture in `<img>` without scripts and requests. A reader may still open it
//! alone, so it keeps no element and no attribute that could do either. What is no well-formed XML
//! is no picture.

mod words;

use std::collections::BTreeSet;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::escape::{escape, is_direction};
use words::{ATTRIBUTES, ELEMENTS};

/// The most elements within each other.
const MAX_DEPTH: usize = 64;
/// The longest id.
const MAX_ID_BYTES: usize = 256;
const ROOT: &str =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\"";

/// Returns the picture with known elements and attributes alone; none: it is no SVG picture.
pub(crate) fn clean(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.trim_start_matches('\u{feff}');
    let repeated = repeaters(text)?;
    let mut cleaner = Cleaner { repeated, ..Cleaner::default() };
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event().ok()? {
            Event::Eof => break,
            event => cleaner.take(&event)?,
        }
    }
    (cleaner.is_begun && cleaner.open.is_empty()).then_some(cleaner.out)
}

/// Ids of elements with a `use` inside of them. To use one would repeat, and thirty of them that
/// use each other twice are a billion.
fn repeaters(text: &str) -> Option<BTreeSet<String>> {
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Option<String>> = Vec::new();
    let mut found = BTreeSet::new();
    loop {
        let event = reader.read_event().ok()?;
        match &event {
            Event::Start(tag) | Event::Empty(tag) => {
                if tag.name().as_ref() == b"use" {
                    // Each is taken once, so many uses within them cost no more than one.
                    found.extend(open.iter_mut().filter_map(Option::take));
                }
                if matches!(event, Event::Start(_)) {
                    let id = written("", tag, |name| name == "id").pop().map(|(_, id)| id);
                    if id.as_ref().is_some_and(|id| id.len() > MAX_ID_BYTES) {
                        return None;
                    }
                    open.push(id);
                }
                if open.len() > MAX_DEPTH {
                    return None;
                }
            }
            Event::End(_) => drop(open.pop()),
            Event::Eof => return Some(found),
            _ => {}
        }
    }
}

#[derive(Debug, Default)]
struct Cleaner {
    out: String,
    open: Vec<Place>,
    repeated: BTreeSet<String>,
    is_begun: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Kept(String),
    /// The content stays, without the element.
    Opened,
    /// Text of a style sheet, which is judged as a whole.
    Style(String),
    Dropped,
}

impl Cleaner {
    /// None: this is no picture.
    fn take(&mut self, event: &Event<'_>) -> Option<()> {
        match event {
            Event::Start(tag) => {
                let place = self.place(tag)?;
                self.begin(tag, &place);
                self.open.push(place);
            }
            Event::Empty(tag) => {
                let place = self.place(tag)?;
                self.begin(tag, &place);
                self.end(place);
            }
            Event::End(_) => {
                let place = self.open.pop()?;
                self.end(place);
            }
            Event::Text(text) => self.text(&text.decode().ok()?),
            Event::CData(text) => self.text(&text.decode().ok()?),
            Event::GeneralRef(name) => {
                let letter = match name.resolve_char_ref().ok()? {
                    Some(letter) => letter,
                    None => match name.decode().ok()?.as_ref() {
                        "lt" => '<',
                        "gt" => '>',
                        "amp" => '&',
                        "quot" => '"',
                        "apos" => '\'',
                        // Declarations are not read, so this is no text that is known.
                        _ => return None,
                    },
                };
                self.text(letter.encode_utf8(&mut [0; 4]));
            }
            _ => {}
        }
        Some(())
    }

    fn place(&self, tag: &BytesStart<'_>) -> Option<Place> {
        let name = tag.name();
        let name = std::str::from_utf8(name.as_ref()).ok()?;
        if self.open.is_empty() {
            // There is one root.
            return (name == "svg" && !self.is_begun).then(|| Place::Kept(name.to_owned()));
        }
        Some(match self.open.last() {
            Some(Place::Dropped | Place::Style(_)) => Place::Dropped,
            _ if matches!(name, "a" | "switch") => Place::Opened,
            _ if name == "style" => Place::Style(String::new()),
            _ if name == "use" && self.is_repeater(tag) => Place::Dropped,
            _ if ELEMENTS.contains(&name) => Place::Kept(name.to_owned()),
            _ => Place::Dropped,
        })
    }

    fn is_repeater(&self, tag: &BytesStart<'_>) -> bool {
        let targets = written("use", tag, |name| name == "href");
        let names =
            |target: &str| target.strip_prefix('#').is_some_and(|id| self.repeated.contains(id));
        targets.iter().any(|(_, target)| names(target))
    }

    fn begin(&mut self, tag: &BytesStart<'_>, place: &Place) {
        let Place::Kept(name) = place else { return };
        if self.is_begun {
            self.out.push('<');
            self.out.push_str(name);
        } else {
            self.is_begun = true;
            self.out.push_str(ROOT);
        }
        for (key, value) in written(name, tag, |_| true) {
            self.out.push(' ');
            self.out.push_str(key);
            self.out.push_str("=\"");
            self.out.push_str(&escape(&value));
            self.out.push('"');
        }
        self.out.push('>');
    }

    fn end(&mut self, place: Place) {
        match place {
            Place::Kept(name) => {
                self.out.push_str("</");
                self.out.push_str(&name);
                self.out.push('>');
            }
            Place::Style(text) => {
                let text = known_letters(&text);
                if is_style(&text) {
                    self.out.push_str("<style>");
                    self.out.push_str(&content(&text));
                    self.out.push_str("</style>");
                }
            }
            Place::Opened | Place::Dropped => {}
        }
    }

    fn text(&mut self, text: &str) {
        match self.open.last_mut() {
            Some(Place::Style(style)) => style.push_str(text),
            Some(Place::Kept(_) | Place::Opened) => {
                self.out.push_str(&content(&known_letters(text)));
            }
            Some(Place::Dropped) | None => {}
        }
    }
}

/// The wanted attributes of an element as they are written: the known ones, each with its first
/// value that is allowed. Every judgement about an attribute is one about this value.
fn written(
    element: &str,
    tag: &BytesStart<'_>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(&'static str, String)> {
    let mut all: Vec<(&'static str, String)> = Vec::new();
    for attribute in tag.attributes().with_checks(false).flatten() {
        let Ok(key) = std::str::from_utf8(attribute.key.as_ref()) else { continue };
        // The newer name of the same.
        let key = if key == "xlink:href" { "href" } else { key };
        let Some(key) = ATTRIBUTES.iter().copied().find(|known| *known == key) else { continue };
        if !wanted(key) || all.iter().any(|(seen, _)| *seen == key) {
            continue;
        }
        let Ok(value) = attribute.normalized_value(XmlVersion::Implicit1_0) else { continue };
        let value = known_letters(&value);
        if is_allowed(element, key, &value) {
            all.push((key, value));
        }
    }
    all
}

fn is_allowed(element: &str, name: &str, value: &str) -> bool {
    match name {
        "href" if element == "image" => {
            let kinds = ["data:image/png;base64,", "data:image/jpeg;base64,"];
            kinds.iter().any(|kind| value.trim().starts_with(kind))
        }
        "href" => value.strip_prefix('#').is_some_and(is_id),
        _ => is_style(value),
    }
}

/// Returns true for a fragment that names the element with this id and no other. A browser decodes
/// `%61`, leaves white space out and may know `xpointer(…)`.
fn is_id(fragment: &str) -> bool {
    let is_plain = |letter: char| !letter.is_whitespace() && !matches!(letter, '%' | '(');
    !fragment.is_empty() && fragment.chars().all(is_plain)
}

/// Returns true for styles that load nothing: they name only elements of the same picture.
fn is_style(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    // Escapes, rules that import, and comments within words.
    if ["\\", "@", "/*", "<", "javascript:"].iter().any(|word| text.contains(word)) {
        return false;
    }
    let loads = ["image(", "image-set(", "src(", "cross-fade(", "expression(", "element("];
    if loads.iter().any(|word| text.contains(word)) {
        return false;
    }
    let is_own = |after: &str| after.trim_start_matches([' ', '"', '\'']).starts_with('#');
    text.split("url(").skip(1).all(is_own)
}

/// The text without characters that XML does not have or that `escape` leaves out. It comes before
/// every judgement: one of them within `url(` would hide it.
fn known_letters(text: &str) -> String {
    let is_known = |letter: &char| {
        let is_space = matches!(letter, '\n' | '\t' | '\r');
        (is_space || !letter.is_control()) && !is_direction(*letter)
    };
    text.chars().filter(is_known).collect()
}

/// Writes text between tags. Quotes stay as they are there, so the text grows less.
fn content(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;

//! The allowlist of tags and attributes, and the sanitiser that enforces it.
//!
//! Without `style`, `class` and `on…` attributes a text cannot look like the page around it, and
//! without forms, frames and foreign namespaces there is nothing to run or load.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

/// Before every id of the text, so that none of them is one of the page.
pub(crate) const ID_PREFIX: &str = "f-";

/// The place of an element in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Within a line.
    Words,
    /// A block of lines: it contains no other block.
    Lines,
    Block,
}

/// An element that a text may have.
#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) is_void: bool,
    own: &'static [&'static str],
}

impl Tag {
    pub(crate) fn attributes(&self) -> impl Iterator<Item = &'static str> {
        self.own.iter().chain(EVERYWHERE).copied()
    }
}

const EVERYWHERE: &[&str] = &["id", "lang", "dir", "title"];

const fn words(name: &'static str, own: &'static [&'static str]) -> Tag {
    Tag { name, place: Place::Words, is_void: false, own }
}

const fn lines(name: &'static str) -> Tag {
    Tag { name, place: Place::Lines, is_void: false, own: &[] }
}

const fn block(name: &'static str, own: &'static [&'static str]) -> Tag {
    Tag { name, place: Place::Block, is_void: false, own }
}

const fn void(name: &'static str, place: Place, own: &'static [&'static str]) -> Tag {
    Tag { name, place, is_void: true, own }
}

const TAGS: &[Tag] = &[
    words("a", &["href"]),
    words("abbr", &[]),
    words("b", &[]),
    words("bdi", &[]),
    words("cite", &[]),
    words("code", &[]),
    words("del", &[]),
    words("dfn", &[]),
    words("em", &[]),
    words("i", &[]),
    words("ins", &[]),
    words("kbd", &[]),
    words("mark", &[]),
    words("q", &[]),
    words("s", &[]),
    words("samp", &[]),
    words("small", &[]),
    words("span", &[]),
    words("strong", &[]),
    words("sub", &[]),
    words("sup", &["class"]),
    words("time", &["datetime"]),
    words("u", &[]),
    words("var", &[]),
    void("br", Place::Words, &[]),
    void("img", Place::Words, &["src", "alt"]),
    void("wbr", Place::Words, &[]),
    lines("p"),
    lines("h1"),
    lines("h2"),
    lines("h3"),
    lines("h4"),
    lines("h5"),
    lines("h6"),
    lines("pre"),
    void("hr", Place::Block, &[]),
    block("article", &[]),
    block("blockquote", &[]),
    block("caption", &[]),
    block("dd", &[]),
    block("details", &["open"]),
    block("div", &["class"]),
    block("dl", &[]),
    block("dt", &[]),
    block("figcaption", &[]),
    block("figure", &[]),
    block("li", &[]),
    block("ol", &["start", "reversed"]),
    block("section", &[]),
    block("summary", &[]),
    block("table", &[]),
    block("tbody", &[]),
    block("td", &["class", "colspan", "rowspan"]),
    block("tfoot", &[]),
    block("th", &["class", "colspan", "rowspan", "scope"]),
    block("thead", &[]),
    block("tr", &[]),
    block("ul", &[]),
];

/// Classes that Markdown makes; the page has no others that a text could take.
const CLASSES: &[(&str, &[&str])] = &[
    ("div", &["footnote-definition"]),
    ("sup", &["footnote-definition-label", "footnote-reference"]),
    ("td", &["left", "right", "center"]),
    ("th", &["left", "right", "center"]),
];

/// The element of this name, in lower-case letters, if a text may have it.
pub(crate) fn tag(name: &str) -> Option<&'static Tag> {
    TAGS.iter().find(|tag| tag.name == name)
}

static SANITISER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let attributes = TAGS.iter().map(|tag| {
        // Classes are judged one by one.
        let own = tag.own.iter().copied().filter(|name| *name != "class");
        (tag.name, own.collect::<HashSet<_>>())
    });
    let classes = CLASSES.iter().map(|(tag, classes)| (*tag, classes.iter().copied().collect()));
    let mut builder = Builder::empty();
    builder
        .tags(TAGS.iter().map(|tag| tag.name).collect())
        .clean_content_tags(HashSet::from(["script", "style", "title", "textarea", "svg", "math"]))
        .tag_attributes(attributes.collect::<HashMap<_, _>>())
        .generic_attributes(EVERYWHERE.iter().copied().collect())
        .allowed_classes(classes.collect::<HashMap<_, HashSet<_>>>())
        // Links are shown as text later, and pictures are found by name: nothing is loaded.
        .url_schemes(HashSet::from(["chart", "http", "https", "mailto"]))
        .url_relative(UrlRelative::PassThrough)
        .link_rel(None)
        .strip_comments(true)
        .id_prefix(Some(ID_PREFIX));
    builder
});

/// Returns the text with the allowed tags and attributes alone, as a browser would write it: each
/// `<` begins a tag, each `>` ends one, and values stand in double quotes.
pub(crate) fn sanitise(text: &str) -> String {
    SANITISER.clean(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_has_a_form_that_can_be_read_by_hand() {
        let text = "<p title='a<b>\"c\"'>1 > 0 &amp;&#60; &nbsp;<br></p>";
        let expected =
            concat!("<p title=\"a&lt;b&gt;&quot;c&quot;\">", "1 &gt; 0 &amp;&lt; &nbsp;<br></p>");
        assert_eq!(sanitise(text), expected);
    }

    #[test]
    fn classes_of_the_page_cannot_be_taken() {
        let text = "<div class=\"page footnote-definition\"><td class=facts><p class=facts>x";
        let clean = sanitise(text);
        assert_eq!(clean, "<div class=\"footnote-definition\"><p>x</p></div>");
    }

    #[test]
    fn ids_have_a_prefix() {
        assert_eq!(sanitise("<p id=contents>x</p>"), "<p id=\"f-contents\">x</p>");
    }
}

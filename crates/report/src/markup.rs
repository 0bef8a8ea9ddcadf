//! Reads the markup that the sanitiser wrote.
//!
//! In it each `<` begins a tag and each `>` ends one, names are in lower-case letters, and values
//! stand in double quotes. It has no comments and no raw text.

/// A piece of markup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// Escaped text.
    Text(&'a str),
    Open(Tag<'a>),
    Close(&'a str),
}

/// The beginning of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag<'a> {
    pub(crate) name: &'a str,
    /// Names, and values that are still escaped.
    pub(crate) attributes: Vec<(&'a str, &'a str)>,
}

impl Tag<'_> {
    /// The unescaped value of an attribute.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let found = self.attributes.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| unescape(value))
    }
}

/// Splits markup into tokens.
pub(crate) fn tokens(mut rest: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    while !rest.is_empty() {
        let Some(inner) = rest.strip_prefix('<') else {
            let (text, after) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
            tokens.push(Token::Text(text));
            rest = after;
            continue;
        };
        let (tag, after) = inner.split_once('>').unwrap_or((inner, ""));
        rest = after;
        tokens.push(match tag.strip_prefix('/') {
            Some(name) => Token::Close(name),
            None => Token::Open(read(tag)),
        });
    }
    tokens
}

fn read(tag: &str) -> Tag<'_> {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut attributes = Vec::new();
    while let Some((name, after)) = rest.split_once("=\"") {
        let (value, after) = after.split_once('"').unwrap_or((after, ""));
        attributes.push((name, value));
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    Tag { name, attributes }
}

/// Resolves the references that the sanitiser writes.
pub(crate) fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&nbsp;", "\u{a0}")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_split_at_its_tags() {
        let found = tokens("a &lt; b<p id=\"x\" title=\"a &quot;=&quot; b\">c</p><br>");
        let attributes = vec![("id", "x"), ("title", "a &quot;=&quot; b")];
        let p = Tag { name: "p", attributes };
        assert_eq!(p.get("title").unwrap(), "a \"=\" b");
        assert_eq!(
            found,
            [
                Token::Text("a &lt; b"),
                Token::Open(p),
                Token::Text("c"),
                Token::Close("p"),
                Token::Open(Tag { name: "br", attributes: Vec::new() }),
            ]
        );
    }
}

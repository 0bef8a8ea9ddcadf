//! Just enough HTML: the tags of a page and their attributes.

use std::borrow::Cow;

/// One opening tag.
#[derive(Debug)]
pub(super) struct Tag<'a> {
    pub(super) name: &'a str,
    attributes: Vec<(&'a str, Cow<'a, str>)>,
}

impl Tag<'_> {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The first of several counts, as browsers do it.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let is_it = |(known, _): &&(&str, Cow<'_, str>)| known.eq_ignore_ascii_case(name);
        self.attributes.iter().find(is_it).map(|(_, value)| value.as_ref())
    }
}

/// All opening tags of a page, in order. What stands in comments, scripts and
/// styles is no tag.
pub(super) fn tags(page: &str) -> Tags<'_> {
    Tags { rest: page }
}

#[derive(Debug)]
pub(super) struct Tags<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        loop {
            (_, self.rest) = self.rest.split_once('<')?;
            if let Some(comment) = self.rest.strip_prefix("!--") {
                self.rest = comment.get(comment.find("-->")?..)?;
            } else if self.rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
                let tag = self.tag()?;
                if ["script", "style", "template"].iter().any(|name| tag.is(name)) {
                    self.skip(tag.name)?;
                } else {
                    return Some(tag);
                }
            }
        }
    }
}

impl<'a> Tags<'a> {
    fn tag(&mut self) -> Option<Tag<'a>> {
        let name = self.take(|c| c.is_ascii_whitespace() || c == '>' || c == '/');
        let mut attributes = Vec::new();
        loop {
            self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            if let Some(rest) = self.rest.strip_prefix('>') {
                self.rest = rest;
                return Some(Tag { name, attributes });
            }
            let key = self.take(|c| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/'));
            self.rest = self.rest.trim_start();
            let value = match self.rest.strip_prefix('=') {
                Some(rest) => {
                    self.rest = rest.trim_start();
                    self.value()?
                }
                None if key.is_empty() => return None,
                None => "",
            };
            attributes.push((key, unescape(value)));
        }
    }

    fn value(&mut self) -> Option<&'a str> {
        let mut inside = self.rest.chars();
        let mark = inside.next()?;
        if mark != '"' && mark != '\'' {
            return Some(self.take(|c| c.is_ascii_whitespace() || c == '>'));
        }
        let (value, rest) = inside.as_str().split_once(mark)?;
        self.rest = rest;
        Some(value)
    }

    fn take(&mut self, is_end: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Goes on after the closing tag of this name.
    fn skip(&mut self, name: &str) -> Option<()> {
        loop {
            (_, self.rest) = self.rest.split_once("</")?;
            let start = self.rest.get(..name.len());
            if start.is_some_and(|start| start.eq_ignore_ascii_case(name)) {
                return Some(());
            }
        }
    }
}

/// The longest reference that is looked for; a page full of `&` would otherwise
/// be searched to its end for each of them.
const LONGEST: usize = 10;

/// Replaces the references that indexes use; what is not known stays, and makes
/// no URL.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let end = after.bytes().take(LONGEST).position(|byte| byte == b';');
        let known =
            end.and_then(|end| Some((reference(after.get(..end)?)?, after.get(end + 1..)?)));
        match known {
            Some((character, after)) => {
                out.push(character);
                rest = after;
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn reference(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(page: &str) -> Vec<String> {
        let link = |tag: Tag<'_>| tag.is("a").then(|| tag.get("href").map(str::to_owned)).flatten();
        tags(page).filter_map(link).collect()
    }

    #[test]
    fn attributes_are_read_in_every_spelling() {
        let page = "<html><A HREF='a'>x</A><a data-x href=b>y<a href = \"c&amp;d&#43;&nope;\" href=e/><a\nhref='f>g'>";
        assert_eq!(links(page), ["a", "b", "c&d+&nope;", "f>g"]);
    }

    #[test]
    fn what_is_not_shown_is_not_read() {
        let page = "<!-- <a href=no> --><script>'<a href=no>'</script><style><a href=no></STYLE x><a href=yes>";
        assert_eq!(links(page), ["yes"]);
    }

    #[test]
    fn a_page_made_to_be_slow_is_not() {
        // Searched to its end for each mark, this would take hours.
        let page = format!("<a href='{};'>", "&".repeat(4 << 20));
        assert_eq!(links(&page)[0].len(), (4 << 20) + 1);
    }

    #[test]
    fn broken_pages_end_early() {
        for page in
            ["<", "<a", "<a href", "<a href=", "<a href='x", "<!-- <a href=x>", "<a =", "</a><a "]
        {
            assert_eq!(links(page), Vec::<String>::new(), "{page}");
        }
    }
}

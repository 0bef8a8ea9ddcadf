//! Arranges a sanitised text: its title, its headings, its links, its charts and its tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::chart::{ChartView, Charts};
use crate::columns;
use crate::escape::escape;
use crate::input::Chart;
use crate::markup::{Tag, Token, tokens, unescape};
use crate::sanitise::ID_PREFIX;

/// The longest id that is made of a heading, in letters.
const MAX_SLUG: usize = 60;

/// A text as the page shows it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ArrangedText {
    /// The heading that it begins with, as text.
    pub(crate) title: Option<String>,
    pub(crate) body: String,
    pub(crate) contents: Vec<Entry>,
}

/// An entry of the table of contents.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) level: u8,
    pub(crate) id: String,
    pub(crate) text: String,
}

/// Arranges a text, and puts charts that it does not name at its end.
pub(crate) fn arrange(text: &str, charts: &[Chart]) -> ArrangedText {
    let tokens = tokens(text);
    let numbers = columns::of_numbers(&tokens);
    let mut arranger = Arranger { charts: Charts::new(charts), ..Arranger::default() };
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Text(text) => arranger.text(text),
            Token::Open(tag) => arranger.open(tag, numbers.contains(&at)),
            Token::Close(name) => arranger.close(name),
        }
    }
    arranger.finish()
}

#[derive(Debug)]
struct Arranger<'a> {
    done: ArrangedText,
    heading: Option<Heading>,
    links: Vec<Option<Link>>,
    ids: BTreeSet<String>,
    slugs: BTreeMap<String, usize>,
    figures: usize,
    charts: Charts<'a>,
    /// The bytes that the body begins with and that are known to be blank.
    blank: usize,
}

impl Default for Arranger<'_> {
    fn default() -> Self {
        Self {
            done: ArrangedText::default(),
            heading: None,
            links: Vec::new(),
            ids: BTreeSet::new(),
            slugs: BTreeMap::new(),
            figures: 0,
            charts: Charts::new(&[]),
            blank: 0,
        }
    }
}

#[derive(Debug)]
struct Heading {
    level: u8,
    id: Option<String>,
    /// Its markup, and its text alone.
    markup: String,
    text: String,
}

/// A link out of the page, which is shown as text.
#[derive(Debug)]
struct Link {
    address: String,
    text: String,
}

impl Arranger<'_> {
    fn out(&mut self) -> &mut String {
        match &mut self.heading {
            Some(heading) => &mut heading.markup,
            None => &mut self.done.body,
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(heading) = &mut self.heading {
            heading.text.push_str(text);
        }
        if let Some(Some(link)) = self.links.last_mut() {
            link.text.push_str(text);
        }
        self.out().push_str(text);
    }

    fn open(&mut self, tag: &Tag<'_>, is_number: bool) {
        if let Some(level) = level(tag.name) {
            self.end_heading();
            let id = tag.get("id").filter(|id| self.ids.insert(id.clone()));
            let (markup, text) = Default::default();
            self.heading = Some(Heading { level, id, markup, text });
            return;
        }
        match tag.name {
            "img" => {
                let (source, text) = (tag.get("src"), tag.get("alt"));
                return self.chart(&source.unwrap_or_default(), &text.unwrap_or_default());
            }
            "a" => return self.link(tag),
            "figure" => self.figures += 1,
            // Wide tables scroll by themselves, not with the page.
            "table" => self.out().push_str("<div class=\"table\" tabindex=\"0\">"),
            _ => {}
        }
        let is_aligned = tag.attributes.iter().any(|(name, _)| *name == "class");
        let class = (is_number && !is_aligned).then_some("num");
        self.tag(tag, class);
    }

    /// Writes a tag with the attributes that it has, and each id once.
    fn tag(&mut self, tag: &Tag<'_>, class: Option<&str>) {
        let mut written = format!("<{}", tag.name);
        for (name, value) in &tag.attributes {
            if *name == "id" && !self.ids.insert(unescape(value)) {
                continue;
            }
            let _ = write!(written, " {name}=\"{value}\"");
        }
        if let Some(class) = class {
            let _ = write!(written, " class=\"{class}\"");
        }
        written.push('>');
        self.out().push_str(&written);
    }

    fn close(&mut self, name: &str) {
        match name {
            "a" => return self.end_link(),
            "figure" => self.figures = self.figures.saturating_sub(1),
            _ if level(name).is_some() => return self.end_heading(),
            _ => {}
        }
        let _ = write!(self.out(), "</{name}>");
        if name == "table" {
            self.out().push_str("</div>");
        }
    }

    fn end_heading(&mut self) {
        let Some(heading) = self.heading.take() else { return };
        let text = heading.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = unescape(&text);
        if heading.level == 1 && self.done.title.is_none() && self.is_blank() {
            self.done.title = Some(text).filter(|text| !text.is_empty());
            return;
        }
        // The page has one heading of the first level: its title.
        let level = heading.level.max(2);
        let id = heading.id.unwrap_or_else(|| self.slug(&text));
        let shown = escape(&id);
        let _ = write!(self.done.body, "<h{level} id=\"{shown}\">{}</h{level}>", heading.markup);
        if level <= 3 && !text.is_empty() {
            self.done.contents.push(Entry { level, id, text });
        }
    }

    /// Returns true if the body has no content yet. The body only grows, so each byte is read once.
    fn is_blank(&mut self) -> bool {
        let rest = self.done.body[self.blank..].trim_start();
        self.blank = self.done.body.len() - rest.len();
        rest.is_empty()
    }

    /// An id that depends on the headings alone.
    fn slug(&mut self, text: &str) -> String {
        let mut slug = String::from("s");
        for letter in text.to_lowercase().chars().take(MAX_SLUG) {
            if letter.is_alphanumeric() {
                if slug.len() == 1 {
                    slug.push('-');
                }
                slug.push(letter);
            } else if !slug.ends_with('-') {
                slug.push('-');
            }
        }
        let slug = slug.trim_end_matches('-').to_owned();
        let number = self.slugs.entry(slug.clone()).or_default();
        *number += 1;
        match number {
            1 => slug,
            // A dot is in no slug, so no other heading has this id.
            number => format!("{slug}.{number}"),
        }
    }

    fn link(&mut self, tag: &Tag<'_>) {
        let target = tag.get("href");
        if let Some(own) = target.as_deref().and_then(|target| target.strip_prefix('#')) {
            let own = own.strip_prefix(ID_PREFIX).unwrap_or(own);
            let href = escape(&format!("#{ID_PREFIX}{own}"));
            let _ = write!(self.out(), "<a href=\"{href}\">");
            self.links.push(None);
            return;
        }
        self.out().push_str("<span>");
        let is_web = |target: &String| {
            ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
        };
        let address = target.filter(is_web).unwrap_or_default();
        self.links.push(Some(Link { address, text: String::new() }));
    }

    fn end_link(&mut self) {
        let Some(Some(link)) = self.links.pop() else { return self.out().push_str("</a>") };
        self.out().push_str("</span>");
        let address = link.address.trim_start_matches("mailto:");
        if !address.is_empty() && unescape(&link.text).trim() != address {
            let shown = escape(address);
            let _ = write!(self.out(), " <span class=\"url\">{shown}</span>");
        }
    }

    fn chart(&mut self, source: &str, text: &str) {
        let shown = match self.charts.show(source) {
            ChartView::Picture { number, uri, size } => {
                let size = size.map(|(w, h)| format!(" width=\"{w}\" height=\"{h}\""));
                let size = size.unwrap_or_default();
                let alt = escape(if text.is_empty() { source } else { text });
                let mut shown = format!("<span class=\"chart\" id=\"chart-{number}\">");
                let _ = write!(shown, "<img src=\"{uri}\" alt=\"{alt}\"{size}>");
                // A figure has a caption of its own.
                if self.figures == 0 && !text.is_empty() {
                    let _ = write!(shown, "<span class=\"caption\">{}</span>", escape(text));
                }
                shown + "</span>"
            }
            ChartView::Again(number) => {
                let text = escape(if text.is_empty() { "the chart" } else { text });
                format!(
                    "<a class=\"again\" href=\"#chart-{number}\">See chart {number}: {text}</a>"
                )
            }
            ChartView::Unknown if source.is_empty() => {
                note("A picture that is no chart of the run is left out.")
            }
            ChartView::Unknown => note(&format!("The run has no chart \u{201c}{source}\u{201d}.")),
            ChartView::Unusable(reason) => {
                note(&format!("The chart \u{201c}{source}\u{201d} is left out: {reason}."))
            }
        };
        self.out().push_str(&shown);
    }

    fn finish(mut self) -> ArrangedText {
        let left = self.charts.left();
        if !left.is_empty() {
            let text = "More charts of this run".to_owned();
            let id = "more-charts".to_owned();
            let _ = write!(self.done.body, "\n<h2 id=\"{id}\">{text}</h2>\n");
            self.done.contents.push(Entry { level: 2, id, text });
            for name in left {
                self.chart(&format!("chart:{name}"), name);
                self.done.body.push('\n');
            }
        }
        self.done
    }
}

fn note(text: &str) -> String {
    format!("<span class=\"note\">{}</span>", escape(text))
}

fn level(name: &str) -> Option<u8> {
    match name.as_bytes() {
        [b'h', digit @ b'1'..=b'6'] => Some(digit - b'0'),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

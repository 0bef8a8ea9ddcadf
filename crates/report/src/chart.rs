//! Charts as data URIs.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::input::Chart;
use crate::svg;

/// The largest picture.
pub const MAX_CHART_BYTES: usize = 4 << 20;
/// The most bytes of all pictures together.
pub const MAX_CHARTS_BYTES: usize = 16 << 20;
/// The most pictures.
pub const MAX_CHARTS: usize = 100;

/// The longest data URI of a chart, and of all together: those of pictures at the bounds above. A
/// cleaned SVG may be longer than its source, so the URIs are measured too.
const MAX_URI_BYTES: usize = uri_bytes(MAX_CHART_BYTES, 1);
const MAX_URIS_BYTES: usize = uri_bytes(MAX_CHARTS_BYTES, MAX_CHARTS);

/// The length of pictures in Base64, with the padding and the prefix of each.
const fn uri_bytes(bytes: usize, pictures: usize) -> usize {
    bytes.div_ceil(3) * 4 + pictures * 64
}

const TOO_LARGE: &str = "it is larger than a chart may be";
const TOO_LARGE_TOGETHER: &str = "the charts of the report are too large together";
const NO_PICTURE: &str = "it is not a PNG, JPEG or SVG picture that a page can show";

/// The charts of a report. Each is shown once, so a page is never much larger than they are.
#[derive(Debug)]
pub(crate) struct Charts<'a> {
    by_name: BTreeMap<&'a str, Slot<'a>>,
    /// Names in their order.
    names: Vec<&'a str>,
    /// Of the data URIs.
    shown_bytes: usize,
    shown: usize,
}

#[derive(Debug)]
struct Slot<'a> {
    chart: &'a Chart,
    state: SlotState,
}

/// A picture is read once, however often a text names it.
#[derive(Debug, Clone, Copy)]
enum SlotState {
    Fresh,
    Shown(usize),
    Unusable(&'static str),
}

/// An answer to the wish for a chart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChartView {
    /// From 1, in the order of the page.
    Picture {
        number: usize,
        uri: String,
        size: Option<(u32, u32)>,
    },
    /// It stands elsewhere.
    Again(usize),
    Unknown,
    Unusable(&'static str),
}

impl<'a> Charts<'a> {
    pub(crate) fn new(charts: &'a [Chart]) -> Self {
        let slot = |chart| Slot { chart, state: SlotState::Fresh };
        let slots = charts.iter().map(|chart| (chart.name.as_str(), slot(chart)));
        let names = charts.iter().map(|chart| chart.name.as_str()).collect();
        Self { by_name: slots.collect(), names, shown_bytes: 0, shown: 0 }
    }

    /// Shows the chart that a source names: `chart:NAME`, or the name or path of a file.
    pub(crate) fn show(&mut self, source: &str) -> ChartView {
        let name = match source.strip_prefix("chart:") {
            Some(name) => name,
            // An address elsewhere.
            None if source.contains(':') || source.starts_with("//") => return ChartView::Unknown,
            None => source,
        };
        let decoded = decode(name);
        let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        let tried = [name.to_owned(), last(name), decoded.clone(), last(&decoded)];
        let known = tried.iter().find(|name| self.by_name.contains_key(name.as_str()));
        let Some(slot) = known.and_then(|name| self.by_name.get_mut(name.as_str())) else {
            return ChartView::Unknown;
        };
        match slot.state {
            SlotState::Fresh => {}
            SlotState::Shown(number) => return ChartView::Again(number),
            SlotState::Unusable(reason) => return ChartView::Unusable(reason),
        }
        let left = MAX_URIS_BYTES.saturating_sub(self.shown_bytes);
        let (content, uri) = match picture(slot.chart, left) {
            Ok(_) if self.shown >= MAX_CHARTS => {
                slot.state = SlotState::Unusable(TOO_LARGE_TOGETHER);
                return ChartView::Unusable(TOO_LARGE_TOGETHER);
            }
            Ok(picture) => picture,
            Err(reason) => {
                slot.state = SlotState::Unusable(reason);
                return ChartView::Unusable(reason);
            }
        };
        self.shown += 1;
        self.shown_bytes += uri.len();
        slot.state = SlotState::Shown(self.shown);
        ChartView::Picture { number: self.shown, uri, size: size(content) }
    }

    /// Names of charts that were not shown yet.
    pub(crate) fn left(&self) -> Vec<&'a str> {
        let is_left = |name: &&&str| {
            let slot = self.by_name.get(**name);
            slot.is_some_and(|slot| !matches!(slot.state, SlotState::Shown(_)))
        };
        self.names.iter().filter(is_left).copied().collect()
    }
}

/// A chart's bytes and its data URI of `left` bytes at most, or the reason why there is none.
fn picture(chart: &Chart, left: usize) -> Result<(&[u8], String), &'static str> {
    let content = chart.content.as_deref().filter(|content| content.len() <= MAX_CHART_BYTES);
    let content = content.ok_or(TOO_LARGE)?;
    if content.len() > left {
        return Err(TOO_LARGE_TOGETHER);
    }
    let uri = data_uri(content).ok_or(NO_PICTURE)?;
    match uri.len() {
        length if length > MAX_URI_BYTES => Err(TOO_LARGE),
        length if length > left => Err(TOO_LARGE_TOGETHER),
        _ => Ok((content, uri)),
    }
}

/// A picture as a data URI. Its kind is that of its bytes, and an SVG is cleaned.
pub(crate) fn data_uri(bytes: &[u8]) -> Option<String> {
    let (kind, content) = if bytes.starts_with(PNG) {
        ("png", STANDARD.encode(bytes))
    } else if bytes.starts_with(&[0xff, 0xd8, 0xff]) {
        ("jpeg", STANDARD.encode(bytes))
    } else {
        ("svg+xml", STANDARD.encode(svg::clean(bytes)?))
    };
    Some(format!("data:image/{kind};base64,{content}"))
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The width and height of a PNG, which its first chunk has.
fn size(bytes: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| {
        let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(four)).filter(|number| (1..=20_000).contains(number))
    };
    let is_header = bytes.starts_with(PNG) && bytes.get(12..16) == Some(b"IHDR");
    is_header.then(|| Some((number(16)?, number(20)?))).flatten()
}

/// Resolves `%20` and the like; what is none stays.
fn decode(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let mut byte = [0];
        match after.get(..2) {
            Some(digits) if first == b'%' && hex::decode_to_slice(digits, &mut byte).is_ok() => {
                bytes.push(byte[0]);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, more: usize) -> Vec<u8> {
        let mut bytes = [PNG, b"\0\0\0\rIHDR"].concat();
        bytes.extend(width.to_be_bytes());
        bytes.extend(480_u32.to_be_bytes());
        bytes.extend(vec![0; more]);
        bytes
    }

    fn chart(name: &str, content: Vec<u8>) -> Chart {
        Chart { name: name.to_owned(), media_type: String::new(), content: Some(content) }
    }

    #[test]
    fn a_chart_is_found_by_its_name_and_shown_once() {
        let all = [chart("my chart.png", png(640, 0)), chart("b.png", png(1, 0))];
        let mut charts = Charts::new(&all);
        assert_eq!(charts.left(), ["my chart.png", "b.png"]);
        let shown = charts.show("chart:my%20chart.png");
        let ChartView::Picture { number: 1, uri, size: Some((640, 480)) } = shown else {
            panic!("{shown:?}")
        };
        assert!(uri.starts_with("data:image/png;base64,iVBOR"), "{uri}");
        assert_eq!(charts.show("my chart.png"), ChartView::Again(1));
        assert_eq!(charts.left(), ["b.png"]);
        assert!(matches!(charts.show("/home/user/b.png"), ChartView::Picture { number: 2, .. }));
        for other in ["chart:c.png", "https://example.com/b.png", "//b.png", "data:b.png", ""] {
            assert_eq!(charts.show(other), ChartView::Unknown, "{other}");
        }
    }

    #[test]
    fn all_charts_together_are_bounded() {
        let all: Vec<_> =
            (0..6).map(|n| chart(&n.to_string(), png(1, MAX_CHART_BYTES - 24))).collect();
        let mut charts = Charts::new(&all);
        let usable =
            all.iter().filter(|it| matches!(charts.show(&it.name), ChartView::Picture { .. }));
        assert_eq!(usable.count(), 4);
        let large = [chart("a", png(1, MAX_CHART_BYTES))];
        assert!(matches!(Charts::new(&large).show("a"), ChartView::Unusable(_)));
        let other = [chart("a", b"GIF89a".to_vec())];
        assert!(matches!(Charts::new(&other).show("a"), ChartView::Unusable(_)));
    }

    #[test]
    fn an_unusable_chart_is_read_once() {
        let all = [chart("a", b"GIF89a".to_vec())];
        let good = chart("a", png(1, 0));
        let mut charts = Charts::new(&all);
        assert_eq!(charts.show("a"), ChartView::Unusable(NO_PICTURE));
        // Another reading would find a picture.
        charts.by_name.get_mut("a").unwrap().chart = &good;
        assert_eq!(charts.show("a"), ChartView::Unusable(NO_PICTURE));
        assert_eq!(charts.left(), ["a"]);
    }

    #[test]
    fn the_pictures_that_are_shown_are_bounded_and_not_their_sources() {
        let svg = |text: &str, count| format!("<svg><text>{}</text></svg>", text.repeat(count));
        // Each bracket becomes four letters.
        let growing = svg(">", 2 << 20).into_bytes();
        let all: Vec<_> = (0..6).map(|n| chart(&n.to_string(), growing.clone())).collect();
        assert_eq!(Charts::new(&all).show("0"), ChartView::Unusable(TOO_LARGE));
        let growing = svg(">", 1_000_000).into_bytes();
        let all: Vec<_> = (0..6).map(|n| chart(&n.to_string(), growing.clone())).collect();
        let mut charts = Charts::new(&all);
        let shown: Vec<_> = all.iter().map(|it| charts.show(&it.name)).collect();
        assert!(matches!(shown[3], ChartView::Picture { number: 4, .. }), "{:?}", charts.shown);
        assert_eq!(shown[4], ChartView::Unusable(TOO_LARGE_TOGETHER));
        // Quotes of a text stay as they are.
        let quotes = [chart("a", svg("\"", 300_000).into_bytes())];
        let ChartView::Picture { uri, .. } = Charts::new(&quotes).show("a") else { panic!() };
        assert!(uri.len() < 500_000, "{}", uri.len());
    }
}

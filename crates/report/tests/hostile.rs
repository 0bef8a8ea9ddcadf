//! Texts that try to run, to load, to hide or to leave their place, and a control for each: put
//! into the same page as they are, the same checks find them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod dom;
mod samples;

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use belljar_report::{Body, Brand, Chart, Report, render};
use dom::{Data, Dom, Element, Part};
use html5ever::ns;
use samples::{provenance, report};

/// Stands for the text of a report that is replaced by a hostile one.
const PLACE: &str = "PLACE OF THE TEXT";

fn corpus() -> Vec<(&'static str, &'static str)> {
    let text = include_str!("hostile.txt");
    let all = text.split("=== ").skip(1).map(|case| case.split_once('\n').unwrap());
    all.map(|(name, fragment)| (name, fragment.strip_suffix('\n').unwrap_or(fragment))).collect()
}

fn html(body: Body) -> String {
    render(&Report { body, charts: Vec::new(), provenance: provenance() }, &Brand::default()).html
}

/// The page with a text that is not sanitised.
fn control(fragment: &str) -> String {
    let page = html(Body::Html(PLACE.to_owned()));
    assert_eq!(page.matches(PLACE).count(), 1);
    page.replace(PLACE, fragment)
}

const ELEMENTS: &[&str] = &[
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "header",
    "main",
    "nav",
    "footer",
    "div",
    "p",
    "span",
    "a",
    "img",
    "b",
    "i",
    "em",
    "strong",
    "code",
    "pre",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "table",
    "caption",
    "thead",
    "tbody",
    "tfoot",
    "tr",
    "td",
    "th",
    "details",
    "summary",
    "figure",
    "figcaption",
    "blockquote",
    "hr",
    "br",
    "wbr",
    "abbr",
    "bdi",
    "cite",
    "del",
    "dfn",
    "ins",
    "kbd",
    "mark",
    "q",
    "s",
    "samp",
    "small",
    "sub",
    "sup",
    "time",
    "u",
    "var",
    "article",
    "section",
];
const ATTRIBUTES: &[&str] = &[
    "alt",
    "aria-label",
    "charset",
    "class",
    "colspan",
    "content",
    "datetime",
    "dir",
    "height",
    "href",
    "http-equiv",
    "id",
    "lang",
    "name",
    "open",
    "reversed",
    "rowspan",
    "scope",
    "src",
    "start",
    "tabindex",
    "title",
    "width",
];

const PICTURES: [&str; 3] =
    ["data:image/png;base64,", "data:image/jpeg;base64,", "data:image/svg+xml;base64,"];
const TEXT_CLASSES: &[&str] = &[
    "again",
    "caption",
    "center",
    "chart",
    "footnote-definition",
    "footnote-definition-label",
    "footnote-reference",
    "left",
    "note",
    "num",
    "right",
    "table",
    "url",
];

/// Everything in a page that must not be there.
fn faults(html: &str) -> Vec<String> {
    let dom = dom::parse(html);
    let mut faults = Vec::new();
    let mut ids = BTreeSet::new();
    for (at, element) in dom.elements() {
        let name = &*element.name.local;
        if element.name.ns != ns!(html) || !ELEMENTS.contains(&name) {
            faults.push(format!("element {name}"));
        }
        for (attribute, value) in &element.attributes {
            if !ATTRIBUTES.contains(&attribute.as_str()) {
                faults.push(format!("attribute {attribute} of {name}"));
            }
            let is_fine = match attribute.as_str() {
                "href" => value.starts_with('#'),
                "src" => PICTURES.iter().any(|kind| value.starts_with(kind)),
                "id" => ids.insert(value.clone()),
                "name" | "content" | "http-equiv" | "charset" => name == "meta",
                // Of the classes of the page, a text has those that we give it.
                "class" => !dom.path(at).contains("main") || TEXT_CLASSES.contains(&value.as_str()),
                _ => true,
            };
            if !is_fine {
                faults.push(format!("{attribute}={value:?} of {name}"));
            }
        }
        let is_ours = ["html", "head", "meta", "style", "body", "header", "main", "nav", "footer"];
        if is_ours.contains(&name) && dom.path(at).contains("main") {
            faults.push(format!("{name} within the text"));
        }
    }
    let comments = dom.0.iter().filter(|node| matches!(node.data, Data::Comment));
    faults.extend(comments.map(|_| "comment".to_owned()));
    if wrapper(&dom) != *EXPECTED {
        faults.push("another page".to_owned());
    }
    faults
}

/// The same page around another text.
static EXPECTED: LazyLock<String> =
    LazyLock::new(|| wrapper(&dom::parse(&html(Body::Html("<p>x</p>".to_owned())))));

/// The page without the text, the table of contents, and the digest of the inputs.
fn wrapper(dom: &Dom) -> String {
    let part = |element: &Element| match &*element.name.local {
        "main" => Part::Tag,
        "nav" => Part::None,
        // The page's own, in its footer.
        _ if element.attributes.contains(&("id".to_owned(), "inputs".to_owned())) => Part::Tag,
        _ => Part::All,
    };
    dom.write(0, &part)
}

#[test]
fn nothing_of_a_hostile_text_runs_loads_or_leaves_its_place() {
    let corpus = corpus();
    assert!(corpus.len() >= 80, "{}", corpus.len());
    let names: BTreeSet<_> = corpus.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), corpus.len());
    for (name, fragment) in corpus {
        assert_eq!(faults(&html(Body::Html(fragment.to_owned()))), [""; 0], "{name}");
        assert_eq!(faults(&html(Body::Markdown(fragment.to_owned()))), [""; 0], "{name}, Markdown");
        let within = format!("Some *text*.\n\n- {fragment}\n\n| a |\n|---|\n| {fragment} |\n");
        assert_eq!(faults(&html(Body::Markdown(within))), [""; 0], "{name}, within Markdown");
    }
}

#[test]
fn without_the_sanitiser_every_text_is_found() {
    assert_eq!(faults(&control("<p>A <b>good</b> text.</p>")), [""; 0]);
    let is_missed = |fragment: &str| faults(&control(fragment)).is_empty();
    let missed = corpus().into_iter().filter(|(_, fragment)| is_missed(fragment));
    let missed: Vec<_> = missed.map(|(name, _)| name).collect();
    assert_eq!(missed, [""; 0]);
}

#[test]
fn every_pair_of_hostile_texts_stays_in_its_place() {
    let corpus = corpus();
    for (at, (name, fragment)) in corpus.iter().enumerate() {
        let (other, more) = corpus[(at * 7 + 3) % corpus.len()];
        let both = format!("<div>{fragment}<p>x</p>{more}");
        assert_eq!(faults(&html(Body::Html(both))), [""; 0], "{name}, then {other}");
    }
}

#[test]
fn names_and_reasons_are_only_text() {
    for (name, fragment) in corpus() {
        let mut hostile = report();
        let origin = &mut hostile.provenance;
        origin.question = fragment.to_owned();
        origin.models = vec![fragment.to_owned()];
        origin.data[0].name = fragment.to_owned();
        origin.verdict.message = Some(fragment.to_owned());
        origin.verdict.is_answered = false;
        hostile.charts[0].name = fragment.to_owned();
        let page = render(&hostile, &Brand::default().with_name("A<b>").unwrap()).html;
        let found = faults(&page);
        // The page of another run is another page; all else holds.
        assert_eq!(found, ["another page"], "{name}");
    }
}

/// The CPU time of this thread. A busy machine changes the time on the wall.
fn cpu_time() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_text_that_costs_a_parser_much_costs_us_little() {
    let count = 50_000;
    let formats: String = (0..5_000).map(|n| format!("<b id={n}>")).collect();
    let attributes: String = (0..count).map(|n| format!(" a{n}=x")).collect();
    for (name, text) in [
        ("nested blocks", "<div>".repeat(count)),
        ("nested formats", "<b>".repeat(count)),
        ("formats in paragraphs", format!("<p>{formats}{}", "<p>x".repeat(count))),
        ("nested tables", "<table><tr><td>".repeat(count)),
        ("nested quotes", "> ".repeat(count)),
        ("nested lists", "<ul><li>".repeat(count)),
        ("ends", "</p></b></table>".repeat(count)),
        ("attributes", format!("<p {attributes}>")),
        ("open comments", "<!-- -->".repeat(count)),
        ("comments that end otherwise", "<!-- --!>".repeat(count)),
        ("open tags", "<a title=\"".repeat(count)),
        ("hidden elements", "<svg><script>".repeat(count)),
        ("cells", format!("<table><tr>{}", "<td rowspan=65534 colspan=1000>x".repeat(count))),
        ("headings", "<h2>x</h2>".repeat(count)),
        ("empty titles", " ".repeat(1_500_000) + &"<h1></h1>".repeat(count)),
        ("pictures", "<img src=chart:weeks.png alt=x>".repeat(50_000)),
        ("brackets", "<".repeat(count)),
        ("links in Markdown", "[a](".repeat(count)),
        ("emphasis in Markdown", "*a **b ".repeat(count)),
    ] {
        let begun = cpu_time();
        for body in [Body::Html(text.clone()), Body::Markdown(text)] {
            let hostile = Report { body, ..report() };
            let page = render(&hostile, &Brand::default()).html;
            assert!(page.len() < 40 << 20, "{name}: {} bytes", page.len());
        }
        let took = cpu_time() - begun;

        assert!(took < Duration::from_secs(30), "{name}: {took:?}");
    }
}

#[test]
fn a_chart_that_costs_much_costs_it_once() {
    let broken = format!("<svg>{}", "<g/>".repeat(1_000_000));
    let ids: String = (0..60).map(|n| format!("<g id='{n}{}'>", "x".repeat(30_000))).collect();
    let long_ids = format!("<svg>{ids}{}", "<use/>".repeat(300_000));
    let ids: String = (0..60).map(|n| format!("<g id='{n}{}'>", "x".repeat(200))).collect();
    let short_ids = format!("<svg>{ids}{}", "<use/>".repeat(300_000));
    let growing = format!("<svg><text>{}</text></svg>", ">".repeat(4_000_000));
    for (name, picture) in [
        ("broken", broken),
        ("long ids", long_ids),
        ("ids of ancestors", short_ids),
        ("growing", growing),
    ] {
        let charts = vec![Chart {
            name: "a.svg".to_owned(),
            media_type: "image/svg+xml".to_owned(),
            content: Some(picture.into_bytes()),
        }];
        let body = Body::Html("<img src=chart:a.svg alt=x>".repeat(50_000));
        let hostile = Report { body, charts, provenance: provenance() };
        let begun = cpu_time();
        let page = render(&hostile, &Brand::default()).html;
        let took = cpu_time() - begun;

        assert!(page.len() < 20 << 20, "{name}: {} bytes", page.len());
        assert!(page.contains("is left out"), "{name}");
        assert!(took < Duration::from_secs(30), "{name}: {took:?}");
    }
}

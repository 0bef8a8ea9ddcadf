//! The page around a text. All of it is ours.

use std::fmt::Write as _;

use crate::arrange::ArrangedText;
use crate::brand::Brand;
use crate::digest;
use crate::escape::escape;
use crate::input::{Provenance, Report};
use crate::policy;

/// Raised when the page changes, so that equal inputs of one version are equal bytes.
const VERSION: u32 = 1;
/// The longest title, in letters.
const MAX_TITLE: usize = 160;
/// Headings from which on there is a table of contents.
const MIN_CONTENTS: usize = 3;

/// The style sheet, with the colours of the brand.
pub(crate) fn styles(brand: &Brand) -> String {
    let (light, dark) = (brand.light(), brand.dark());
    format!("\n:root {{ --light: {light}; --dark: {dark}; }}\n{}", include_str!("style.css"))
}

/// Puts a text into the page.
pub(crate) fn page(report: &Report, brand: &Brand, text: &ArrangedText) -> String {
    let origin = &report.provenance;
    let question = origin.question.trim();
    let title = shorten(text.title.as_deref().unwrap_or(question));
    let mut out = head(&title, brand);
    top(&mut out, brand);
    let _ = write!(out, "<div class=\"intro\">\n<h1>{}</h1>\n", escape(&title));
    if title != question {
        let asked = escape(question);
        let _ = writeln!(out, "<p class=\"question\"><b>Question</b> {asked}</p>");
    }
    facts(&mut out, origin);
    if !origin.verdict.is_answered {
        let outcome = escape(&origin.verdict.outcome);
        let reason = origin.verdict.message.as_deref().map(escape).unwrap_or_default();
        let colon = if reason.is_empty() { "" } else { ": " };
        let _ = writeln!(
            out,
            "<p class=\"warning\"><b>The run has no answer.</b> It ended as {outcome}{colon}{reason}</p>"
        );
    }
    out.push_str("</div>\n");
    let has_contents = text.contents.len() >= MIN_CONTENTS;
    out.push_str("<div class=\"columns\">\n");
    if has_contents {
        contents(&mut out, text);
    }
    let _ = write!(out, "<main id=\"report\">\n{}\n</main>\n</div>\n", text.body.trim_end());
    footer(&mut out, report, brand);
    out.push_str("</body>\n</html>\n");
    out
}

fn head(title: &str, brand: &Brand) -> String {
    let styles = styles(brand);
    let (title, name, policy) = (escape(title), escape(brand.name()), policy::of_page(&styles));
    let policy = policy.replace('\'', "&#39;");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"robots\" content=\"noindex\">\n\
         <meta name=\"generator\" content=\"Belljar report {VERSION}\">\n\
         <title>{title} \u{b7} {name}</title>\n<style>{styles}</style>\n</head>\n<body>\n"
    )
}

fn top(out: &mut String, brand: &Brand) {
    out.push_str("<a class=\"skip\" href=\"#report\">Skip to the report</a>\n<header>\n");
    out.push_str("<p class=\"brand\">");
    match brand.logo() {
        Some(logo) => {
            let _ = write!(out, "<img src=\"{}\" alt=\"\">", logo.uri());
        }
        None => out.push_str("<span class=\"mark\"></span>"),
    }
    let name = escape(brand.name());
    let _ = write!(out, "{name}</p>\n<p class=\"kind\">Report</p>\n</header>\n");
}

fn facts(out: &mut String, origin: &Provenance) {
    let outcome = escape(&origin.verdict.outcome);
    let class = if origin.verdict.is_answered { "good" } else { "bad" };
    let turns = count(origin.turns.into(), "turn");
    let _ = write!(
        out,
        "<ul class=\"facts\">\n<li class=\"{class}\">{outcome}</li>\n<li>{}</li>\n<li>{}</li>\n\
         <li>{turns}</li>\n<li>{}</li>\n</ul>\n",
        escape(&origin.finished),
        escape(&models(origin)),
        dollars(origin.nano_dollars),
    );
}

fn contents(out: &mut String, text: &ArrangedText) {
    out.push_str("<nav aria-label=\"Contents\">\n<p>Contents</p>\n<ol>\n");
    for entry in &text.contents {
        let (id, text, level) = (escape(&entry.id), escape(&entry.text), entry.level);
        let _ = writeln!(out, "<li class=\"level-{level}\"><a href=\"#{id}\">{text}</a></li>");
    }
    out.push_str("</ol>\n</nav>\n");
}

fn footer(out: &mut String, report: &Report, brand: &Brand) {
    let origin = &report.provenance;
    let name = escape(brand.name());
    let author = match origin.models.is_empty() {
        true => "Fixed rules, and no language model, wrote the text",
        false => "A language model wrote the text",
    };
    let _ = write!(
        out,
        "<footer>\n<h2>Origin of this report</h2>\n<p>{author}, from code that it ran on \
         the data below. {name} made the page around it, put the charts in, and recorded what \
         follows. Check figures before you rely on them.</p>\n<dl>\n"
    );
    let rows = [
        ("Run", format!("<code>{}</code>", escape(&origin.run))),
        ("Question", escape(origin.question.trim())),
        ("Model", escape(&models(origin))),
        ("Outcome", escape(&origin.verdict.outcome)),
        ("Created", escape(&origin.created)),
        ("Finished", escape(&origin.finished)),
        ("Turns", origin.turns.to_string()),
        ("Tokens", separated(origin.tokens)),
        ("Model cost", dollars(origin.nano_dollars)),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    out.push_str("</dl>\n");
    if !origin.data.is_empty() {
        out.push_str(
            "<div class=\"table\" tabindex=\"0\"><table>\n<thead><tr><th>Data</th>\
             <th class=\"num\">Bytes</th><th>SHA-256</th></tr></thead>\n<tbody>\n",
        );
        for file in &origin.data {
            let (name, bytes, digest) =
                (escape(&file.name), separated(file.bytes), escape(&file.sha256));
            let _ = writeln!(
                out,
                "<tr><td>{name}</td><td class=\"num\">{bytes}</td><td><code>{digest}</code></td></tr>"
            );
        }
        out.push_str("</tbody>\n</table></div>\n");
    }
    let digest = digest::of_inputs(report, brand);
    let _ = write!(
        out,
        "<p class=\"inputs\">Digest of all inputs: <code id=\"inputs\">{digest}</code></p>\n</footer>\n"
    );
}

fn models(origin: &Provenance) -> String {
    match origin.models.as_slice() {
        [] => "fixed rules".to_owned(),
        models => models.join(", "),
    }
}

/// One line, cut at a length.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_TITLE) {
        Some((at, _)) => format!("{}\u{2026}", line[..at].trim_end()),
        None if line.is_empty() => "Report".to_owned(),
        None => line,
    }
}

fn count(number: u64, name: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {name}{plural}", separated(number))
}

/// With commas between thousands.
fn separated(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Exact, with two decimal places at least.
fn dollars(nano: u64) -> String {
    let text = format!("{}.{:09}", separated(nano / 1_000_000_000), nano % 1_000_000_000);
    let least = text.len() - 7;
    let kept = text.trim_end_matches('0').len();
    format!("${}", &text[..kept.max(least)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_exact() {
        assert_eq!(dollars(0), "$0.00");
        assert_eq!(dollars(1_500_000_000), "$1.50");
        assert_eq!(dollars(12_345_600), "$0.0123456");
        assert_eq!(dollars(1_234_000_000_000), "$1,234.00");
        assert_eq!(separated(999), "999");
        assert_eq!(separated(1_234_567), "1,234,567");
    }

    #[test]
    fn a_title_is_one_short_line() {
        assert_eq!(shorten(" a\n b "), "a b");
        assert_eq!(shorten(""), "Report");
        assert_eq!(shorten(&"ü".repeat(200)).chars().count(), MAX_TITLE + 1);
    }

    #[test]
    fn the_style_sheet_loads_nothing_and_stays_in_its_element() {
        let styles = styles(&Brand::default());
        for word in ["</", "url(", "@import", "http", "\\", "\r"] {
            assert!(!styles.contains(word), "{word}");
        }
    }
}

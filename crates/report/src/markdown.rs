//! Markdown as HTML. The result is as little trusted as HTML of the model.

use pulldown_cmark::{Event, Options, Parser, html};

/// Renders CommonMark with tables, footnotes, task lists and struck text.
pub(crate) fn to_html(markdown: &str) -> String {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS;
    let events = Parser::new_ext(markdown, options).map(|event| match event {
        // A page without forms has no box to tick.
        Event::TaskListMarker(is_done) => {
            Event::Text(if is_done { "\u{2611} " } else { "\u{2610} " }.into())
        }
        event => event,
    });
    let mut out = String::with_capacity(markdown.len() * 2);
    html::push_html(&mut out, events);
    // The page has no inline styles. The quotation marks of text are escaped, so this is a tag.
    for side in ["left", "right", "center"] {
        let style = format!(" style=\"text-align: {side}\">");
        out = out.replace(&style, &format!(" class=\"{side}\">"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_by_class() {
        let html = to_html("|a|b|\n|:-|-:|\n|1|2|\n");
        assert!(html.contains("<td class=\"left\">1</td><td class=\"right\">2</td>"), "{html}");
        assert!(!html.contains("style"), "{html}");
    }

    #[test]
    fn a_task_is_a_letter() {
        let html = to_html("- [x] done\n- [ ] open\n");
        assert!(html.contains("\u{2611} done") && html.contains("\u{2610} open"), "{html}");
        assert!(!html.contains("<input"), "{html}");
    }
}

use super::*;

fn png() -> Vec<u8> {
    b"\x89PNG\r\n\x1a\n".to_vec()
}

fn chart(name: &str) -> Chart {
    Chart { name: name.to_owned(), media_type: "image/png".to_owned(), content: Some(png()) }
}

fn body(text: &str) -> String {
    arrange(text, &[]).body
}

#[test]
fn the_first_heading_is_the_title() {
    let arranged = arrange("<h1>A &amp; <b>b</b></h1><h1>C</h1><h2>D</h2>", &[]);
    assert_eq!(arranged.title.as_deref(), Some("A & b"));
    assert_eq!(arranged.body, "<h2 id=\"s-c\">C</h2><h2 id=\"s-d\">D</h2>");
    let later = arrange("<p>x</p><h1>A</h1>", &[]);
    assert_eq!(later.title, None);
    assert_eq!(later.body, "<p>x</p><h2 id=\"s-a\">A</h2>");
    let after = arrange(" <h1></h1>\n<h1> </h1>\u{a0}<h1>A</h1><h1>B</h1>", &[]);
    assert_eq!(after.title.as_deref(), Some("A"));
    assert_eq!(after.body, " \n\u{a0}<h2 id=\"s-b\">B</h2>");
}

#[test]
fn ids_depend_on_the_headings_alone() {
    let text =
        "<h2>Größe, 2026!</h2><h3>a</h3><h3>a</h3><h4>b</h4><h2></h2><h2 id=\"f-own\">c</h2>";
    let arranged = arrange(text, &[]);
    let ids: Vec<_> = arranged.contents.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["s-größe-2026", "s-a", "s-a.2", "f-own"]);
    assert!(arranged.body.contains("<h4 id=\"s-b\">b</h4><h2 id=\"s\"></h2>"), "{}", arranged.body);
}

#[test]
fn links_out_of_the_page_are_text() {
    for (text, expected) in [
        ("<a href=\"#x\">y</a>", "<a href=\"#f-x\">y</a>"),
        ("<a href=\"#f-x\">y</a>", "<a href=\"#f-x\">y</a>"),
        (
            "<a href=\"https://example.com/?a&amp;b\">y</a>",
            "<span>y</span> <span class=\"url\">https://example.com/?a&amp;b</span>",
        ),
        (
            "<a href=\"https://example.com\">https://example.com</a>",
            "<span>https://example.com</span>",
        ),
        ("<a href=\"mailto:a@b.c\">a</a>", "<span>a</span> <span class=\"url\">a@b.c</span>"),
        ("<a href=\"/v1/runs\">y</a>", "<span>y</span>"),
        ("<a>y</a>", "<span>y</span>"),
    ] {
        assert_eq!(body(text), expected, "{text}");
    }
}

#[test]
fn an_id_is_there_once() {
    assert_eq!(body("<p id=\"f-a\">x</p><p id=\"f-a\">y</p>"), "<p id=\"f-a\">x</p><p>y</p>");
}

#[test]
fn charts_stand_where_they_are_named() {
    let all = [chart("a.png"), chart("b.png")];
    let text = "<p><img src=\"chart:a.png\" alt=\"Sales\"></p><p><img src=\"a.png\"></p>";
    let body = arrange(text, &all).body;
    assert!(
        body.contains("alt=\"Sales\"><span class=\"caption\">Sales</span></span></p>"),
        "{body}"
    );
    assert!(
        body.contains("<a class=\"again\" href=\"#chart-1\">See chart 1: the chart</a>"),
        "{body}"
    );
    assert!(body.contains("<h2 id=\"more-charts\">More charts of this run</h2>"), "{body}");
    assert!(body.contains("<span class=\"caption\">b.png</span>"), "{body}");
    assert_eq!(body.matches("data:image/png").count(), 2);
}

#[test]
fn what_is_no_chart_is_said() {
    let all = [Chart { content: None, ..chart("large.png") }];
    let text = "<img src=\"https://example.com/a.png\"><img><img src=\"chart:large.png\">";
    let body = arrange(text, &all).body;
    assert!(
        body.contains("The run has no chart \u{201c}https://example.com/a.png\u{201d}."),
        "{body}"
    );
    assert!(body.contains("A picture that is no chart of the run is left out."), "{body}");
    assert!(body.contains("it is larger than a chart may be"), "{body}");
    assert!(!body.contains("<img"), "{body}");
}

#[test]
fn columns_of_numbers_are_aligned() {
    let text = "<table><tr><th>a</th><th>b</th></tr><tr><td>x</td><td>1</td></tr></table>";
    let expected = concat!(
        "<div class=\"table\" tabindex=\"0\"><table><tr><th>a</th><th class=\"num\">b</th></tr>",
        "<tr><td>x</td><td class=\"num\">1</td></tr></table></div>"
    );
    assert_eq!(body(text), expected);
}

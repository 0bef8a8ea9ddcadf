use super::*;

#[test]
fn tags_are_balanced() {
    for (text, expected) in [
        ("<p>a<p>b", "<p>a</p><p>b</p>"),
        ("<b><i>a</b>b</i>", "<b><i>a</i></b>b"),
        ("<b>a<div>b</div>c</b>", "<b>a</b><div>b</div>c"),
        ("<ul><li>a<li>b</ul>", "<ul><li>a</li><li>b</li></ul>"),
        ("</main></body>a", "a"),
        (
            "<table><tr><td>a<td>b<tr><td>c</table>d",
            concat!("<table><tr><td>a</td><td>b</td></tr>", "<tr><td>c</td></tr></table>d"),
        ),
        ("<td>a</p></div></td>", "<td>a</td>"),
        ("a<br/>b<HR>c", "a<br>b<hr>c"),
        ("1 < 2 <3 a<b", "1 &lt; 2 &lt;3 a<b></b>"),
    ] {
        assert_eq!(bound(text), expected, "{text}");
    }
}

#[test]
fn hidden_content_is_not_text() {
    for text in [
        "a<script>alert(1)</script>b",
        "a<SCRIPT >alert(1)</ScRiPt x>b",
        "a<!-- <p> -->b",
        "a<!--><!--->b",
        "a<!DOCTYPE html>b",
        "a<?php echo 1 ?>b",
        "a<svg><style><p></style></svg>b",
        "a<x-y>b",
    ] {
        assert_eq!(bound(text), "ab", "{text}");
    }
    assert_eq!(bound("a<script>b"), "a");
    assert_eq!(bound("a<!-- b"), "a");
    assert_eq!(bound("a<plaintext></plaintext>b"), "a");
}

#[test]
fn known_attributes_stay_once() {
    for (text, expected) in [
        ("<a href='#x' onclick=alert(1) href=\"y\">", "<a href=\"#x\"></a>"),
        ("<a title=\"a>b\" style='color:red'>", "<a title=\"a&gt;b\"></a>"),
        ("<a title='\"'>", "<a title=\"&quot;\"></a>"),
        ("<a HREF = #x/y z>", "<a href=\"#x/y\"></a>"),
        ("<a =href=\"x\" href>", "<a href=\"\"></a>"),
        ("<td colspan=2 rowspan=65534>", "<td colspan=\"2\"></td>"),
        ("<a title=\"x", "<a title=\"x\"></a>"),
    ] {
        assert_eq!(bound(text), expected, "{text}");
    }
}

#[test]
fn depth_and_number_of_tags_are_bounded() {
    let deep = bound(&format!("{}x", "<div>".repeat(100_000)));
    assert_eq!(deep.matches("<div>").count(), MAX_DEPTH);
    assert!(deep.contains('x'));
    let many = bound(&"<p>x</p>".repeat(100_000));
    assert_eq!(many.matches("<p>").count(), MAX_TAGS);
    assert_eq!(many.matches('x').count(), 100_000);
}

#[test]
fn a_text_is_cut_between_letters() {
    assert_eq!(cut("aü", 2), "a");
    assert_eq!(cut("aü", 3), "aü");
}

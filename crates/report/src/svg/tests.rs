use super::*;

fn inner(text: &str) -> Option<String> {
    let picture = format!("<svg xmlns='http://www.w3.org/2000/svg'>{text}</svg>");
    let clean = clean(picture.as_bytes())?;
    let clean = clean.strip_prefix(ROOT)?.strip_prefix('>')?;
    clean.strip_suffix("</svg>").map(str::to_owned)
}

#[test]
fn what_draws_stays() {
    for (text, expected) in [
        ("<path d='M0 0' onclick='x()'/>", "<path d=\"M0 0\"></path>"),
        ("<g style='fill: url(#a)'>a &lt; b</g>", "<g style=\"fill: url(#a)\">a &lt; b</g>"),
        ("<style>*{fill:red}</style>", "<style>*{fill:red}</style>"),
        ("<style><![CDATA[g>path{fill:red}]]></style>", "<style>g&gt;path{fill:red}</style>"),
        ("<use xlink:href='#a'/>", "<use href=\"#a\"></use>"),
        ("<a href='https://example.com'><text>x</text></a>", "<text>x</text>"),
        (
            "<image href='data:image/png;base64,AA'/>",
            "<image href=\"data:image/png;base64,AA\"></image>",
        ),
    ] {
        assert_eq!(inner(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn what_runs_or_loads_does_not() {
    for text in [
        "<script>alert(1)</script>",
        "<foreignObject><p>x</p></foreignObject>",
        "<animate attributeName='href' values='javascript:alert(1)'/>",
        "<set attributeName='onload' to='alert(1)'/>",
        "<style>@import 'https://example.com/x.css';</style>",
        "<style>*{fill:u\\72l(https://example.com)}</style>",
        "<style>*{fill:url(https://example.com)}</style>",
        "<metadata>x</metadata>",
        "<x:g xmlns:x='http://www.w3.org/1999/xhtml'>x</x:g>",
    ] {
        assert_eq!(inner(text).as_deref(), Some(""), "{text}");
    }
    for text in [
        "<image href='https://example.com/x.png'/>",
        "<image href='data:image/svg+xml;base64,AA'/>",
        "<image href='javascript:alert(1)' ONLOAD='x'/>",
    ] {
        assert_eq!(inner(text).as_deref(), Some("<image></image>"), "{text}");
    }
    let fill = inner("<g fill='url(https://example.com/#a)' xmlns='x'/>");
    assert_eq!(fill.as_deref(), Some("<g></g>"));
}

#[test]
fn elements_do_not_use_each_other() {
    let bomb = concat!(
        "<g id='a'><path/></g><g id='b'><use href='#a'/><use href='#a'/></g>",
        "<g id='c'><use href='#b'/><use xlink:href='#b'/></g><use href='#c'/>"
    );
    let expected = concat!(
        "<g id=\"a\"><path></path></g>",
        "<g id=\"b\"><use href=\"#a\"></use><use href=\"#a\"></use></g><g id=\"c\"></g>"
    );
    assert_eq!(inner(bomb).as_deref(), Some(expected));
}

#[test]
fn the_value_that_is_written_is_judged() {
    let group = "<g id='b'><use href='#a'/></g>";
    let kept = "<g id=\"b\"><use href=\"#a\"></use></g>";
    for (uses, expected) in [
        ("<use href='x' href='#b'/>", ""),
        ("<use xlink:href='x' xlink:href='#b'/>", ""),
        ("<use href='#\u{202a}b'/>", ""),
        ("<use href='#&#98;'/>", ""),
        ("<use href='#%62'/>", "<use></use>"),
        ("<use href='#b&#9;'/>", "<use></use>"),
        ("<use href=' #b'/>", "<use></use>"),
        ("<use href='#xpointer(id(b))'/>", "<use></use>"),
        ("<use href='#'/>", "<use></use>"),
        ("<use href='#c' href='#b'/>", "<use href=\"#c\"></use>"),
    ] {
        let expected = format!("{kept}{expected}");
        assert_eq!(inner(&format!("{group}{uses}")), Some(expected), "{uses}");
    }
    // The first id has a backslash, and is not written.
    let other = "<g id='\\' id='b'><use href='#a'/></g><use href='#b'/>";
    assert_eq!(inner(other).as_deref(), Some(kept));
    let odd = "<g id='#b'><use href='#a'/></g><use href='##b'/>";
    assert_eq!(inner(odd).as_deref(), Some("<g id=\"#b\"><use href=\"#a\"></use></g>"));
    // Letters that are left out do not hide an address.
    let address = "<g fill='u\u{202a}rl(https://example.com)'/>";
    assert_eq!(inner(address).as_deref(), Some("<g></g>"));
    let style = "<style>*{fill:u\u{202a}rl(https://example.com)}</style>";
    assert_eq!(inner(style).as_deref(), Some(""));
}

#[test]
fn ids_are_bounded_and_taken_once() {
    let nested =
        |id: &str| format!("<g id='{id}'><g id='c'><use href='#a'/><use href='#a'/></g></g>");
    assert!(inner(&nested(&"b".repeat(MAX_ID_BYTES))).is_some());
    assert_eq!(inner(&nested(&"b".repeat(MAX_ID_BYTES + 1))), None);
    let text = format!("<svg>{}</svg>", nested("b"));
    assert_eq!(repeaters(&text), Some(BTreeSet::from(["b", "c"].map(String::from))));
}

#[test]
fn text_is_escaped_as_little_as_it_must_be() {
    let text = "<text a='' class='\"'>it's \"5\" &amp; &lt; ></text>";
    let expected = "<text class=\"&quot;\">it's \"5\" &amp; &lt; &gt;</text>";
    assert_eq!(inner(text).as_deref(), Some(expected));
}

#[test]
fn what_is_no_picture_is_none() {
    for text in [
        "",
        "x",
        "<p/>",
        "<svg>",
        "<svg><g></svg>",
        "<svg/><svg/>",
        "<!DOCTYPE svg [<!ENTITY a 'x'>]><svg>&a;</svg>",
        "<svg>&nbsp;</svg>",
    ] {
        assert_eq!(clean(text.as_bytes()), None, "{text}");
    }
    assert_eq!(clean(b"\xff"), None);
    let deep = format!("<svg>{}{}</svg>", "<g>".repeat(100), "</g>".repeat(100));
    assert_eq!(clean(deep.as_bytes()), None);
    let usual = "<?xml version='1.0'?><!DOCTYPE svg PUBLIC '-//W3C//DTD SVG 1.1//EN' 'x'><svg/>";
    assert!(clean(usual.as_bytes()).is_some());
}

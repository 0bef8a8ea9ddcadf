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

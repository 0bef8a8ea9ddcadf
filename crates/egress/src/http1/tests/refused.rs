//! What must not be read at all.

use super::*;

#[track_caller]
fn check(text: &str, want: Malformed) {
    assert_eq!(Head::parse(text.as_bytes()).map(|_| ()), Err(want), "{text:?}");
}

#[track_caller]
fn check_fields(fields: &str, want: Malformed) {
    check(&format!("POST /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n"), want);
}

#[test]
fn first_lines_with_two_readings() {
    for (line, want) in [
        ("", Malformed::RequestLine),
        ("GET", Malformed::RequestLine),
        ("GET /", Malformed::RequestLine),
        ("GET  / HTTP/1.1", Malformed::RequestLine),
        (" GET / HTTP/1.1", Malformed::RequestLine),
        ("GET / HTTP/1.1 ", Malformed::RequestLine),
        ("GET /a b HTTP/1.1", Malformed::RequestLine),
        ("GET\t/\tHTTP/1.1", Malformed::RequestLine),
        ("G(T / HTTP/1.1", Malformed::Method),
        ("G\u{e9}T / HTTP/1.1", Malformed::Method),
        (&format!("{} / HTTP/1.1", "A".repeat(33)), Malformed::Method),
        ("GET / HTTP/1.2", Malformed::Version),
        ("GET / HTTP/2.0", Malformed::Version),
        ("GET / HTTP/0.9", Malformed::Version),
        ("GET / http/1.1", Malformed::Version),
        ("GET / HTTP/1.1x", Malformed::Version),
        ("GET / HTTP/01.1", Malformed::Version),
        ("PRI * HTTP/2.0", Malformed::Version),
    ] {
        check(&format!("{line}\r\nHost: h\r\n\r\n"), want);
    }
}

#[test]
fn targets_with_two_readings() {
    for (line, want) in [
        ("GET *", Malformed::TargetForm),
        ("OPTIONS *", Malformed::TargetForm),
        ("GET h", Malformed::TargetForm),
        ("GET h:80", Malformed::TargetForm),
        ("GET ../a", Malformed::TargetForm),
        ("GET https://h/", Malformed::Scheme),
        ("GET HTTP://h/", Malformed::Scheme),
        ("GET ftp://h/", Malformed::Scheme),
        ("GET file:///etc/passwd", Malformed::Scheme),
        ("GET http:///a", Malformed::Host),
        ("GET http://", Malformed::Host),
        ("GET http://h:/", Malformed::Port),
        ("GET http://h:0/", Malformed::Port),
        ("GET http://h:080/", Malformed::Port),
        ("GET http://h:+80/", Malformed::Port),
        ("GET http://h:65536/", Malformed::Port),
        ("GET http://h:65616/", Malformed::Port),
        ("GET http://h:0x50/", Malformed::Port),
        ("GET http://user@h/", Malformed::Host),
        ("GET http://a:b@h/", Malformed::Port),
        ("GET http://h@evil/", Malformed::Host),
        ("GET http://evil.com%00.h/", Malformed::Host),
        ("GET http://evil.com#@h/", Malformed::Target),
        ("GET http://evil.com\\@h/", Malformed::Target),
        ("GET http://h/#x", Malformed::Target),
        ("GET /a\\b", Malformed::Target),
        ("GET /a<b", Malformed::Target),
        ("GET /\u{e9}", Malformed::Target),
        ("GET http://127.1/", Malformed::Host),
        ("GET http://0x7f000001/", Malformed::Host),
        ("GET http://2130706433/", Malformed::Host),
        ("GET http://[::1/", Malformed::Port),
        ("GET http://::1/", Malformed::Port),
        ("GET http://[fe80::1%25lo]/", Malformed::Host),
        ("CONNECT h", Malformed::Port),
        ("CONNECT h:", Malformed::Port),
        ("CONNECT :443", Malformed::Host),
        ("CONNECT /", Malformed::TargetForm),
        ("CONNECT http://h:443", Malformed::TargetForm),
        ("CONNECT h:443/", Malformed::Port),
        ("CONNECT h:0443", Malformed::Port),
        ("CONNECT h:443:443", Malformed::Port),
        ("CONNECT h:66000", Malformed::Port),
        ("CONNECT a@h:443", Malformed::Host),
        ("CONNECT h,b:443", Malformed::Host),
        ("CONNECT [::1]443", Malformed::Host),
        ("CONNECT [::1]x:443", Malformed::Host),
        ("CONNECT ::1:443", Malformed::Port),
        ("CONNECT *.h:443", Malformed::Host),
        ("CONNECT 0177.0.0.1:443", Malformed::Host),
    ] {
        check(&format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n"), want);
    }
    let long = format!("CONNECT {}:443 HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(300));
    check(&long, Malformed::Host);
}

#[test]
fn control_characters_anywhere() {
    for control in (0_u8..0x20).filter(|b| !matches!(b, b'\t' | b'\r' | b'\n')).chain([0x7f]) {
        let control = char::from(control);
        for text in [
            format!("CONNECT evil.com{control}.h:443 HTTP/1.1\r\nHost: h\r\n\r\n"),
            format!("GET /{control} HTTP/1.1\r\nHost: h\r\n\r\n"),
            format!("GET / HTTP/1.1\r\nHost: h\r\nA{control}: b\r\n\r\n"),
            format!("GET / HTTP/1.1\r\nHost: h\r\nA: b{control}\r\n\r\n"),
        ] {
            check(&text, Malformed::Control);
        }
    }
    // A client that speaks TLS to us is told at its first byte.
    assert_eq!(Head::parse(&[0x16, 3, 1]).map(|_| ()), Err(Malformed::Control));
}

#[test]
fn lines_that_do_not_end_as_lines_do() {
    for text in [
        "GET / HTTP/1.1\nHost: h\n\n",
        "GET / HTTP/1.1\r\nHost: h\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n\n",
        "GET / HTTP/1.1\r\nHost: h\r\rA: b\r\n\r\n",
        "GET / HTTP/1.1\rHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n\rX",
        "GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n",
        "GET /\r / HTTP/1.1\r\nHost: h\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    ] {
        check(text, Malformed::LineEnd);
    }
    check("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", Malformed::RequestLine);
}

#[test]
fn fields_with_two_readings() {
    for (fields, want) in [
        (" A: b\r\n", Malformed::Fold),
        ("A: b\r\n c\r\n", Malformed::Fold),
        ("A: b\r\n\tc\r\n", Malformed::Fold),
        ("A: b\r\n \r\n", Malformed::Fold),
        ("A : b\r\n", Malformed::FieldName),
        ("A\t: b\r\n", Malformed::FieldName),
        (": b\r\n", Malformed::FieldName),
        ("A\r\n", Malformed::FieldName),
        ("A b: c\r\n", Malformed::FieldName),
        ("A(b): c\r\n", Malformed::FieldName),
        ("\"A\": c\r\n", Malformed::FieldName),
        ("\u{e9}: c\r\n", Malformed::FieldName),
        ("Content_Length: 5\r\n", Malformed::FieldName),
        ("transfer_encoding: chunked\r\n", Malformed::FieldName),
        ("Host: h\r\n", Malformed::Twice),
        ("hOST: other\r\n", Malformed::Twice),
        ("Authorization: a\r\nauthorization: b\r\n", Malformed::Twice),
        ("Connection: a b\r\n", Malformed::Connection),
        ("Connection: close, Content-Length\r\n", Malformed::Connection),
        ("Connection: host\r\n", Malformed::Connection),
        ("Connection: transfer-encoding\r\n", Malformed::Connection),
    ] {
        check_fields(fields, want);
    }
}

#[test]
fn bodies_with_two_ends() {
    let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
    let other_order = "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n";
    for (fields, want) in [
        (both, Malformed::TwoLengths),
        (other_order, Malformed::TwoLengths),
        ("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", Malformed::TwoLengths),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Malformed::Twice),
        ("Transfer-Encoding: chunked\r\nTransfer-encoding: x\r\n", Malformed::Twice),
        ("Transfer-Encoding: identity\r\n", Malformed::Coding),
        ("Transfer-Encoding: gzip, chunked\r\n", Malformed::Coding),
        ("Transfer-Encoding: chunked, chunked\r\n", Malformed::Coding),
        ("Transfer-Encoding: Chunked\r\n", Malformed::Coding),
        ("Transfer-Encoding: xchunked\r\n", Malformed::Coding),
        ("Transfer-Encoding: chunked;a=b\r\n", Malformed::Coding),
        ("Transfer-Encoding: \"chunked\"\r\n", Malformed::Coding),
        ("Transfer-Encoding:\r\n", Malformed::Coding),
        ("Transfer-Encoding : chunked\r\n", Malformed::FieldName),
        (" Transfer-Encoding: chunked\r\n", Malformed::Fold),
        ("Transfer-Encoding:\r\n chunked\r\n", Malformed::Fold),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", Malformed::Twice),
        ("Content-Length: 5\r\ncontent-length: 6\r\n", Malformed::Twice),
        ("Content-Length: 5, 5\r\n", Malformed::Length),
        ("Content-Length: +5\r\n", Malformed::Length),
        ("Content-Length: -5\r\n", Malformed::Length),
        ("Content-Length: 05\r\n", Malformed::Length),
        ("Content-Length: 0x5\r\n", Malformed::Length),
        ("Content-Length: 5.0\r\n", Malformed::Length),
        ("Content-Length: 5 5\r\n", Malformed::Length),
        ("Content-Length: 5;\r\n", Malformed::Length),
        ("Content-Length: \u{665}\r\n", Malformed::Length),
        ("Content-Length:\r\n", Malformed::Length),
        ("Content-Length: 18446744073709551621\r\n", Malformed::Length),
    ] {
        check_fields(fields, want);
    }
    for first in ["CONNECT h:443 HTTP/1.1", "TRACE / HTTP/1.1", "POST / HTTP/1.0"] {
        for field in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
            check(&format!("{first}\r\nHost: h\r\n{field}\r\n\r\n"), Malformed::Body);
        }
        read(&format!("{first}\r\nHost: h\r\nContent-Length: 0\r\n\r\n"));
    }
}

#[test]
fn a_host_that_is_not_the_targets() {
    check("GET / HTTP/1.1\r\n\r\n", Malformed::NoHost);
    check("CONNECT h:443 HTTP/1.1\r\n\r\n", Malformed::NoHost);
    for host in ["", "a b", "a/b", "u@h", "h:", "h:0", "h:080", "h:99999", "h,i", "*", "127.1"] {
        let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert!(Head::parse(text.as_bytes()).is_err(), "{host:?}");
    }
    for (line, host) in [
        ("GET http://a.com/", "b.com"),
        ("GET http://a.com/", "a.com:8080"),
        ("GET http://a.com:8080/", "a.com"),
        ("GET http://a.com/", "a.com.evil.com"),
        ("GET http://[::1]/", "[::2]"),
        ("CONNECT a.com:443", "b.com:443"),
        ("CONNECT a.com:443", "a.com:80"),
    ] {
        check(&format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n"), Malformed::HostMismatch);
    }
    read("CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\r\n\r\n");
    read("CONNECT a.com:443 HTTP/1.0\r\n\r\n");
    read("GET http://127.0.0.1/ HTTP/1.1\r\nHost: [::ffff:127.0.0.1]\r\n\r\n");
}

#[test]
fn heads_without_end() {
    let head = |fields: usize| {
        format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(fields - 1))
    };
    assert_eq!(read(&head(MOST_FIELDS)).fields().len(), MOST_FIELDS);
    check(&head(MOST_FIELDS + 1), Malformed::TooManyFields);

    let around = "GET / HTTP/1.1\r\nHost: h\r\nA: \r\n\r\n".len();
    let sized = |size: usize| {
        format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "b".repeat(size - around))
    };
    read(&sized(LONGEST_HEAD));
    check(&sized(LONGEST_HEAD + 1), Malformed::TooLong);
    check(&"A".repeat(LONGEST_HEAD + 1), Malformed::TooLong);
    assert_eq!(Head::parse("A".repeat(LONGEST_HEAD).as_bytes()), Ok(None));
}

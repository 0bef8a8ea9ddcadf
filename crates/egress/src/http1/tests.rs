mod body;
mod made_up;
mod refused;

use super::*;
use crate::Destination;
use crate::mutate::splits;

#[track_caller]
pub(super) fn read(text: &str) -> Head {
    let (head, length) = Head::parse(text.as_bytes()).unwrap().unwrap();
    assert_eq!(length, text.len());
    head
}

fn to(host: &str, port: u16) -> Destination {
    Destination { host: host.parse().unwrap(), port }
}

#[test]
fn the_three_forms_of_a_target_are_read() {
    let connect = read("CONNECT Example.org.:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
    assert_eq!(connect.method(), "CONNECT");
    assert_eq!(connect.target(), &Target::Authority(to("example.org", 443)));
    assert_eq!(connect.target().path_and_query(), None);

    for (target, port, path) in [
        ("http://example.org/a?b=c", 80, "/a?b=c"),
        ("http://example.org:80/", 80, "/"),
        ("http://example.org", 80, "/"),
        ("http://example.org?b", 80, "/?b"),
        ("http://example.org:8080//x", 8080, "//x"),
        ("http://example.org/a:b@c", 80, "/a:b@c"),
    ] {
        let head = read(&format!("GET {target} HTTP/1.1\r\nhost: EXAMPLE.org:{port}\r\n\r\n"));
        let destination = to("example.org", port);
        assert_eq!(head.target(), &Target::Absolute { destination, path: path.into() }, "{target}");
    }

    let head = read("POST /v1/messages?beta=true HTTP/1.1\r\nHost: [::1]:3128\r\n\r\n");
    assert_eq!(head.target(), &Target::Origin("/v1/messages?beta=true".into()));
    assert_eq!(head.target().path(), Some("/v1/messages"));
    assert_eq!(head.host(), Some((&"[::1]".parse().unwrap(), Some(3128))));
    assert_eq!(head.target().destination(), None);
}

#[test]
fn fields_keep_their_order_and_case_and_lose_their_blanks() {
    let head = read(
        "GET / HTTP/1.1\r\nHost:h\r\nX-A: \t one  two\t \r\nx-a:\r\nX-B:\u{e9}\r\nx-A: :three:\r\n\r\n",
    );
    let fields: Vec<_> = head.fields().iter().collect();
    let want: [(&str, &[u8]); 5] = [
        ("Host", b"h"),
        ("X-A", b"one  two"),
        ("x-a", b""),
        ("X-B", "\u{e9}".as_bytes()),
        ("x-A", b":three:"),
    ];
    assert_eq!(fields, want);
    assert_eq!(head.fields().all("X-a").count(), 3);
    assert_eq!(head.fields().only("x-b"), Ok(Some("\u{e9}".as_bytes())));
    assert_eq!(head.fields().only("x-a"), Err(Malformed::Twice));
    assert_eq!(head.fields().only("x-c"), Ok(None));
}

#[test]
fn the_body_is_framed_by_one_field_or_none() {
    let framing =
        |fields: &str| read(&format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).framing();
    assert_eq!(framing(""), Framing::None);
    assert_eq!(framing("Content-Length: 0\r\n"), Framing::Length(0));
    assert_eq!(framing("content-length:45056\r\n"), Framing::Length(45056));
    let most = "9".repeat(19);
    assert_eq!(
        framing(&format!("Content-Length: {most}\r\n")),
        Framing::Length(most.parse().unwrap())
    );
    assert_eq!(framing("TRANSFER-encoding: chunked\r\n"), Framing::Chunked);
}

#[test]
fn connections_are_kept_by_the_newer_version_unless_it_says_otherwise() {
    let keeps = |version: &str, fields: &str| {
        read(&format!("GET / HTTP/{version}\r\nHost: h\r\n{fields}\r\n")).keeps_alive()
    };
    assert!(keeps("1.1", ""));
    assert!(keeps("1.1", "Connection: keep-alive, , Upgrade\r\n"));
    assert!(!keeps("1.1", "Connection: Close\r\n"));
    assert!(!keeps("1.1", "Connection: x\r\nConnection: keep-alive, CLOSE\r\n"));
    assert!(!keeps("1.0", ""));
    assert!(!keeps("1.0", "Connection: keep-alive\r\n"));
    assert!(read("PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n\r\n").expects_continue());
    assert!(!read("PUT / HTTP/1.1\r\nHost: h\r\n\r\n").expects_continue());
}

#[test]
fn what_is_about_this_connection_or_ours_to_say_is_not_passed_on() {
    let head = read(
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, X-Once\r\nUpgrade: websocket\r\n\
         X-Once: 1\r\nProxy-Authorization: a\r\nProxy-Connection: b\r\nProxy-Made-Up: c\r\n\
         Keep-Alive: 5\r\nTE: trailers\r\nTrailer: x\r\nHTTP2-Settings: x\r\nForwarded: for=1\r\n\
         Via: 1.1 x\r\nX-Forwarded-For: 1.2.3.4\r\nX-FORWARDED-host: z\r\nX_Forwarded_For: y\r\n\
         X-Belljar-Session: s\r\nX-Real-IP: 1\r\nAccept: */*\r\nAuthorization: mine\r\n\r\n",
    );
    let passed: Vec<_> = head.fields().forwarded().map(|(name, _)| name).collect();
    assert_eq!(passed, ["Host", "Accept", "Authorization"]);
}

#[test]
fn a_request_is_for_whom_it_names() {
    let there = to("example.org", 443);
    let head = |host: &str| read(&format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert!(head("example.org").is_for(&there, 443));
    assert!(head("Example.org:443").is_for(&there, 443));
    assert!(!head("example.org").is_for(&there, 80));
    assert!(!head("example.org:8443").is_for(&there, 443));
    assert!(!head("other.org").is_for(&there, 443));
    assert!(!read("GET /a HTTP/1.0\r\n\r\n").is_for(&there, 443));
    let absolute = read("GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n");
    assert!(absolute.is_for(&to("example.org", 80), 443));
    assert!(!absolute.is_for(&there, 443));
}

#[test]
fn what_follows_a_head_is_left() {
    let text = b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /second HTTP/1.1\r\n\r\n";
    let (head, length) = Head::parse(text).unwrap().unwrap();
    assert_eq!(head.target(), &Target::Origin("/".into()));
    assert!(text[length..].starts_with(b"GET /second"));
}

/// Feeds pieces as they would arrive.
fn feed(pieces: &[&[u8]]) -> Result<Option<(Head, usize)>, Malformed> {
    let mut scan = Scan::default();
    let mut buffer = vec![];
    for piece in pieces {
        buffer.extend_from_slice(piece);
        if let Some(found) = Head::parse_growing(&mut scan, &buffer)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[test]
fn a_head_is_the_same_however_it_arrives() {
    for text in [
        "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
        "CONNECT h:1 HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\n\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n fold\r\n\r\n",
        "GET / HTTP/1.1\r\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n",
    ] {
        let want = Head::parse(text.as_bytes());
        for pieces in splits(text.as_bytes()) {
            assert_eq!(feed(&pieces), want, "{pieces:?}");
        }
    }
}

#[test]
fn a_field_list_does_not_print_its_values() {
    let head = read("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer s3cret\r\n\r\n");
    let printed = format!("{head:?}");
    assert!(printed.contains("Authorization") && !printed.contains("s3cret"), "{printed}");
}

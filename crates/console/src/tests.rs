//! Requirements: U4

use http_body_util::BodyExt as _;

use super::*;

const SAMPLE: Console = Console::of(&[
    File {
        path: "assets/app-1a2b.js",
        content_type: "text/javascript; charset=utf-8",
        plain: b"console.log(1)",
        gzip: Some(b"packed"),
        digest: "aa",
    },
    File {
        path: "icon.svg",
        content_type: "image/svg+xml",
        plain: b"<svg/>",
        gzip: None,
        digest: "bb",
    },
    File {
        path: "index.html",
        content_type: "text/html; charset=utf-8",
        plain: b"<!doctype html>",
        gzip: Some(b"packed page"),
        digest: "cc",
    },
]);

/// Status, headers and body of an answer.
struct Seen {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

fn ask(console: Console, method: &str, path: &str, headers: &[(&str, &str)]) -> Seen {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, body) = console.answer(&request.body(()).unwrap()).into_parts();
    let collected = std::pin::pin!(body.collect());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Ok(body)) = collected.poll(&mut context) else {
        panic!("a whole body is ready at once")
    };
    let body = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    Seen { status: parts.status.as_u16(), headers: parts.headers, body }
}

#[track_caller]
fn get(path: &str) -> Seen {
    ask(SAMPLE, "GET", path, &[])
}

#[test]
fn paths_of_the_application_lead_to_its_page() {
    for path in ["/console", "/console/", "/console/runs", "/console/runs/r_1.x/turns/3?a=b.c"] {
        let seen = get(path);
        assert_eq!((seen.status, seen.body.as_str()), (200, "<!doctype html>"), "{path}");
        assert_eq!(seen.header("cache-control"), "no-cache");
        assert_eq!(seen.header("content-type"), "text/html; charset=utf-8");
    }
}

#[test]
fn files_that_do_not_exist_are_not_replaced_by_the_page() {
    for path in [
        "/console/app.js",
        "/console/assets/app-2.js",
        "/console/assets/other",
        "/console/../etc/passwd.txt",
        "/console/.env",
    ] {
        let seen = get(path);
        assert_eq!(seen.status, 404, "{path}");
        assert_eq!(seen.header("cache-control"), "no-store");
        assert_eq!(seen.header("content-security-policy"), POLICY);
    }
}

#[test]
fn only_names_with_a_hash_are_kept_forever() {
    let asset = get("/console/assets/app-1a2b.js");
    assert_eq!(asset.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(asset.body, "console.log(1)");
    assert_eq!(get("/console/icon.svg").header("cache-control"), "no-cache");
}

#[test]
fn a_version_that_the_client_has_is_not_sent_again() {
    let tag = get("/console").header("etag").to_owned();
    assert_eq!(tag, "W/\"cc\"");
    for known in [tag.as_str(), "\"x\", \"cc\""] {
        let seen = ask(SAMPLE, "GET", "/console", &[("if-none-match", known)]);
        assert_eq!((seen.status, seen.body.as_str()), (304, ""), "{known}");
        assert_eq!(seen.header("etag"), tag);
        assert_eq!(seen.header("content-length"), "");
    }
    let seen = ask(SAMPLE, "GET", "/console", &[("if-none-match", "W/\"aa\"")]);
    assert_eq!(seen.status, 200);
}

#[test]
fn gzip_is_sent_to_clients_that_read_it() {
    let body = |accepted: &str| {
        let seen = ask(SAMPLE, "GET", "/console", &[("accept-encoding", accepted)]);
        assert_eq!(seen.header("vary"), "accept-encoding");
        assert_eq!(seen.header("content-length"), seen.body.len().to_string());
        assert_eq!(seen.header("content-encoding") == "gzip", seen.body == "packed page");
        seen.body
    };
    for accepted in ["gzip", "br, GZIP;q=0.5", "*", "zstd;q=1, *;q=0.1"] {
        assert_eq!(body(accepted), "packed page", "{accepted}");
    }
    for accepted in ["", "br", "identity", "gzip;q=0", "gzip; q=0.0, *", "*;q=0"] {
        assert_eq!(body(accepted), "<!doctype html>", "{accepted}");
    }
    let icon = ask(SAMPLE, "GET", "/console/icon.svg", &[("accept-encoding", "gzip")]);
    assert_eq!((icon.header("content-encoding"), icon.body.as_str()), ("", "<svg/>"));
}

#[test]
fn a_head_has_the_headers_of_its_get() {
    let (get, head) = (get("/console"), ask(SAMPLE, "HEAD", "/console", &[]));
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.headers, get.headers);
    assert_eq!(head.header("content-length"), "15");
}

#[test]
fn nothing_can_be_changed() {
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let seen = ask(SAMPLE, method, "/console", &[("origin", "https://evil.example")]);
        assert_eq!((seen.status, seen.header("allow")), (405, "GET, HEAD"), "{method}");
        assert!(seen.headers.keys().all(|name| !name.as_str().starts_with("access-control")));
    }
}

#[test]
fn every_answer_keeps_other_pages_out() {
    let empty = Console::of(&[]);
    for seen in [get("/console"), get("/console/x.js"), ask(empty, "PUT", "/console", &[])] {
        assert!(seen.header("content-security-policy").contains("frame-ancestors 'none'"));
        assert_eq!(seen.header("x-content-type-options"), "nosniff");
        assert_eq!(seen.header("referrer-policy"), "no-referrer");
        assert_eq!(seen.header("cross-origin-opener-policy"), "same-origin");
        assert_eq!(seen.header("cross-origin-resource-policy"), "same-origin");
        assert_eq!(seen.header("origin-agent-cluster"), "?1");
    }
    for source in ["unsafe-inline", "unsafe-eval", "http:", "https:", "*"] {
        assert!(!POLICY.contains(source), "{source}");
    }
}

#[test]
fn an_executable_without_the_console_says_so() {
    let seen = ask(Console::of(&[]), "GET", "/console", &[]);
    assert_eq!(seen.status, 404);
    assert!(seen.body.contains("built without the console"), "{}", seen.body);
}

#[test]
fn other_paths_are_not_the_consoles() {
    for path in ["/console", "/console/", "/console/assets/a.js"] {
        assert!(is_console(path), "{path}");
    }
    for path in ["/", "/consoles", "/v1/console", "//console", "/Console", "/docs"] {
        assert!(!is_console(path), "{path}");
    }
}

/// Holds with the files of this build, and without any.
#[test]
fn the_embedded_files_are_complete() {
    let console = Console::embedded();
    if console.is_empty() {
        return;
    }
    let page = ask(console, "GET", "/console/", &[]);
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    // Every file that the page names is there.
    let named = page.body.split(['"', '\'']).filter(|text| text.starts_with("/console/"));
    let mut first_view = 0;
    for path in named {
        assert_eq!(ask(console, "GET", path, &[]).status, 200, "{path}");
        let sent = ask(console, "HEAD", path, &[("accept-encoding", "gzip")]);
        first_view += sent.header("content-length").parse::<usize>().unwrap();
    }
    assert!(!page.body.contains("<script>"), "the policy refuses scripts in the page");
    assert!(!page.body.contains("<style"), "the policy refuses styles in the page");
    // A bound for slow lines and small disks.
    assert!(first_view <= 500_000, "{first_view} bytes for the first view");
    assert!(console.size() <= 6_000_000, "{} bytes", console.size());
}

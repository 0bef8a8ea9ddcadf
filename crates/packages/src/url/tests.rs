use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn parts_of_a_url_are_what_they_look_like() {
    let url = url("HTTPS://Index.Example.ORG:8443/simple/a.b/?x=1#frag");
    assert_eq!(url.host().to_string(), "index.example.org");
    assert_eq!((url.port(), url.path(), url.query()), (8443, "/simple/a.b/", Some("x=1")));
    assert_eq!(url.to_string(), "https://index.example.org:8443/simple/a.b/?x=1");
    assert_eq!(
        Url::parse("http://[2001:db8::1]:81").unwrap().to_string(),
        "http://[2001:db8::1]:81/"
    );
    assert_eq!(Url::parse("http://example.org").unwrap().path(), "/");
}

#[test]
fn what_could_be_read_in_two_ways_is_no_url() {
    for text in [
        "",
        "example.org/simple",
        "ftp://example.org/",
        "file:///etc/passwd",
        "https:///simple",
        "https://127.1/",
        "https://example.org:0/",
        "https://example.org:/",
        "https://example.org:+80/",
        "https://example.org:99999/",
        "https://example.org\\@evil.example/",
        "https://example.org/a\\b",
        "https://example.org/%5cb",
        "https://example.org/a b",
        "https://example.org/a\r\nb",
        "https://example.org/%0d%0a",
        "https://example.org/%00",
        "https://example.org/%zz",
        "https://example.org/%2",
        "https://example.org/a/%2e%2e/b",
        "https://example.org/a/.%2E/b",
        "https://example.org/ä",
        "https://example.org/\"onload",
        "https://user:secret@example.org/",
    ] {
        assert!(Url::parse(text).is_err(), "{text:?}");
    }
    assert_eq!(Url::parse(&format!("http://a/{}", "a".repeat(9000))), Err(InvalidUrl::Length));
}

#[test]
fn a_credential_is_removed_and_told() {
    let (url, credential) = Url::configured("https://robot:s3cret@p@example.org/simple").unwrap();
    assert_eq!(credential, Credential::Removed);
    assert!(!format!("{url} {url:?}").contains("s3cret"));
    assert_eq!(url.to_string(), "https://example.org/simple");
}

#[test]
fn references_are_resolved_as_browsers_do() {
    let base = url("https://example.org/root/simple/pkg/");
    for (reference, want) in [
        ("a-1.whl#sha256=00", "https://example.org/root/simple/pkg/a-1.whl"),
        ("../../files/a-1.whl", "https://example.org/root/files/a-1.whl"),
        ("../../../../../up", "https://example.org/up"),
        ("/abs/./a", "https://example.org/abs/a"),
        ("//files.example.net/a", "https://files.example.net/a"),
        ("http://files.example.net/a", "http://files.example.net/a"),
        ("?q=1", "https://example.org/root/simple/pkg/?q=1"),
        ("", "https://example.org/root/simple/pkg/"),
        ("..", "https://example.org/root/simple/"),
    ] {
        assert_eq!(base.join(reference).unwrap().to_string(), want, "{reference}");
    }
    for reference in
        ["javascript:alert(1)", "data:text/html,x", "a:b", "mailto:x@example.org", "\\\\evil/a"]
    {
        assert!(base.join(reference).is_err(), "{reference}");
    }
}

#[test]
fn spellings_of_one_path_have_one_key() {
    let key = |text: &str| url(text).key();
    assert_eq!(key("https://example.org/a+cpu"), key("https://EXAMPLE.org:443/a%2bcpu"));
    assert_eq!(key("https://example.org/%61"), key("https://example.org/a"));
    assert_ne!(key("https://example.org/a%2fb"), key("https://example.org/a/b"));
    assert_ne!(key("https://example.org/a"), key("http://example.org/a"));
    assert_ne!(key("https://example.org/a"), key("https://example.org/a?"));
    assert_ne!(key("https://example.org/a"), key("https://example.org:444/a"));
}

#[test]
fn a_request_has_the_key_of_the_url_it_asks_for() {
    let host: Host = "example.org".parse().unwrap();
    let asked = Url::of_request(Scheme::Https, host.clone(), 443, "/f/a%2Bb.whl").unwrap();
    assert_eq!(asked.key(), url("https://example.org/f/a+b.whl").key());
    assert!(Url::of_request(Scheme::Https, host.clone(), 443, "f").is_err());
    assert!(Url::of_request(Scheme::Https, host, 443, "/f#g").is_err());
}

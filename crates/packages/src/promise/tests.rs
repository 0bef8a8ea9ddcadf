use super::*;

const A: &str = "aa7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const B: &str = "bb7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn page(
    manager: Manager,
    index: &str,
    page: &str,
    kind: &str,
    body: &str,
) -> Result<Page, Unreadable> {
    let (index, page) = (Url::parse(index).unwrap(), Url::parse(page).unwrap());
    let downloads =
        Downloads::parse_for_tests("https://dl.example/{prefix}/{crate}-{version}.crate");
    let asked = Asked {
        manager,
        role: &Role::Main,
        index: &index,
        page: &page,
        content_type: Some(kind),
        downloads: Some(&downloads),
    };
    read(asked, body.as_bytes())
}

fn shown(page: &Page) -> Vec<String> {
    let Page::Files { files, .. } = page else { panic!("{page:?}") };
    let digest =
        |file: &Promised| file.digest.map_or("-".into(), |d| d.to_string()[..9].to_owned());
    files.iter().map(|file| format!("{} {}", file.url, digest(file))).collect()
}

fn simple(kind: &str, body: &str) -> Result<Page, Unreadable> {
    page(Manager::Pip, "https://i.example/simple/", "https://i.example/simple/pkg/", kind, body)
}

#[test]
fn links_of_a_simple_page_are_promises() {
    let body = format!(
        r##"<!DOCTYPE html><html><body>
        <a href="../../files/pkg-1-py3-none-any.whl#sha256={A}" data-dist-info-metadata="sha256={B}">x</a>
        <a href="https://f.example/pkg-1.tar.gz#sha512=12" data-core-metadata="true">y</a>
        <a href="https://f.example/pkg-0.zip#md5=900150983cd24fb0d6963f7d28e17f72">old</a>
        <a href="/simple/other/">project</a>
        <a href="http://f.example/down-1.whl#sha256={A}">unsafe</a>
        <a href="javascript:x.whl">no</a></body></html>"##
    );
    let page = simple("text/html; charset=utf-8", &body).unwrap();
    assert_eq!(
        shown(&page),
        [
            "https://i.example/files/pkg-1-py3-none-any.whl sha256:aa",
            "https://i.example/files/pkg-1-py3-none-any.whl.metadata sha256:bb",
            "https://f.example/pkg-1.tar.gz -",
            "https://f.example/pkg-1.tar.gz.metadata -",
            "https://f.example/pkg-0.zip -",
        ]
    );
    assert!(matches!(page, Page::Files { skipped: 2, .. }));
}

#[test]
fn a_base_moves_relative_links_only() {
    let body = "<base href='https://f.example/d/'><base href='https://no.example/'><a href='a.whl'><a href='https://g.example/b.whl'>";
    assert_eq!(
        shown(&simple("text/html", body).unwrap()),
        ["https://f.example/d/a.whl -", "https://g.example/b.whl -"]
    );
    let downgrade = "<base href='http://f.example/'><a href='a.whl'>";
    assert_eq!(shown(&simple("text/html", downgrade).unwrap()), Vec::<String>::new());
}

#[test]
fn json_of_a_simple_page_promises_the_same() {
    let body = format!(
        r#"{{"meta":{{"api-version":"1.1"}},"name":"pkg","files":[
        {{"filename":"a.whl","url":"https://f.example/a.whl","hashes":{{"md5":"00","sha256":"{A}"}},"core-metadata":{{"sha256":"{B}"}},"size":1}},
        {{"filename":"b.whl","url":"b.whl","hashes":{{}},"dist-info-metadata":true}},
        {{"filename":"c.whl","url":"c.whl","hashes":{{"sha1":"00"}},"core-metadata":false}}]}}"#
    );
    assert_eq!(
        shown(&simple("application/vnd.pypi.simple.v1+json", &body).unwrap()),
        [
            "https://f.example/a.whl sha256:aa",
            "https://f.example/a.whl.metadata sha256:bb",
            "https://i.example/simple/pkg/b.whl -",
            "https://i.example/simple/pkg/b.whl.metadata -",
            "https://i.example/simple/pkg/c.whl -",
        ]
    );
    assert!(matches!(simple("application/vnd.pypi.simple.v1+json", "{"), Err(Unreadable::Json(_))));
    assert_eq!(simple("application/octet-stream", "<a href=x.whl>").unwrap(), Page::Other);
}

fn packument(index: &str, body: &str) -> Result<Page, Unreadable> {
    page(Manager::Npm, index, &format!("{index}pkg"), "application/vnd.npm.install-v1+json", body)
}

#[test]
fn versions_of_a_packument_are_promises() {
    let strong = format!("sha512-{}==", "A".repeat(86));
    let body = format!(
        r#"{{"name":"pkg","dist-tags":{{"latest":"2.0.0"}},"versions":{{
        "1.0.0":{{"name":"pkg","dist":{{"shasum":"00","tarball":"https://n.example/pkg/-/pkg-1.0.0.tgz"}}}},
        "1.1.0":{{"dist":{{"integrity":"sha1-qZk+NkcGgWq6PiVxeFDCbJzQ2J0=","tarball":"https://n.example/pkg/-/pkg-1.1.0.tgz"}}}},
        "2.0.0":{{"dist":{{"integrity":"{strong}","shasum":"00","tarball":"https:\/\/n.example\/pkg\/-\/pkg-2.0.0.tgz"}}}}}}}}"#
    );
    assert_eq!(
        shown(&packument("https://n.example/", &body).unwrap()),
        [
            "https://n.example/pkg/-/pkg-1.0.0.tgz -",
            "https://n.example/pkg/-/pkg-1.1.0.tgz -",
            "https://n.example/pkg/-/pkg-2.0.0.tgz sha512:00",
        ]
    );
    // A mirror that did not rewrite them is asked for the same paths.
    assert_eq!(
        shown(&packument("https://m.example/npm/", &body).unwrap())[6..],
        [
            "https://n.example/pkg/-/pkg-2.0.0.tgz sha512:00",
            "https://m.example/npm/pkg/-/pkg-2.0.0.tgz sha512:00",
            "https://m.example/pkg/-/pkg-2.0.0.tgz sha512:00",
        ]
    );
    let one = format!(r#"{{"dist":{{"tarball":"t.tgz","integrity":"{strong}"}}}}"#);
    assert_eq!(
        shown(&packument("https://n.example/", &one).unwrap()),
        ["https://n.example/t.tgz sha512:00"]
    );
}

#[test]
fn a_field_that_stands_there_twice_promises_nothing() {
    let body = r#"{"dist":{"tarball":"a.tgz","tarball":"b.tgz"}}"#;
    assert!(matches!(packument("https://n.example/", body), Err(Unreadable::Json(_))));
}

fn sparse(path: &str, body: &str) -> Result<Page, Unreadable> {
    page(
        Manager::Cargo,
        "https://c.example/i/",
        &format!("https://c.example/i/{path}"),
        "text/plain",
        body,
    )
}

#[test]
fn lines_of_a_sparse_index_are_promises() {
    let body = format!(
        "{{\"name\":\"serde\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{A}\",\"yanked\":false}}\n{{\"name\":\"serde\",\"vers\":\"1.0.0+b\",\"cksum\":\"{B}\"}}\n{{\"name\":\"../x\",\"vers\":\"1\",\"cksum\":\"{B}\"}}\n{{\"name\":\"serde\",\"vers\":\"1.1.0\",\"cksum\":\"00\"}}\n"
    );
    let page = sparse("se/rd/serde", &body).unwrap();
    assert_eq!(
        shown(&page),
        [
            "https://dl.example/se/rd/serde-1.0.0.crate sha256:aa",
            "https://dl.example/se/rd/serde-1.0.0+b.crate sha256:bb",
        ]
    );
    assert!(matches!(page, Page::Files { skipped: 2, .. }));
}

#[test]
fn config_json_says_how_urls_are_made() {
    let config = |dl: &str| sparse("config.json", &format!("{{\"dl\":\"{dl}\",\"api\":\"x\"}}"));
    let line = Downloads::parse_for_tests;
    assert_eq!(
        config("https://x.example/dl").unwrap(),
        Page::Downloads(line("https://x.example/dl"))
    );
    assert!(matches!(config("https://x.example/{host}"), Err(Unreadable::Template)));
    assert!(matches!(config("https://x.example/{crate"), Err(Unreadable::Template)));
    assert_eq!(
        line("https://x.example/dl").url_for_tests("ab", A),
        format!("https://x.example/dl/ab/1/download")
    );
    let all = line("https://x.example/{prefix}/{lowerprefix}/{sha256-checksum}");
    assert_eq!(all.url_for_tests("aBc", A), format!("https://x.example/3/a/3/a/{A}"));
    assert_eq!(all.url_for_tests("SeRde", A), format!("https://x.example/Se/Rd/se/rd/{A}"));
}

#[test]
fn pages_beyond_the_bound_are_not_read() {
    let body = vec![b' '; MOST_BYTES + 1];
    let body = String::from_utf8(body).unwrap();
    assert!(matches!(simple("text/html", &body), Err(Unreadable::TooLarge(_))));
}

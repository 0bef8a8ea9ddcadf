//! Asks the indexes that this machine is configured for. Ignored, since it needs
//! them to be reachable: `cargo test -p belljar-packages -- --ignored`.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::process::Command;

use belljar_packages::cache::{Cache, Found, Key, Limits, Scope};
use belljar_packages::configured::{self, Role};
use belljar_packages::promise::{self, Asked, Downloads, Page, Promised};
use belljar_packages::{Digest, Environment, Index, Indexes, Learned, Tree, Trust, Url};

struct Answer {
    content_type: String,
    body: Vec<u8>,
}

fn get(url: &Url, accept: &str) -> Answer {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--max-time", "60"])
        .args(["--header", &format!("accept: {accept}")])
        .args(["--write-out", "\n%{content_type}"])
        .arg(url.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let end = output.stdout.iter().rposition(|&byte| byte == b'\n').unwrap();
    let content_type = String::from_utf8(output.stdout[end + 1..].to_vec()).unwrap();
    Answer { content_type, body: output.stdout[..end].to_vec() }
}

fn indexes() -> Indexes {
    configured::read(&Tree::host().unwrap(), &std::env::vars().collect::<Environment>())
}

fn page(index: &Index, page: &Url, accept: &str, downloads: Option<&Downloads>) -> Page {
    let answer = get(page, accept);
    let asked = Asked {
        manager: index.manager,
        role: &index.role,
        index: &index.url,
        page,
        content_type: Some(&answer.content_type),
        downloads,
    };
    promise::read(asked, &answer.body).unwrap()
}

fn files(page: Page) -> Vec<Promised> {
    let Page::Files { files, skipped } = page else { panic!("{page:?}") };
    assert!(files.len() > 1 && skipped == 0, "{} files, {skipped} skipped", files.len());
    files
}

/// Fetches one promised file, keeps it, and gets it back from the cache.
fn check(page: &Url, files: Vec<Promised>, wanted: impl Fn(&Promised) -> bool) {
    let file = files.iter().rev().find(|file| wanted(file)).unwrap().clone();
    let mut learned = Learned::default();
    assert_eq!(learned.learn(page, files), 0);
    let Some(Trust::Digest(digest)) = learned.find(&file.url) else { panic!("no digest") };
    let answer = get(&file.url, "*/*");
    assert!(digest.is_of(&answer.body), "{} bytes", answer.body.len());

    let scratch = tempfile::tempdir().unwrap();
    let cache = Cache::open(scratch.path(), Limits::default()).unwrap();
    let key = Key { scope: Scope::Shared, digest };
    let Found::Missing(mut writer) = cache.find(key) else { panic!("not empty") };
    writer.write(&answer.body).unwrap();
    writer.finish().unwrap();
    let Found::Hit(mut reader) = cache.find(key) else { panic!("not kept") };
    assert_eq!(reader.next_piece().unwrap().unwrap(), answer.body);
}

fn main_of(indexes: &[Index]) -> &Index {
    indexes.iter().find(|index| index.role == Role::Main).expect("not configured here")
}

fn below(index: &Index, path: &str) -> Url {
    Url::parse(&format!("{}/{path}", index.url.to_string().trim_end_matches('/'))).unwrap()
}

#[test]
#[ignore = "needs the indexes of this machine"]
fn pip_promises_what_it_serves() {
    let indexes = indexes();
    let index = main_of(&indexes.pip);
    let url = below(index, "six/");
    for accept in ["application/vnd.pypi.simple.v1+json", "text/html"] {
        let files = files(page(index, &url, accept, None));
        check(&url, files.clone(), |file| file.url.path().ends_with(".whl"));
        let is_metadata = |file: &Promised| file.url.path().ends_with(".metadata");
        if files.iter().any(|file| is_metadata(file) && file.digest.is_some()) {
            check(&url, files, |file| is_metadata(file) && file.digest.is_some());
        }
    }
}

#[test]
#[ignore = "needs the indexes of this machine"]
fn npm_promises_what_it_serves() {
    let indexes = indexes();
    let index = main_of(&indexes.npm);
    for accept in ["application/vnd.npm.install-v1+json", "application/json"] {
        for name in ["ms", "@types%2fms"] {
            let url = below(index, name);
            let files = files(page(index, &url, accept, None));
            check(&url, files, |file| matches!(file.digest, Some(Digest::Sha512(_))));
        }
    }
}

#[test]
#[ignore = "needs an index of cargo's, which is not configured everywhere"]
fn cargo_promises_what_it_serves() {
    let indexes = indexes();
    let index = indexes.cargo.first().expect("not configured here");
    let config = page(index, &below(index, "config.json"), "*/*", None);
    let Page::Downloads(downloads) = config else { panic!("{config:?}") };
    let url = below(index, "cf/g-/cfg-if");
    let files = files(page(index, &url, "*/*", Some(&downloads)));
    check(&url, files, |file| file.digest.is_some());
}

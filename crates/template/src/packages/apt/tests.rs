use expect_test::{Expect, expect};
use tempfile::tempdir;

use super::*;

const RELEASE: &str = "ID=debian\nVERSION_CODENAME=bookworm\n";

#[track_caller]
fn check(files: &[(&str, &str)], suite: &str, want: Expect) {
    let dir = tempdir().unwrap();
    fs::create_dir_all(dir.path().join("apt/sources.list.d")).unwrap();
    fs::write(dir.path().join("os-release"), RELEASE).unwrap();
    for (path, text) in files {
        fs::write(dir.path().join(path), text).unwrap();
    }
    want.assert_eq(&match choose(dir.path(), suite, None) {
        Ok(sources) => render(&sources),
        Err(error) => error.to_string(),
    });
}

const DEB822: &str = "\
# The release
Types: deb deb-src
# an old place
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: bookworm
Components: main
";

#[test]
fn deb822_sources_are_turned_to_the_suite() {
    check(
        &[("apt/sources.list.d/debian.sources", DEB822)],
        "trixie",
        expect![[r#"
            Types: deb
            URIs: http://mirror.example/debian
            Suites: trixie trixie-updates
            Components: main
            Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

            Types: deb
            URIs: http://mirror.example/debian-security
            Suites: trixie-security
            Components: main
            Signed-By:
             -----BEGIN PGP PUBLIC KEY BLOCK-----
             .
             abc
             -----END PGP PUBLIC KEY BLOCK-----

        "#]],
    );
}

#[test]
fn one_line_sources_are_turned_to_the_suite() {
    let list = "\
deb [arch=amd64 signed-by=/etc/apt/keyrings/debian.gpg] https://mirror.example/debian bookworm main # x
deb-src https://mirror.example/debian bookworm main
#deb https://off.example/debian bookworm main
deb https://tools.example/linux/debian bookworm stable
deb https://mirror.example/debian-security bookworm-security main
";
    check(
        &[("apt/sources.list", list)],
        "sid",
        expect![[r#"
            Types: deb
            URIs: https://mirror.example/debian
            Suites: sid
            Components: main
            Signed-By: /etc/apt/keyrings/debian.gpg

        "#]],
    );
}

#[test]
fn a_host_without_debian_needs_a_mirror() {
    check(
        &[
            ("os-release", "ID=other\nVERSION_CODENAME=bookworm\n"),
            ("apt/sources.list", "deb http://m.example/x bookworm main\n"),
        ],
        "trixie",
        expect![
            "this host's apt has no Debian archive for `trixie`; set a mirror in the build options"
        ],
    );
    let chosen = choose(Path::new("/nonexistent"), "trixie", Some("http://m.example/d")).unwrap();
    assert_eq!(chosen[0].uris, ["http://m.example/d"]);
}

#[test]
fn a_mirrors_password_stays_on_the_host() {
    let source = |uri: &str| vec![Source { uris: vec![uri.into()], ..Source::default() }];
    let check = |uri, want| assert_eq!(without_credentials(source(uri)), source(want));
    check("https://me:p@ss@m.example/debian", "https://m.example/debian");
    check("https://m.example/debian@1", "https://m.example/debian@1");
    check("file:/srv/debian", "file:/srv/debian");
}

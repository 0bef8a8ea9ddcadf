use std::fs;
use std::path::Path;

use belljar_domain::RootFs;
use tempfile::TempDir;

use super::*;
use crate::files::Tree;

struct Root(TempDir);

impl Root {
    fn with(files: &[(&str, &str)]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = scratch.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(scratch)
    }

    fn read(&self, environment: &[(&str, &str)]) -> Indexes {
        let layers = vec![Path::to_owned(self.0.path())];
        let tree = Tree::of(&RootFs { layers, binds: vec![] }).unwrap();
        let pairs = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        read(&tree, &pairs.collect())
    }
}

fn shown(indexes: &[Index]) -> Vec<String> {
    indexes.iter().map(|index| format!("{:?} {} {}", index.role, index.url, index.source)).collect()
}

const HOME: (&str, &str) = ("HOME", "/home/user");

#[test]
fn an_empty_root_has_no_indexes() {
    assert_eq!(Root::with(&[]).read(&[]), Indexes::default());
}

#[test]
fn pip_files_are_read_in_pips_order() {
    let root = Root::with(&[
        ("/etc/pip.conf", "[global]\nindex-url = https://machine.example/simple\n"),
        (
            "/home/user/.config/pip/pip.conf",
            "[global]\nindex_url: https://user.example/simple/\nextra-index-url =\n    https://a.example/x\n    # not this\n    https://b.example/y\n[install]\nfind-links = /opt/wheels https://links.example/page\n",
        ),
    ]);
    assert_eq!(
        shown(&root.read(&[HOME]).pip),
        [
            "Main https://user.example/simple/ /home/user/.config/pip/pip.conf",
            "Extra https://a.example/x /home/user/.config/pip/pip.conf",
            "Extra https://b.example/y /home/user/.config/pip/pip.conf",
            "Links https://links.example/page /home/user/.config/pip/pip.conf",
        ]
    );
    let indexes = root.read(&[
        HOME,
        ("PIP_INDEX_URL", "https://env.example/simple"),
        ("PIP_EXTRA_INDEX_URL", " "),
    ]);
    assert_eq!(shown(&indexes.pip)[0], "Main https://env.example/simple $PIP_INDEX_URL");
    assert!(!shown(&indexes.pip).iter().any(|line| line.contains("user.example")));
    let ignored = root.read(&[HOME, ("PIP_CONFIG_FILE", "/dev/null")]);
    assert_eq!(ignored.pip, []);
}

#[test]
fn a_section_of_a_command_replaces_the_global_one() {
    let root = Root::with(&[(
        "/usr/pip.conf",
        "[global]\nindex-url = https://g.example/s\n[install]\nindex-url = https://i.example/s\n",
    )]);
    let urls: Vec<_> = root.read(&[]).pip.iter().map(|index| index.url.to_string()).collect();
    // `pip download` still uses the global one.
    assert_eq!(urls, ["https://i.example/s", "https://g.example/s"]);
}

#[test]
fn without_an_index_pip_asks_nobody() {
    let root = Root::with(&[(
        "/etc/pip.conf",
        "[global]\nno-index = true\nindex-url = https://g.example/s\n",
    )]);
    assert_eq!(root.read(&[]).pip, []);
}

#[test]
fn the_default_of_pip_is_read_from_pip() {
    let path = "/usr/lib/python3.12/site-packages/pip/_internal/models/index.py";
    let text = "class X: pass\n\nPyPI = PackageIndex(\n    \"https://pip.example/\", file_storage_domain=\"f.example\")\nOther = PackageIndex(\"https://t.example/\")\n";
    let root = Root::with(&[(path, text)]);
    assert_eq!(shown(&root.read(&[]).pip), [format!("Main https://pip.example/simple {path}")]);
    let strange = Root::with(&[(path, "nothing here")]).read(&[]);
    assert_eq!(strange.pip, []);
    assert_eq!(strange.notes[0].about, About::UnknownDefault);
}

#[test]
fn uv_has_settings_of_its_own() {
    let root = Root::with(&[(
        "/home/user/.config/uv/uv.toml",
        "index-url = 'https://old.example/s'\n[[index]]\nname = 'x'\nurl = 'https://x.example/s'\n",
    )]);
    assert_eq!(
        shown(&root.read(&[HOME]).pip),
        [
            "Main https://old.example/s /home/user/.config/uv/uv.toml",
            "Extra https://x.example/s /home/user/.config/uv/uv.toml",
        ]
    );
    let indexes = root.read(&[HOME, ("UV_DEFAULT_INDEX", "main=https://uv.example/s")]);
    assert_eq!(shown(&indexes.pip)[0], "Main https://uv.example/s $UV_DEFAULT_INDEX");
    let alone = Root::with(&[("/usr/local/bin/uv", "")]).read(&[]);
    assert_eq!((alone.pip.len(), alone.notes[0].about), (0, About::UnknownDefault));
}

#[test]
fn npm_settings_of_the_user_come_first() {
    let root = Root::with(&[
        ("/etc/npmrc", "registry=https://machine.example/\n@b:registry=https://b.example/\n"),
        (
            "/home/user/.npmrc",
            "; mine\nregistry = \"https://user.example/npm/\"\n@a:registry=https://${TEAM}.example/\n//user.example/:_authToken=t0ken\n",
        ),
    ]);
    let indexes = root.read(&[HOME, ("TEAM", "team")]);
    assert_eq!(
        shown(&indexes.npm),
        [
            "Main https://user.example/npm/ /home/user/.npmrc",
            "Named(\"@a\") https://team.example/ /home/user/.npmrc",
            "Named(\"@b\") https://b.example/ /etc/npmrc",
        ]
    );
    assert!(!format!("{indexes:?}").contains("t0ken"));
    for name in ["npm_config_registry", "NPM_CONFIG_REGISTRY", "YARN_NPM_REGISTRY_SERVER"] {
        let indexes = root.read(&[HOME, (name, "https://env.example")]);
        assert_eq!(shown(&indexes.npm)[0], format!("Main https://env.example/ ${name}"));
    }
}

#[test]
fn the_default_of_npm_is_read_from_npm() {
    for (path, text) in [
        (
            "/usr/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js",
            "  registry: new Definition('registry', {\n    default: 'https://npm.example/',\n",
        ),
        (
            "/usr/share/nodejs/npm/lib/utils/config/definitions.js",
            "define('registry', {\n  default: \"https://npm.example/\",\n  type: url,\n",
        ),
    ] {
        let root = Root::with(&[(path, text)]);
        assert_eq!(shown(&root.read(&[]).npm), [format!("Main https://npm.example/ {path}")]);
        // A scope alone leaves the default in use.
        let both = root.read(&[("npm_config_@s:registry", "https://s.example")]);
        assert_eq!(both.npm.len(), 2);
        let strange = Root::with(&[(path, "define('registry', { type: url")]).read(&[]);
        assert_eq!((strange.npm.len(), strange.notes[0].about), (0, About::UnknownDefault));
    }
}

#[test]
fn cargo_follows_replacements_to_their_end() {
    let config = "[source.crates-io]\nreplace-with = 'near'\n[source.near]\nreplace-with = 'far'\n[source.far]\nregistry = 'sparse+https://far.example/index/'\n[registries.own]\nindex = 'sparse+https://own.example/'\n[registries.old]\nindex = 'https://git.example/index'\n";
    let root = Root::with(&[("/cargo/config.toml", config), ("/cargo/bin/cargo", "")]);
    let indexes = root.read(&[
        ("CARGO_HOME", "/cargo"),
        ("CARGO_REGISTRIES_OWN_INDEX", "sparse+https://env.example/"),
    ]);
    assert_eq!(
        shown(&indexes.cargo),
        [
            "Named(\"own\") https://env.example/ $CARGO_REGISTRIES_OWN_INDEX",
            "Main https://far.example/index/ /cargo/config.toml",
        ]
    );
    assert_eq!(indexes.notes.iter().map(|note| note.about).collect::<Vec<_>>(), [About::Git]);
}

#[test]
fn the_default_of_cargo_is_in_its_program() {
    let cargo =
        "\0sparse+ prefix\0sparse+https://iints_x:/CARGO_PKGsparse+https://index.example/next/\0";
    let rustup = "/root/.rustup/toolchains/stable/bin/cargo";
    for (path, other) in [("/usr/bin/cargo", "/usr/bin/x"), (rustup, "/root/.cargo/bin/cargo")] {
        let root = Root::with(&[(path, cargo), (other, "a program")]).read(&[]);
        assert_eq!(shown(&root.cargo), [format!("Main https://index.example/ {path}")]);
        assert_eq!(root.notes, []);
        assert!(matches!(root.cargo[0].source, Source::Builtin(_)));
    }
    let own =
        "[source.crates-io]\nreplace-with='o'\n[source.o]\nregistry='sparse+https://o.example/'\n";
    let root = Root::with(&[("/usr/bin/cargo", cargo), ("/root/.cargo/config.toml", own)]);
    assert_eq!(shown(&root.read(&[]).cargo), ["Main https://o.example/ /root/.cargo/config.toml"]);
}

#[test]
fn a_program_that_tells_no_default_is_noted() {
    for text in ["", "sparse+https://x.example", "sparse+https://local/", "sparse+https:///"] {
        let root = Root::with(&[("/usr/bin/cargo", text)]).read(&[]);
        assert_eq!(root.cargo, [], "{text}");
        let note = root.notes[0].to_string();
        assert!(note.starts_with("cargo: /usr/bin/cargo: installed"), "{note}");
    }
    let circle = "[source.crates-io]\nreplace-with = 'a'\n[source.a]\nreplace-with = 'crates-io'\n";
    let root = Root::with(&[("/.cargo/config.toml", circle)]).read(&[]);
    assert_eq!(root, Indexes::default());
    let vendored = "[source.crates-io]\nreplace-with = 'v'\n[source.v]\ndirectory = 'vendor'\n";
    let root = Root::with(&[("/.cargo/config", vendored), ("/usr/bin/cargo", "")]).read(&[]);
    assert_eq!(root, Indexes::default());
}

#[test]
fn apt_sources_of_both_forms_are_read() {
    let stanzas = "# a comment\nTypes: deb\n# http://not.example\nURIs: http://d.example/debian\n https://e.example/debian\nSuites: x\n\nTypes: deb\nEnabled: no\nURIs: http://off.example/\n\nTypes: deb\nURIs: mirror+file:///etc/apt/mirrors.list\n";
    let root = Root::with(&[
        (
            "/etc/apt/sources.list",
            "# deb http://no.example/ x main\ndeb [arch=amd64 signed-by=/k] http://l.example/debian x main # end\ndeb cdrom:[x]/ x main\n",
        ),
        ("/etc/apt/sources.list.d/a.sources", stanzas),
        ("/etc/apt/sources.list.d/b.list", "deb-src\thttps://u:pw@p.example/x y z\n"),
        ("/etc/apt/sources.list.d/c.sources.off", "URIs: http://no.example\n"),
        ("/etc/apt/mirrors.list", "http://m.example/debian\tpriority:1\n"),
    ]);
    let indexes = root.read(&[]);
    let urls: Vec<_> = indexes.apt.iter().map(|index| index.url.to_string()).collect();
    assert_eq!(
        urls,
        [
            "http://l.example/debian",
            "http://d.example/debian",
            "https://e.example/debian",
            "http://m.example/debian",
            "https://p.example/x",
        ]
    );
    assert_eq!(indexes.notes[0].about, About::Credential);
    assert!(!format!("{indexes:?} {}", indexes.notes[0]).contains("pw"));
}

#[test]
fn go_has_its_defaults_beside_it() {
    let root = Root::with(&[
        ("/usr/local/go/bin/go", ""),
        (
            "/usr/local/go/go.env",
            "# GOPROXY=x\nGOPROXY=https://go.example,direct\nGOSUMDB=sum.example\n",
        ),
    ]);
    let urls = |indexes: Indexes| shown(&indexes.go);
    assert_eq!(
        urls(root.read(&[])),
        [
            "Main https://go.example/ /usr/local/go/go.env",
            "Checksums https://sum.example/ /usr/local/go/go.env",
        ]
    );
    let set = root.read(&[
        ("GOPROXY", "https://a.example/go|https://b.example,off"),
        ("GOSUMDB", "sum.example+key https://c.example/sumdb"),
    ]);
    assert_eq!(set.go.len(), 3);
    assert_eq!(set.go[2].url.to_string(), "https://c.example/sumdb");
    let old = Root::with(&[("/usr/lib/go-1.19/bin/go", "")]).read(&[]);
    assert_eq!(old.notes[0].about, About::UnknownDefault);
}

#[test]
fn passwords_and_broken_urls_are_never_shown() {
    let root = Root::with(&[]);
    let indexes = root.read(&[
        ("PIP_INDEX_URL", "https://robot:hunter2@i.example/simple"),
        ("npm_config_registry", "https://robot:hunter2@ /"),
    ]);
    assert_eq!(indexes.pip[0].credential, Credential::Removed);
    assert_eq!(indexes.pip[0].url.to_string(), "https://i.example/simple");
    assert_eq!(indexes.notes.len(), 2);
    let all = format!("{indexes:?} {} {}", indexes.notes[0], indexes.notes[1]);
    assert!(!all.contains("hunter2") && !all.contains("robot"), "{all}");
}

#[test]
fn a_url_belongs_to_the_nearest_index_above_it() {
    let indexes = Root::with(&[]).read(&[
        ("PIP_INDEX_URL", "https://i.example/a/simple/"),
        ("PIP_EXTRA_INDEX_URL", "https://i.example/a"),
    ]);
    let above =
        |text: &str| indexes.above(&Url::parse(text).unwrap()).map(|index| index.role.clone());
    assert_eq!(above("https://i.example/a/simple/pkg/"), Some(Role::Main));
    assert_eq!(above("https://i.example/a/simplex"), Some(Role::Extra));
    assert_eq!(above("https://i.example/ab"), None);
    assert_eq!(above("http://i.example/a"), None);
}

#[test]
fn where_the_hosts_word_counts_the_templates_does_not() {
    let root = Root::with(&[("/etc/pip.conf", "[global]\nindex-url = http://own.test/simple\n")]);
    let layers = vec![Path::to_owned(root.0.path())];
    let root = RootFs { layers, binds: vec![] };
    let own = Environment::from([("NPM_CONFIG_REGISTRY".into(), "http://own.test/npm".into())]);
    let host = Environment::from([("PIP_INDEX_URL".into(), "https://mirror.test/simple".into())]);
    let names = |indexes: &Indexes| {
        indexes
            .all()
            .map(|index| index.url.to_string())
            .filter(|url| url.contains(".test"))
            .collect::<Vec<_>>()
    };
    let (indexes, _) = of_template(&root, &own, &host).unwrap();
    assert_eq!(names(&indexes), ["http://own.test/simple", "http://own.test/npm"]);
    let (indexes, told) = of_host(&root, &own, &host).unwrap();
    assert_eq!(names(&indexes), ["https://mirror.test/simple"]);
    assert!(
        told.variables
            .iter()
            .any(|(name, value)| { name == "PIP_INDEX_URL" && value.contains("mirror.test") })
    );
}

#[test]
fn a_root_made_to_be_slow_is_not() {
    let many = |line: &dyn Fn(usize) -> String| (0..50_000).map(line).collect::<String>();
    let root = Root::with(&[
        ("/etc/apt/sources.list", &many(&|n| format!("deb http://a{n}.example/ x y\n"))),
        ("/etc/npmrc", &many(&|n| format!("@s{n}:registry=https://n.example/{n}\n"))),
        (
            "/etc/pip.conf",
            &format!("[global]\nextra-index-url={}", many(&|n| format!("https://p.example/{n} "))),
        ),
    ]);
    let indexes = root.read(&[]);
    assert_eq!([indexes.apt.len(), indexes.npm.len(), indexes.pip.len()], [MOST; 3]);
    assert!(indexes.notes.iter().all(|note| note.about == About::TooMany));
}

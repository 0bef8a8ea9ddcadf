//! What a policy must allow, and sandboxes be told, for package managers to work.

use belljar_domain::network::{Host, HostPattern, Rule, Scheme};

use crate::configured::{Environment, Index, Indexes, Role, Source};
use crate::files::Files;
use crate::url::Url;

/// What has to be told inside for managers to use indexes that are not their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    pub variables: Vec<(String, String)>,
    /// Absolute paths, and what these files hold from now on.
    pub files: Vec<(String, String)>,
}

/// Reading the indexes: GET and HEAD, below each one's path, on its port.
///
/// Files that lie elsewhere are not here: they are learned from the pages, one
/// by one. Publishing, which is how data would leave through a registry, needs
/// other methods.
pub fn of(indexes: &Indexes) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for index in indexes.all() {
        let host = HostPattern::Exact(index.url.host().clone());
        let port = index.url.port();
        let path = index.url.path().trim_end_matches('/');
        let known = rules.iter_mut().find(|rule| rule.host == host && rule.ports == [port]);
        match known {
            // One that may read everything needs no paths, and gets none.
            Some(rule) if rule.paths.is_empty() => {}
            Some(rule) if path.is_empty() => rule.paths.clear(),
            Some(rule) => {
                if !rule.paths.iter().any(|known| known == path) {
                    rule.paths.push(path.to_owned());
                }
            }
            None => rules.push(Rule {
                host,
                ports: vec![port],
                methods: vec!["GET".to_owned(), "HEAD".to_owned()],
                paths: Some(path.to_owned()).filter(|path| !path.is_empty()).into_iter().collect(),
            }),
        }
    }
    rules
}

/// Variables that make the managers inside use these indexes. For indexes of
/// the host; a template that has its own needs none.
pub fn environment(indexes: &Indexes) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    pip(&indexes.pip, &mut pairs);
    npm(&indexes.npm, &mut pairs);
    for index in &indexes.cargo {
        if let Role::Named(name) = &index.role {
            let name = name.to_ascii_uppercase().replace('-', "_");
            let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if is_name {
                let value = format!("sparse+{}", index.url);
                pairs.push((format!("CARGO_REGISTRIES_{name}_INDEX"), value));
            }
        }
    }
    let proxies = with_role(&indexes.go, &Role::Main);
    if !proxies.is_empty() {
        // Without `direct`: that would ask hosts that no index names.
        pairs.push(("GOPROXY".to_owned(), proxies.join(",")));
    }
    pairs
}

/// Files that do the same where no variable can: nothing but cargo's own file
/// replaces its default. `inside` and `environment` are of who is told.
pub fn files(
    indexes: &Indexes,
    inside: &dyn Files,
    environment: &Environment,
) -> Vec<(String, String)> {
    let is_chosen = |index: &&Index| {
        // What is cargo's default there is so here.
        index.role == Role::Main && !matches!(index.source, Source::Builtin(_))
    };
    let Some(main) = indexes.cargo.iter().find(is_chosen) else { return vec![] };
    let folders = match environment.get("CARGO_HOME").filter(|path| path.starts_with('/')) {
        Some(path) => vec![path.trim_end_matches('/').to_owned()],
        // Root may have no home, and nobody can make one.
        None => ["/home/user", "/root"]
            .into_iter()
            .filter(|home| *home != "/root" || inside.has(home))
            .map(|home| format!("{home}/.cargo"))
            .collect(),
    };
    folders.iter().filter_map(|folder| cargo(folder, &main.url, inside)).collect()
}

/// A folder's file as it is, with cargo's default replaced.
fn cargo(folder: &str, url: &Url, inside: &dyn Files) -> Option<(String, String)> {
    // Of two, cargo takes the one without an ending.
    let [bare, ended] = ["config", "config.toml"].map(|name| format!("{folder}/{name}"));
    let path = if inside.has(&bare) { &bare } else { &ended };
    let before = inside.text(path).and_then(|text| text.parse::<toml::Table>().ok());
    let mut config = before.unwrap_or_default();
    let source = |key: &str, value: String| -> toml::Value {
        toml::Table::from_iter([(key.to_owned(), value.into())]).into()
    };
    let sources = config.entry("source").or_insert_with(|| toml::Table::new().into());
    let sources = sources.as_table_mut()?;
    sources.insert("crates-io".to_owned(), source("replace-with", "configured".to_owned()));
    sources.insert("configured".to_owned(), source("registry", format!("sparse+{url}")));
    Some((path.clone(), config.to_string()))
}

fn pip(indexes: &[Index], pairs: &mut Vec<(String, String)>) {
    let mut main = with_role(indexes, &Role::Main);
    let mut extra = with_role(indexes, &Role::Extra);
    if !main.is_empty() {
        let first = main.remove(0);
        extra.splice(0..0, main);
        pairs.push(("PIP_INDEX_URL".to_owned(), first.clone()));
        pairs.push(("UV_DEFAULT_INDEX".to_owned(), first));
    }
    let links = with_role(indexes, &Role::Links);
    for (name, values) in
        [("PIP_EXTRA_INDEX_URL", &extra), ("UV_INDEX", &extra), ("PIP_FIND_LINKS", &links)]
    {
        if !values.is_empty() {
            pairs.push((name.to_owned(), values.join(" ")));
        }
    }
    let mut unsafe_hosts: Vec<String> = Vec::new();
    for index in indexes.iter().filter(|index| index.url.scheme() == Scheme::Http) {
        let host = authority(index.url.host(), index.url.port());
        if !unsafe_hosts.contains(&host) {
            unsafe_hosts.push(host);
        }
    }
    if !unsafe_hosts.is_empty() {
        // Whoever configured an index without TLS has decided so.
        pairs.push(("PIP_TRUSTED_HOST".to_owned(), unsafe_hosts.join(" ")));
        pairs.push(("UV_INSECURE_HOST".to_owned(), unsafe_hosts.join(" ")));
    }
}

fn npm(indexes: &[Index], pairs: &mut Vec<(String, String)>) {
    for index in indexes {
        let url = index.url.to_string();
        match &index.role {
            Role::Main => {
                pairs.push(("npm_config_registry".to_owned(), url.clone()));
                pairs.push(("YARN_NPM_REGISTRY_SERVER".to_owned(), url));
            }
            Role::Named(scope) => pairs.push((format!("npm_config_{scope}:registry"), url)),
            Role::Extra | Role::Links | Role::Checksums => {}
        }
    }
    if !indexes.is_empty() {
        // An audit sends what is installed with POST, which is refused.
        pairs.push(("npm_config_audit".to_owned(), "false".to_owned()));
    }
}

fn with_role(indexes: &[Index], role: &Role) -> Vec<String> {
    indexes.iter().filter(|index| index.role == *role).map(|index| index.url.to_string()).collect()
}

fn authority(host: &Host, port: u16) -> String {
    if port == 80 { host.to_string() } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configured::read;
    use crate::files::Tree;

    fn indexes(environment: &[(&str, &str)]) -> Indexes {
        let empty = tempfile::tempdir().unwrap();
        let layers = vec![empty.path().to_owned()];
        let tree = Tree::of(&belljar_domain::RootFs { layers, binds: vec![] }).unwrap();
        let pair = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        read(&tree, &environment.iter().map(pair).collect::<Environment>())
    }

    fn shown(rule: &Rule) -> String {
        format!("{} {:?} {:?} {:?}", rule.host, rule.ports, rule.methods, rule.paths)
    }

    #[test]
    fn indexes_may_be_read_and_nothing_else() {
        let rules = of(&indexes(&[
            ("PIP_INDEX_URL", "https://i.example/a/simple/"),
            (
                "PIP_EXTRA_INDEX_URL",
                "https://i.example/b https://i.example/a/simple http://i.example:81/c",
            ),
            ("npm_config_registry", "https://n.example"),
            ("npm_config_@s:registry", "https://n.example/private/"),
            ("GOPROXY", "https://g.example/go"),
        ]));
        let read = r#"["GET", "HEAD"]"#;
        assert_eq!(
            rules.iter().map(shown).collect::<Vec<_>>(),
            [
                format!(r#"i.example [443] {read} ["/a/simple", "/b"]"#),
                format!(r#"i.example [81] {read} ["/c"]"#),
                format!(r#"n.example [443] {read} []"#),
                format!(r#"g.example [443] {read} ["/go"]"#),
            ]
        );
        assert!(rules.iter().all(Rule::needs_content));
        assert_eq!(of(&Indexes::default()), []);
    }

    #[test]
    fn what_is_told_inside_leads_to_the_same_indexes() {
        let outside = [
            ("PIP_INDEX_URL", "https://robot:pw@i.example/simple"),
            ("PIP_EXTRA_INDEX_URL", "http://x.example:8080/s https://y.example/s"),
            ("npm_config_registry", "https://n.example/"),
            ("npm_config_@s:registry", "https://s.example/"),
            ("CARGO_REGISTRIES_MY_OWN_INDEX", "sparse+https://c.example/"),
            ("GOPROXY", "https://g.example/|direct"),
        ];
        let inside = environment(&indexes(&outside));
        let inside: Vec<_> = inside.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert!(inside.contains(&("PIP_TRUSTED_HOST", "x.example:8080")));
        assert!(inside.iter().all(|(_, value)| !value.contains("pw")));
        assert_eq!(of(&indexes(&inside)), of(&indexes(&outside)));
    }

    /// A root with one file.
    fn root(path: &str, text: &str) -> (tempfile::TempDir, Tree) {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        let layers = vec![scratch.path().to_owned()];
        let tree = Tree::of(&belljar_domain::RootFs { layers, binds: vec![] }).unwrap();
        (scratch, tree)
    }

    const MIRRORED: &str = "[source.crates-io]\nreplace-with='x'\n[source.x]\nregistry='sparse+https://c.example/i/'\n";

    #[test]
    fn cargo_is_told_in_a_file_that_keeps_the_rest() {
        let (_host, host) = root("/root/.cargo/config.toml", MIRRORED);
        let host = read(&host, &Environment::new());
        let user = "/home/user/.cargo/config.toml";
        for (path, home, told) in [
            (user, None, vec![user]),
            ("/home/user/.cargo/config", None, vec!["/home/user/.cargo/config"]),
            ("/root/.cargo/config.toml", None, vec![user, "/root/.cargo/config.toml"]),
            ("/opt/cargo/config.toml", Some("/opt/cargo/"), vec!["/opt/cargo/config.toml"]),
        ] {
            let (_inside, inside) = root(path, "[net]\nretry = 7\n[source.other]\ndirectory='v'\n");
            let environment: Environment =
                home.map(|home| ("CARGO_HOME".into(), home.into())).into_iter().collect();
            let files = files(&host, &inside, &environment);
            assert_eq!(files.iter().map(|(path, _)| path).collect::<Vec<_>>(), told);
            for (name, text) in &files {
                let is_kept = text.contains("retry = 7") && text.contains("[source.other]");
                assert_eq!(is_kept, name == path);
                let (_after, after) = root(name, text);
                assert_eq!(of(&read(&after, &environment)), of(&host), "{name}");
            }
        }
    }

    #[test]
    fn a_default_of_cargos_needs_no_file() {
        let (_host, host) = root("/usr/bin/cargo", "sparse+https://index.example/");
        let found = read(&host, &Environment::new());
        assert_eq!(found.cargo.len(), 1);
        assert_eq!(files(&found, &host, &Environment::new()), []);
        assert_eq!(files(&Indexes::default(), &host, &Environment::new()), []);
    }
}

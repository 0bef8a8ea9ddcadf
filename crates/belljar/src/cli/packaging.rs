//! Every command line in `packaging/` and in the operator's guide is one that this
//! executable takes, and every example of a settings file is one that it reads.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use clap::error::ErrorKind;
use serde_yaml_ng::Value;

use super::{Cli, Command};
use crate::commands::serve;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Checks that a complete command line parses.
#[track_caller]
fn accepts(place: &str, words: &[String]) {
    let line = std::iter::once("belljar").chain(words.iter().map(String::as_str));
    match Cli::try_parse_from(line) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {}
        Err(error) => panic!("{place}: belljar {}\n{error}", words.join(" ")),
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// `NAME=value` lines, as systemd reads them; and those that comments propose.
fn variables(text: &str) -> (BTreeMap<String, String>, Vec<String>) {
    let pair = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), value.to_owned()))
    };
    let set = text.lines().filter(|line| !line.starts_with('#')).filter_map(pair).collect();
    let proposed = text.lines().filter_map(|line| line.strip_prefix("#   OPTIONS="));
    (set, proposed.map(str::to_owned).collect())
}

/// As systemd does: `${NAME}` is part of one word, `$NAME` becomes any number of words.
#[track_caller]
fn expanded(line: &str, variables: &BTreeMap<String, String>) -> Vec<String> {
    let value = |name: &str| {
        variables.get(name).unwrap_or_else(|| panic!("nobody sets {name}, which is used")).clone()
    };
    let mut found = Vec::new();
    for word in words(line) {
        if let Some(name) = word.strip_prefix('$').filter(|name| !name.starts_with('{')) {
            found.extend(words(&value(name)));
            continue;
        }
        let mut rest = word.as_str();
        let mut whole = String::new();
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').expect("a brace that closes");
            whole = whole + before + &value(name);
            rest = after;
        }
        found.push(whole + rest);
    }
    found
}

#[test]
fn units_start_what_there_is() {
    for role in ["control", "node", "serve"] {
        let place = format!("packaging/systemd/belljar-{role}.service");
        let unit = read(&place);
        let setting = |name: &str| {
            let lines: Vec<_> =
                unit.lines().filter_map(|line| line.strip_prefix(&format!("{name}="))).collect();
            assert_eq!(lines.len(), 1, "{place}: {name}");
            lines[0].to_owned()
        };
        assert_eq!(setting("EnvironmentFile"), format!("/etc/belljar/{role}.env"));
        let (mut set, proposed) = variables(&read(&format!("packaging/examples/{role}.env")));
        set.insert("CREDENTIALS_DIRECTORY".to_owned(), "/run/credentials/belljar".to_owned());
        let start = setting("ExecStart");
        let start = start.strip_prefix("/usr/bin/belljar ").expect("it starts belljar");
        assert!(start.starts_with(role), "{start}");
        assert!(!proposed.is_empty());
        for options in std::iter::once(String::new()).chain(proposed) {
            set.insert("OPTIONS".to_owned(), options);
            accepts(&place, &expanded(start, &set));
        }
    }
}

/// All lists below `key` that are given to our own images.
fn lists(value: &Value, key: &str, found: &mut Vec<Vec<String>>) {
    match value {
        Value::Mapping(map) => {
            let is_ours = map
                .get("image")
                .and_then(Value::as_str)
                .is_some_and(|image| image.starts_with("belljar-"));
            if let Some(list) = map.get(key).and_then(Value::as_sequence).filter(|_| is_ours) {
                let text = |word: &Value| word.as_str().expect("a word").to_owned();
                found.push(list.iter().map(text).collect());
            }
            map.values().for_each(|value| lists(value, key, found));
        }
        Value::Sequence(list) => list.iter().for_each(|value| lists(value, key, found)),
        _ => {}
    }
}

fn documents(text: &str) -> Vec<Value> {
    use serde::Deserialize as _;
    serde_yaml_ng::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).expect("valid YAML"))
        .collect()
}

#[test]
fn compose_starts_what_there_is() {
    let place = "packaging/docker/compose.yaml";
    let text = read(place);
    let [document] = &documents(&text)[..] else { panic!("one document") };
    let mut found = Vec::new();
    lists(document, "command", &mut found);
    assert_eq!(
        found.iter().map(|words| words[0].as_str()).collect::<Vec<_>>(),
        ["control", "node"]
    );
    for words in &found {
        accepts(place, words);
    }
    // What the node holds is what hostile code is closest to.
    let node = &document["services"]["node"];
    assert!(!format!("{node:?}").contains("database"), "nodes do not know the database");
    assert!(!format!("{node:?}").contains("control.key"), "nor what signs for tenants");
    let mut shown = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("#   ")) {
        let line = line.split(" >").next().unwrap_or_default().replace("--rm -T", "--rm");
        let ours = line.strip_prefix("belljar ");
        let inside = line.strip_prefix("docker compose run --rm control ");
        if let Some(line) = ours.or(inside) {
            shown += 1;
            accepts(place, &words(line));
        }
    }
    assert_eq!(shown, 4);
}

#[test]
fn compose_of_one_server_starts_what_there_is() {
    let place = "packaging/docker/serve.compose.yaml";
    let text = read(place);
    let [document] = &documents(&text)[..] else { panic!("one document") };
    let mut found = Vec::new();
    lists(document, "command", &mut found);
    let [command] = &found[..] else { panic!("one service: {found:?}") };
    assert_eq!(command[0], "serve");
    accepts(place, command);
    let prefix = "#   docker compose -f packaging/docker/serve.compose.yaml run --rm serve ";
    let shown: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(prefix)).collect();
    assert_eq!(shown.len(), 1);
    accepts(place, &words(shown[0]));
    // The probe asks for readiness, so that nothing is sent to a server that warms up.
    let probe = &document["services"]["serve"]["healthcheck"]["test"];
    assert!(format!("{probe:?}").contains("/v1/ready"), "{probe:?}");
}

#[test]
fn kubernetes_starts_what_there_is() {
    let mut roles = Vec::new();
    for file in ["control.yaml", "node.yaml"] {
        let place = format!("packaging/kubernetes/{file}");
        let all = documents(&read(&place));
        let mut found = Vec::new();
        all.iter().for_each(|document| lists(document, "args", &mut found));
        for words in found {
            let known = [("$(NODE_NAME)", "worker-1"), ("$(POD_IP)", "10.1.2.3")];
            let known = |word: &String| {
                known.iter().fold(word.clone(), |word, (name, value)| word.replace(name, value))
            };
            accepts(&place, &words.iter().map(known).collect::<Vec<_>>());
            roles.push(words[0].clone());
        }
        for document in &all {
            assert!(document["apiVersion"].is_string() && document["kind"].is_string(), "{place}");
            assert_eq!(document["metadata"]["namespace"].as_str(), Some("belljar"), "{place}");
        }
    }
    assert_eq!(roles, ["control", "node"]);
    for file in ["namespace.yaml", "network-policy.yaml", "secrets.example.yaml"] {
        assert!(!documents(&read(&format!("packaging/kubernetes/{file}"))).is_empty(), "{file}");
    }
    let node = read("packaging/kubernetes/node.yaml");
    assert!(!node.contains("belljar-database"), "nodes do not know the database");
    assert!(!node.contains("secretName: belljar-control"), "nor what signs for tenants");
}

/// The command lines of control and of `serve` in all shipped files.
fn servers() -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    for role in ["control", "serve"] {
        let place = format!("packaging/systemd/belljar-{role}.service");
        let (mut set, _) = variables(&read(&format!("packaging/examples/{role}.env")));
        set.insert("CREDENTIALS_DIRECTORY".to_owned(), "/run/credentials/belljar".to_owned());
        let unit = read(&place);
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/belljar "));
        all.push((place, expanded(start.expect("it starts belljar"), &set)));
    }
    for (file, key) in [
        ("docker/compose.yaml", "command"),
        ("docker/serve.compose.yaml", "command"),
        ("kubernetes/control.yaml", "args"),
    ] {
        let place = format!("packaging/{file}");
        let mut found = Vec::new();
        documents(&read(&place)).iter().for_each(|document| lists(document, key, &mut found));
        found.retain(|words| words[0] != "node");
        all.extend(found.into_iter().map(|words| (place.clone(), words)));
    }
    all
}

/// P6: each shipped file starts a server that offers runs.
#[test]
fn every_shipped_server_offers_runs() {
    let all = servers();
    assert_eq!(all.len(), 5);
    for (place, words) in all {
        let line = std::iter::once("belljar").chain(words.iter().map(String::as_str));
        let running = match Cli::parse_from(line).command {
            Command::Control(control) => {
                assert!(control.objects.is_some(), "{place}: runs need --objects");
                assert!(control.gateway.is_some(), "{place}: models need --gateway");
                control.running
            }
            Command::Serve(serve) => serve.running,
            _ => panic!("{place}: {}", words[0]),
        };
        assert!(running.runs > 0, "{place}: no worker");
        assert!(running.max_runs > 0, "{place}: no run");
        assert_ne!(running.max_run_dollars_per_day, Some(0), "{place}: no money");
    }
    // The volumes and the files that those lines name.
    let control = read("packaging/kubernetes/control.yaml");
    let secrets = read("packaging/kubernetes/secrets.example.yaml");
    for name in ["belljar-objects", "belljar-models"] {
        assert!(control.contains(&format!("secretName: {name}")), "{name}");
        assert!(secrets.contains(&format!("name: {name}")), "{name}");
    }
    let map = documents(&control);
    let data = map.iter().map(|document| &document["data"]).find(|data| data.is_mapping());
    let text = data.expect("settings of the gateway")["gateway.toml"].as_str().expect("a file");
    belljar_gateway::Config::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let node = read("packaging/kubernetes/node.yaml");
    assert!(!node.contains("belljar-models"), "nodes do not know the models' keys");
}

#[test]
fn images_start_what_there_is() {
    for role in ["control", "node"] {
        let place = format!("packaging/docker/{role}.Dockerfile");
        let text = read(&place);
        let list = |name: &str| -> Vec<String> {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            serde_json::from_str(line.expect("such a line")).expect("a list")
        };
        assert_eq!(list("ENTRYPOINT ").last().map(String::as_str), Some("/usr/bin/belljar"));
        accepts(&place, &list("CMD "));
        // `packaging/docker/check` builds them; this holds without a Debian mirror.
        let copied: Vec<_> = text.lines().filter(|line| line.starts_with("COPY ")).collect();
        assert_eq!(copied, ["COPY --chmod=0755 ${BELLJAR} /usr/bin/belljar"], "{place}");
        assert!(text.contains("\nARG BELLJAR=target/release/belljar\n"), "{place}");
    }
}

#[test]
fn examples_of_settings_are_read() {
    let node = read("packaging/examples/node.toml");
    let gateway = read("packaging/examples/gateway.toml");
    let proposed: Vec<_> = gateway.lines().skip_while(|line| *line != "#").collect();
    let proposed =
        proposed.iter().map(|line| line.trim_start_matches(['#', ' '])).collect::<Vec<_>>();
    assert!(proposed.contains(&"[operations.claude]"), "{proposed:?}");
    let map = documents(&read("packaging/kubernetes/node.yaml"));
    let data = map.iter().map(|document| &document["data"]).find(|data| data.is_mapping());
    let data = data.expect("a map of settings");
    let inside = |name: &str| data[name].as_str().expect("a file").to_owned();
    for text in [gateway.clone(), proposed.join("\n"), inside("gateway.toml")] {
        belljar_gateway::Config::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
    for text in [node, inside("node.toml")] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), &text).expect("a file");
        let line = [OsStr::new("belljar"), "serve".as_ref(), "--config".as_ref()];
        let line = line.into_iter().chain([file.path().as_os_str()]);
        let Command::Serve(serve) = Cli::parse_from(line).command else { panic!() };
        serve::accepts(&serve.hosting).unwrap_or_else(|error| panic!("{error:#}\n{text}"));
    }
}

/// Lines of the guide that begin with `belljar`, in its blocks of commands.
#[test]
fn the_guide_shows_what_there_is() {
    let place = "docs/operator.md";
    let text = read(place).replace("\\\n", " ");
    let mut is_code = false;
    let mut shown = 0;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let line = line.trim().split(" #").next().unwrap_or_default();
        let line = line.split([';', '|', '>']).next().unwrap_or_default();
        let Some(line) = line.strip_prefix("belljar ").filter(|_| is_code) else { continue };
        shown += 1;
        accepts(place, &words(line));
    }
    assert!(shown > 10, "{shown} lines");
}

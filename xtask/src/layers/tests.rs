use std::fs;
use std::path::Path;

use super::*;
use crate::unsafety;

/// Lays out a workspace of these manifests, with `sys` and `domain` beside them.
fn workspace(members: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let shared = "[workspace]\nmembers = [\"crates/*\"]\n\
                  [workspace.dependencies]\nhidden = { package = \"belljar-sys\" }\n\
                  [workspace.lints.rust]\nunsafe_code = \"deny\"\n";
    fs::write(root.path().join("Cargo.toml"), shared).unwrap();
    for (name, dependencies) in [("domain", ""), ("sys", "")].iter().chain(members) {
        let folder = root.path().join("crates").join(name);
        fs::create_dir_all(folder.join("src")).unwrap();
        let manifest = format!(
            "[package]\nname = \"belljar-{name}\"\n[lints]\nworkspace = true\n{dependencies}"
        );
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        fs::write(folder.join("src/lib.rs"), "//! Nothing unsafe.\n").unwrap();
    }
    root
}

fn broken(root: &Path) -> Vec<String> {
    let workspace = Workspace::read(root).unwrap();
    let mut broken = check(&workspace);
    broken.extend(unsafety::check(root, &workspace).unwrap());
    broken
}

/// Checks that `name` with these dependencies breaks one rule, told with `words`.
#[track_caller]
fn refused(name: &str, dependencies: &str, words: &[&str]) {
    let root = workspace(&[(name, dependencies)]);
    let broken = broken(root.path());
    assert_eq!(broken.len(), 1, "{broken:#?}");
    for word in words {
        assert!(broken[0].contains(word), "no {word:?} in {:?}", broken[0]);
    }
}

#[track_caller]
fn accepted(name: &str, dependencies: &str) {
    let root = workspace(&[(name, dependencies)]);
    assert_eq!(broken(root.path()), Vec::<String>::new());
}

#[test]
fn imports_of_the_table_pass() {
    accepted(
        "engine",
        "[dependencies]\nbelljar-domain.workspace = true\nhidden.workspace = true\n",
    );
    accepted("sys", "[dependencies]\nlibc.workspace = true\n");
    accepted("conformance", "[dependencies]\nbelljar-sys.workspace = true\n");
    accepted("node", "[dev-dependencies]\nbelljar-testkit.workspace = true\n");
}

#[test]
fn a_planted_import_fails_and_says_what_is_allowed() {
    let words = ["crates/guest-proto/Cargo.toml", "`guest-proto` imports `sys`", "only `domain`"];
    refused("guest-proto", "[dependencies]\nbelljar-sys.workspace = true\n", &words);
    let words = ["imports `domain`", "nothing of the workspace"];
    refused("sys", "[dependencies]\nbelljar-domain = { path = \"../domain\" }\n", &words);
    refused(
        "node",
        "[dependencies]\nbelljar-guest.workspace = true\n",
        &["`node` imports `guest`"],
    );
}

#[test]
fn an_import_cannot_hide() {
    let under = |section: &str| format!("[{section}]\nhidden.workspace = true\n");
    refused("template", &under("dependencies"), &["imports `sys`"]);
    refused("template", &under("dev-dependencies"), &["[dev-dependencies]"]);
    refused("template", &under("build-dependencies"), &["[build-dependencies]"]);
    refused("template", &under("target.'cfg(unix)'.dependencies"), &["imports `sys`"]);
    let renamed = "[dependencies]\nharmless = { package = \"belljar-sys\", path = \"../sys\" }\n";
    refused("template", renamed, &["imports `sys`"]);
}

#[test]
fn tests_and_tools_are_imported_by_nobody() {
    refused("node", "[dependencies]\nbelljar-testkit.workspace = true\n", &["imports `testkit`"]);
    refused("node", "[dependencies]\nbelljar-attacks.workspace = true\n", &["imports `attacks`"]);
}

#[test]
fn reserved_packages_stay_with_their_crate() {
    let libc = "[dev-dependencies]\nlibc.workspace = true\n";
    refused("guest", libc, &["depends on `libc`", "only `sys`"]);
    refused("node", "[dependencies]\nanyhow.workspace = true\n", &["thiserror"]);
    accepted("node", "[dev-dependencies]\nanyhow.workspace = true\n");
}

#[test]
fn versions_stand_in_the_workspace() {
    refused("node", "[dependencies]\nserde = \"1\"\n", &["`serde`", "[workspace.dependencies]"]);
}

#[test]
fn an_unknown_crate_is_refused() {
    refused("helpers", "", &["`belljar-helpers` has no row"]);
}

#[test]
fn unsafe_code_outside_sys_is_found() {
    let root = workspace(&[("node", "")]);
    let plant = |name: &str, text: &str| {
        fs::write(root.path().join("crates").join(name).join("src/deep.rs"), text).unwrap();
    };
    plant("sys", "fn f() { unsafe { g() } }\n");
    assert_eq!(broken(root.path()), Vec::<String>::new());
    plant("node", "// unsafe in words only\nfn f() {\n    unsafe { g() }\n}\n");
    let found = broken(root.path());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("crates/node/src/deep.rs:3:"), "{found:#?}");
    plant("node", "#![allow(unsafe_code, reason = \"no\")]\n");
    assert!(broken(root.path())[0].contains("`unsafe_code`"));
}

#[test]
fn a_crate_cannot_leave_the_workspace_lints() {
    let root = workspace(&[]);
    let manifest = root.path().join("crates/domain/Cargo.toml");
    fs::write(manifest, "[package]\nname = \"belljar-domain\"\n").unwrap();
    assert!(broken(root.path())[0].contains("workspace's lints"));
}

#[test]
fn the_table_only_points_down() {
    for (index, row) in TABLE.iter().enumerate() {
        let Imports::Only(names) = row.imports else { continue };
        for name in names {
            let target = TABLE[..index].iter().find(|above| above.name == *name);
            let target = target.unwrap_or_else(|| panic!("{}: {name} is not above it", row.name));
            let sideways = row.layer == Layer::Services && target.layer == Layer::Services;
            assert!(!sideways, "{} and {name} are services", row.name);
        }
    }
}

#[test]
fn the_table_is_the_one_in_the_architecture_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md");
    let text = fs::read_to_string(path).unwrap();
    let found = text.split("<!-- layers:begin -->\n").nth(1).expect("a begin mark");
    let found = found.split("<!-- layers:end -->").next().expect("an end mark");
    assert_eq!(found.trim(), markdown().trim(), "run `cargo xtask layers --table` and paste it");
}

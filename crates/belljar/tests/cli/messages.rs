//! What is said when something is wrong, and what doctor says.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{Place, can_jail};

#[test]
fn what_does_not_exist_is_named_and_a_way_on_is_shown() {
    let place = Place::new();
    let ran = place.run(&["run", "--tier", "vm", "-c", "1"]);
    ran.expect_status(2).expect_words(&["no tier `vm`", "process, jail", "hint: "]);
    let ran = place.run(&["run", "none.py"]);
    ran.expect_status(125).expect_words(&[
        "cannot read `none.py`",
        "because: No such file",
        "hint: ",
    ]);
    let ran = place.run(&["run", "--lang", "cobol", "-c", "1"]);
    ran.expect_status(125)
        .expect_words(&["unknown language `cobol`", "hint: the languages are python"]);
    place.write("odd.xyz", "?");
    let ran = place.run(&["run", "odd.xyz"]);
    ran.expect_status(125)
        .expect_words(&["cannot determine the language", "hint: choose one with --lang"]);
    let ran = place.run(&["run", "--template", "none", "-c", "1"]);
    ran.expect_status(125).expect_words(&[
        "no template `none`",
        "hint: ",
        "`belljar template list`",
    ]);
    let ran = place.run(&["run", "--template", "python-data", "-c", "1"]);
    ran.expect_status(125)
        .expect_words(&["hint: build it with `belljar template build python-data`"]);
    let ran = place.run(&["template", "build", "none"]);
    ran.expect_status(1).expect_words(&["no recipe `none`", "hint: ", "python-data"]);
    let ran = place.run(&["shell"]);
    ran.expect_status(125).expect_words(&["needs a terminal", "hint: `belljar exec"]);
    assert!(ran.stdout.is_empty());
}

#[test]
fn with_json_an_error_is_a_document_too() {
    let ran = Place::new().run(&["run", "--json", "--template", "none", "-c", "1"]);
    let document = ran.expect_status(125).json();
    assert_eq!(document["error"]["message"], "there is no template `none`");
    assert!(document["error"]["hint"].is_string());
}

#[test]
fn a_program_that_is_not_there_has_status_127() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let ran = place.run(&["exec", "--", "no-such-program"]);
    ran.expect_status(127).expect_words(&["cannot run `no-such-program`", "hint: "]);
    place.run(&["exec", "--", "/etc/passwd"]).expect_status(126);
}

#[test]
fn limits_that_cannot_be_kept_are_refused() {
    if !can_jail() {
        return;
    }
    let ran = Place::new().run(&["run", "--memory", "1", "-c", "1"]);
    ran.expect_status(125).expect_words(&["memory must be between", "hint: "]);
}

#[test]
fn the_process_tier_says_loudly_what_it_is() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let ran = place.run(&["run", "--quiet", "--tier", "process", "-c", "print(1)"]);
    ran.expect_words(&["WARNING", "NO process list"]);
    ran.expect_status(0).expect_text("1\n");
    let ran = place.run(&["run", "--tier", "process", "--template", "x", "-c", "1"]);
    ran.expect_status(125).expect_words(&["no template", "hint: "]);
}

#[test]
fn doctor_tries_the_tiers() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let document = place.run(&["doctor", "--json"]).expect_status(0).json();
    assert_eq!(
        (&document["tiers"][0]["name"], &document["tiers"][0]["state"]),
        (&"jail".into(), &"ok".into())
    );
    for section in ["host", "settings", "interpreters", "templates"] {
        assert!(document[section].is_array(), "{section}");
    }
    let ran = place.run(&["doctor"]);
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(text.contains("[ok]   jail") && text.contains("not in this version"), "{text}");
}

#[test]
fn help_shows_examples() {
    let place = Place::new();
    for command in ["run", "exec", "shell", "template"] {
        let ran = place.run(&[command, "--help"]);
        let text = String::from_utf8_lossy(&ran.expect_status(0).stdout).into_owned();
        assert!(text.contains("Examples:\n"), "{text}");
    }
}

#[test]
fn recipes_are_listed_and_printed() {
    let place = Place::new();
    let ran = place.run(&["template", "recipes"]);
    assert!(String::from_utf8_lossy(&ran.expect_status(0).stdout).contains("python-data"));
    let ran = place.run(&["template", "recipes", "node"]);
    assert!(String::from_utf8_lossy(&ran.expect_status(0).stdout).contains("name = \"node\""));
    place.run(&["template", "list"]).expect_status(0).expect_text("");
    place.run(&["template", "show", "none"]).expect_status(1).expect_words(&["hint: "]);
}

/// A template from a directory: built, listed, used and removed, no download.
#[test]
fn a_template_is_built_used_and_removed() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    shell_in(&place.path().join("root"));
    let recipe = "name = \"tiny\"\nbase = { directory = \"root\" }\n\
                  run = [\"echo built > /etc/note\"]\n[languages]\nbash = \"/bin/sh\"\n";
    place.write("tiny.toml", recipe);
    let ran = place.run(&["template", "build", "tiny.toml"]);
    ran.expect_status(0).expect_words(&["[1/2]", "[2/2] run: echo built"]);
    let version = String::from_utf8(ran.stdout).unwrap().trim().to_owned();
    let code = "read x < /etc/note; echo $x";
    for template in ["tiny", &version] {
        let args = ["run", "--template", template, "--lang", "sh", "-c", code];
        place.run(&args).expect_status(0).expect_text("built\n");
    }
    let list = place.run(&["template", "list", "--json"]).expect_status(0).json();
    assert_eq!(list[0]["name"], "tiny");
    let ran = place.run(&["template", "build", "tiny.toml"]);
    ran.expect_status(0).expect_words(&["2 of them unchanged"]);
    place.run(&["template", "remove", "tiny"]).expect_status(0);
    place.run(&["template", "show", "tiny"]).expect_status(1);
}

/// Copies the host's shell and the libraries that it needs.
pub(crate) fn shell_in(root: &Path) {
    let needs = Command::new("ldd").arg("/bin/sh").output().unwrap();
    let needs = String::from_utf8(needs.stdout).unwrap();
    let libraries = needs.split_whitespace().filter(|word| word.starts_with('/'));
    for path in libraries.chain(["/bin/sh"]) {
        let target = root.join(&path[1..]);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(path, target).unwrap();
    }
}

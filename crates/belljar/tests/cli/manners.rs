//! Help, completions, and what is suggested for a misspelt word.

use std::process::Command;

use crate::harness::{Place, can_jail};

#[test]
fn help_is_a_command_too() {
    let place = Place::new();
    let text = |args: &[&str]| {
        let ran = place.run(args);
        String::from_utf8_lossy(&ran.expect_status(0).stdout).into_owned()
    };
    assert_eq!(text(&["help", "run"]), text(&["run", "--help"]));
    assert_eq!(text(&["help", "template", "build"]), text(&["template", "build", "--help"]));
    assert!(text(&["help"]).contains("Commands:"));
}

#[test]
fn a_misspelt_command_or_flag_names_the_right_one() {
    let place = Place::new();
    for (typed, want) in [
        (&["rnu", "a.py"][..], "'run'"),
        (&["sevre"], "'serve'"),
        (&["tempalte", "list"], "'template'"),
        (&["template", "biuld", "node"], "'build'"),
        (&["run", "--memroy", "1G", "a.py"], "'--memory'"),
        (&["cells", "--netwrok", "open", "a.py"], "'--network'"),
        (&["serve", "--max-sandbox", "3"], "'--max-sandboxes'"),
    ] {
        place.run(typed).expect_status(2).expect_words(&["similar", want]);
    }
}

#[test]
fn what_newcomers_type_leads_to_what_does_it_here() {
    let place = Place::new();
    for (typed, want) in [
        ("ps", "`belljar runs list`"),
        ("list", "`belljar runs list`"),
        ("logs", "`belljar runs show RUN`"),
        ("version", "`belljar --version`"),
        ("jupyter", "`belljar cells FILE.ipynb`"),
    ] {
        let ran = place.run(&[typed]);
        ran.expect_status(2).expect_words(&["unrecognized subcommand", want]);
        assert!(!ran.stderr.contains("similar"), "{}", ran.stderr);
    }
    let ran = place.run(&["zebra"]);
    ran.expect_status(2).expect_words(&["unrecognized subcommand 'zebra'"]);
    assert!(!ran.stderr.contains("tip:"), "nothing is like it: {}", ran.stderr);
}

#[test]
fn a_misspelt_template_names_the_right_one() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let ran = place.run(&["run", "--template", "python-dta", "-c", "1"]);
    ran.expect_status(125)
        .expect_words(&["no template `python-dta`", "did you mean `python-data`?"]);
    let ran = place.run(&["template", "build", "code-interpeter"]);
    ran.expect_status(1).expect_words(&["did you mean `code-interpreter`?"]);
}

#[test]
fn completions_complete() {
    let place = Place::new();
    let script = place.run(&["completions", "bash"]);
    place.write("belljar.bash", &script.expect_status(0).stdout);
    let complete = "source ./belljar.bash; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                    _belljar belljar \"${COMP_WORDS[COMP_CWORD]}\" \"\"; echo \"${COMPREPLY[@]}\"";
    let completed = |words: &[&str]| {
        let mut bash = Command::new("bash");
        bash.args(["-c", complete, "bash"]).args(words).current_dir(place.path());
        String::from_utf8(bash.output().unwrap().stdout).unwrap()
    };
    assert_eq!(completed(&["belljar", "ce"]).trim(), "cells");
    assert!(completed(&["belljar", "run", "--mem"]).contains("--memory"));
    for (shell, mark) in [("zsh", "#compdef belljar"), ("fish", "complete -c belljar")] {
        let ran = place.run(&["completions", shell]);
        let text = String::from_utf8_lossy(&ran.expect_status(0).stdout).into_owned();
        assert!(text.contains(mark) && text.contains("save-charts"), "{shell}");
    }
    place.run(&["completions", "tcsh"]).expect_status(2).expect_words(&["bash, zsh, fish"]);
}

#[test]
fn a_cassette_that_does_not_exist_is_an_error() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let mut command = place.command(&["run", "--replay", "nosuch", "-c", "print(1)"]);
    let output = command.env("BELLJAR_DATA", place.path().join("data")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("no cassette `nosuch`") && output.stdout.is_empty(), "{text}");
}

#[test]
fn a_refused_private_address_comes_with_the_whole_configuration() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let code =
        "import urllib.request as u\ntry: u.urlopen('http://10.1.2.3/')\nexcept Exception: pass";
    let ask = |more: &[&str]| {
        let mut args = vec!["run", "--allow", "10.1.2.3", "-c", code];
        args.extend(more);
        let mut command = place.command(&args);
        let output = command.env("BELLJAR_DATA", place.path().join("data")).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = ask(&[]);
    let file = said.split_once("--gateway FILE:\n\n").map(|(_, file)| file);
    let file = file.unwrap_or_else(|| panic!("{said}"));
    assert_eq!(file.trim(), "[gateway]\nopenings = [\"10.1.2.3\"]", "{said}");
    // Followed to the letter, it is no longer refused as private.
    place.write("gateway.toml", file);
    assert!(!ask(&["--gateway", "gateway.toml"]).contains("private"));
}

//! `belljar ask --resume`: a run goes on as it was begun, or not at all.
//!
//! Requirements: A13

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::ask::{BELLJAR, belljar, scripted};
use crate::world::{MODEL, TEMPLATE, World};

const WAITS: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "sleep 5\necho never" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "\u001b]0;mine\u0007done" } }]
"#;

/// Asks, and presses Ctrl-C when there is a sandbox. Answers what was said until then and after.
async fn interrupted(place: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = tokio::process::Command::new(BELLJAR);
    command.args(arguments).current_dir(place).stdin(Stdio::null()).kill_on_drop(true);
    command
        .env("BELLJAR_STORE", belljar_testkit::store())
        .env("BELLJAR_DATA", place.join("server"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.starts_with("sandbox ") {
            let pid = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        }
        said.push(line);
    }
    assert_eq!(child.wait().await.unwrap().code(), Some(130), "{said:?}");
    said
}

pub(crate) async fn a_run_goes_on_as_it_was_begun_or_not_at_all(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let model = scripted(WAITS).await;
    let url = format!("http://{}", model.address());
    let arguments = ["ask", "How much?", "--template", TEMPLATE, "--model-url", &url];
    let arguments = [&arguments[..], &["--model", MODEL, "--out", "the files", "-v"]].concat();
    let said = interrupted(place, &arguments).await;
    let run = said.iter().find_map(|line| line.strip_prefix("run ")).unwrap();
    // As it was written, each line by itself.
    assert!(said.contains(&"    sleep 5".to_owned()), "{said:?}");
    assert!(said.contains(&"    echo never".to_owned()), "{said:?}");
    let hint = said.iter().find_map(|line| line.strip_prefix("hint: `belljar ")).unwrap();
    let hint = hint.strip_suffix("` resumes the run").unwrap();
    let expected =
        format!("ask --resume {run} --model-url {url} --model {MODEL} --out 'the files'");
    assert_eq!(hint, expected);

    let short = &run[..8];
    for (more, why) in [
        (&[][..], "no option says how to reach it"),
        (&["--model", "gpt-5-mini", "--model-url", &url], "not `gpt-5-mini`"),
        (&["--template", "host", "--model", MODEL, "--model-url", &url], "not `host`"),
    ] {
        let refused = belljar(place, &[&["ask", "--resume", short], more].concat()).await;
        assert_eq!(refused.status, Some(125), "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    // It keeps its budget, and the tier and the limits of its sandboxes.
    for more in [["--turns", "9"], ["--memory", "1G"], ["--tier", "gvisor"], ["--call-time", "9s"]]
    {
        let refused = belljar(place, &[&["ask", "--resume", short][..], &more].concat()).await;
        assert_eq!(refused.status, Some(2), "{}", refused.stderr);
    }
    assert_eq!(model.record().all().len(), 1);

    let words = ["ask", "--resume", short, "--model-url", &url, "--model", MODEL];
    let answered = belljar(place, &words).await;
    assert_eq!(answered.status, Some(0), "{}{}", answered.stdout, answered.stderr);
    assert!(answered.stdout.contains("done"), "{}", answered.stdout);
    let exported = belljar(place, &["runs", "export", short]).await;
    for line in exported.stdout.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["run"], run, "{line}");
    }
    // It is over: nobody is asked, and the files come.
    let again = belljar(place, &["ask", "--resume", short, "--out", "once more"]).await;
    assert_eq!(again.status, Some(0), "{}", again.stderr);
    assert!(place.join("once more/result.md").exists());
    assert_eq!(model.record().all().len(), 2);
}

pub(crate) async fn what_cannot_be_written_or_bought_is_said_before_the_model_is_asked(
    world: &World,
) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    let model = scripted(WAITS).await;
    let url = format!("http://{}", model.address());
    for (more, why) in [
        (["--model", MODEL, "--out", "/proc/nowhere"], "cannot create `/proc/nowhere`"),
        (["--model", "unheard-of", "--out", "out"], "no price is known for the model"),
    ] {
        let words = ["ask", "How much?", "--template", TEMPLATE, "--model-url", &url];
        let refused = belljar(place, &[&words[..], &more].concat()).await;
        assert_eq!(refused.status, Some(125), "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    assert!(model.record().all().is_empty());
    let listed = belljar(place, &["runs", "list"]).await;
    assert_eq!(listed.stdout, "", "nothing was begun");
}

pub(crate) async fn a_budget_of_nothing_and_a_name_of_nobody_are_refused(world: &World) {
    let place = tempfile::tempdir_in(world.directory.path()).unwrap();
    let place = place.path();
    for (words, why) in [
        (["runs", "budget", "abcd"], "no budget option is given"),
        (["runs", "pause", "abcd"], "there is no run `abcd`"),
    ] {
        let refused = belljar(place, &words).await;
        assert_eq!(refused.status, Some(1), "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}

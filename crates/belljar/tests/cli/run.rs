//! Running code: output, status, input, signals, the JSON document.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Place, can_jail};

#[test]
fn code_prints_its_result() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    place.run(&["run", "-c", "print(sum(range(10)))"]).expect_status(0).expect_text("45\n");
}

#[test]
fn the_status_is_the_programs_own() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    for status in [0, 1, 7, 255] {
        place.run(&["run", "-c", &format!("exit({status})")]).expect_status(status);
    }
    let ran = place.run(&["run", "-c", "import os; os.kill(os.getpid(), 11)"]);
    ran.expect_status(139).expect_words(&["signal 11 (SIGSEGV)"]);
}

#[test]
fn the_language_follows_from_name_first_line_or_option() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    place.write("a.sh", "echo $((6 * 7)) $1");
    place.run(&["run", "a.sh", "--", "--x"]).expect_status(0).expect_text("42 --x\n");
    place.write("noname", "#!/usr/bin/env python3\nimport sys; print(sys.argv[1:])");
    place.run(&["run", "noname", "--", "-c", "b"]).expect_text("['-c', 'b']\n");
    place.run(&["run", "--lang", "shell", "-c", "echo $1", "--", "one"]).expect_text("one\n");
    let ran = place.run_with_input(&["run", "-"], b"print('from a pipe')");
    ran.expect_status(0).expect_text("from a pipe\n");
}

#[test]
fn both_streams_are_passed_on_byte_for_byte() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4000); \
                sys.stderr.write('aside')";
    let ran = place.run(&["run", "-c", code]);
    ran.expect_status(0).expect_words(&["aside"]);
    let want: Vec<u8> = (0..=255).cycle().take(256 * 4000).collect();
    assert!(ran.stdout == want, "{} bytes", ran.stdout.len());
}

#[test]
fn output_comes_while_the_code_runs() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let code = "print('first', flush=True); input(); print('second')";
    let mut command = place.command(&["run", "-c", code]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    drop(child.stdin.take());
    assert!(!child.wait().unwrap().success(), "input() has met the end");
}

#[test]
fn piped_input_reaches_the_code() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let input: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    let ran = place.run_with_input(&["exec", "--", "cat"], &input);
    assert!(ran.expect_status(0).stdout == input);
    place.run_with_input(&["exec", "--stdin", "none", "--", "cat"], &input).expect_text("");
}

#[test]
fn a_reader_that_leaves_ends_the_code() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let mut command = place.command(&["run", "-c", "while True: print('x' * 1000)"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

#[test]
fn ctrl_c_ends_the_code_and_the_sandbox() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let code = "import time; print('on', flush=True); time.sleep(600)";
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = place.command(&["run", "-c", code]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 3]).unwrap();
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
}

#[test]
fn the_document_holds_output_end_usage_and_files() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let code = "import sys; open('made.bin', 'wb').write(bytes(1000)); print('é'); \
                sys.stderr.buffer.write(b'\\xff\\x00'); exit(3)";
    place.write("code.py", code);
    let ran = place.run(&["run", "--json", "code.py"]);
    let document = ran.expect_status(3).json();
    assert_eq!(document["call"]["stdout"], "é\n");
    assert!(document["call"].get("stdout_base64").is_none());
    assert_eq!(document["call"]["stderr_base64"], "/wA=");
    assert_eq!(document["call"]["stdout_truncated"], false);
    let end = serde_json::json!({ "reason": "exit", "exit_code": 3, "signal": null });
    assert_eq!(document["end"], end);
    for field in ["wall_ms", "cpu_ms", "peak_memory_bytes", "written_bytes", "output_bytes"] {
        assert!(document["usage"][field].is_u64(), "{field} in {document}");
    }
    assert_eq!(document["usage"]["output_bytes"], 5);
    let files = document["files_changed"].as_array().unwrap();
    assert_eq!(files.len(), 1, "the script itself is not the code's work: {files:?}");
    assert_eq!(
        (&files[0]["path"], &files[0]["size"]),
        (&"/home/user/made.bin".into(), &1000.into())
    );
    assert_eq!(document["sandbox"].as_str().unwrap().len(), 26);
    assert_eq!((&document["tier"], &document["enforcement"]), (&"jail".into(), &"cgroup".into()));
    assert_eq!(document["state"], "fresh");
    assert!(document["template"].as_str().unwrap().starts_with("host@"));
}

#[test]
fn the_document_keeps_beginning_and_end_of_long_output() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let code = "print('start' + 'x' * 100000 + 'finish')";
    let ran = place.run(&["run", "--json", "--keep-output", "1K", "-c", code]);
    let call = &ran.expect_status(0).json()["call"];
    let text = call["stdout"].as_str().unwrap();
    assert!(text.starts_with("startxxx") && text.ends_with("xxxfinish\n"), "{text}");
    assert_eq!(call["stdout_truncated"], true);
    assert_eq!(call["stdout_omitted_bytes"], 100_012 - 1024);
}

#[test]
fn nothing_of_our_environment_is_inside_but_what_was_given() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let mut command = place.command(&["exec", "--env", "GIVEN=1=2", "--", "env"]);
    let output = command.env("CANARY", "secret").stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("GIVEN=1=2\n") && !text.contains("CANARY"), "{text}");
}

#[test]
fn setup_runs_before_and_its_output_is_not_the_programs() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let args = ["run", "--setup", "echo preparing; echo 5 > n", "-c", "print(open('n').read())"];
    let ran = place.run(&args);
    ran.expect_status(0).expect_text("5\n\n").expect_words(&["preparing"]);
    let args = ["exec", "--setup", "sleep 60", "--setup-timeout", "200ms", "--", "true"];
    let ran = place.run(&args);
    ran.expect_status(125).expect_words(&["setup failed", "timeout_wall", "--setup-timeout"]);
    place.run(&["exec", "--setup", "exit 3", "--", "true"]).expect_status(125);
}

#[test]
fn the_working_directory_is_inside() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    place.run(&["exec", "--", "pwd"]).expect_text("/home/user\n");
    place.run(&["exec", "--workdir", "/tmp", "--", "pwd"]).expect_text("/tmp\n");
}

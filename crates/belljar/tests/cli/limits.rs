//! Each limit has its own exit status, sentence and hint.

use crate::harness::{Place, can_jail};

#[track_caller]
fn check(args: &[&str], code: &str, status: i32, reason: &str, words: &[&str]) {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let args = [&["run"], args, &["-c", code]].concat();
    let ran = place.run(&args);
    ran.expect_status(status).expect_words(&["stopped: the code ", &format!("({reason})")]);
    ran.expect_words(words);
    let args = [&["run", "--json"], &args[1..]].concat();
    assert_eq!(place.run(&args).expect_status(status).json()["end"]["reason"], reason);
}

#[test]
fn memory() {
    let words = ["used more memory than 64.0 MiB", "hint: give it more with --memory 256M"];
    check(&["--memory", "64M"], "x = bytearray(300 << 20)", 122, "oom", &words);
}

#[test]
fn processes() {
    let code = "import os, time\nfor i in range(100):\n  if os.fork() == 0: time.sleep(600)";
    let words = ["started more than 16 processes", "hint: give it more with --pids 64"];
    check(&["--pids", "16"], code, 121, "pids", &words);
}

#[test]
fn time_on_the_clock() {
    let words = ["ran longer than 300ms", "hint: give it more with --time 1200ms"];
    let code = "import time; time.sleep(600)";
    check(&["--time", "300ms"], code, 124, "timeout_wall", &words);
}

#[test]
fn time_on_the_cpu() {
    let words = ["more CPU time than 200ms", "hint: give it more with --cpu-time 800ms"];
    check(&["--cpu-time", "200ms"], "while True: pass", 123, "timeout_cpu", &words);
}

#[test]
fn disk_space() {
    let code = "for i in range(9): open(str(i), 'wb').write(bytes(1 << 20))";
    let words = ["filled its disk, 4.0 MiB", "hint: give it more with --disk 16M"];
    check(&["--disk", "4M"], code, 120, "disk", &words);
}

#[test]
fn files_on_the_disk() {
    let code = "for i in range(1000): open(str(i), 'w')";
    check(&["--inodes", "200"], code, 120, "disk", &["and 200 files", "--inodes 800"]);
}

#[test]
fn output() {
    let words = ["printed more than 1.0 KiB", "hint: give it more with --output-limit 4K"];
    check(&["--output-limit", "1K"], "print('x' * 100000)", 119, "output", &words);
}

#[test]
fn output_on_the_screen_stays_within_the_limit() {
    if !can_jail() {
        return;
    }
    let code = "while True: print('x' * 1000)";
    let ran = Place::new().run(&["run", "--output-limit", "64K", "-c", code]);
    assert!(ran.expect_status(119).stdout.len() <= 64 << 10, "{}", ran.stdout.len());
}

//! Limits as an ordinary user meets them on a host that delegated no cgroup to that user.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::harness::{BELLJAR, Place, Ran, can_jail};

/// Any user id without rights does.
const USER: u32 = 4242;

/// A home of that user.
struct Home {
    place: Place,
    /// The executable may be in a directory that the user cannot enter.
    program: File,
}

impl Home {
    /// `None` where there is no root to become an ordinary user from.
    #[track_caller]
    fn new() -> Option<Self> {
        if !can_jail() {
            return None;
        }
        let place = Place::new();
        std::os::unix::fs::chown(place.path(), Some(USER), Some(USER)).unwrap();
        Some(Self { place, program: File::open(BELLJAR).unwrap() })
    }

    fn run(&self, args: &[&str]) -> Ran {
        let home = self.place.path();
        let mut command = Command::new(format!("/proc/self/fd/{}", self.program.as_raw_fd()));
        command.args(args).current_dir(home).stdin(Stdio::null()).uid(USER).gid(USER);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", home);
        command.env("BELLJAR_STORE", home.join("store")).env("BELLJAR_STATE", home.join("state"));
        Ran::from(command.output().unwrap())
    }

    fn run_code(&self, options: &[&str], code: &str) -> Ran {
        self.run(&[&["run"], options, &["-c", code]].concat())
    }
}

/// Runs code that a limit must end, for a reason and with a status that are known.
#[track_caller]
fn check(options: &[&str], code: &str, status: i32, reason: &str) {
    let Some(home) = Home::new() else { return };
    let ran = home.run_code(options, code);
    ran.expect_status(status).expect_words(&["stopped: the code ", &format!("({reason})")]);
}

#[track_caller]
fn check_works(options: &[&str], code: &str, text: &str) {
    let Some(home) = Home::new() else { return };
    home.run_code(options, code).expect_status(0).expect_text(text);
}

#[test]
fn memory_of_one_process() {
    let code = "x = bytearray(b'1' * (200 << 20))\nimport time; time.sleep(2)\nprint('took it')";
    check(&["--memory", "64M"], code, 122, "oom");
}

#[test]
fn memory_of_six_children_together() {
    let code = "\
import os, time
for i in range(6):
    if os.fork() == 0:
        x = bytearray(b'1' * (50 << 20))
        time.sleep(5)
        os._exit(0)
print([os.wait()[1] for i in range(6)])";
    check(&["--memory", "64M"], code, 122, "oom");
}

#[test]
fn memory_in_files_of_the_sandbox() {
    let code = "\
import time
open('big', 'wb').write(bytes(100 << 20))
time.sleep(5)";
    check(&["--memory", "64M", "--disk", "512M"], code, 122, "oom");
}

#[test]
fn memory_that_is_not_mapped() {
    let code = "\
import os, time
for i in range(4):
    os.write(os.memfd_create('x'), bytes(32 << 20))
time.sleep(5)";
    check(&["--memory", "100M"], code, 122, "oom");
}

#[test]
fn memory_that_children_share_counts_once() {
    let code = "\
import os, time
x = b'1' * (36 << 20)
for i in range(6):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
print([os.wait()[1] for i in range(6)])";
    check_works(&["--memory", "64M"], code, "[0, 0, 0, 0, 0, 0]\n");
}

#[test]
fn memory_that_is_only_reserved_does_not_count() {
    let code = "\
import mmap, time
x = mmap.mmap(-1, 100 << 20, flags=mmap.MAP_PRIVATE)
time.sleep(0.5)
print(len(x) >> 20)";
    check_works(&["--memory", "64M"], code, "100\n");
}

#[test]
fn processes() {
    let sleeping = "import os, time\nfor i in range(100):\n  if os.fork() == 0: time.sleep(600)";
    check(&["--pids", "16"], sleeping, 121, "pids");
    let waiting = "\
import os, time
for i in range(100):
    try:
        if os.fork() == 0: time.sleep(600)
    except BlockingIOError:
        time.sleep(600)";
    check(&["--pids", "16"], waiting, 121, "pids");
}

#[test]
fn threads_count_as_processes() {
    let code = "\
import threading, time
try:
    for i in range(100): threading.Thread(target=time.sleep, args=[600], daemon=True).start()
except RuntimeError:
    time.sleep(600)";
    check(&["--pids", "16"], code, 121, "pids");
}

#[test]
fn processes_up_to_the_limit_may_run() {
    let code = "\
import os, time
for i in range(15):
    if os.fork() == 0:
        time.sleep(0.5)
        os._exit(0)
print(sum(os.wait()[1] for i in range(15)))";
    check_works(&["--pids", "16"], code, "0\n");
}

#[test]
fn time_on_the_cpu_of_all_processes() {
    let code = "import os\nos.fork(); os.fork()\nwhile True: pass";
    check(&["--cpu-time", "1s"], code, 123, "timeout_cpu");
}

#[test]
fn time_on_the_cpu_of_processes_that_have_ended() {
    let code = "\
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        until = time.process_time() + 0.3
        while time.process_time() < until: pass
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass";
    check(&["--cpu-time", "1s"], code, 123, "timeout_cpu");
}

#[test]
fn whole_cores() {
    let code = "\
import os, time
until = time.monotonic() + 2
pid = os.fork()
while time.monotonic() < until: pass
if pid:
    os.wait()
    used = os.times()
    print(used.user + used.system + used.children_user + used.children_system < 2.6)";
    check_works(&["--cpus", "1"], code, "True\n");
    let widened = format!(
        "\
import os
try: os.sched_setaffinity(0, range(os.cpu_count()))
except OSError: pass
{code}"
    );
    check_works(&["--cpus", "1"], &widened, "True\n");
}

#[test]
fn time_on_the_clock() {
    check(&["--time", "300ms"], "import time; time.sleep(600)", 124, "timeout_wall");
}

#[test]
fn disk() {
    let code = "for i in range(9): open(str(i), 'wb').write(bytes(1 << 20))";
    check(&["--disk", "4M"], code, 120, "disk");
    check(&["--inodes", "200"], "for i in range(1000): open(str(i), 'w')", 120, "disk");
}

#[test]
fn output() {
    check(&["--output-limit", "1K"], "print('x' * 100000)", 119, "output");
}

#[test]
fn part_of_a_core_is_refused_by_name() {
    let Some(home) = Home::new() else { return };
    let ran = home.run_code(&["--cpus", "0.5"], "print(1)");
    let words = ["cannot keep --cpus 0.5", "whole cores", "Delegate=yes", "--allow-weak-limits"];
    ran.expect_status(125).expect_words(&words).expect_text("");
    let ran = home.run_code(&["--cpus", "0.5", "--allow-weak-limits"], "print(1)");
    ran.expect_status(0).expect_words(&["warning", "--cpus 0.5"]).expect_text("1\n");
}

#[test]
fn process_tier_refuses_what_it_cannot_keep() {
    let Some(home) = Home::new() else { return };
    let ran = home.run_code(&["--tier", "process", "--disk", "4M"], "print(1)");
    ran.expect_status(125).expect_words(&["cannot keep --disk 4M", "--allow-weak-limits"]);
    let memory = "import time\nx = bytearray(b'1' * (200 << 20))\ntime.sleep(5)";
    let ran = home.run_code(&["--tier", "process", "--memory", "64M"], memory);
    ran.expect_status(122).expect_words(&["(oom)"]);
}

#[test]
fn rights_that_root_would_not_have_are_refused() {
    let Some(home) = Home::new() else { return };
    for tier in ["jail", "process"] {
        let ran = home.run_code(&["--tier", tier, "--profile", "full"], "print(1)");
        let words = ["cannot give --profile full", "one user id", "hint: run belljar as root"];
        ran.expect_status(125).expect_words(&words).expect_text("");
    }
    home.run_code(&["--profile", "strict"], "print(1)").expect_status(0).expect_text("1\n");
}

#[test]
fn doctor_tells_which_limits_hold() {
    let Some(home) = Home::new() else { return };
    let text = String::from_utf8(home.run(&["doctor"]).expect_status(0).stdout.clone()).unwrap();
    let words = ["not writable", "memory and processes are watched", "Delegate=yes"];
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn template_build_says_what_it_needs() {
    let Some(home) = Home::new() else { return };
    let ran = home.run(&["template", "build", "python-data"]);
    ran.expect_status(1).expect_words(&["needs root", "sudo belljar template build python-data"]);
}

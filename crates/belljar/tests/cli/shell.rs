//! A terminal inside, driven through a pseudo-terminal of ours.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::harness::{Place, can_jail};

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

struct Terminal {
    master: File,
    slave: OwnedFd,
    child: Child,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn start(mut command: Command) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        resize(&master, 30, 100);
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        let master = File::from(master);
        let (sender, output) = channel();
        let mut reader = master.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count) = reader.read(&mut buffer) {
                if count == 0 || sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { master, slave: slave.into(), child, output, seen: String::new() }
    }

    fn send(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for `text` after what was seen before.
    #[track_caller]
    fn expect(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("{error}: no {text:?} in {:?}", self.seen),
            }
        }
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.slave).unwrap().local_modes.contains(LocalModes::ICANON)
    }
}

fn resize(terminal: &impl std::os::fd::AsFd, rows: u16, cols: u16) {
    let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

#[test]
fn a_shell_is_a_terminal_with_a_size_and_a_status() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let mut terminal = Terminal::start(place.command(&["shell"]));
    terminal.expect("$ ");
    assert!(terminal.is_raw());
    terminal.send("echo $((6 * 7)); tty; stty size\n");
    terminal.expect("42");
    terminal.expect("/dev/pts/");
    terminal.expect("30 100");
    resize(&terminal.master, 44, 123);
    // The kernel signals only those whose controlling terminal it is.
    kill_process(Pid::from_child(&terminal.child), Signal::WINCH).unwrap();
    terminal.send("until stty size | grep '44 123'; do :; done; echo resized\n");
    terminal.expect("44 123\r\nresized");
    terminal.send("exit 9\n");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(9));
    assert!(!terminal.is_raw(), "the terminal is given back");
}

#[test]
fn ctrl_c_goes_inside() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let mut terminal = Terminal::start(place.command(&["shell", "--", "sh"]));
    terminal.expect("$ ");
    // Who says it is who waits: a shell that is about to start another may miss it.
    terminal.send("sh -c 'echo go; read line'\n");
    terminal.expect("\ngo");
    terminal.send("\x03");
    terminal.expect("$ ");
    terminal.send("echo status $?\n");
    terminal.expect("status 130");
    terminal.send("\x04");
    terminal.child.wait().unwrap();
}

#[test]
fn the_terminal_is_given_back_when_the_shell_is_ended_from_outside() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let mut terminal = Terminal::start(place.command(&["shell", "--", "sh"]));
    terminal.expect("$ ");
    kill_process(Pid::from_child(&terminal.child), Signal::TERM).unwrap();
    assert_eq!(terminal.child.wait().unwrap().code(), Some(130));
    assert!(!terminal.is_raw());
}

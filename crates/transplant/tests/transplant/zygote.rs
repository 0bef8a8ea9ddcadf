//! A zygote in Python and the contexts that it forks.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use belljar_transplant::{Image, Limits, Process, Reference, Refusal, capture, implant};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::Pid;

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

const SCRIPT: &str = include_str!("zygote.py");

pub(crate) struct Zygote {
    child: Child,
    control: UnixStream,
    pub(crate) reference: Reference,
}

/// How a context is forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walls {
    None,
    Namespaces,
}

/// A process that runs Python which it is sent.
pub(crate) struct Context {
    stream: UnixStream,
    pub(crate) process: Process,
}

impl Zygote {
    /// `None`, and a word why, when this machine cannot run the tests.
    pub(crate) fn start() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return None;
        }
        let command = std::env::var("ZYGOTE").unwrap_or_else(|_| "python3".to_owned());
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        Some(Self::start_with(&command, &["json", "ctypes"]))
    }

    /// Starts the zygote by `command`, and has it import `modules`.
    pub(crate) fn start_with(command: &[String], modules: &[&str]) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (program, arguments) = command.split_first().unwrap();
        let child = Command::new(program)
            .args(arguments)
            .args(["-I", "-c", SCRIPT])
            .args(modules)
            .stdin(OwnedFd::from(theirs))
            .spawn()
            .unwrap();
        let still = ask(&ours, b"still", None);
        let process = Process::open(still).unwrap();
        let path = format!("/proc/{}/syscall", still.as_raw_nonzero());
        // pause(2)
        wait_for(|| std::fs::read_to_string(&path).is_ok_and(|text| text.starts_with("34 ")));
        let reference = Reference::open(&process).unwrap();
        Self { child, control: ours, reference }
    }

    pub(crate) fn context(&self, walls: Walls) -> Context {
        let (stream, theirs) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let word: &[u8] = if walls == Walls::None { b"fork" } else { b"confine" };
        let pid = ask(&self.control, word, Some(theirs.as_fd()));
        drop(theirs);
        let context = Context { stream, process: Process::open(pid).unwrap() };
        context.wait();
        context
    }

    pub(crate) fn capture(&self, context: &Context, previous: Option<&Image>) -> Image {
        self.try_capture(context, previous).unwrap()
    }

    pub(crate) fn try_capture(
        &self,
        context: &Context,
        previous: Option<&Image>,
    ) -> Result<Image, Refusal> {
        context.wait();
        capture(&context.process, &self.reference, previous, &Limits::default())
    }

    /// A new context that was made like the image.
    pub(crate) fn child(&self, image: &Image, walls: Walls) -> Context {
        let context = self.context(walls);
        implant(image, &context.process, &self.reference).unwrap();
        context
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Context {
    /// Runs Python; answers the representation of its value.
    #[track_caller]
    pub(crate) fn run(&self, source: &str) -> String {
        self.send(source);
        self.answer()
    }

    pub(crate) fn send(&self, source: &str) {
        let mut message = u32::try_from(source.len()).unwrap().to_le_bytes().to_vec();
        message.extend(source.as_bytes());
        (&self.stream).write_all(&message).unwrap();
    }

    #[track_caller]
    pub(crate) fn answer(&self) -> String {
        self.try_answer().expect("the context answers")
    }

    /// `None` when it is gone or does not answer in time.
    pub(crate) fn try_run(&self, source: &str) -> Option<String> {
        self.send(source);
        self.try_answer()
    }

    fn try_answer(&self) -> Option<String> {
        let mut length = [0; 4];
        (&self.stream).read_exact(&mut length).ok()?;
        let mut answer = vec![0; u32::from_le_bytes(length).try_into().ok()?];
        (&self.stream).read_exact(&mut answer).ok()?;
        String::from_utf8(answer).ok()
    }

    /// Waits until it waits for us.
    pub(crate) fn wait(&self) {
        let path = format!("/proc/{}/syscall", self.process.pid().as_raw_nonzero());
        wait_for(|| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            text.starts_with("45 0x3 ") || text.is_empty()
        });
    }
}

fn wait_for(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain");
        std::thread::yield_now();
    }
}

fn ask(control: &UnixStream, word: &[u8], socket: Option<BorrowedFd<'_>>) -> Pid {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let sockets: Vec<BorrowedFd<'_>> = socket.into_iter().collect();
    if !sockets.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&sockets)));
    }
    sendmsg(control, &[IoSlice::new(word)], &mut ancillary, SendFlags::empty()).unwrap();
    let mut answer = [0; 64];
    let length = { control }.read(&mut answer).unwrap();
    let text = std::str::from_utf8(&answer[..length]).unwrap();
    Pid::from_raw(text.parse().expect("the zygote answers a number")).expect("a process")
}

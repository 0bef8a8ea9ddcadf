//! One call: a process, its streams, its end.

mod streams;
mod windows;

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use belljar_guest_proto::{Exit, Failure, FromGuest, PtySize, Spawn, Stdin, WINDOW};
use belljar_sys::process::{Forked, Namespaces, fork};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::child::{self, Start};
use crate::confiner::Confiner;
use crate::groups::{Entry, Groups};
use crate::outcome::{Attempt, refuse};
use crate::wire::Wire;
use streams::{Streams, open_pipes, open_terminal, set_size};

/// What is read of a stream at once: a pipe seldom holds more, and a guest that
/// only ever passes on a line should not grow for it.
const PIECE: usize = 32 << 10;

/// Input that may wait for a call to read it.
const STDIN_LIMIT: usize = WINDOW as usize;

pub(crate) struct Call {
    pub(crate) pid: i32,
    /// Present until the exec: a failure to get there is told through it.
    pub(crate) report: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) stdin: Option<OwnedFd>,
    /// The stream of a context; `stdin` is a copy of it.
    stream: Option<OwnedFd>,
    /// What was read from it and waits until the output that the context wrote
    /// before has been passed on.
    held: Vec<u8>,
    /// Whether somebody else is told of its exit, and the end of its stream is
    /// all that shows here.
    adopted: bool,
    /// The terminal, when the call has one; it is also `stdout`.
    pub(crate) terminal: bool,
    input: Vec<u8>,
    /// How much of it came in another life, and is not to be credited.
    uncredited: usize,
    input_ended: bool,
    /// Whether nobody hears of it any more.
    pub(crate) disowned: bool,
    /// Output that the host is ready to take.
    pub(crate) credit: u32,
    pub(crate) exit: Option<Exit>,
    exit_told: bool,
    eof_told: bool,
}

/// What a read of one stream showed.
enum Drained {
    /// Nothing there now.
    Dry,
    /// There may be more.
    More,
}

impl Call {
    /// Descriptors that come with an adopted interpreter.
    pub(crate) const ADOPTED: usize = 3;

    pub(crate) fn start(spawn: &Spawn, confiner: &Confiner, entry: Entry) -> Result<Self, Failure> {
        Self::start_with(spawn, confiner, entry, None)
    }

    /// Starts a program with a stream of its own.
    pub(crate) fn start_context(
        spawn: &Spawn,
        confiner: &Confiner,
        entry: Entry,
    ) -> Result<Self, Failure> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .doing("make the context's stream")?;
        let mut call = Self::start_with(spawn, confiner, entry, Some(theirs))?;
        call.attach(ours)?;
        Ok(call)
    }

    /// Takes over an interpreter that runs already.
    pub(crate) fn adopt(pid: u32, descriptors: Vec<OwnedFd>) -> Result<Self, Failure> {
        let pid = i32::try_from(pid).or_else(|_| refuse("adopt such a pid", Errno::INVAL))?;
        let Ok([stream, stdout, stderr]) = <[OwnedFd; Self::ADOPTED]>::try_from(descriptors) else {
            return refuse("adopt an interpreter without its streams", Errno::BADF);
        };
        let mut call = Self::new(pid, None, [None, Some(stdout), Some(stderr)])?;
        call.adopted = true;
        call.attach(stream)?;
        Ok(call)
    }

    fn new(pid: i32, report: Option<OwnedFd>, streams: Streams) -> Result<Self, Failure> {
        for stream in streams.iter().flatten() {
            rustix::io::ioctl_fionbio(stream, true).doing("make a stream non-blocking")?;
        }
        let [stdin, stdout, stderr] = streams;
        Ok(Self {
            pid,
            report,
            stdout,
            stderr,
            stdin,
            stream: None,
            held: Vec::new(),
            adopted: false,
            terminal: false,
            input: Vec::new(),
            uncredited: 0,
            input_ended: false,
            disowned: false,
            credit: WINDOW,
            exit: None,
            exit_told: false,
            eof_told: false,
        })
    }

    fn attach(&mut self, stream: OwnedFd) -> Result<(), Failure> {
        rustix::io::ioctl_fionbio(&stream, true).doing("make a stream non-blocking")?;
        self.stdin = Some(stream.try_clone().doing("copy the context's stream")?);
        self.input_ended = false;
        self.stream = Some(stream);
        Ok(())
    }

    fn start_with(
        spawn: &Spawn,
        confiner: &Confiner,
        entry: Entry,
        stream: Option<OwnedFd>,
    ) -> Result<Self, Failure> {
        if spawn.argv.is_empty() {
            return refuse("run an empty command", Errno::INVAL);
        }
        let Entry { cgroup, tasks } = entry;
        let (report_read, report_write) =
            pipe_with(PipeFlags::CLOEXEC).doing("make a pipe for the start")?;
        let (streams, stdio) = match spawn.pty {
            Some(size) => open_terminal(size, spawn.user, confiner)?,
            None => open_pipes(spawn.stdin)?,
        };
        let start = Start {
            programs: programs(spawn)?,
            argv: strings(spawn.argv.iter().cloned())?,
            env: strings(spawn.env.iter().map(|(key, value)| [&key[..], b"=", value].concat()))?,
            cwd: string(spawn.cwd.clone())?,
            user: spawn.user,
            stdio,
            terminal: spawn.pty.is_some(),
            tasks,
            confiner,
            report: report_write,
            stream,
        };
        let forked = fork(Namespaces::NONE, cgroup.as_ref().map(AsFd::as_fd));
        let pid = match forked.doing("start a process for the call")? {
            Forked::Child => child::run(start),
            Forked::Parent { pid, .. } => pid.as_raw_nonzero().get(),
        };
        let mut call = Self::new(pid, Some(report_read), streams)?;
        call.terminal = spawn.pty.is_some();
        call.input_ended = spawn.stdin == Stdin::Empty && spawn.pty.is_none();
        Ok(call)
    }

    /// What to wait for, when there is credit and room for it.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &OwnedFd> {
        let stream = self.stream.as_ref().filter(|_| self.held.is_empty());
        [self.stdout.as_ref(), self.stderr.as_ref(), stream].into_iter().flatten()
    }

    /// Reads the report of the start, which ends when the program runs.
    pub(crate) fn read_report(&mut self) -> Option<Result<(), Failure>> {
        let mut text = [0u8; 256];
        let count = match rustix::io::read(self.report.as_ref()?, &mut text) {
            Ok(count) => count,
            Err(Errno::INTR) => return None,
            Err(errno) => return Some(Err(errno).doing("read the start's report")),
        };
        self.report = None;
        if count == 0 {
            return Some(Ok(()));
        }
        let text = String::from_utf8_lossy(&text[..count]);
        let (errno, doing) = text.split_once(' ').unwrap_or(("22", "start the call"));
        let errno = errno.parse().unwrap_or(22);
        Some(Err(Failure { doing: doing.to_owned(), errno }))
    }

    /// Moves what the call wrote towards the host, as far as credit and room go.
    pub(crate) fn pump_output(
        &mut self,
        channel: u32,
        wire: &mut Wire,
        groups: Option<&mut Groups>,
    ) {
        if self.disowned {
            return self.throw_output_away();
        }
        // Nothing may come before the answer to the start: whoever waits for
        // that takes no output yet.
        if self.report.is_some() {
            return;
        }
        self.read_stream();
        let mut dry = self.drain_output(channel, wire);
        for _ in 0..Self::ROUNDS {
            if dry || self.held.is_empty() || self.credit == 0 || !wire.has_room() {
                break;
            }
            dry = self.drain_output(channel, wire);
        }
        // A pipe holds less than so many rounds move: what came before has gone.
        if !self.held.is_empty() && (dry || self.credit > 0) {
            dry = false;
            self.pass_held(channel, wire, groups);
        }
        let state = if dry && self.stream.is_none() { Drained::Dry } else { Drained::More };
        self.tell_end(channel, wire, &state);
    }

    /// How often a call's output is read before what its context said after it.
    const ROUNDS: usize = 64;

    /// Reads once from each output stream. `true`: there was nothing.
    fn drain_output(&mut self, channel: u32, wire: &mut Wire) -> bool {
        let mut dry = true;
        for is_stderr in [false, true] {
            let slot = if is_stderr { &mut self.stderr } else { &mut self.stdout };
            let Some(stream) = slot else { continue };
            let kind = if is_stderr { FromGuest::Stderr(&[]) } else { FromGuest::Stdout(&[]) };
            if self.credit == 0 || !wire.has_room() {
                dry = false;
                continue;
            }
            let most = PIECE.min(self.credit as usize);
            match wire.send_from(channel, &kind, most, |room| rustix::io::read(&*stream, room)) {
                // A terminal whose last user is gone answers EIO.
                Ok(0) | Err(Errno::IO) => *slot = None,
                Ok(count) => {
                    self.credit -= u32::try_from(count).unwrap_or(self.credit);
                    dry = false;
                }
                Err(Errno::AGAIN) => {}
                Err(Errno::INTR) => dry = false,
                Err(_) => *slot = None,
            }
        }
        dry
    }

    /// Reads from a context's stream before its output is read, so that what
    /// was printed first is also passed on first.
    fn read_stream(&mut self) {
        let Some(stream) = self.stream.as_ref().filter(|_| self.held.is_empty()) else { return };
        if self.credit == 0 {
            return;
        }
        let mut piece = [0u8; PIECE];
        let most = PIECE.min(self.credit as usize);
        let count = rustix::io::read(stream, &mut piece[..most]);
        self.held.extend_from_slice(&piece[..*count.as_ref().unwrap_or(&0)]);
        // Descendants may hold the other end of a stream whose owner is gone.
        let waits = matches!(count, Err(Errno::AGAIN)) && self.exit.is_none();
        if waits || matches!(count, Err(Errno::INTR)) || !self.held.is_empty() {
            return;
        }
        self.stream = None;
        if self.adopted {
            let unknown =
                Exit { code: None, signal: None, cpu_micros: 0, max_rss_bytes: 0, counters: None };
            self.exit = Some(unknown);
        }
    }

    fn pass_held(&mut self, channel: u32, wire: &mut Wire, groups: Option<&mut Groups>) {
        let most = self.held.len().min(self.credit as usize);
        if most > 0 && wire.has_room() {
            if let Some(counters) = groups.and_then(|groups| groups.refresh(channel)) {
                wire.send(channel, &FromGuest::Counters(counters));
            }
            wire.send(channel, &FromGuest::Data(&self.held[..most]));
            self.credit -= u32::try_from(most).unwrap_or(self.credit);
            self.held.drain(..most);
        }
    }

    /// The end is told after the output that came before it.
    fn tell_end(&mut self, channel: u32, wire: &mut Wire, state: &Drained) {
        if self.report.is_some() {
            return;
        }
        if let (Some(exit), Drained::Dry, false) = (self.exit, state, self.exit_told) {
            wire.send(channel, &FromGuest::Exited(exit));
            self.exit_told = true;
        }
        let closed = self.stdout.is_none() && self.stderr.is_none();
        if self.exit_told && closed && !self.eof_told {
            wire.send(channel, &FromGuest::Eof);
            self.eof_told = true;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.eof_told
    }

    /// Takes input for the call. `false`: the host sent more than it may.
    pub(crate) fn take_input(&mut self, bytes: &[u8]) -> bool {
        if self.stdin.is_some() {
            self.input.extend_from_slice(bytes);
        }
        self.input.len() - self.uncredited <= STDIN_LIMIT
    }

    pub(crate) fn end_input(&mut self) {
        self.input_ended = true;
        if self.input.is_empty() && !self.terminal {
            self.stdin = None;
        }
    }

    pub(crate) fn wants_input(&self) -> bool {
        self.stdin.is_some() && !self.input.is_empty()
    }

    /// Writes waiting input to the call and lets the host send as much again.
    pub(crate) fn pump_input(&mut self, channel: u32, wire: &mut Wire) {
        let Some(stdin) = &self.stdin else { return };
        if self.input.is_empty() {
            return;
        }
        match rustix::io::write(stdin, &self.input) {
            Ok(count) => {
                self.input.drain(..count);
                let old = self.uncredited.min(count);
                self.uncredited -= old;
                let new = u32::try_from(count - old).unwrap_or(0);
                if new > 0 && !self.disowned {
                    wire.send(channel, &FromGuest::Credit(new));
                }
                if self.input.is_empty() && self.input_ended && !self.terminal {
                    self.stdin = None;
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => {
                self.input.clear();
                self.uncredited = 0;
                self.stdin = None;
            }
        }
    }

    pub(crate) fn resize(&self, size: PtySize) -> Result<(), Failure> {
        match &self.stdout {
            Some(terminal) if self.terminal => set_size(terminal, size),
            _ => refuse("resize a call without a terminal", Errno::NOTTY),
        }
    }
}

fn string(bytes: Vec<u8>) -> Result<CString, Failure> {
    CString::new(bytes).or_else(|_| refuse("use a text with a NUL byte", Errno::INVAL))
}

fn strings(list: impl Iterator<Item = Vec<u8>>) -> Result<Vec<CString>, Failure> {
    list.map(string).collect()
}

/// Where the program may be, as a shell would look for it.
fn programs(spawn: &Spawn) -> Result<Vec<CString>, Failure> {
    let name = &spawn.argv[0];
    if name.contains(&b'/') {
        return Ok(vec![string(name.clone())?]);
    }
    let path = spawn.env.iter().find(|(key, _)| key == b"PATH");
    let path = path.map_or(&b"/usr/local/bin:/usr/bin:/bin"[..], |(_, value)| value);
    let candidates = path.split(|&b| b == b':').filter(|dir| !dir.is_empty());
    strings(candidates.map(|dir| [dir, b"/", name].concat()))
}

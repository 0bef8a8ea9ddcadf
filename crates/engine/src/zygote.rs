//! A warm interpreter that forks itself into sandboxes, as the engine holds it.
//!
//! What is said to the interpreter is not this crate's business; that a process
//! which it forked is really where it should be is, and the kernel is asked.

use std::ffi::CString;
use std::fmt::Write as _;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_domain::Spec;
use belljar_sys::packet;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use crate::cgroup::CallGroup;
use crate::engine::{Connection, Engine, StartError, sealed_memfd, to_tokio};
use crate::machine::Machine;
use crate::plan::{OOM_SCORE, USER_UID};
use crate::wire::{Ended, FromSpawner, ToSpawner};

/// What to run as a zygote.
#[derive(Debug, Clone)]
pub struct Program {
    /// The first is the path of the interpreter inside the template.
    pub argv: Vec<CString>,
    pub env: Vec<CString>,
    /// The library that forks; the interpreter finds it at descriptor 4.
    pub library: &'static [u8],
}

#[derive(Debug)]
pub struct Zygote {
    connection: Arc<Connection>,
    number: u32,
    pid: u32,
    /// The host's uid of it, and gid.
    uid: u32,
    /// A sequenced-packet socket, waited on as tokio waits on streams.
    socket: UnixStream,
    complaints: Arc<Mutex<String>>,
}

/// The child's ends of its streams.
#[derive(Debug)]
pub struct Ends {
    pub stream: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// A process that a zygote forked into a sandbox.
#[derive(Debug)]
pub struct Interpreter {
    /// As the host sees it.
    pub pid: u32,
    /// As the sandbox sees it.
    pub inner: u32,
    /// To signal it: the guest cannot, because its Landlock domain keeps its
    /// signals to its own descendants.
    pub pidfd: OwnedFd,
    /// Resolves when it ends.
    pub ended: oneshot::Receiver<Ended>,
}

/// How long a fork may take on a busy host.
const BIRTH: Duration = Duration::from_secs(20);

/// How much is kept of what a zygote complains about.
const COMPLAINTS: usize = 16 << 10;

impl Engine {
    /// Starts a zygote in a root of its own, made of the spec's layers.
    pub async fn start_zygote(&self, spec: &Spec, program: &Program) -> Result<Zygote, StartError> {
        let library = sealed_memfd("belljar-zygote", program.library).map_err(|source| {
            StartError::Step { doing: "prepare the zygote's library".into(), source }
        })?;
        let (sequence, number) = (self.connection.next(), self.connection.next_zygote());
        let request = ToSpawner::StartZygote {
            sequence,
            number,
            spec: Box::new(spec.clone()),
            argv: program.argv.clone(),
            env: program.env.clone(),
        };
        let answer = self.connection.ask_with(sequence, &request, &[library.as_fd()]).await?;
        let (FromSpawner::ZygoteStarted { pid, uid, .. }, descriptors) = answer else {
            return Err(StartError::SpawnerGone);
        };
        let mut descriptors = descriptors.into_iter();
        let (Some(socket), Some(stderr)) = (descriptors.next(), descriptors.next()) else {
            return Err(StartError::SpawnerGone);
        };
        let step = || step("use the zygote's socket");
        let complaints = Arc::new(Mutex::new(String::new()));
        listen(stderr, complaints.clone()).map_err(step())?;
        let socket = to_tokio(socket).map_err(step())?;
        Ok(Zygote { connection: self.connection.clone(), number, pid, uid, socket, complaints })
    }
}

impl Zygote {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// What it wrote to its standard error stream.
    pub fn complaints(&self) -> String {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends one packet.
    pub async fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        loop {
            self.socket.writable().await?;
            let send = || packet::send(&self.socket, bytes, descriptors);
            let sent = self.socket.try_io(Interest::WRITABLE, send);
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Receives one packet; empty when the zygote is gone.
    pub async fn receive(&self) -> io::Result<Vec<u8>> {
        let mut packet = vec![0u8; 64 << 10];
        loop {
            self.socket.readable().await?;
            match self.socket.try_read(&mut packet) {
                Ok(count) => {
                    packet.truncate(count);
                    return Ok(packet);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Forks an interpreter into `machine`, which must have been made for this
    /// zygote. When this answers, the kernel has said that the process is
    /// confined as the sandbox's own are.
    pub async fn fork(
        &self,
        machine: &Machine,
        forking: Forking,
        group: Option<&CallGroup>,
    ) -> Result<Interpreter, StartError> {
        let (pending, theirs) = Pending::new()?;
        let groups = group.map(|group| group.open_for_zygote(self.uid)).transpose();
        let groups = groups.map_err(step("open the context's cgroup"))?;
        {
            let mut descriptors = vec![machine.pidfd.as_fd()];
            descriptors.extend(forking.carried(&theirs));
            let groups = groups.iter().flat_map(|groups| &groups.descriptors);
            descriptors.extend(groups.map(AsFd::as_fd));
            let sent = self.send(&forking.entry, &descriptors).await;
            sent.map_err(step("ask the zygote to fork"))?;
        }
        drop((forking, theirs, groups));
        pending.finish(machine, group).await
    }
}

/// What a zygote is asked for.
#[derive(Debug)]
pub struct Forking {
    /// The request's text, which this crate does not read.
    pub entry: Vec<u8>,
    pub ends: Ends,
}

impl Forking {
    /// The descriptors of a request that do not depend on the sandbox.
    pub(crate) fn carried<'a>(&'a self, sync: &'a OwnedFd) -> [BorrowedFd<'a>; 4] {
        let Ends { stream, stdout, stderr } = &self.ends;
        [sync, stream, stdout, stderr].map(AsFd::as_fd)
    }
}

/// A fork that was asked for.
#[derive(Debug)]
pub struct Pending {
    sync: UnixStream,
}

impl Pending {
    /// Answers the child's end as well.
    pub(crate) fn new() -> Result<(Self, OwnedFd), StartError> {
        let kind = SocketType::SEQPACKET;
        let pair = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        let (sync, theirs) = pair.map_err(io::Error::from).map_err(step("make a socket pair"))?;
        rustix::net::sockopt::set_socket_passcred(&sync, true)
            .map_err(io::Error::from)
            .map_err(step("ask for credentials"))?;
        let sync = to_tokio(sync).map_err(step("wait for the interpreter"))?;
        Ok((Self { sync }, theirs))
    }

    /// Lets the child into the sandbox, whose root is ready, and waits for it.
    pub async fn finish(
        self,
        machine: &Machine,
        group: Option<&CallGroup>,
    ) -> Result<Interpreter, StartError> {
        let Self { sync } = self;
        // One that has failed already has said why, or says nothing any more.
        let _ = rustix::io::write(&sync, b"go");
        let word = tokio::time::timeout(BIRTH, hear(&sync)).await;
        let word = word.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let (word, pid) = word.map_err(step("read from the interpreter"))?;
        if word != b"in" {
            let word = String::from_utf8_lossy(&word);
            let (errno, doing) = word.split_once(' ').unwrap_or(("22", "enter the sandbox"));
            let source = io::Error::from_raw_os_error(errno.parse().unwrap_or(22));
            return Err(StartError::Step { doing: doing.to_owned(), source });
        }
        let ended = machine.expect_end(pid).ok_or(StartError::SpawnerGone)?;
        // Opened before the look, which then is at the same process.
        let opened = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH);
        let opened = opened.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let pidfd =
            opened.map_err(io::Error::from).map_err(step("keep a handle of the interpreter"))?;
        match inspect(pid, machine).and_then(|inner| adjust_oom_score(pid).map(|()| inner)) {
            Ok(inner) => Ok(Interpreter { pid, inner, pidfd, ended }),
            Err(wrong) => {
                if let Some(group) = group {
                    let _ = group.kill();
                }
                let source = io::Error::other(wrong);
                Err(StartError::Step { doing: "verify the interpreter".into(), source })
            }
        }
    }
}

fn step(doing: &str) -> impl FnOnce(io::Error) -> StartError {
    let doing = doing.to_owned();
    move |source| StartError::Step { doing, source }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.connection.send_later(&ToSpawner::EndZygote { number: self.number });
    }
}

/// Receives a word and the pid of whoever sent it, which the kernel vouches for.
async fn hear(sync: &UnixStream) -> io::Result<(Vec<u8>, u32)> {
    loop {
        sync.readable().await?;
        let heard = sync.try_io(Interest::READABLE, || {
            let mut word = vec![0u8; 512];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [io::IoSliceMut::new(&mut word)];
            let got = recvmsg(sync, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            if got.bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let sender = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
                _ => None,
            });
            word.truncate(got.bytes);
            let pid = sender.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
            Ok((word, pid.ok_or(io::ErrorKind::InvalidData)?))
        });
        match heard {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

/// Sets the OOM score of a forked process from outside: inside, procfs is read-only.
fn adjust_oom_score(pid: u32) -> Result<(), String> {
    std::fs::write(format!("/proc/{pid}/oom_score_adj"), OOM_SCORE)
        .map_err(|error| format!("its OOM score cannot be set: {error}"))
}

/// Looks at a forked process from outside, before anything is sent to it.
/// Answers its pid inside.
fn inspect(pid: u32, machine: &Machine) -> Result<u32, String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .map_err(|error| format!("its status cannot be read: {error}"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.split_ascii_whitespace().collect::<Vec<_>>()).unwrap_or_default()
    };
    let id = (machine.first_uid + USER_UID).to_string();
    let none = "0000000000000000";
    let mut wrong = String::new();
    let mut expect = |name: &str, all: &str| {
        let found = field(name);
        if found.is_empty() || found.iter().any(|value| *value != all) {
            let _ = write!(wrong, "{name} is {found:?}, not {all}; ");
        }
    };
    expect("Uid", &id);
    expect("Gid", &id);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        expect(set, none);
    }
    expect("NoNewPrivs", "1");
    expect("Seccomp", "2");
    expect("Threads", "1");
    for namespace in ["user", "pid", "mnt", "net"] {
        let of = |pid| std::fs::read_link(format!("/proc/{pid}/ns/{namespace}")).ok();
        if of(pid).is_none() || of(pid) != of(machine.pid) {
            let _ = write!(wrong, "its {namespace} namespace is not the sandbox's; ");
        }
    }
    if let Some(group) = &machine.group
        && !group.holds(pid)
    {
        wrong.push_str("it is not in the sandbox's cgroups; ");
    }
    let inner = field("NSpid").last().and_then(|pid| pid.parse().ok());
    if !wrong.is_empty() {
        return Err(wrong);
    }
    inner.ok_or_else(|| "it has no process id in the sandbox".to_owned())
}

/// Keeps the beginning of what comes out of `stderr`, and reads the rest away.
fn listen(stderr: OwnedFd, kept: Arc<Mutex<String>>) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&stderr, true)?;
    let mut stderr = pipe::Receiver::from_owned_fd(stderr)?;
    tokio::spawn(async move {
        let mut buffer = [0u8; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < COMPLAINTS {
                kept.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        }
    });
    Ok(())
}

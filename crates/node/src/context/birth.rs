//! How a context's interpreter comes to be: executed by the guest, or forked
//! from a zygote and handed to the guest.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use belljar_domain::{Limits, User};
use belljar_engine::cgroup::CallGroup;
use belljar_engine::{
    Confinement, Ended, Ends, Forking, Interpreter, Machine, Pending, StartError, Zygote,
};
use belljar_guest_proto::context::{FromContext, Reader, ToContext};
use belljar_guest_proto::zygote::Entry;
use belljar_guest_proto::{Reply, Request, Spawn, Stdin, ToGuest};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::{mpsc, oneshot};

use super::actor::Actor;
use super::{ContextError, ContextOptions, Facts, Orders, Origin};
use crate::call::{InputQueue, Waiting};
use crate::command::Command;
use crate::ledger::Ledger;
use crate::link::{Channel, Incoming, Link};
use crate::runtime::Language;
use crate::sandbox::CallError;
use crate::supervisor::discard_group;
use crate::whole::Kept;

/// How long an interpreter may take from its start to its first word.
const PATIENCE: Duration = Duration::from_secs(180);

const RLIMIT_CPU: u32 = 0;

/// An interpreter that runs and has not been given to anyone.
#[derive(Debug)]
pub(crate) struct Unborn {
    channel: Channel,
    number: u32,
    group: Option<CallGroup>,
    ended: Option<oneshot::Receiver<Ended>>,
    /// Of one that was forked.
    pidfd: Option<OwnedFd>,
    reader: Reader,
    pub(crate) facts: Facts,
}

/// The sandbox that a context is made in.
pub(crate) struct Place<'a> {
    pub(crate) link: &'a Link,
    pub(crate) machine: &'a Arc<Machine>,
    pub(crate) limits: &'a Limits,
    pub(crate) home: String,
    pub(crate) temporary: String,
    pub(crate) busy: &'a Arc<AtomicUsize>,
    pub(crate) ledger: &'a Arc<Ledger>,
}

/// The number that an interpreter has among the calls, and its group.
pub(crate) type Slot = (u32, Option<CallGroup>);

impl Unborn {
    /// Has the guest execute the interpreter. `warm` is run before it is ready.
    pub(crate) async fn execute(
        place: &Place<'_>,
        options: &ContextOptions,
        (number, group): Slot,
        warm: Option<&str>,
    ) -> Result<Self, ContextError> {
        let entry = group.as_ref().map(CallGroup::open).transpose().map_err(group_error)?;
        let besides = place.ledger.variables(number).await;
        let (argv, boot) = options.language.boot(&options.interpreter, warm);
        let cwd = options.cwd.clone().unwrap_or_else(|| place.home.clone());
        let count = entry.as_ref().map_or(0, |entry| entry.descriptors.len());
        let spawn = Spawn {
            argv,
            env: place.environment(options, &besides),
            cwd: cwd.into_bytes(),
            user: User::User.id(),
            stdin: Stdin::Empty,
            pty: None,
            descriptors: u8::try_from(count).unwrap_or(u8::MAX),
            into_cgroup: entry.as_ref().is_some_and(|entry| entry.into_cgroup),
        };
        let descriptors: Vec<_> =
            entry.iter().flat_map(|entry| entry.descriptors.iter().map(AsFd::as_fd)).collect();
        let mut channel = place.link.open();
        let request = ToGuest::Request(Request::Context(spawn));
        channel.send(&request, &descriptors).await.map_err(ContextError::Link)?;
        started(&mut channel).await?;
        channel.send(&ToGuest::Data(&boot), &[]).await.map_err(ContextError::Link)?;
        let facts = Facts { origin: Origin::Executed, version: String::new(), pid: None };
        let (ended, pidfd, reader) = (None, None, Reader::default());
        Self { channel, number, group, ended, pidfd, reader, facts }.ready().await
    }

    /// Has the zygote fork into the sandbox, and the guest take over.
    pub(crate) async fn fork(
        link: &Link,
        machine: &Machine,
        zygote: &Zygote,
        slot: Slot,
    ) -> Result<Self, ContextError> {
        let group = &slot.1;
        let into_cgroup = group.as_ref().is_some_and(CallGroup::is_unified);
        let (forking, ours) = forking(machine.confinement(), machine.facts(), into_cgroup)?;
        let forked = zygote.fork(machine, forking, group.as_ref()).await;
        let interpreter = forked.map_err(ContextError::Fork)?;
        Self::hand_over(link, interpreter, ours, slot).await
    }

    /// As [`Self::fork`], when the zygote was asked while the sandbox was made.
    pub(crate) async fn forked(
        link: &Link,
        machine: &Machine,
        (pending, ours): (Pending, Ours),
        slot: Slot,
    ) -> Result<Self, ContextError> {
        let forked = pending.finish(machine, slot.1.as_ref()).await;
        let interpreter = forked.map_err(ContextError::Fork)?;
        Self::hand_over(link, interpreter, ours, slot).await
    }

    async fn hand_over(
        link: &Link,
        interpreter: Interpreter,
        ours: Ours,
        (number, group): Slot,
    ) -> Result<Self, ContextError> {
        let Interpreter { pid, inner, pidfd, ended } = interpreter;
        let channel = link.open();
        let request = ToGuest::Request(Request::Adopt { pid: inner });
        let streams = ours.0.each_ref().map(AsFd::as_fd);
        channel.send(&request, &streams).await.map_err(ContextError::Link)?;
        let facts = Facts { origin: Origin::Forked, version: String::new(), pid: Some(pid) };
        let (ended, pidfd) = (Some(ended), Some(pidfd));
        let reader = Reader::default();
        Self { channel, number, group, ended, pidfd, reader, facts }.ready().await
    }

    /// Waits for its first word.
    async fn ready(mut self) -> Result<Self, ContextError> {
        let mut complaints = Vec::new();
        let word = async {
            loop {
                match self.channel.next().await.map_err(ContextError::Link)? {
                    Incoming::Data(bytes) => {
                        self.reader.push(&bytes);
                        let _ = self.channel.grant(bytes.len()).await;
                        match self.reader.next_message() {
                            Ok(Some(FromContext::Ready { version })) => return Ok(version),
                            Ok(Some(FromContext::Unfit { reason })) => {
                                return Err(ContextError::Unfit(reason));
                            }
                            Ok(None) => {}
                            Ok(Some(_)) | Err(_) => {
                                return Err(ContextError::Stillborn(
                                    "it sent an invalid message".into(),
                                ));
                            }
                        }
                    }
                    Incoming::Stderr(bytes) => {
                        let _ = self.channel.grant(bytes.len()).await;
                        complaints.extend(bytes);
                        complaints.truncate(4096);
                    }
                    Incoming::Stdout(bytes) => drop(self.channel.grant(bytes.len()).await),
                    Incoming::Exited(_) | Incoming::Eof => {
                        let said = String::from_utf8_lossy(&complaints).trim().to_owned();
                        return Err(ContextError::Stillborn(said));
                    }
                    Incoming::Reply(Err(failure)) => {
                        return Err(ContextError::Call(failure.into()));
                    }
                    Incoming::Reply(_) | Incoming::Changed(_) | Incoming::Credit(_) => {}
                }
            }
        };
        let word = tokio::time::timeout(PATIENCE, word).await;
        let word = word
            .unwrap_or_else(|_| Err(ContextError::Stillborn("it did not report in time".into())));
        match word {
            Ok(version) => {
                self.facts.version = version;
                Ok(self)
            }
            Err(error) => {
                discard_group(self.group);
                Err(error)
            }
        }
    }

    /// Warms it up while it waits.
    pub(crate) async fn rehearse(&self) {
        let frame = ToContext::Rehearse.encode();
        // A link that failed shows itself to whoever gets this.
        let _ = self.channel.send(&ToGuest::Data(&frame), &[]).await;
    }

    /// One that came back with the memory of its sandbox.
    pub(crate) fn resumed(channel: Channel, kept: &Kept, number: u32) -> Self {
        let facts = Facts { origin: Origin::Copied, version: kept.version.clone(), pid: None };
        let reader = Reader::default();
        let (number, group) = (number, None);
        Self { channel, number, group, ended: None, pidfd: None, reader, facts }
    }

    /// Lets one go on that came back, with randomness that no other copy has.
    pub(crate) async fn resume(
        self,
        place: &Place<'_>,
        options: &ContextOptions,
    ) -> (Facts, Orders) {
        let (mut actor, facts) = self.actor(place, options, Vec::new());
        if options.language == Language::Python {
            let nothing = BTreeMap::new();
            let (entropy, rlimits) = (entropy(), Vec::new());
            let wake = ToContext::Wake { copied: true, entropy, cwd: None, env: nothing, rlimits };
            actor.say(&wake).await;
        }
        let (orders, inbox) = mpsc::unbounded_channel();
        tokio::spawn(actor.run(inbox));
        (facts, orders)
    }

    fn actor(
        self,
        place: &Place<'_>,
        options: &ContextOptions,
        besides: Vec<(String, String)>,
    ) -> (Actor, Facts) {
        let actor = Actor {
            channel: self.channel,
            machine: place.machine.clone(),
            group: self.group,
            limits: place.limits.clone(),
            ended: self.ended,
            pidfd: self.pidfd,
            reader: self.reader,
            input: InputQueue::new(Arc::new(Waiting::default())),
            busy: place.busy.clone(),
            language: options.language,
            ledger: place.ledger.clone(),
            number: self.number,
            besides,
            given: options.env.clone(),
            status: None,
            owed: 0,
        };
        (actor, self.facts)
    }

    /// Makes it a session's own: its environment, directory and limits, and
    /// randomness that no other has.
    pub(crate) async fn wake(
        self,
        place: &Place<'_>,
        options: &ContextOptions,
        cwd: Option<&str>,
    ) -> Result<(Facts, Orders), ContextError> {
        let besides = place.ledger.variables(self.number).await;
        let (mut actor, facts) = self.actor(place, options, besides);
        if facts.origin != Origin::Executed {
            let env = place.environment(options, &actor.besides);
            let env: Vec<_> = env
                .iter()
                .map(|(key, value)| (String::from_utf8_lossy(key), String::from_utf8_lossy(value)))
                .collect();
            let env: BTreeMap<&str, &str> =
                env.iter().map(|(key, value)| (&**key, &**value)).collect();
            let copied = facts.origin == Origin::Copied;
            let wake = ToContext::Wake {
                copied,
                // One that was forked has been seeded by its zygote.
                entropy: if copied { entropy() } else { String::new() },
                cwd: cwd.or(options.cwd.as_deref()).or(Some(&place.home)),
                env,
                rlimits: rlimits(place.machine.confinement()),
            };
            actor.say(&wake).await;
            // Without a wish of its own it is where it was, or at home.
            if options.cwd.is_some()
                && let Some(problem) = actor.awake().await
            {
                discard_group(actor.group);
                return Err(ContextError::Unfit(problem));
            }
        }
        let (orders, inbox) = mpsc::unbounded_channel();
        tokio::spawn(actor.run(inbox));
        Ok((facts, orders))
    }
}

impl Place<'_> {
    fn environment(
        &self,
        options: &ContextOptions,
        besides: &[(String, String)],
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut command = Command::new([""]);
        let given = options.env.iter();
        command.env =
            given.map(|(key, value)| (key.clone().into(), value.clone().into())).collect();
        command.environment(&self.home, &self.temporary, besides)
    }
}

/// The guest's ends of an interpreter's stream, output and error output.
#[derive(Debug)]
pub(crate) struct Ours([OwnedFd; 3]);

/// What to ask a zygote for: an interpreter that is confined as calls are, in
/// every respect.
pub(crate) fn forking(
    confinement: &Confinement,
    facts: belljar_engine::plan::Facts,
    into_cgroup: bool,
) -> Result<(Forking, Ours), ContextError> {
    let step = |source: io::Error| {
        let doing = "create the context's streams".into();
        ContextError::Fork(StartError::Step { doing, source })
    };
    let flags = SocketFlags::CLOEXEC;
    let (ours, stream) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(io::Error::from)
        .map_err(step)?;
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from).map_err(step);
    let ((out, stdout), (err, stderr)) = (pipe()?, pipe()?);
    let entry = Entry {
        user: User::User.id(),
        cwd: confinement.home.as_os_str().as_encoded_bytes().to_vec(),
        seccomp: confinement.seccomp.clone(),
        rlimits: rlimits(confinement),
        landlock_abi: facts.landlock_abi,
        into_cgroup,
    };
    let ends = Ends { stream, stdout, stderr };
    Ok((Forking { entry: entry.encode(), ends }, Ours([ours, out, err])))
}

async fn started(channel: &mut Channel) -> Result<(), ContextError> {
    match channel.reply().await.map_err(ContextError::Link)? {
        Ok(Reply::Started { .. } | Reply::Done) => Ok(()),
        Ok(_) => Err(ContextError::Stillborn("unexpected response of the guest".into())),
        Err(failure) => Err(ContextError::Call(failure.into())),
    }
}

fn group_error(error: io::Error) -> ContextError {
    ContextError::Call(CallError::Group(error))
}

/// What a copy mixes into its randomness, in hexadecimal. Without it the
/// interpreter still has the kernel's own.
fn entropy() -> String {
    let bytes: [u8; 32] = crate::random::bytes().unwrap_or_default();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The limits of an interpreter, which lives through many cells: CPU time is
/// counted for each of them, and not by the kernel for all.
fn rlimits(confinement: &Confinement) -> Vec<(u32, u64)> {
    let all = confinement.rlimits.iter().copied();
    all.filter(|&(resource, _)| resource != RLIMIT_CPU).collect()
}

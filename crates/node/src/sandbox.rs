//! One live sandbox.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_domain::{End, Limits, SandboxId, Spec, Tier, User};
use belljar_engine::cgroup::{CallGroup, FIRST_CALL};
use belljar_engine::{Defence, Machine, Pending, SandboxUsage, StartError, Weakened, Zygote};
use belljar_guest_proto::{Failure, Hello, Reply, Request, Spawn, Stdin, ToGuest};
use tokio::sync::mpsc;

use crate::call::{Call, Event, Waiting};
use crate::capture::{Capture, Captured};
use crate::command::{Command, Input, Tag};
use crate::context::{
    Context, ContextError, ContextOptions, Facts, Orders, Ours, Place, Slot, Unborn,
};
use crate::gateway::Attached;
use crate::ledger::Ledger;
use crate::link::{Bounds, Link, LinkError};
use crate::node::{Maker, NodeError};
use crate::profile::profile;
use crate::runtime::Language;
use crate::supervisor::{self, Before, Supervisor, Terms};
use crate::warm::Family;

/// Why a call did not start.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("the sandbox does not respond")]
    Link(#[source] LinkError),
    #[error("cannot {doing}")]
    Refused { doing: String, source: io::Error },
    #[error("cannot create the call's cgroup")]
    Group(#[source] io::Error),
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        let source = io::Error::from_raw_os_error(failure.errno);
        Self::Refused { doing: failure.doing, source }
    }
}

/// A call that is over, with what was kept of its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub end: End,
    pub stdout: Captured,
    pub stderr: Captured,
}

#[derive(Debug)]
pub struct Sandbox {
    pub(crate) link: Link,
    pub(crate) machine: Arc<Machine>,
    /// As it was asked for; `limits` are those in force.
    pub(crate) spec: Spec,
    limits: Limits,
    weakened: Weakened,
    pub(crate) ledger: Arc<Ledger>,
    /// The group of the first call, made before anyone asked for it.
    ahead: Mutex<Option<CallGroup>>,
    /// Who forks its interpreters, if anyone does.
    pub(crate) family: Option<Arc<Family>>,
    pub(crate) busy: Arc<AtomicUsize>,
    pub(crate) maker: Option<Maker>,
    /// An interpreter that is forked before anyone asks for it.
    prepared: Mutex<Option<Prepared>>,
    /// The path of the one that waits in a sandbox that came back from disk.
    pub(crate) warm: Option<PathBuf>,
    contexts: Mutex<Contexts>,
    /// Its way out, if it has one.
    pub(crate) network: Mutex<Option<Attached>>,
}

/// On its way, on a task of its own.
type Prepared = tokio::task::JoinHandle<Result<Unborn, ContextError>>;

/// The contexts of a sandbox, and the number that the next one gets.
#[derive(Debug, Default)]
struct Contexts {
    known: Vec<Context>,
    next: u32,
}

const E2BIG: i32 = 7;

/// Output that [`Sandbox::execute`] keeps of each stream.
const KEPT: usize = 4 << 20;

impl Sandbox {
    /// Says how calls are confined. What the guest answers to it is checked
    /// when it comes, before anything else that it says is believed; a call
    /// checks its own confinement before it runs.
    pub(crate) async fn greet(
        mut machine: Machine,
        spec: &Spec,
        weakened: &Weakened,
        privileged: bool,
    ) -> Result<Self, LinkError> {
        let stream = machine.take_stream().ok_or(LinkError::Gone)?;
        let (tier, allowed) = (spec.tier, weakened.clone());
        let bounds = if weakened.keeps(Defence::GuestWindow) { Bounds::Kept } else { Bounds::Off };
        let expected = move |hello: &Hello| is_confined(hello, tier, &allowed, privileged);
        let link = Link::new(stream, tier, bounds, expected);
        let profile = profile(machine.confinement());
        link.send(0, &ToGuest::Configure(profile), &[]).await?;
        // While the guest starts: the first call's group, which takes as long.
        // With a zygote, that is the interpreter's and made already.
        let ahead = match machine.zygote() {
            Some(_) => None,
            None => machine.open_call(FIRST_CALL).ok().flatten(),
        };
        Ok(Self::assemble(link, machine, spec, weakened, ahead))
    }

    pub(crate) fn assemble(
        link: Link,
        machine: Machine,
        spec: &Spec,
        weakened: &Weakened,
        ahead: Option<CallGroup>,
    ) -> Self {
        Self {
            link,
            machine: Arc::new(machine),
            spec: spec.clone(),
            limits: spec.limits.clone(),
            weakened: weakened.clone(),
            ledger: Arc::new(Ledger::new()),
            ahead: Mutex::new(ahead),
            family: None,
            busy: Arc::default(),
            maker: None,
            prepared: Mutex::default(),
            warm: None,
            contexts: Mutex::default(),
            network: Mutex::default(),
        }
    }

    /// Takes in the interpreter that was forked while the sandbox was made.
    pub(crate) fn expect(&self, pending: (Pending, Ours)) {
        // The spawner has made the first call's group for it.
        let number = self.ledger.next();
        let group = self.machine.call_group(number);
        self.ledger.begin(number, &Tag::default(), group.as_ref());
        let slot = (number, group);
        let (link, machine) = (self.link.clone(), self.machine.clone());
        let task =
            tokio::spawn(async move { Unborn::forked(&link, &machine, pending, slot).await });
        *self.lock_prepared() = Some(task);
    }

    fn lock_prepared(&self) -> std::sync::MutexGuard<'_, Option<Prepared>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interpreter that is there already, or on its way.
    pub(crate) async fn take_prepared(&self) -> Option<Result<Unborn, ContextError>> {
        let task = self.lock_prepared().take()?;
        Some(task.await.unwrap_or_else(|_| Err(ContextError::Stillborn("it was dropped".into()))))
    }

    /// Waits for the interpreter that is on its way, and warms it up. Answers
    /// its pid.
    pub(crate) async fn prepare(&self, rehearse: bool) -> Result<u32, ContextError> {
        let unborn = match self.take_prepared().await {
            Some(unborn) => unborn?,
            None => return Err(ContextError::Stillborn("none was forked".into())),
        };
        if rehearse {
            unborn.rehearse().await;
        }
        let pid = unborn.facts.pid.unwrap_or(0);
        *self.lock_prepared() = Some(tokio::spawn(std::future::ready(Ok(unborn))));
        Ok(pid)
    }

    /// Makes a sandbox that waited what `spec` asks for.
    pub(crate) async fn claimed(mut self, spec: &Spec) -> Result<Self, NodeError> {
        if self.limits != spec.limits || self.spec.profile != spec.profile {
            let machine = Arc::get_mut(&mut self.machine);
            let held = || NodeError::Limits(io::ErrorKind::ResourceBusy.into());
            let machine = machine.ok_or_else(held)?;
            machine.relimit(&self.limits, spec).map_err(NodeError::Limits)?;
            let profile = profile(machine.confinement());
            let told = self.link.send(0, &ToGuest::Configure(profile), &[]).await;
            told.map_err(NodeError::Link)?;
            self.limits = spec.limits.clone();
            self.spec.profile = spec.profile;
        }
        Ok(self)
    }

    pub fn id(&self) -> &SandboxId {
        self.machine.id()
    }

    /// The pid of the guest, as the host sees it.
    pub fn pid(&self) -> u32 {
        self.machine.pid()
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns true if commands and file operations of root have the capabilities of the profile
    /// `full`.
    pub fn root_has_capabilities(&self) -> bool {
        self.machine.confinement().root_capabilities != 0
    }

    /// The home directory of `user`.
    pub fn home(&self, user: User) -> String {
        match user {
            User::Root => user.home().to_owned(),
            User::User => self.machine.confinement().home.to_string_lossy().into_owned(),
        }
    }

    /// Starts a call; it runs under its limits whether or not anyone listens.
    pub async fn start(&self, command: &Command) -> Result<Call, CallError> {
        let (number, group) = self.next_call(&command.tag)?;
        let entry = group.as_ref().map(|group| group.open()).transpose();
        let entry = entry.map_err(CallError::Group)?;
        let home = self.home(command.user);
        let temporary = self.machine.confinement().temporary.as_os_str().as_bytes();
        let temporary = String::from_utf8_lossy(temporary).into_owned();
        let besides = self.ledger.variables(number).await;
        let spawn = Spawn {
            argv: command.argv.clone(),
            env: command.environment(&home, &temporary, &besides),
            cwd: command.cwd.clone().unwrap_or_else(|| home.into_bytes()),
            user: command.user.id(),
            stdin: match command.input {
                Input::Empty => Stdin::Empty,
                Input::Stream => Stdin::Stream,
            },
            pty: command.pty,
            descriptors: entry
                .as_ref()
                .map_or(0, |entry| u8::try_from(entry.descriptors.len()).unwrap_or(u8::MAX)),
            into_cgroup: entry.as_ref().is_some_and(|entry| entry.into_cgroup),
        };
        let mut channel = self.link.open();
        let descriptors: Vec<_> =
            entry.iter().flat_map(|entry| entry.descriptors.iter().map(AsFd::as_fd)).collect();
        let request = ToGuest::Request(Request::Spawn(spawn));
        let before = Before::now(&self.machine);
        let started = match channel.send(&request, &descriptors).await {
            Ok(()) => channel.reply().await,
            Err(error) => Err(error),
        };
        let started = match started {
            Ok(Ok(Reply::Started { pid })) => Ok(pid),
            Ok(Ok(_)) => Err(CallError::Link(LinkError::Gone)),
            Ok(Err(failure)) => Err(CallError::from(failure)),
            Err(LinkError::TooLarge) => Err(CallError::Refused {
                doing: "start a command with arguments of this size".into(),
                source: io::Error::from_raw_os_error(E2BIG),
            }),
            Err(error) => Err(CallError::Link(error)),
        };
        let pid = match started {
            Ok(pid) => pid,
            Err(error) => {
                self.ledger.end(number);
                if let Some(group) = group {
                    // The child that could not exec may still be leaving.
                    tokio::spawn(supervisor::remove_group(group));
                }
                return Err(error);
            }
        };
        let (events, receiver) = mpsc::channel(8);
        let (orders, inbox) = mpsc::unbounded_channel();
        let given = Arc::new(Waiting::default());
        let link = self.link.clone();
        let call = Call::new((number, pid), channel.number, link, receiver, orders, given.clone());
        let limits = &self.limits;
        let terms = Terms {
            limits: Limits {
                wall: command.wall.unwrap_or(limits.wall),
                cpu: [command.cpu, limits.cpu].into_iter().flatten().min(),
                output_bytes: command.output_bytes.unwrap_or(limits.output_bytes),
                ..limits.clone()
            },
            leftovers: command.leftovers,
            weakened: self.weakened.clone(),
            ledger: self.ledger.clone(),
            number,
        };
        let machine = self.machine.clone();
        let mut supervisor = Supervisor::new(channel, machine, group, terms, before, given);
        let busy = self.busy.clone();
        tokio::spawn(async move {
            busy.fetch_add(1, Ordering::Relaxed);
            supervisor.run(events, inbox).await;
            busy.fetch_sub(1, Ordering::Relaxed);
            supervisor.throw_away().await;
        });
        Ok(call)
    }

    /// The number and the group of the next call.
    fn next_call(&self, tag: &Tag) -> Result<Slot, CallError> {
        let number = self.ledger.next();
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        let group = match ahead {
            Some(ahead) if number == FIRST_CALL => Some(ahead),
            _ => self.machine.open_call(number).map_err(CallError::Group)?,
        };
        self.ledger.begin(number, tag, group.as_ref());
        Ok((number, group))
    }

    /// Runs a command to its end and keeps its output.
    pub async fn execute(&self, command: &Command) -> Result<Finished, CallError> {
        let mut call = self.start(command).await?;
        let (mut stdout, mut stderr) = (Capture::new(KEPT), Capture::new(KEPT));
        loop {
            match call.next().await {
                Event::Stdout(bytes) => stdout.push(&bytes),
                Event::Stderr(bytes) => stderr.push(&bytes),
                Event::End(end) => {
                    return Ok(Finished { end, stdout: stdout.finish(), stderr: stderr.finish() });
                }
            }
        }
    }

    /// Makes a context. With a warm interpreter of the template at hand it is
    /// forked from that; otherwise the interpreter is executed.
    pub async fn context(&self, options: ContextOptions) -> Result<Context, ContextError> {
        let (facts, orders) = self.interpreter(&options).await?;
        Ok(self.know(options, facts, orders))
    }

    pub(crate) fn know(&self, options: ContextOptions, facts: Facts, orders: Orders) -> Context {
        let mut contexts = self.contexts_now();
        contexts.next += 1;
        let context = Context::new(contexts.next, options, (facts, orders), &self.ledger);
        contexts.known.push(context.clone());
        context
    }

    /// Makes a Python context that is to be copied often.
    pub(crate) async fn warm_context(
        &self,
        options: ContextOptions,
        code: &str,
    ) -> Result<Context, ContextError> {
        let place = self.place();
        let slot = self.next_slot()?;
        let unborn = Unborn::execute(&place, &options, slot, Some(code)).await?;
        let (facts, orders) = unborn.wake(&place, &options, None).await?;
        Ok(self.know(options, facts, orders))
    }

    /// Takes in a context that came back with its id.
    pub(crate) fn know_again(&self, context: Context) {
        let mut contexts = self.contexts_now();
        contexts.next = contexts.next.max(context.id());
        contexts.known.push(context);
    }

    /// Has an interpreter at hand for the first context that asks for one like it.
    pub(crate) fn have_ready(&mut self, interpreter: PathBuf, unborn: Unborn) {
        self.warm = Some(interpreter);
        *self.lock_prepared() = Some(tokio::spawn(std::future::ready(Ok(unborn))));
    }

    /// Who makes sandboxes of its kind.
    pub(crate) fn maker(&self) -> Result<Maker, ContextError> {
        self.maker.clone().ok_or_else(|| ContextError::Copy("its node has stopped".into()))
    }

    async fn interpreter(&self, options: &ContextOptions) -> Result<(Facts, Orders), ContextError> {
        let place = self.place();
        if options.language == Language::Python
            && self.warm.as_ref() == Some(&options.interpreter)
            && let Some(Ok(ready)) = self.take_prepared().await
        {
            return ready.wake(&place, options, None).await;
        }
        let unborn = match self.machine.zygote().filter(|_| self.forks(options)) {
            Some(zygote) => match self.take_prepared().await {
                Some(Ok(prepared)) => prepared,
                Some(Err(_)) | None => self.fork(zygote, &place, options).await?,
            },
            None => Unborn::execute(&place, options, self.next_slot()?, None).await?,
        };
        unborn.wake(&place, options, None).await
    }

    async fn fork(
        &self,
        zygote: &Arc<Zygote>,
        place: &Place<'_>,
        options: &ContextOptions,
    ) -> Result<Unborn, ContextError> {
        let forked = Unborn::fork(&self.link, &self.machine, zygote, self.next_slot()?).await;
        let Err(ContextError::Fork(_)) = &forked else { return forked };
        if let Some(family) = &self.family {
            family.failed(zygote);
        }
        // Slower, and as well confined.
        Unborn::execute(place, options, self.next_slot()?, None).await
    }

    pub(crate) fn next_slot(&self) -> Result<Slot, ContextError> {
        self.next_call(&Tag::default()).map_err(ContextError::Call)
    }

    /// Whether a context like this comes from the zygote.
    fn forks(&self, options: &ContextOptions) -> bool {
        let warm = self.family.as_ref().map(|family| &family.warmth.interpreter);
        options.language == Language::Python && warm == Some(&options.interpreter)
    }

    pub(crate) fn place(&self) -> Place<'_> {
        let temporary = self.machine.confinement().temporary.to_string_lossy().into_owned();
        Place {
            link: &self.link,
            machine: &self.machine,
            limits: &self.limits,
            home: self.home(User::User),
            temporary,
            busy: &self.busy,
            ledger: &self.ledger,
        }
    }

    fn contexts_now(&self) -> std::sync::MutexGuard<'_, Contexts> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn contexts(&self) -> Vec<Context> {
        self.contexts_now().known.clone()
    }

    pub fn find_context(&self, id: u32) -> Result<Context, ContextError> {
        let contexts = self.contexts_now();
        let found = contexts.known.iter().find(|context| context.id() == id).cloned();
        found.ok_or(ContextError::Unknown(id))
    }

    /// Gives a context a new interpreter; what cells left in the old is gone.
    pub async fn restart_context(&self, id: u32) -> Result<Context, ContextError> {
        let context = self.find_context(id)?;
        context.end().await;
        let (facts, orders) = self.interpreter(context.options()).await?;
        context.replace(orders, facts);
        Ok(context)
    }

    pub async fn delete_context(&self, id: u32) -> Result<(), ContextError> {
        let context = self.find_context(id)?;
        context.end().await;
        self.contexts_now().known.retain(|known| known.id() != id);
        Ok(())
    }

    /// Resolves when the sandbox does not answer any more, whoever ended it: its
    /// guest has died, or said what no guest of ours says. The future does not
    /// borrow the sandbox, and does not keep it.
    pub fn gone(&self) -> impl Future<Output = LinkError> + Send + use<> {
        self.link.broken()
    }

    /// Whether [`Self::gone`] would answer at once.
    pub fn is_gone(&self) -> bool {
        self.link.is_broken()
    }

    /// What the sandbox uses now. A few small files of the kernel are read: cheap,
    /// but not free of waiting. What only the guest can see is as it told last.
    pub fn usage(&self) -> SandboxUsage {
        let mut usage = self.machine.usage(&self.limits);
        if let Some(disk) = self.link.disk() {
            usage.disk_used_bytes.get_or_insert(disk.used_bytes);
            usage.disk_total_bytes.get_or_insert(disk.total_bytes);
        }
        usage
    }

    /// Whether the kernel ended the guest because memory ran out.
    pub fn ran_out_of_memory(&self) -> bool {
        self.machine.ran_out_of_memory()
    }

    /// Stops every process of the sandbox where it stands. Its tokens end here.
    pub async fn pause(&self) -> io::Result<()> {
        self.revoke_now();
        self.machine.pause().await
    }

    pub async fn resume(&self) -> io::Result<()> {
        self.machine.resume().await?;
        if let Some(attached) = &*self.network() {
            attached.gateway().catch_up(self.id());
        }
        Ok(())
    }

    /// As [`Self::destroy`], for one that others may still hold: whatever they
    /// ask of it from now on fails.
    pub async fn end(&self) -> Result<(), StartError> {
        self.kill();
        self.machine.destroy().await
    }

    /// Kills every process and cuts it off, without waiting. [`Self::end`] removes the rest.
    pub fn kill(&self) {
        self.disconnect();
        self.link.shut_down();
        self.machine.kill();
    }

    /// Ends the sandbox; nothing of it is left when this answers.
    pub async fn destroy(self) -> Result<(), StartError> {
        let machine = self.machine.clone();
        self.link.shut_down();
        drop(self);
        // Supervisors of calls that still run hold the machine; they let go as
        // soon as the kernel has ended their call.
        machine.kill();
        machine.destroy().await
    }
}

/// Whether the guest is what the plan makes of it. A guest that lies here only
/// gives itself away: what confines it does not depend on its word.
pub(crate) fn is_confined(
    hello: &Hello,
    tier: Tier,
    weakened: &Weakened,
    privileged: bool,
) -> bool {
    let uid = match (tier, privileged) {
        (Tier::Process, _) => hello.uid != 0,
        // The only user of its own kernel who may set clocks and mix randomness.
        (Tier::Microvm, _) => hello.uid == 0,
        (_, true) if weakened.keeps(Defence::UidSplit) => hello.uid == 999,
        _ => hello.uid == 1000,
    };
    let pid = tier == Tier::Process || hello.pid == 1;
    // Where the kernel is not the host's, that kernel is the wall.
    let filtered = hello.seccomp || !tier.shares_kernel() || !weakened.keeps(Defence::Seccomp);
    let no_new_privs = hello.no_new_privs || !weakened.keeps(Defence::NoNewPrivs);
    uid && pid && filtered && no_new_privs
}

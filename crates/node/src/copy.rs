//! Copies of live sandboxes: memory of interpreters and files, as of one moment.
//!
//! A [`Checkpoint`] holds such a moment; any number of sandboxes can be forked
//! from it, then or later, while the original goes on. A copy has its own
//! identity, limits and randomness. What does not survive is refused and named:
//! threads, descriptors other than the interpreter's own, shared memory
//! mappings, interpreters that were executed. Other processes of the sandbox,
//! alarms and timers are simply not there in a copy.
//!
//! A checkpoint without interpreters is the files alone. Any jail sandbox has
//! those, and they can be kept on a disk.

mod saved;

pub use saved::SaveError;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::{Disk, Limits, SecurityProfile, Spec, Tier};
use belljar_engine::{Files, Then, Zygote};
use belljar_transplant::{Image, Process, Reference, Refusal, capture, implant};

use crate::context::{Context, ContextError, ContextOptions, Origin, REST_TIMEOUT, Unborn};
use crate::node::{Maker, Node, NodeError};
use crate::runtime::Language;
use crate::sandbox::Sandbox;
use crate::warm::Family;
use crate::whole::Whole;

/// A moment of a sandbox, from which others can be forked.
#[derive(Debug)]
pub struct Checkpoint {
    spec: Spec,
    taken: Taken,
}

/// What a checkpoint holds.
#[derive(Debug)]
enum Taken {
    /// Files, and what interpreters held, each taken by itself.
    Parts { files: Files, memory: Option<Memory> },
    /// Everything, as the tier's own kernel had it; on disk.
    Whole(Arc<Whole>),
}

/// What the interpreters of a sandbox held.
#[derive(Debug)]
struct Memory {
    family: Arc<Family>,
    zygote: Arc<Zygote>,
    still: Arc<Still>,
    contexts: Vec<Moment>,
}

/// What one interpreter held.
#[derive(Debug)]
struct Moment {
    options: ContextOptions,
    version: String,
    note: Option<String>,
    /// Where it was, if that place still had a name.
    cwd: Option<String>,
    image: Arc<Image>,
}

/// An interpreter of a zygote that never runs: all others are told as a
/// difference to it.
#[derive(Debug)]
pub(crate) struct Still {
    reference: Reference,
    /// Of which it is the only process.
    _sandbox: Sandbox,
}

/// How long an interpreter may take to come to rest.
const REST: Duration = Duration::from_millis(500);

impl Checkpoint {
    /// What sandboxes forked from it are, unless their limits are said.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether it holds no interpreter.
    pub fn is_files_only(&self) -> bool {
        matches!(self.taken, Taken::Parts { memory: None, .. })
    }

    /// Whether it can be kept on a disk.
    pub fn can_be_saved(&self) -> bool {
        !matches!(self.taken, Taken::Parts { memory: Some(_), .. })
    }

    fn images(&self) -> impl Iterator<Item = &Arc<Image>> {
        let memory = match &self.taken {
            Taken::Parts { memory, .. } => memory.as_ref(),
            Taken::Whole(_) => None,
        };
        let moments = memory.into_iter().flat_map(|memory| &memory.contexts);
        moments.map(|moment| &moment.image)
    }

    /// What it takes besides the images of interpreters.
    fn beside(&self) -> u64 {
        match &self.taken {
            Taken::Parts { files, .. } => files.size(),
            Taken::Whole(whole) => whole.bytes(),
        }
    }

    /// Bytes that it keeps in memory or on disk, shared pages not counted.
    pub fn held_bytes(&self) -> u64 {
        self.images().map(|image| image.held_bytes()).sum::<u64>() + self.beside()
    }

    /// Bytes that had to be copied for it.
    pub fn taken_bytes(&self) -> u64 {
        self.images().map(|image| image.taken_bytes()).sum::<u64>() + self.beside()
    }
}

impl Still {
    async fn start(
        maker: &Maker,
        family: &Arc<Family>,
        zygote: &Arc<Zygote>,
    ) -> Result<Self, ContextError> {
        let limits = Limits::default();
        let spec = Spec { limits, ..Spec::new(Tier::Jail, family.warmth.root.clone()) };
        let made = maker.make_for(&spec, family, zygote.clone(), None).await;
        let mut sandbox = made.map_err(|error| ContextError::Copy(error.to_string()))?;
        let pid = sandbox.prepare(false).await?;
        // It belongs to the family; holding it as well would keep both for good.
        sandbox.family = None;
        sandbox.maker = None;
        let process = process(pid)?;
        let reference = at_rest(move || Reference::open(&process)).await?;
        Ok(Self { reference, _sandbox: sandbox })
    }
}

/// The still interpreters of a family, one for each zygote that needs it.
#[derive(Debug, Default)]
pub(crate) struct Stills {
    known: Mutex<Vec<(Arc<Zygote>, Arc<Still>)>>,
    /// One is made at a time.
    making: tokio::sync::Mutex<()>,
}

impl Stills {
    pub(crate) async fn of(
        &self,
        maker: &Maker,
        family: &Arc<Family>,
        zygote: &Arc<Zygote>,
    ) -> Result<Arc<Still>, ContextError> {
        let _one = self.making.lock().await;
        if let Some(still) = self.find(zygote) {
            return Ok(still);
        }
        let still = Arc::new(Still::start(maker, family, zygote).await?);
        self.lock().push((zygote.clone(), still.clone()));
        Ok(still)
    }

    /// Lets go of those whose zygote nobody forks from any more, and of that
    /// zygote with them.
    pub(crate) fn tidy(&self) {
        let mut known = self.lock();
        // Held by nobody but this list and its own sandbox: its time is over.
        let over = known.extract_if(.., |(zygote, _)| Arc::strong_count(zygote) <= 2);
        let over: Vec<_> = over.collect();
        drop(known);
        drop(over);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Arc<Zygote>, Arc<Still>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, zygote: &Arc<Zygote>) -> Option<Arc<Still>> {
        self.tidy();
        let known = self.lock();
        let found = known.iter().find(|(known, _)| Arc::ptr_eq(known, zygote));
        found.map(|(_, still)| still.clone())
    }
}

impl Sandbox {
    /// Takes the state of every context and every file, as they are between two
    /// cells. The sandbox stands still meanwhile, and goes on after. Without
    /// contexts that is the files alone; one that was executed is refused.
    pub async fn checkpoint(&self) -> Result<Checkpoint, ContextError> {
        self.checkpoint_within(std::future::ready(u64::MAX)).await
    }

    /// As [`Self::checkpoint`], within as many bytes of the host's memory as `room` answers; it is
    /// asked when no cell runs any more. Zero refuses. What a tier puts on disk is bounded by the
    /// sandbox's limits alone.
    pub async fn checkpoint_within(
        &self,
        room: impl Future<Output = u64> + Send,
    ) -> Result<Checkpoint, ContextError> {
        if self.spec.tier.can_be_saved() {
            if room.await == 0 {
                return Err(ContextError::TooLarge { most: 0 });
            }
            return self.checkpoint_whole().await;
        }
        let contexts = self.contexts();
        if let Some(executed) = contexts.iter().find(|context| !is_forked(context)) {
            return Err(cannot_fork(executed, self.family.is_some()));
        }
        let (Some(family), Some(zygote)) = (&self.family, self.machine.zygote()) else {
            return self.checkpoint_files_within(room).await;
        };
        if contexts.is_empty() {
            return self.checkpoint_files_within(room).await;
        }
        let still = family.stills.of(&self.maker()?, family, zygote).await?;
        let deadline = tokio::time::Instant::now() + REST_TIMEOUT;
        let mut parked = Vec::new();
        for context in contexts {
            let (cwd, release) = park(&context, deadline).await?;
            parked.push((context, cwd, release));
        }
        let mut left = room.await;
        let mut moments = Vec::new();
        for (context, cwd, _) in &mut parked {
            let most = self.limits().memory_bytes.min(left);
            let moment = take(context, cwd.take(), &still, most).await?;
            left = left.saturating_sub(moment.image.held_bytes());
            moments.push(moment);
        }
        let files = self.take_files(left).await?;
        drop(parked);
        let (family, zygote) = (family.clone(), zygote.clone());
        let memory = Some(Memory { family, zygote, still, contexts: moments });
        Ok(Checkpoint { spec: self.now(), taken: Taken::Parts { files, memory } })
    }

    /// Has the tier put everything on disk, below the engine's own directory.
    async fn checkpoint_whole(&self) -> Result<Checkpoint, ContextError> {
        let whole = Node::save_beside(self.maker()?.engine(), self, Then::GoesOn).await?;
        Ok(Checkpoint { spec: self.now(), taken: Taken::Whole(whole) })
    }

    /// Takes every file and no interpreter, whatever runs. Processes stand still
    /// meanwhile.
    pub async fn checkpoint_files(&self) -> Result<Checkpoint, ContextError> {
        self.checkpoint_files_within(std::future::ready(u64::MAX)).await
    }

    /// As [`Self::checkpoint_files`], within a bound as [`Self::checkpoint_within`].
    pub async fn checkpoint_files_within(
        &self,
        room: impl Future<Output = u64> + Send,
    ) -> Result<Checkpoint, ContextError> {
        let files = self.take_files(room.await).await?;
        Ok(Checkpoint { spec: self.now(), taken: Taken::Parts { files, memory: None } })
    }

    async fn take_files(&self, most: u64) -> Result<Files, ContextError> {
        let refuse = |why: String| ContextError::Copy(why);
        if !begins_with_files(&self.spec) {
            let why = match self.spec.tier {
                Tier::Microvm => "its files are on a disk that only its own kernel can read",
                _ => "its files are in a directory of the host",
            };
            return Err(refuse(why.into()));
        }
        let most = self.limits().disk_bytes.min(most);
        let files = self.machine.files(most).await;
        files.map_err(|error| match error.kind() {
            std::io::ErrorKind::FileTooLarge => ContextError::TooLarge { most },
            _ => refuse(format!("its files: {error}")),
        })
    }
}

/// Whether a sandbox like this can begin with the files of another.
fn begins_with_files(spec: &Spec) -> bool {
    matches!(spec.tier, Tier::Jail | Tier::Oci(_)) && spec.disk == Disk::Memory
}

fn is_forked(context: &Context) -> bool {
    let facts = context.facts();
    matches!(facts.origin, Origin::Forked | Origin::Copied) && facts.pid.is_some()
}

/// Refuses to copy an interpreter that was started cold, and says what to do. `is_warm`: the
/// sandbox was made from a warm template.
fn cannot_fork(context: &Context, is_warm: bool) -> ContextError {
    let (id, language) = (context.id(), context.options().language);
    let name = language.as_str();
    ContextError::Copy(match (language, is_warm) {
        (Language::Python, true) => {
            format!("context {id} ({name}) was started cold; restart it, then copy the sandbox")
        }
        (Language::Python, false) => format!(
            "context {id} ({name}) was started cold, because the template of this sandbox was \
             not warm; make the sandbox again from a warm template once /v1/ready answers 200, \
             or delete the context to copy files alone"
        ),
        _ => format!(
            "context {id} ({name}) cannot be copied: only Python contexts can; delete it first"
        ),
    })
}

/// Its cell did not end in time.
pub(crate) fn still_runs(context: &Context) -> ContextError {
    ContextError::Copy(format!("context {} is still running a cell", context.id()))
}

/// Dropped when the context may go on.
type Release = tokio::sync::oneshot::Sender<()>;

/// Waits until a context can be taken, and answers where it is.
async fn park(
    context: &Context,
    deadline: tokio::time::Instant,
) -> Result<(Option<String>, Release), ContextError> {
    let parked = tokio::time::timeout_at(deadline, context.park()).await;
    let (parked, release) = parked.map_err(|_| still_runs(context))??;
    if !parked.threads.is_empty() {
        let names = parked.threads.join(", ");
        return Err(ContextError::Copy(format!("threads cannot be copied; end {names} first")));
    }
    if let Some(open) = parked.descriptors.first() {
        let (fd, target) = (open.fd, &open.target);
        let why = format!("open files cannot be copied; descriptor {fd} is {target}; close it");
        return Err(ContextError::Copy(why));
    }
    Ok((parked.cwd, release))
}

/// Takes a context that is parked.
async fn take(
    context: &Context,
    cwd: Option<String>,
    still: &Arc<Still>,
    most: u64,
) -> Result<Moment, ContextError> {
    let facts = context.facts();
    let (Origin::Forked | Origin::Copied, Some(pid)) = (facts.origin, facts.pid) else {
        return Err(cannot_fork(context, true));
    };
    // Each image keeps what those before it hold; now and then all is taken anew.
    let previous = context.image().filter(|image| image.held_bytes() < most);
    let limits = belljar_transplant::Limits { bytes: most, ..Default::default() };
    let still = still.clone();
    let process = process(pid)?;
    let image = at_rest(move || capture(&process, &still.reference, previous.as_deref(), &limits));
    let image = Arc::new(image.await?);
    context.set_image(image.clone());
    let options = context.options().clone();
    let note = context.note();
    Ok(Moment { options, version: facts.version, note, cwd, image })
}

impl Node {
    /// Makes a sandbox that is what another was at the checkpoint.
    pub async fn fork(&self, checkpoint: &Checkpoint) -> Result<Sandbox, NodeError> {
        self.fork_as(checkpoint, checkpoint.spec.clone()).await
    }

    /// As [`Node::fork`], with the rights of root that this profile gives, or with those of the
    /// original if they are fewer.
    pub async fn fork_confined(
        &self,
        checkpoint: &Checkpoint,
        profile: SecurityProfile,
    ) -> Result<Sandbox, NodeError> {
        let profile = profile.min(checkpoint.spec.profile);
        self.fork_as(checkpoint, Spec { profile, ..checkpoint.spec.clone() }).await
    }

    /// As [`Node::fork`], with limits of its own. Files that the disk is too small
    /// for are an error.
    pub async fn fork_with(
        &self,
        checkpoint: &Checkpoint,
        limits: &Limits,
    ) -> Result<Sandbox, NodeError> {
        let spec = Spec { limits: limits.clone(), ..checkpoint.spec.clone() };
        self.fork_as(checkpoint, spec).await
    }

    async fn fork_as(&self, checkpoint: &Checkpoint, spec: Spec) -> Result<Sandbox, NodeError> {
        let (files, memory) = match &checkpoint.taken {
            Taken::Whole(whole) => return self.resume_whole(whole, &spec).await,
            Taken::Parts { files, memory: None } => return self.create_from(&spec, files).await,
            Taken::Parts { files, memory: Some(memory) } => (files, memory),
        };
        let Memory { family, zygote, still, contexts } = memory;
        let made = self.maker().make_for(&spec, family, zygote.clone(), Some(files)).await;
        let sandbox = made?;
        for moment in contexts {
            sandbox.adopt(moment, still).await.map_err(NodeError::Context)?;
        }
        Ok(sandbox)
    }
}

impl Sandbox {
    /// Makes a context of the sandbox a copy of what another was.
    async fn adopt(&self, moment: &Moment, still: &Arc<Still>) -> Result<(), ContextError> {
        let zygote = self.machine.zygote().ok_or(ContextError::Unknown(0))?;
        let mut unborn = match self.take_prepared().await {
            Some(unborn) => unborn?,
            None => {
                let slot = self.next_slot()?;
                Unborn::fork(&self.link, &self.machine, zygote, slot).await?
            }
        };
        let Some(pid) = unborn.facts.pid else { return Err(ContextError::Unknown(0)) };
        let (process, image, still) = (process(pid)?, moment.image.clone(), still.clone());
        at_rest(move || implant(&image, &process, &still.reference)).await?;
        unborn.facts.origin = Origin::Copied;
        unborn.facts.version.clone_from(&moment.version);
        let (facts, orders) =
            unborn.wake(&self.place(), &moment.options, moment.cwd.as_deref()).await?;
        let context = self.know(moment.options.clone(), facts, orders);
        context.set_image(moment.image.clone());
        context.set_note(moment.note.clone());
        Ok(())
    }
}

fn process(pid: u32) -> Result<Process, ContextError> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| ContextError::Copy("it has no pid".into()))?;
    Process::open(pid).map_err(refused)
}

/// Tries on a thread of its own, as whoever commands a process must, until the
/// interpreter has come to rest.
async fn at_rest<T: Send + 'static>(
    attempt: impl Fn() -> Result<T, Refusal> + Send + Sync + 'static,
) -> Result<T, ContextError> {
    let attempt = Arc::new(attempt);
    let start = Instant::now();
    loop {
        let once = attempt.clone();
        let tried = tokio::task::spawn_blocking(move || once()).await;
        match tried.map_err(|error| ContextError::Copy(error.to_string()))? {
            Err(Refusal::Busy) if start.elapsed() < REST => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            other => return other.map_err(refused),
        }
    }
}

fn refused(refusal: Refusal) -> ContextError {
    if let Refusal::TooLarge { limit } = refusal {
        return ContextError::TooLarge { most: limit };
    }
    let mut text = refusal.to_string();
    let mut cause = std::error::Error::source(&refusal);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    ContextError::Copy(text)
}

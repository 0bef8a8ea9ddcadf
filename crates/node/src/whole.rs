//! Whole sandboxes on disk: files, processes and memory, as of one moment.
//!
//! ```text
//! <dir>/record.json   what the host knew: contexts and their channels
//! <dir>/machine/      what the tier wrote
//! ```
//!
//! Only tiers with a kernel of their own can do this. The guest holds still while
//! it is saved. The first word to one that comes back brings randomness, the
//! time and the list of what somebody still listens to; nothing of the code runs
//! before that word where the tier can keep it from running. Any number can come
//! back from one directory: that is a fork.

mod record;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_domain::Spec;
use belljar_engine::{Engine, Machine, Then};
use belljar_guest_proto::{Awaken, Reply, Request};
use tokio::sync::oneshot;

use crate::command::Tag;
use crate::context::{Context, ContextError, REST_TIMEOUT, Unborn};
use crate::copy::{SaveError, still_runs};
use crate::link::{Link, LinkError};
use crate::node::{Node, NodeError};
use crate::profile::profile;
use crate::sandbox::Sandbox;

pub(crate) use record::{Kept, Record};

const MACHINE: &str = "machine";

/// A saved sandbox that is removed when nobody needs it any more.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) dir: PathBuf,
    pub(crate) record: Record,
    /// Whether the directory goes with this.
    owned: bool,
}

impl Whole {
    pub(crate) fn open(dir: &Path) -> Result<Self, SaveError> {
        Ok(Self { dir: dir.to_owned(), record: Record::read(dir)?, owned: false })
    }

    /// Bytes on disk, holes not counted.
    pub(crate) fn bytes(&self) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        let files = std::fs::read_dir(self.dir.join(MACHINE)).into_iter().flatten();
        files.filter_map(|file| Some(file.ok()?.metadata().ok()?.blocks() * 512)).sum()
    }

    /// Puts the same at another place, complete or not at all. Answers how many
    /// bytes that are.
    pub(crate) fn copy_to(&self, to: &Path) -> std::io::Result<u64> {
        let copied = copy_files(&self.dir, to).and_then(|()| self.record.write(to));
        if copied.is_err() {
            let _ = std::fs::remove_dir_all(to);
        }
        copied.map(|()| self.bytes())
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if self.owned {
            // What cannot be removed now goes with the engine's other leftovers.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// Nobody writes to what was saved, so where it can be, it is shared.
fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    make_private(to)?;
    let (from, to) = (from.join(MACHINE), to.join(MACHINE));
    make_private(&to)?;
    for entry in std::fs::read_dir(&from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if std::fs::hard_link(entry.path(), &target).is_err() {
            std::fs::copy(entry.path(), &target)?;
            std::fs::File::open(&target)?.sync_all()?;
        }
    }
    std::fs::File::open(&to)?.sync_all()
}

fn make_private(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().mode(0o700).create(dir)
}

fn cannot_save(error: std::io::Error) -> ContextError {
    ContextError::Copy(format!("cannot save: {error}"))
}

/// A directory that is removed unless all of it was written.
struct Unfinished<'a>(&'a Path);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

/// A context that starts no cell until this is dropped.
type Held = (Context, u32, oneshot::Sender<()>);

impl Sandbox {
    /// Puts the whole sandbox into the new directory `dir` and ends it. Cells that
    /// run are waited for; processes that run are saved as they are, and run on
    /// after [`Node::resume_from`], without anyone who hears them.
    pub async fn suspend(&self, dir: &Path) -> Result<(), ContextError> {
        self.save_whole(dir, Then::Ends).await?;
        // It is on disk: whatever is wrong with its end is no reason to lose it.
        let _ = self.end().await;
        Ok(())
    }

    /// As [`Self::suspend`], and the sandbox goes on.
    pub(crate) async fn save_whole(&self, dir: &Path, then: Then) -> Result<Record, ContextError> {
        let tier = self.spec.tier;
        if !tier.can_be_saved() {
            let why = format!("the tier {tier} cannot save memory to disk");
            return Err(ContextError::Copy(why));
        }
        let held = self.hold_contexts().await?;
        if then == Then::Ends {
            // What was saved must not hold a token that still works.
            self.revoke_now();
        }
        // What is there already is somebody else's.
        make_private(dir).map_err(cannot_save)?;
        let unfinished = Unfinished(dir);
        let saved = self.save_held(dir, then, &held).await;
        if then == Then::GoesOn || saved.is_err() {
            // One that does not wake up is gone, as whoever asks next finds out.
            let _ = awaken(&self.link, &self.machine, None).await;
        }
        if saved.is_ok() {
            std::mem::forget(unfinished);
        }
        saved
    }

    async fn hold_contexts(&self) -> Result<Vec<Held>, ContextError> {
        let mut held = Vec::new();
        let deadline = tokio::time::Instant::now() + REST_TIMEOUT;
        for context in self.contexts() {
            match tokio::time::timeout_at(deadline, context.hold()).await {
                Ok(Ok((channel, release))) => held.push((context, channel, release)),
                // One that is over has nothing to be kept.
                Ok(Err(_)) => {}
                Err(_) => return Err(still_runs(&context)),
            }
        }
        Ok(held)
    }

    async fn save_held(
        &self,
        dir: &Path,
        then: Then,
        held: &[Held],
    ) -> Result<Record, ContextError> {
        let machine = dir.join(MACHINE);
        make_private(&machine).map_err(cannot_save)?;
        match self.link.ask(Request::Suspend).await.map_err(ContextError::Link)? {
            Ok(Reply::Done) => {}
            Ok(_) => return Err(ContextError::Link(LinkError::Gone)),
            Err(failure) => return Err(ContextError::Call(failure.into())),
        }
        let kept = held.iter().map(|(context, channel, _)| Kept::new(context, *channel)).collect();
        let record = Record::new(&self.now(), &self.link, kept);
        self.machine.save(&machine, then).await.map_err(cannot_save)?;
        record.write(dir).map_err(cannot_save)?;
        Ok(record)
    }

    /// What it is, with the limits that are in force.
    pub(crate) fn now(&self) -> Spec {
        Spec { limits: self.limits().clone(), ..self.spec.clone() }
    }
}

/// Brings a guest that holds still back to life. After a restore, `keep` are the
/// channels that somebody listens to.
async fn awaken(
    link: &Link,
    machine: &Machine,
    keep: Option<Vec<u32>>,
) -> Result<belljar_guest_proto::Hello, LinkError> {
    let entropy: [u8; 64] = crate::random::bytes().map_err(|_| LinkError::Gone)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let word = Awaken {
        entropy: entropy.to_vec(),
        seconds: i64::try_from(now.as_secs()).unwrap_or(0),
        nanos: now.subsec_nanos(),
        keep,
        profile: profile(machine.confinement()),
    };
    match link.ask(Request::Awaken(word)).await? {
        Ok(Reply::Awake(hello)) => Ok(hello),
        _ => Err(LinkError::Gone),
    }
}

/// A sandbox that came back, and the interpreters in it.
pub(crate) struct Revived {
    pub(crate) sandbox: Sandbox,
    pub(crate) interpreters: Vec<(Kept, Unborn)>,
}

impl Sandbox {
    pub(crate) async fn revive(
        mut machine: Machine,
        spec: &Spec,
        record: &Record,
        privileged: bool,
    ) -> Result<Revived, LinkError> {
        let stream = machine.take_stream().ok_or(LinkError::Gone)?;
        let link = Link::resumed(stream, spec.tier, record.next_channel);
        // Before anything is said: what they say must find somebody.
        let channels = record.contexts.iter().map(|kept| link.reopen(kept.channel));
        let channels: Vec<_> = channels.collect();
        let keep = record.contexts.iter().map(|kept| kept.channel).collect();
        let hello = awaken(&link, &machine, Some(keep)).await?;
        if hello.generation != belljar_guest_proto::GENERATION {
            return Err(LinkError::Generation);
        }
        let weakened = belljar_engine::Weakened::default();
        if !crate::sandbox::is_confined(&hello, spec.tier, &weakened, privileged) {
            return Err(LinkError::NotConfined);
        }
        let sandbox = Self::assemble(link, machine, spec, &weakened, None);
        let interpreters = record.contexts.iter().cloned().zip(channels);
        let interpreters = interpreters.map(|(kept, channel)| {
            let number = sandbox.ledger.next();
            sandbox.ledger.begin(number, &Tag::default(), None);
            (kept.clone(), Unborn::resumed(channel, &kept, number))
        });
        let interpreters = interpreters.collect();
        Ok(Revived { sandbox, interpreters })
    }
}

impl Node {
    /// Brings back what [`Sandbox::suspend`] put into `dir`, here or in another
    /// process, and leaves `dir` as it is: it can come back again. `spec` is what
    /// the sandbox was; contexts have the ids that they had.
    pub async fn resume_from(&self, dir: &Path, spec: Spec) -> Result<Sandbox, NodeError> {
        let whole = Whole::open(dir).map_err(NodeError::Saved)?;
        self.resume_whole(&whole, &spec).await
    }

    pub(crate) async fn resume_whole(
        &self,
        whole: &Whole,
        spec: &Spec,
    ) -> Result<Sandbox, NodeError> {
        let Revived { sandbox, interpreters } = self.revive(whole, spec).await?;
        for (kept, interpreter) in interpreters {
            sandbox.resume_context(&kept, interpreter).await;
        }
        Ok(sandbox)
    }

    pub(crate) async fn revive(&self, whole: &Whole, spec: &Spec) -> Result<Revived, NodeError> {
        whole.record.fits(spec, &whole.dir).map_err(NodeError::Saved)?;
        let id = crate::node::new_id().map_err(NodeError::Id)?;
        let machine = self.engine().restore(id, spec, &whole.dir.join(MACHINE)).await;
        let machine = machine.map_err(NodeError::Start)?;
        let privileged = self.engine().facts().privileged;
        let revived = Sandbox::revive(machine, spec, &whole.record, privileged).await;
        let mut revived = revived.map_err(NodeError::Link)?;
        self.maker().settle(&mut revived.sandbox);
        Ok(revived)
    }

    /// Saves a sandbox into a new directory of the engine's own.
    pub(crate) async fn save_beside(
        engine: &Engine,
        sandbox: &Sandbox,
        then: Then,
    ) -> Result<Arc<Whole>, ContextError> {
        let random: [u8; 8] = crate::random::bytes().map_err(cannot_save)?;
        let dir = engine.place(&format!("saved-{:016x}", u64::from_le_bytes(random)));
        let record = sandbox.save_whole(&dir, then).await?;
        Ok(Arc::new(Whole { dir, record, owned: true }))
    }
}

impl Sandbox {
    /// An interpreter that came back, under the id that its context had.
    async fn resume_context(&self, kept: &Kept, interpreter: Unborn) {
        let options = kept.options();
        let born = interpreter.resume(&self.place(), &options).await;
        let context = Context::new(kept.id, options, born, &self.ledger);
        context.set_note(kept.note.clone());
        self.know_again(context);
    }
}

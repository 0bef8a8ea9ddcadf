//! The sandbox of a run: made once, with the data in it, and found again.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use belljar_api::bounds::{OutOfBounds, Pairs};
use belljar_api::call::User;
use belljar_api::checkpoint::{ForkCheckpoint, ListCheckpoints};
use belljar_api::network::Network;
use belljar_api::sandbox::{
    self, ChangeSandbox, CreateSandbox, ListSandboxes, NotServed, ShownDataset, TierName,
};
use belljar_client::{Backoff, Client, Command, Error, Key, Sandbox};
use belljar_domain::data::{FOLDER, MOST_FILES};
use belljar_domain::{ChosenLimits, Generation, SandboxId};
use belljar_journal::event::{Brought, Environment, NetworkAccess, Skill};
use belljar_journal::{Address, BlobRef};
use bytes::Bytes;
use futures_util::stream;
use tokio::io::AsyncReadExt as _;

use crate::data::{DataError, Depot, Item};
use crate::skill::{MAX_ARCHIVE_BYTES, SkillError, SkillFolder};

/// How long a sandbox lives when nobody works in it any more.
const LIFE: Duration = Duration::from_secs(1800);
/// Attempts to make a sandbox. When a node is lost, the runs of all of its sandboxes want another
/// one at the same moment, and each attempt waits for a place for a while.
const MAKE_ATTEMPTS: u32 = 10;
/// What is sent of a file at once.
const PIECE: usize = 256 << 10;

/// The file with the token for the run's operations, and the variable that names it.
pub(crate) const TOKEN_FILE: &str = "/tmp/.belljar/token";
const TOKEN_VARIABLE: &str = "BELLJAR_TOKEN_FILE";

/// Metadata of sandboxes: the run, and of a fork its number among the sandboxes of the run. A
/// request for a fork has no idempotency key, so a fork whose event was lost is found by these.
const RUN: &str = "run";
const NUMBER: &str = "run-sandbox";

/// The name of a run's checkpoints.
pub(crate) fn checkpoint_name(run: &Address) -> String {
    format!("run-{}", run.run)
}

/// Why there is no sandbox to work in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoomError {
    #[error("cannot make a sandbox of `{template}`")]
    Make { template: String, source: Error },
    #[error("cannot make a sandbox from the checkpoint")]
    Fork { source: Error },
    #[error("cannot put `{name}` into the sandbox")]
    Put { name: String, source: Error },
    #[error(transparent)]
    Data(#[from] DataError),
    #[error("the skill `{name}` cannot be used")]
    Skill { name: String, source: SkillError },
    #[error(transparent)]
    Tier(#[from] NotServed),
    #[error("the sandbox has no id that can be used")]
    Id,
}

/// A sandbox that was made.
#[derive(Debug, Clone)]
pub(crate) struct MadeRoom {
    pub(crate) id: SandboxId,
    pub(crate) data: Brought,
    /// The tier and the limits that it has.
    pub(crate) environment: Environment,
}

/// The choices of a run for its sandboxes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'r> {
    pub(crate) environment: &'r Environment,
    pub(crate) network: &'r NetworkAccess,
}

/// Makes sandboxes.
#[derive(Debug, Clone)]
pub(crate) struct Rooms {
    pub(crate) client: Client,
    pub(crate) depot: Arc<dyn Depot>,
    /// How their data comes into them, where that can be.
    pub(crate) bring: Brought,
}

impl Rooms {
    /// Makes the so-manieth sandbox of a run, with its data. Asked again within ten
    /// minutes, it is the same one.
    pub(crate) async fn make(
        &self,
        run: &Address,
        number: u32,
        template: &str,
        Surroundings { environment, network }: Surroundings<'_>,
        data: &[Item],
    ) -> Result<MadeRoom, RoomError> {
        let failed = |source| RoomError::Make { template: template.to_owned(), source };
        let template = template.to_owned().try_into();
        let template = template.map_err(|bounds| failed(Error::from(bounds)))?;
        let mut wish = CreateSandbox::of(template);
        wish.timeout_seconds = LIFE.as_secs().try_into().ok();
        wish.tier = environment.tier.map(TierName::try_from).transpose()?;
        let limits = sandbox::ChosenLimits::try_from(environment.limits);
        wish.limits = limits.map_err(|bounds| failed(Error::from(bounds)))?;
        // Said also where there is none: the server's default is not what the model is told.
        wish.network = Some(Network::of(&network.policy, network.packages));
        let names = network.operations.iter().cloned().map(TryInto::try_into);
        let names: Result<_, OutOfBounds> = names.collect();
        wish.operations = names.map_err(|bounds| failed(Error::from(bounds)))?;
        if !wish.operations.is_empty() {
            wish.env.insert(TOKEN_VARIABLE.to_owned(), TOKEN_FILE.to_owned());
        }
        // `load_data` finds the manifest there.
        wish.env.insert("BELLJAR_DATA".to_owned(), FOLDER.to_owned());
        wish.metadata.insert(RUN.to_owned(), run.run.to_string());
        // Other letters are not in it.
        let key: Option<Key> = format!("run-{}-{number}", run.run).parse().ok();
        if self.bring == Brought::Mounted && data.len() <= MOST_FILES {
            wish.data = data.iter().map(shown).collect::<Result<_, _>>().map_err(failed)?;
        }
        let mut made = patiently().run(|| self.client.create(&wish, key.as_ref())).await;
        if let Err(error) = &made
            && !wish.data.is_empty()
            && is_not_shown(error)
        {
            tracing::info!(run.id = %run.run, code = error.code(), "data is copied");
            wish.data.clear();
            made = patiently().run(|| self.client.create(&wish, key.as_ref())).await;
        }
        let made = made.map_err(failed)?;
        let id: SandboxId = made.id.parse().map_err(|_| RoomError::Id)?;
        let environment =
            Environment { tier: Some(made.tier), limits: ChosenLimits::from(&made.limits) };
        if !wish.data.is_empty() {
            return Ok(MadeRoom { id, data: Brought::Mounted, environment });
        }
        self.fill(&self.client.sandbox(id.as_str()).by(User::Root), data).await?;
        Ok(MadeRoom { id, data: Brought::Copied, environment })
    }

    /// Makes a sandbox with this number from a checkpoint of another one of the run, or finds it if
    /// it was made before. Its data and its network are those of that one.
    pub(crate) async fn fork(
        &self,
        run: &Address,
        number: u32,
        checkpoint: &str,
        network: &NetworkAccess,
    ) -> Result<MadeRoom, RoomError> {
        let mut wish = ForkCheckpoint {
            timeout_seconds: LIFE.as_secs().try_into().ok(),
            ..ForkCheckpoint::default()
        };
        wish.metadata.insert(RUN.to_owned(), run.run.to_string());
        wish.metadata.insert(NUMBER.to_owned(), number.to_string());
        wish.env.insert("BELLJAR_DATA".to_owned(), FOLDER.to_owned());
        if !network.operations.is_empty() {
            wish.env.insert(TOKEN_VARIABLE.to_owned(), TOKEN_FILE.to_owned());
        }
        let made = patiently().run(|| self.find_or_fork(checkpoint, &wish)).await;
        let made = made.map_err(|source| RoomError::Fork { source })?;
        let id: SandboxId = made.id.parse().map_err(|_| RoomError::Id)?;
        let limits = ChosenLimits::from(&made.limits);
        let environment = Environment { tier: Some(made.tier), limits };
        Ok(MadeRoom { id, data: self.bring, environment })
    }

    /// A worker may have been killed between a fork and its event, or its connection may have
    /// broken. So each attempt looks first. Only a sandbox that was made from the checkpoint is a
    /// fork of it: callers may give others the same metadata.
    async fn find_or_fork(
        &self,
        checkpoint: &str,
        wish: &ForkCheckpoint,
    ) -> Result<sandbox::Sandbox, Error> {
        let found = self.sandboxes_with(&wish.metadata).await?;
        for fork in found.into_iter().filter(|sandbox| sandbox.asked_for == checkpoint) {
            match keep(&self.client.sandbox(&fork.id)).await {
                Ok(()) => return Ok(fork),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.client.fork_checkpoint(checkpoint, wish).await
    }

    async fn sandboxes_with(&self, metadata: &Pairs) -> Result<Vec<sandbox::Sandbox>, Error> {
        let metadata = serde_json::json!(metadata).to_string();
        let mut query = ListSandboxes { metadata: Some(metadata), ..ListSandboxes::default() };
        let mut found = Vec::new();
        loop {
            let page = self.client.sandboxes(&query).await?;
            found.extend(page.items);
            query.after = page.next;
            if query.after.is_none() {
                return Ok(found);
            }
        }
    }

    /// Ends all sandboxes of a run, also one that no event names.
    pub(crate) async fn end_all(&self, run: &Address, generation: Generation) {
        let metadata = Pairs::from([(RUN.to_owned(), run.run.to_string())]);
        match self.sandboxes_with(&metadata).await {
            Ok(found) => {
                for sandbox in found {
                    // It would end by itself, only later.
                    let _ = self.client.sandbox(&sandbox.id).driven(generation.0).end().await;
                }
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, run.id = %run.run, "sandboxes of a run not listed");
            }
        }
    }

    /// Deletes all checkpoints of a run but the current one, also those that no event names.
    /// `known` is one that an event does name.
    pub(crate) async fn forget_checkpoints(
        &self,
        run: &Address,
        known: Option<&str>,
        current: Option<&str>,
    ) {
        let mut all: BTreeSet<String> = known.map(str::to_owned).into_iter().collect();
        match self.checkpoints_of(run).await {
            Ok(found) => all = found,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, run.id = %run.run, "checkpoints of a run not listed");
            }
        }
        for checkpoint in all.iter().filter(|it| Some(it.as_str()) != current) {
            if let Err(error) = self.client.delete_checkpoint(checkpoint).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, checkpoint, "checkpoint not deleted");
            }
        }
    }

    async fn checkpoints_of(&self, run: &Address) -> Result<BTreeSet<String>, Error> {
        let name = Some(checkpoint_name(run));
        let mut query = ListCheckpoints { name, ..ListCheckpoints::default() };
        let mut found = BTreeSet::new();
        loop {
            let page = self.client.checkpoints(&query).await?;
            found.extend(page.items.into_iter().map(|checkpoint| checkpoint.id));
            query.after = page.next;
            if query.after.is_none() {
                return Ok(found);
            }
        }
    }

    /// Puts data in. It belongs to the template's owner, so the code can read and not
    /// change it.
    async fn fill(&self, sandbox: &Sandbox, data: &[Item]) -> Result<(), RoomError> {
        for item in data {
            let put = |source| RoomError::Put { name: item.name.clone(), source };
            let pieces = pieces(self.depot.open(item).await?);
            sandbox.stream_file(&format!("{FOLDER}/{}", item.name), pieces).await.map_err(put)?;
        }
        Ok(())
    }

    /// Puts skills in. They belong to the template's owner, like data.
    pub(crate) async fn equip(&self, id: &SandboxId, skills: &[Skill]) -> Result<(), RoomError> {
        let sandbox = self.client.sandbox(id.as_str()).by(User::Root);
        for skill in skills {
            let failed = |source| RoomError::Skill { name: skill.name.clone(), source };
            let BlobRef { sha256: fingerprint, bytes } = skill.archive;
            let item = Item { name: skill.name.clone(), fingerprint, bytes };
            let mut archive = Vec::new();
            let file = tokio::fs::File::from_std(self.depot.open(&item).await?);
            let read = file.take(MAX_ARCHIVE_BYTES + 1).read_to_end(&mut archive).await;
            read.map_err(|source| failed(SkillError::Archive(source)))?;
            let folder = SkillFolder::read_archive(&archive).map_err(failed)?;
            for (path, content) in folder.placed_files() {
                let put = |source| RoomError::Put { name: skill.name.clone(), source };
                sandbox.write_file(&path, content.to_vec()).await.map_err(put)?;
            }
        }
        Ok(())
    }

    /// A sandbox, as who works on the run now. Files are handled with the rights that
    /// the code has: it may have put a link to the data where one is to be written.
    pub(crate) fn at(&self, id: &SandboxId, generation: Generation) -> Sandbox {
        self.client.sandbox(id.as_str()).driven(generation.0).by(User::User)
    }
}

fn patiently() -> Backoff {
    Backoff { attempts: MAKE_ATTEMPTS, ..Backoff::of_safe() }
}

/// How a request names a dataset.
fn shown(item: &Item) -> Result<ShownDataset, Error> {
    let text = || {
        let (name, sha256) = (item.name.clone(), item.fingerprint.to_string());
        Ok::<_, OutOfBounds>(ShownDataset { name: name.try_into()?, sha256: sha256.try_into()? })
    };
    text().map_err(Error::from)
}

/// Whether data could come in all the same, as a copy.
fn is_not_shown(error: &Error) -> bool {
    let codes = ["dataset_not_found", "dataset_not_ready", "datasets_not_shown"];
    error.code().is_some_and(|code| codes.contains(&code))
}

/// Lets it live on.
pub(crate) async fn keep(sandbox: &Sandbox) -> Result<(), Error> {
    let wish = ChangeSandbox { timeout_seconds: LIFE.as_secs().try_into().ok(), deadline: None };
    sandbox.change(&wish).await.map(drop)
}

/// Its Python context; the first one that there is.
pub(crate) async fn python(sandbox: &Sandbox) -> Result<String, Error> {
    let contexts = sandbox.contexts().await?;
    let first = contexts.items.into_iter().find(|context| context.language == "python");
    match first {
        Some(context) => Ok(context.id),
        None => Ok(sandbox.create_context("python", None).await?.id),
    }
}

/// Code in a process of its own, with its outputs in order: without `-u`, what it printed would
/// come after the exception.
pub(crate) fn fresh(code: &str) -> Command {
    let script = in_order("exec python3 -u -");
    Command { stdin: Some(code.to_owned()), ..Command::script(script) }
}

/// The script with both outputs on one pipe. The model sees their lines in the order in which
/// they were written, and a replayed call shows what the recorded one did.
pub(crate) fn in_order(script: &str) -> String {
    format!("exec 2>&1; {script}")
}

/// Whether an error means that the sandbox is not there any more.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::SandboxGone)
        || matches!(error.code(), Some("sandbox_not_found" | "sandbox_gone"))
}

pub(crate) fn pieces(
    file: File,
) -> impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + use<> {
    stream::try_unfold(tokio::fs::File::from_std(file), |mut file| async move {
        let mut piece = vec![0; PIECE];
        let read = file.read(&mut piece).await?;
        piece.truncate(read);
        Ok((read > 0).then(|| (Bytes::from(piece), file)))
    })
}

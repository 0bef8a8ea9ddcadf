//! Makes a run: everything that it needs later is in its first event, or named by it.
//!
//! What is named is kept before the event is written, so that a run that is there can
//! be worked on, whatever becomes of whoever made it.

use std::fs::File;
use std::io;
use std::thread;

use belljar_agent::program::program;
use belljar_agent::{DataError, Depot as _, Format, Item, MANIFEST, Plan, PlanError, Room, Texts};
use belljar_dataset::Description;
use belljar_dataset::worker::describe_those_that_can_be;
use belljar_domain::{MaxLimits, OperationCaps, OutOfRange, Question, RunId, Sequence, Tier};
use belljar_journal::event::{
    Body, Brought, Budget, Dataset, Environment, NetworkAccess, RunCreated, Wish,
};
use belljar_journal::{
    Address, BlobError, BlobRef, CreateError, Created, Event, First, NewRun, ReadError,
};
use belljar_objects::{Digest, ObjectsError};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::Runs;
use crate::bounds::OverBudget;
use crate::brief::{BriefError, ReplayedRun, WantedBrief, checked, give_name_back, take_name};
use crate::data::{Belongings, KeptError, PutError};
use crate::models::{Choice, NoModel, UnsupportedBrief};
use crate::network::NetworkRefused;
use crate::quota::{QuotaError, within};

/// A run that somebody wants.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub question: Question,
    /// Names of files, and what they hold.
    pub data: Vec<(String, Source)>,
    pub template: Option<String>,
    /// The tier and the limits of its sandboxes.
    pub environment: Environment,
    /// The network access of its sandboxes.
    pub network: NetworkAccess,
    /// The caps that hold for the operations of its code and of its model.
    pub caps: OperationCaps,
    pub operation: Option<String>,
    pub model: Option<String>,
    pub budget: Budget,
    /// Parameters, instructions, skills and recordings of its model.
    pub brief: WantedBrief,
    pub now: Option<OffsetDateTime>,
    /// Lets the model ask a human and wait for the answer.
    pub questions: bool,
    /// The span of the request, as a `traceparent`.
    pub traceparent: Option<String>,
    /// Under which it is made once, and the digest of all that was asked.
    pub key: Option<(String, Digest)>,
}

/// Where a file of a run's comes from.
#[derive(Debug, Clone)]
pub enum Source {
    Kept(Digest),
    Inline(Vec<u8>),
}

/// A run that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    pub run: Address,
    /// Whether it was there before.
    pub is_repeated: bool,
}

/// Why a run was not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateRunError {
    #[error(transparent)]
    Quota(#[from] QuotaError),
    #[error("this idempotency key was used for another run")]
    Mismatch,
    #[error("there is no template `{0}`")]
    NoTemplate(String),
    #[error("limits.{0}")]
    Limits(OutOfRange),
    #[error("this server does not offer you the tier `{0}`")]
    Tier(Tier),
    #[error(transparent)]
    Network(#[from] NetworkRefused),
    #[error(transparent)]
    Budget(#[from] OverBudget),
    #[error(transparent)]
    Brief(#[from] BriefError),
    #[error(transparent)]
    Parameters(#[from] UnsupportedBrief),
    #[error("you have no data {0}")]
    NoData(Digest),
    #[error(transparent)]
    Model(#[from] NoModel),
    #[error(transparent)]
    Name(DataError),
    #[error(transparent)]
    Put(#[from] PutError),
    #[error(transparent)]
    Kept(#[from] KeptError),
    #[error("what is kept cannot be read")]
    Open(#[source] DataError),
    #[error("cannot ask for the templates")]
    Templates(#[source] belljar_client::Error),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("cannot read runs")]
    Read(#[source] ReadError),
    #[error("cannot write the run down")]
    Create(#[source] CreateError),
    #[error("cannot keep what is said of the data")]
    Blob(#[source] BlobError),
    #[error("there are no random numbers")]
    Random(#[source] io::Error),
}

impl From<ObjectsError> for CreateRunError {
    fn from(error: ObjectsError) -> Self {
        KeptError::from(error).into()
    }
}

impl Runs {
    pub async fn create(&self, tenant: &str, wanted: Wanted) -> Result<Made, CreateRunError> {
        let run = match &wanted.key {
            Some((key, _)) => keyed(tenant, key),
            None => RunId::from_bits(random().map_err(CreateRunError::Random)?),
        };
        let address = Address { tenant: tenant.to_owned(), run };
        if wanted.key.is_some() {
            match self.journal().read(&address, Sequence(1), 1).await {
                Ok(events) => return repeated(address, events.first(), &wanted),
                Err(ReadError::NoRun) => {}
                Err(error) => return Err(CreateRunError::Read(error)),
            }
        }
        let belongings = self.data().of(tenant)?;
        let replayed = self.replayed(tenant, &belongings, &wanted.brief).await?;
        let choice = self.choose(&wanted, replayed.as_ref())?;
        let wanted = for_program(wanted, &choice);
        let allowance = self.check_quota(tenant, choice.operation.is_some()).await?;
        let bounds = self.settings().bounds;
        let budget = replayed.as_ref().map_or(wanted.budget, |it| it.budget(wanted.budget));
        bounds.check(&budget)?;
        let mut brief = checked(&belongings, &wanted.brief, replayed.as_ref()).await?;
        bounds.check_output(&brief.parameters)?;
        if replayed.is_none() {
            self.models().check(&choice, &brief)?;
            let roles = &brief.models;
            for model in [&roles.planner, &roles.coder, &roles.debugger].into_iter().flatten() {
                self.models().choose(choice.operation.as_deref(), Some(model))?;
            }
        }
        if choice.operation.is_some() {
            brief.parameters = bounds.over_output(brief.parameters);
        }
        let template = wanted.template.clone().unwrap_or_else(|| self.settings().template.clone());
        self.check_environment(tenant, &wanted.environment).await?;
        self.check_network(tenant, &wanted, choice.operation.as_deref()).await?;
        let room = self.room(tenant, &template, &wanted.environment).await?;
        let items = self.items(tenant, &belongings, &wanted.data).await?;
        let profile = self.profile(&belongings, &items).await?;
        let plan = self.plan(&belongings, items, room, profile).await?.guarded_by(brief.guards);
        let text = plan.describe().into_bytes();
        let datasets = datasets(&belongings, &plan, &text).await?;
        let has_data = !datasets.is_empty();
        let turns = budget.turns.or(Some(self.settings().turns));
        let budget = bounds.over(Budget { turns, ..budget });
        let budget =
            Budget { nano_dollars: within(budget.nano_dollars, allowance.nano_dollars), ..budget };
        let recorded_now = replayed.as_ref().map(ReplayedRun::now);
        let recorded_prompt = replayed.as_ref().and_then(ReplayedRun::prompt);
        let created = RunCreated {
            question: wanted.question.to_string(),
            datasets,
            model: choice.model,
            prompt: recorded_prompt
                .unwrap_or_else(|| Texts::newest_of(wanted.brief.agent, &wanted.network).prompt()),
            budget,
            now: wanted.now.or(recorded_now).unwrap_or_else(OffsetDateTime::now_utc),
            wish: Some(Wish {
                template,
                environment: wanted.environment,
                network: Box::new(wanted.network.clone()),
                brief: Box::new(brief),
                operation: choice.operation,
                request: wanted.key.as_ref().map(|(_, request)| *request),
                questions: wanted.questions,
                traceparent: wanted.traceparent.clone(),
            }),
        };
        let first = First::Created(created);
        let most_unfinished = Some(allowance.runs);
        let new = NewRun { address: address.clone(), first, most_unfinished };
        if let Some(name) = &wanted.brief.record {
            take_name(&**self.journal(), &belongings.plans, name, &address).await?;
        }
        match self.journal().create(&new).await {
            Ok(Created::Made) => {}
            Ok(Created::Already(first)) => return repeated(address, Some(&first), &wanted),
            Err(error) => {
                if let Some(name) = &wanted.brief.record {
                    let journal = &**self.journal();
                    give_name_back(journal, &belongings.plans, name, &address).await;
                }
                return Err(not_created(error));
            }
        }
        belljar_fault::point("run.run_created");
        if has_data {
            let kept = self.journal().put_blob(&address, text).await;
            kept.map_err(CreateRunError::Blob)?;
        }
        self.0.bell.notify_one();
        Ok(Made { run: address, is_repeated: false })
    }

    /// Chooses the model. A replay needs none: it has the answers of the recorded one.
    fn choose(
        &self,
        wanted: &Wanted,
        replayed: Option<&ReplayedRun>,
    ) -> Result<Choice, CreateRunError> {
        let Some(replayed) = replayed else {
            let (operation, model) = (wanted.operation.as_deref(), wanted.model.as_deref());
            if let Some(program) = program(wanted.brief.agent) {
                return Ok(self.models().choose_speaking(program.speaks, operation, model)?);
            }
            return Ok(self.models().choose(operation, model)?);
        };
        if wanted.operation.is_some() {
            return Err(BriefError::ReplayedOperation.into());
        }
        let model = wanted.model.clone().unwrap_or_else(|| replayed.model().to_owned());
        Ok(Choice { operation: None, model })
    }

    /// Refuses what no sandbox would be given, before anything is paid for.
    pub(crate) async fn check_environment(
        &self,
        tenant: &str,
        environment: &Environment,
    ) -> Result<(), CreateRunError> {
        if environment.is_default() {
            return Ok(());
        }
        let offers = self.client(tenant).templates().await.map_err(CreateRunError::Templates)?;
        // A node that says no maximum knows no limits that are chosen: it refuses them itself.
        let max = offers.max_limits.map_or(MaxLimits::UNBOUNDED, Into::into);
        environment.limits.check(&max).map_err(CreateRunError::Limits)?;
        match (environment.tier, offers.tiers) {
            (Some(tier), Some(offered)) if !offered.contains(&tier) => {
                Err(CreateRunError::Tier(tier))
            }
            _ => Ok(()),
        }
    }

    async fn room(
        &self,
        tenant: &str,
        template: &str,
        environment: &Environment,
    ) -> Result<Room, CreateRunError> {
        let found = self.client(tenant).template(template).await;
        let found = found.map_err(|error| match error.code() {
            Some("template_not_found" | "not_found") => {
                CreateRunError::NoTemplate(template.to_owned())
            }
            _ => CreateRunError::Templates(error),
        })?;
        let chosen = &environment.limits;
        let memory_bytes = chosen.memory_bytes.unwrap_or(found.limits.memory_bytes);
        let disk_bytes = chosen.disk_bytes.unwrap_or(found.limits.disk_bytes);
        let is_mounted = (self.0.parts.mounts)(tenant, environment.tier.or(found.tier));
        let data = if is_mounted { Brought::Mounted } else { Brought::Copied };
        Ok(Room { memory_bytes, disk_bytes, data })
    }

    /// Finds the files, or takes them.
    async fn items(
        &self,
        tenant: &str,
        belongings: &Belongings,
        data: &[(String, Source)],
    ) -> Result<Vec<Item>, CreateRunError> {
        let mut items: Vec<Item> = Vec::new();
        for (name, source) in data {
            let (sha256, bytes) = match source {
                Source::Kept(sha256) => {
                    let found = belongings.files.find_blob(sha256).await?;
                    let found = found.ok_or(CreateRunError::NoData(*sha256))?;
                    (found.digest, found.bytes)
                }
                Source::Inline(content) => {
                    let kept = self.data().put(tenant, &content[..]).await?;
                    (kept.sha256, kept.bytes)
                }
            };
            let item = Item::new(name, sha256, bytes).map_err(CreateRunError::Name)?;
            if items.iter().any(|other| other.name == item.name) {
                return Err(CreateRunError::Name(DataError::Twice(item.name)));
            }
            items.push(item);
        }
        Ok(items)
    }

    /// Makes the files fit. What is made for that is kept as they are.
    async fn plan(
        &self,
        belongings: &Belongings,
        items: Vec<Item>,
        room: Room,
        profile: Option<Description>,
    ) -> Result<Plan, PlanError> {
        let _one = self.0.reading.acquire().await;
        Plan::new(items, room, profile, belongings).await
    }

    /// What is inside of the files, as far as they can be read. A file that cannot be
    /// described can still be worked with.
    async fn profile(
        &self,
        belongings: &Belongings,
        items: &[Item],
    ) -> Result<Option<Description>, CreateRunError> {
        let Some(describer) = self.0.parts.describer.clone() else { return Ok(None) };
        let mut files: Vec<(String, File)> = Vec::new();
        for item in items.iter().filter(|item| item.format() != Format::Other) {
            let file = belongings.open(item).await.map_err(CreateRunError::Open)?;
            files.push((item.name.clone(), file));
        }
        let _one = self.0.reading.acquire().await;
        let described = tokio::task::spawn_blocking(move || {
            let threads = thread::available_parallelism().map_or(1, Into::into);
            describe_those_that_can_be(&describer, files, threads)
        });
        match described.await {
            Ok(Ok(sorted)) => {
                for (name, error) in &sorted.refused {
                    let error = error as &dyn std::error::Error;
                    tracing::warn!(error, name, "a file is not described; the model is told so");
                }
                Ok(sorted.description)
            }
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "data is not described; the model is told nothing of it");
                Ok(None)
            }
            Err(error) => {
                tracing::error!(%error, "the description task panicked");
                Ok(None)
            }
        }
    }
}

/// Gives a published program its template, and access to the operation of its model: its requests
/// come from the sandbox.
fn for_program(mut wanted: Wanted, choice: &Choice) -> Wanted {
    let Some(program) = program(wanted.brief.agent) else { return wanted };
    wanted.template.get_or_insert_with(|| program.template.to_owned());
    let operations = &mut wanted.network.operations;
    if let Some(operation) = choice.operation.as_ref().filter(|name| !operations.contains(name)) {
        operations.push(operation.clone());
    }
    wanted
}

/// The files and what is said of them, kept where the run will look for them.
async fn datasets(
    belongings: &Belongings,
    plan: &Plan,
    text: &[u8],
) -> Result<Vec<Dataset>, CreateRunError> {
    let mut datasets = plan.datasets(BlobRef::of(text));
    if datasets.is_empty() {
        return Ok(datasets);
    }
    belongings.plans.put_blob(text).await?;
    let manifest = plan.manifest();
    let fingerprint = belongings.plans.put_blob(manifest.as_bytes()).await?;
    let bytes = manifest.len() as u64;
    let name = MANIFEST.to_owned();
    datasets.push(Dataset { name, fingerprint, bytes, description: None, origin: None });
    Ok(datasets)
}

/// A quota that others used up in between is refused like one that was used up before.
fn not_created(error: CreateError) -> CreateRunError {
    match error {
        CreateError::TooManyUnfinished { most: quota, unfinished } => {
            QuotaError::Runs { quota, unfinished }.into()
        }
        error => CreateRunError::Create(error),
    }
}

/// The run of a key: whoever says the same key names the same run.
fn keyed(tenant: &str, key: &str) -> RunId {
    let mut hash = Sha256::new();
    for part in ["belljar run", tenant, key] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let hash: [u8; 32] = hash.finalize().into();
    let mut bits = [0; 16];
    bits.copy_from_slice(&hash[..16]);
    RunId::from_bits(bits)
}

/// A run that is there already, if it is the same one.
fn repeated(run: Address, first: Option<&Event>, wanted: &Wanted) -> Result<Made, CreateRunError> {
    let was = first.and_then(|event| match &event.body {
        Body::RunCreated(created) => created.wish.as_ref()?.request,
        _ => None,
    });
    let is = wanted.key.as_ref().map(|(_, request)| *request);
    match was.is_some() && was == is {
        true => Ok(Made { run, is_repeated: true }),
        false => Err(CreateRunError::Mismatch),
    }
}

fn random() -> io::Result<[u8; 16]> {
    let mut bits = [0; 16];
    io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut bits)?;
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_run_of_one_tenant() {
        assert_eq!(keyed("one", "k"), keyed("one", "k"));
        assert_ne!(keyed("one", "k"), keyed("two", "k"));
        assert_ne!(keyed("one", "k"), keyed("one", "l"));
        assert_ne!(keyed("on", "ek"), keyed("one", "k"));
    }
}

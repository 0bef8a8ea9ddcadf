//! The brief of a run's model: checked, and what it names fetched, before the run exists.

use std::io::Read as _;

use belljar_agent::{
    MAX_ARCHIVE_BYTES, MAX_SKILLS, Recording, RecordingError, SkillError, SkillFolder, Texts,
};
use belljar_domain::approval::ToolApprovals;
use belljar_domain::{Instructions, ModelParameters, RecordingName, RunId};
use belljar_journal::event::{Brief, Budget, Guards, Prompt, Replay, Skill};
use belljar_journal::{Address, BlobRef, Journal, ReadError, RunView, read_all};
use belljar_objects::{Digest, Expected, Objects, ObjectsError};
use belljar_pipeline::{AgentKind, CodeArtifact, Refusal, RoleModels, check_code};
use time::OffsetDateTime;

use crate::Runs;
use crate::create::CreateRunError;
use crate::data::{Belongings, KeptError};

/// The brief that a client asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedBrief {
    pub parameters: ModelParameters,
    pub instructions: Option<Instructions>,
    /// Archives among the tenant's files.
    pub skills: Vec<Digest>,
    pub record: Option<RecordingName>,
    /// The name of a recording, or the run that was recorded.
    pub replay: Option<String>,
    pub agent: AgentKind,
    /// Models by role.
    pub models: RoleModels,
    /// The program of a run whose agent is the Executor.
    pub artifact: Option<CodeArtifact>,
    pub guards: Guards,
    /// Tool calls that wait for a human.
    pub approvals: ToolApprovals,
}

/// A brief that no run can have.
#[derive(Debug, thiserror::Error)]
pub enum BriefError {
    #[error("a run has at most {MAX_SKILLS} skills")]
    TooManySkills,
    #[error("you have no data {0}")]
    NoSkill(Digest),
    #[error("the data {sha256} is no skill: {why}")]
    Skill { sha256: Digest, why: SkillError },
    #[error("two skills are called `{0}`")]
    SameName(String),
    #[error("a run is either recorded or replays a recording")]
    RecordedReplay,
    #[error("you have a recording `{0}` already")]
    RecordingExists(String),
    #[error("you have no recording `{0}`")]
    NoRecording(String),
    #[error("the run `{0}` has no recording: it was not asked for one, or is not over")]
    NotRecorded(String),
    #[error("the recording `{name}` cannot be replayed")]
    Recording { name: String, source: RecordingError },
    #[error("the agent `{agent}` has no `{field}`")]
    NotOfAgent { field: &'static str, agent: AgentKind },
    #[error("the agent `executor` needs an `artifact` to run")]
    NoArtifact,
    #[error(transparent)]
    Artifact(#[from] Refusal),
    #[error("`operation` cannot be combined with `replay`: no model is asked")]
    ReplayedOperation,
}

/// A recording that a new run replays, and where it is.
#[derive(Debug)]
pub(crate) struct ReplayedRun {
    pub(crate) replay: Replay,
    recording: Recording,
}

impl ReplayedRun {
    pub(crate) fn model(&self) -> &str {
        &self.recording.model
    }

    /// The time that the run saw. Another one would be another question.
    pub(crate) fn now(&self) -> OffsetDateTime {
        self.recording.now
    }

    /// The prompt of the recorded run, if this version still has it.
    pub(crate) fn prompt(&self) -> Option<Prompt> {
        Texts::of(&self.recording.prompt).map(|texts| texts.prompt())
    }

    /// The budget of the recorded run, unless another one is asked for.
    pub(crate) fn budget(&self, asked: Budget) -> Budget {
        if asked == Budget::default() { self.recording.budget } else { asked }
    }

    pub(crate) fn parameters(&self, asked: ModelParameters) -> ModelParameters {
        if asked.is_default() { self.recording.parameters } else { asked }
    }
}

impl Runs {
    /// Finds the recording that a run wants to replay.
    pub(crate) async fn replayed(
        &self,
        tenant: &str,
        belongings: &Belongings,
        wanted: &WantedBrief,
    ) -> Result<Option<ReplayedRun>, CreateRunError> {
        let Some(name) = &wanted.replay else { return Ok(None) };
        if wanted.record.is_some() {
            return Err(BriefError::RecordedReplay.into());
        }
        let unknown = || BriefError::NoRecording(name.chars().take(64).collect());
        let run = match (name.parse::<RunId>(), name.parse::<RecordingName>()) {
            (Ok(run), _) => run,
            (_, Ok(name)) => recorded_run(&belongings.plans, &name).await?.ok_or_else(unknown)?,
            _ => return Err(unknown().into()),
        };
        let address = Address { tenant: tenant.to_owned(), run: run.clone() };
        let events = match read_all(&**self.journal(), &address).await {
            Ok(events) => events,
            Err(ReadError::NoRun) => return Err(unknown().into()),
            Err(error) => return Err(CreateRunError::Read(error)),
        };
        let recording = RunView::of(&events).recording;
        let blob = recording.ok_or_else(|| BriefError::NotRecorded(run.to_string()))?;
        let bytes = read(&belongings.plans, &blob.sha256, u64::MAX).await?;
        let recording = Recording::read(&bytes)
            .map_err(|source| BriefError::Recording { name: name.clone(), source })?;
        Ok(Some(ReplayedRun { replay: Replay { run, recording: blob }, recording }))
    }
}

/// Refuses what the agent of a brief has no use for.
pub fn check_agent(brief: &Brief) -> Result<(), BriefError> {
    let agent = brief.agent;
    if !brief.models.is_empty() && agent != AgentKind::Pipeline {
        return Err(BriefError::NotOfAgent { field: "models", agent });
    }
    if !brief.skills.is_empty() && !agent.is_react() {
        return Err(BriefError::NotOfAgent { field: "skills", agent });
    }
    if agent.is_program() {
        check_program(brief)?;
    }
    match (&brief.artifact, agent) {
        (Some(artifact), AgentKind::Executor) => Ok(check_code(artifact)?),
        (None, AgentKind::Executor) => Err(BriefError::NoArtifact),
        (Some(_), _) => Err(BriefError::NotOfAgent { field: "artifact", agent }),
        (None, _) => Ok(()),
    }
}

/// Refuses options that a published program has in its own files, or not at all.
fn check_program(brief: &Brief) -> Result<(), BriefError> {
    let named = [
        (!brief.parameters.is_default(), "parameters"),
        (brief.record.is_some(), "record"),
        (brief.replay.is_some(), "replay"),
    ];
    match named.into_iter().find(|(is_named, _)| *is_named) {
        Some((_, field)) => Err(BriefError::NotOfAgent { field, agent: brief.agent }),
        None => Ok(()),
    }
}

/// Checks a brief and keeps the skills that it names for as long as the run may need them.
pub(crate) async fn checked(
    belongings: &Belongings,
    wanted: &WantedBrief,
    replayed: Option<&ReplayedRun>,
) -> Result<Brief, CreateRunError> {
    let parameters = replayed.map_or(wanted.parameters, |it| it.parameters(wanted.parameters));
    let brief = Brief {
        agent: wanted.agent,
        models: wanted.models.clone(),
        artifact: wanted.artifact.clone().map(Box::new),
        parameters,
        instructions: wanted.instructions.clone().map(String::from),
        skills: skills(belongings, &wanted.skills).await?,
        record: wanted.record.as_ref().map(ToString::to_string),
        replay: replayed.map(|replayed| replayed.replay.clone()),
        guards: wanted.guards,
        approvals: wanted.approvals.clone(),
    };
    check_agent(&brief)?;
    Ok(brief)
}

/// Takes the name of a recording for a run that is about to be made. A name whose run does not
/// exist is free: the process that took it died before it made the run. If two runs with one name
/// are made at the same moment, the name is the later one's.
pub(crate) async fn take_name(
    journal: &dyn Journal,
    plans: &Objects,
    name: &RecordingName,
    address: &Address,
) -> Result<(), CreateRunError> {
    let taken = || BriefError::RecordingExists(name.to_string());
    let object = recording_record(name);
    if put_name(plans, &object, &address.run, &Expected::Absent).await? {
        return Ok(());
    }
    let (run, version) = plans.get_record(&object).await?.ok_or_else(taken)?;
    if let Some(run) = parsed(&run) {
        // The same request again, whose run was not written down.
        if run == address.run {
            return Ok(());
        }
        if is_made(journal, &Address { tenant: address.tenant.clone(), run }).await? {
            return Err(taken().into());
        }
    }
    match put_name(plans, &object, &address.run, &Expected::Is(version)).await? {
        true => Ok(()),
        false => Err(taken().into()),
    }
}

/// Returns false if the record is not as expected.
async fn put_name(
    plans: &Objects,
    object: &str,
    run: &RunId,
    expected: &Expected,
) -> Result<bool, CreateRunError> {
    match plans.put_record(object, run.as_str().into(), expected).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_conflict() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Gives a name back whose run was not made. If it may have been made all the same, it keeps its
/// name; [`take_name`] finds out whether it exists.
pub(crate) async fn give_name_back(
    journal: &dyn Journal,
    plans: &Objects,
    name: &RecordingName,
    address: &Address,
) {
    if let Err(error) = give_back(journal, plans, name, address).await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, %name, "cannot give the name of a recording back");
    }
}

async fn give_back(
    journal: &dyn Journal,
    plans: &Objects,
    name: &RecordingName,
    address: &Address,
) -> Result<(), CreateRunError> {
    let is_ours = recorded_run(plans, name).await?.as_ref() == Some(&address.run);
    if is_ours && !is_made(journal, address).await? {
        plans.delete_record(&recording_record(name)).await?;
    }
    Ok(())
}

/// Gives the name of a run's recording to the run that retries it. Done again, it is done once.
pub(crate) async fn hand_name_over(
    plans: &Objects,
    name: &str,
    from: &RunId,
    to: &RunId,
) -> Result<(), CreateRunError> {
    let Ok(name) = name.parse::<RecordingName>() else { return Ok(()) };
    let object = recording_record(&name);
    let Some((run, version)) = plans.get_record(&object).await? else { return Ok(()) };
    if parsed(&run).as_ref() == Some(from) {
        plans.put_record(&object, to.as_str().into(), &Expected::Is(version)).await?;
    }
    Ok(())
}

async fn is_made(journal: &dyn Journal, address: &Address) -> Result<bool, CreateRunError> {
    match journal.find(address).await {
        Ok(_) => Ok(true),
        Err(ReadError::NoRun) => Ok(false),
        Err(error) => Err(CreateRunError::Read(error)),
    }
}

fn parsed(run: &[u8]) -> Option<RunId> {
    std::str::from_utf8(run).ok()?.parse().ok()
}

/// The record among a tenant's plans that has the run of a recording.
fn recording_record(name: &RecordingName) -> String {
    format!("recordings/{name}")
}

async fn recorded_run(
    plans: &Objects,
    name: &RecordingName,
) -> Result<Option<RunId>, CreateRunError> {
    let found = plans.get_record(&recording_record(name)).await?;
    Ok(found.and_then(|(run, _)| parsed(&run)))
}

async fn skills(belongings: &Belongings, digests: &[Digest]) -> Result<Vec<Skill>, CreateRunError> {
    if digests.len() > MAX_SKILLS {
        return Err(BriefError::TooManySkills.into());
    }
    let mut skills: Vec<Skill> = Vec::new();
    for sha256 in digests {
        let found = belongings.files.find_blob(sha256).await?;
        let found = found.ok_or(BriefError::NoSkill(*sha256))?;
        let failed = |why| BriefError::Skill { sha256: *sha256, why };
        if found.bytes > MAX_ARCHIVE_BYTES {
            return Err(failed(SkillError::TooLarge).into());
        }
        let archive = read(&belongings.files, sha256, MAX_ARCHIVE_BYTES).await?;
        let folder = SkillFolder::read_archive(&archive).map_err(failed)?;
        if skills.iter().any(|skill| skill.name == folder.name()) {
            return Err(BriefError::SameName(folder.name().to_owned()).into());
        }
        // The owner may delete the upload while the run needs it.
        belongings.plans.put_blob(&archive[..]).await?;
        skills.push(Skill {
            name: folder.name().to_owned(),
            description: folder.description().to_owned(),
            archive: BlobRef::of(&archive),
        });
    }
    skills.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(skills)
}

async fn read(objects: &Objects, digest: &Digest, most: u64) -> Result<Vec<u8>, CreateRunError> {
    let file = objects.get_blob(digest).await?;
    let mut bytes = Vec::new();
    let read =
        tokio::task::spawn_blocking(move || file.take(most).read_to_end(&mut bytes).map(|_| bytes));
    let read = read.await.map_err(std::io::Error::other).flatten();
    read.map_err(|error| KeptError::from(ObjectsError::Broken(error)).into())
}

#[cfg(test)]
mod tests {
    use belljar_journal::event::{NetworkAccess, RunCreated};
    use belljar_journal::{Directory, First, NewRun};
    use belljar_objects::Place;

    use super::*;

    fn address(bits: u8) -> Address {
        Address { tenant: "ann".into(), run: RunId::from_bits([bits; 16]) }
    }

    async fn make(journal: &Directory, address: Address) {
        let created = RunCreated {
            question: "q".into(),
            datasets: Vec::new(),
            model: "m".into(),
            prompt: Texts::newest_for(&NetworkAccess::default()).prompt(),
            budget: Budget::default(),
            now: OffsetDateTime::UNIX_EPOCH,
            wish: None,
        };
        let first = First::Created(created);
        journal.create(&NewRun { address, first, most_unfinished: None }).await.unwrap();
    }

    #[test]
    fn a_published_program_has_its_own_options() {
        let program = Brief { agent: AgentKind::Codex, ..Brief::default() };
        assert!(check_agent(&program).is_ok());
        let temperature = Some(belljar_domain::Temperature::MAX);
        let parameters = ModelParameters { temperature, ..ModelParameters::default() };
        assert!(!parameters.is_default());
        for refused in [
            Brief { parameters, ..program.clone() },
            Brief { record: Some("r".into()), ..program.clone() },
        ] {
            assert!(matches!(check_agent(&refused), Err(BriefError::NotOfAgent { .. })));
        }
        let told = Brief { instructions: Some("be brief".into()), ..program };
        assert!(check_agent(&told).is_ok());
    }

    #[tokio::test]
    async fn the_name_of_a_recording_belongs_to_a_run_that_exists() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Directory::open(&dir.path().join("runs")).unwrap();
        let place = Place::Directory(dir.path().join("plans"));
        let plans = Objects::open(&place, &dir.path().join("scratch")).unwrap();
        let name: RecordingName = "deals".parse().unwrap();
        let owner = async || recorded_run(&plans, &name).await.unwrap();
        take_name(&journal, &plans, &name, &address(1)).await.unwrap();
        take_name(&journal, &plans, &name, &address(1)).await.unwrap();
        // The first run was never made: the name is free.
        take_name(&journal, &plans, &name, &address(2)).await.unwrap();
        assert_eq!(owner().await, Some(address(2).run));
        make(&journal, address(2)).await;
        let refused = take_name(&journal, &plans, &name, &address(3)).await;
        let is_taken =
            matches!(refused, Err(CreateRunError::Brief(BriefError::RecordingExists(_))));
        assert!(is_taken, "{refused:?}");
        // The run was made although its creation failed, or the name is another run's by now.
        give_name_back(&journal, &plans, &name, &address(2)).await;
        give_name_back(&journal, &plans, &name, &address(1)).await;
        assert_eq!(owner().await, Some(address(2).run));
        hand_name_over(&plans, "deals", &address(1).run, &address(4).run).await.unwrap();
        assert_eq!(owner().await, Some(address(2).run));
        hand_name_over(&plans, "deals", &address(2).run, &address(4).run).await.unwrap();
        assert_eq!(owner().await, Some(address(4).run));
        give_name_back(&journal, &plans, &name, &address(4)).await;
        assert_eq!(owner().await, None);
    }
}

//! The brief of a run's model: checked, and what it names fetched, before the run exists.

use std::io::Read as _;

use belljar_agent::{
    MAX_ARCHIVE_BYTES, MAX_SKILLS, Recording, RecordingError, SkillError, SkillFolder, Texts,
};
use belljar_journal::event::{Brief, Budget, Prompt, Replay, Skill};
use belljar_journal::{Address, BlobRef, ReadError, RunView, read_all};
use belljar_model::{Instructions, ModelParameters, RecordingName, RunId};
use belljar_objects::{Digest, Expected, Objects, ObjectsError};
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

/// Checks a brief and keeps the skills that it names for as long as the run may need them.
pub(crate) async fn checked(
    belongings: &Belongings,
    wanted: &WantedBrief,
    replayed: Option<&ReplayedRun>,
) -> Result<Brief, CreateRunError> {
    let parameters = replayed.map_or(wanted.parameters, |it| it.parameters(wanted.parameters));
    Ok(Brief {
        parameters,
        instructions: wanted.instructions.clone().map(String::from),
        skills: skills(belongings, &wanted.skills).await?,
        record: wanted.record.as_ref().map(ToString::to_string),
        replay: replayed.map(|replayed| replayed.replay.clone()),
    })
}

/// Takes the name of a recording for a run that is about to be made.
pub(crate) async fn take_name(
    belongings: &Belongings,
    name: &RecordingName,
    run: &RunId,
) -> Result<(), CreateRunError> {
    let taken = || BriefError::RecordingExists(name.to_string());
    let object = recording_record(name);
    let put = belongings.plans.put_record(&object, run.as_str().into(), &Expected::Absent).await;
    match put {
        Ok(_) => Ok(()),
        // The same request again, whose run was not written down.
        Err(error) if error.is_conflict() => match recorded_run(&belongings.plans, name).await? {
            Some(other) if other == *run => Ok(()),
            _ => Err(taken().into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Gives a name back whose run was not made.
pub(crate) async fn give_name_back(belongings: &Belongings, name: &RecordingName) {
    if let Err(error) = belongings.plans.delete_record(&recording_record(name)).await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, %name, "cannot give the name of a recording back");
    }
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
    Ok(found.and_then(|(run, _)| std::str::from_utf8(&run).ok()?.parse().ok()))
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

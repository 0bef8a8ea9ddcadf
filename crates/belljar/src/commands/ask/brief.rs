//! The brief of a run's model: what the options name, read and kept before the run exists.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use belljar_agent::{MAX_SKILLS, Recording, SkillFolder, shelve_bytes};
use belljar_domain::approval::ToolApprovals;
use belljar_domain::{Instructions, ModelParameters, RecordingName, RunId};
use belljar_journal::event::{Brief, Replay, Skill};
use belljar_journal::{BlobRef, Journal, RunView, read_all};
use belljar_objects::Shelf;
use belljar_runs::check_agent;

use super::super::runs;
use crate::cli::{Ask, BriefOptions, InstructionsSource, RunName};
use crate::output::{Hint as _, hinted};

/// A recording that a new run replays.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) replay: Replay,
    pub(super) recording: Recording,
}

impl Replayed {
    /// Finds the recording of a name or a run.
    pub(super) async fn find(
        name: &str,
        data: &Path,
        journal: &dyn Journal,
        shelf: &Shelf,
    ) -> anyhow::Result<Self> {
        let recorded = match name.parse::<RecordingName>() {
            Ok(name) => recorded_run(data, &name)?,
            Err(_) => None,
        };
        let hint = "--record NAME makes a recording; `belljar runs list` shows runs";
        let run = match (recorded, name.parse::<RunName>()) {
            (Some(run), _) => runs::address(run),
            (None, Ok(run)) => runs::named(journal, &run).await?,
            (None, Err(_)) => return Err(hinted(anyhow!("there is no recording `{name}`"), hint)),
        };
        let events = read_all(journal, &run).await.hint(hint)?;
        let blob = RunView::of(&events).recording;
        let blob = blob.with_context(|| format!("the run {} was not recorded", run.run));
        let recording = blob.hint(hint)?;
        let mut bytes = Vec::new();
        let mut file = shelf.open(&recording.sha256).context("cannot read the recording")?;
        io::Read::read_to_end(&mut file, &mut bytes).context("cannot read the recording")?;
        let replay = Replay { run: run.run, recording };
        Ok(Self { replay, recording: Recording::read(&bytes)? })
    }
}

/// Reads the brief that the options name.
pub(super) fn read(
    options: &Ask,
    replayed: Option<&Replayed>,
    shelf: &Shelf,
) -> anyhow::Result<Brief> {
    let BriefOptions { temperature, effort, instructions, skills, record, .. } = &options.brief;
    let parameters = ModelParameters {
        temperature: *temperature,
        effort: *effort,
        output_tokens: options.model.max_output,
    };
    let parameters = match replayed {
        Some(replayed) if parameters.is_default() => replayed.recording.parameters,
        _ => parameters,
    };
    let brief = Brief {
        agent: options.agent.kind(),
        models: options.agent.models(),
        artifact: options.agent.artifact.clone(),
        parameters,
        instructions: instructions.as_ref().map(text).transpose()?.map(String::from),
        skills: shelved(skills, shelf)?,
        record: record.as_ref().map(ToString::to_string),
        replay: replayed.map(|replayed| replayed.replay.clone()),
        guards: options.brief.guards(),
        approvals: ToolApprovals {
            policy: options.brief.approve.clone(),
            seconds: options.brief.approval_seconds,
        },
    };
    check_agent(&brief)?;
    Ok(brief)
}

fn text(source: &InstructionsSource) -> anyhow::Result<Instructions> {
    match source {
        InstructionsSource::Text(text) => Ok(text.clone()),
        InstructionsSource::File(path) => {
            let text = fs::read_to_string(path);
            let text = text.with_context(|| format!("cannot read `{}`", path.display()))?;
            Ok(text.parse()?)
        }
    }
}

fn shelved(folders: &[PathBuf], shelf: &Shelf) -> anyhow::Result<Vec<Skill>> {
    if folders.len() > MAX_SKILLS {
        return Err(anyhow!("a run has at most {MAX_SKILLS} skills"));
    }
    let mut skills: Vec<Skill> = Vec::new();
    for folder in folders {
        let skill = SkillFolder::read_folder(folder);
        let skill = skill.with_context(|| format!("`{}` is no skill", folder.display()));
        let skill = skill.hint("docs/runs.md describes the folder of a skill")?;
        if skills.iter().any(|other| other.name == skill.name()) {
            return Err(anyhow!("two skills are called `{}`", skill.name()));
        }
        let item = shelve_bytes(shelf, skill.name(), &skill.to_archive()?)?;
        skills.push(Skill {
            name: skill.name().to_owned(),
            description: skill.description().to_owned(),
            archive: BlobRef { sha256: item.fingerprint, bytes: item.bytes },
        });
    }
    skills.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(skills)
}

/// Takes the name of a recording for a run.
pub(super) fn take_name(data: &Path, name: &RecordingName, run: &RunId) -> anyhow::Result<()> {
    let path = named_file(data, name);
    let taken = || {
        let hint = format!("choose another name, or remove `{}`", path.display());
        hinted(anyhow!("there is a recording `{name}` already"), hint)
    };
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.with_context(|| format!("cannot write `{}`", path.display()))?;
    match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(mut file) => file
            .write_all(run.as_str().as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(taken()),
        Err(error) => Err(error).with_context(|| format!("cannot write `{}`", path.display())),
    }
}

fn recorded_run(data: &Path, name: &RecordingName) -> anyhow::Result<Option<RunId>> {
    let path = named_file(data, name);
    match fs::read_to_string(&path) {
        Ok(run) => {
            let run = run.trim().parse();
            run.map(Some).with_context(|| format!("`{}` names no run", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

fn named_file(data: &Path, name: &RecordingName) -> PathBuf {
    data.join("recordings").join(name.as_str())
}

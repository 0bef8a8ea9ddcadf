//! The brief of a run's model, in requests and answers.

use belljar_api::approval::tool_approvals;
use belljar_api::run as api;
use belljar_domain::Instructions;
use belljar_journal::BlobRef;
use belljar_journal::event::{Brief, Guards};
use belljar_pipeline::{AgentKind, CodeArtifact, RoleModels, UnknownAgent};
use belljar_runs::{BriefError, UnsupportedBrief, WantedBrief};
use belljar_sandboxes::{Kind, Problem};

/// Models of one role.
const MAX_ROLE_MODELS: usize = 8;

/// Reads the brief out of a request.
pub(super) fn wanted(wish: &api::CreateRun) -> Result<WantedBrief, Problem> {
    let instructions = wish.instructions.clone().map(|text| {
        Instructions::try_from(String::from(text))
            .map_err(|error| Problem::invalid(error.to_string()))
    });
    let record = wish.record.as_ref().map(|name| {
        name.as_str().parse().map_err(|error| Problem::invalid(format!("record: {error}")))
    });
    let digest = |skill: &api::WantedSkill| {
        let digest = skill.sha256.as_str().parse();
        digest.map_err(|_| Problem::invalid("a skill is named by the SHA-256 of its archive"))
    };
    let approvals = tool_approvals(wish.approvals.clone(), wish.approval_seconds)
        .map_err(|error| Problem::invalid(error.to_string()))?;
    Ok(WantedBrief {
        parameters: wish.parameters.into(),
        instructions: instructions.transpose()?,
        skills: wish.skills.iter().map(digest).collect::<Result<_, _>>()?,
        record: record.transpose()?,
        replay: wish.replay.as_ref().map(|name| name.as_str().to_owned()),
        agent: agent(wish.agent.as_ref().map(|name| name.as_str()))?,
        models: models(&wish.models)?,
        artifact: wish.artifact.as_ref().map(artifact),
        guards: Guards {
            joins: wish.guards.joins,
            dates: wish.guards.dates,
            turns: wish.guards.turns,
        },
        approvals: approvals.unwrap_or_default(),
    })
}

fn agent(name: Option<&str>) -> Result<AgentKind, Problem> {
    let agent = name.map(str::parse::<AgentKind>).transpose();
    let agent = agent.map_err(|error: UnknownAgent| {
        Problem::new(Kind::Invalid, "agent_unknown", error.to_string())
    })?;
    Ok(agent.unwrap_or_default())
}

fn models(models: &api::RunModels) -> Result<RoleModels, Problem> {
    let names = |list: &[belljar_api::bounds::Text<1, 128>]| {
        if list.len() > MAX_ROLE_MODELS {
            let message = format!("a role has at most {MAX_ROLE_MODELS} models");
            return Err(Problem::invalid(message));
        }
        Ok(list.iter().map(|name| name.as_str().to_owned()).collect())
    };
    Ok(RoleModels {
        planner: names(&models.planner)?,
        coder: names(&models.coder)?,
        debugger: names(&models.debugger)?,
    })
}

fn artifact(artifact: &api::RunArtifact) -> CodeArtifact {
    let install = artifact.install_command.as_ref();
    CodeArtifact {
        filename: artifact.filename.as_str().to_owned(),
        code: artifact.code.as_str().to_owned(),
        install_command: install.map(|command| command.as_str().to_owned()),
        run_command: artifact.run_command.as_str().to_owned(),
        install_seconds: artifact.install_seconds.map(|seconds| seconds.get()),
        run_seconds: artifact.run_seconds.map(|seconds| seconds.get()),
        memory_bytes: artifact.memory_bytes.map(Into::into),
    }
}

fn shown_models(models: &RoleModels) -> api::RunModels {
    // They come from a request, so they fit.
    let names = |list: &[String]| list.iter().filter_map(|it| it.clone().try_into().ok()).collect();
    api::RunModels {
        planner: names(&models.planner),
        coder: names(&models.coder),
        debugger: names(&models.debugger),
    }
}

/// The problem of a brief that no run can have.
pub(super) fn refused(error: &BriefError) -> Problem {
    let message = error.to_string();
    match error {
        BriefError::TooManySkills | BriefError::SameName(_) => Problem::invalid(message),
        BriefError::NoSkill(_) => Problem::new(Kind::NotFound, "data_not_found", message)
            .hint("upload the skill's archive with POST /v1/data"),
        BriefError::Skill { .. } => Problem::new(Kind::Invalid, "skill_invalid", message)
            .hint("upload a tar archive of a folder with SKILL.md"),
        BriefError::RecordedReplay
        | BriefError::ReplayedOperation
        | BriefError::NotOfAgent { .. }
        | BriefError::NoArtifact
        | BriefError::Artifact(_) => Problem::invalid(message),
        BriefError::RecordingExists(_) => {
            Problem::new(Kind::Conflict, "recording_exists", message).hint("choose another name")
        }
        BriefError::NoRecording(_) => Problem::new(Kind::NotFound, "recording_not_found", message),
        BriefError::NotRecorded(_) => Problem::new(Kind::Conflict, "run_not_recorded", message)
            .hint("create the run with `record`, and wait for its end"),
        BriefError::Recording { .. } => {
            Problem::new(Kind::Unsupported, "recording_unsupported", message)
        }
    }
}

/// The problem of a brief that the chosen model cannot follow.
pub(super) fn unsupported(error: &UnsupportedBrief) -> Problem {
    Problem::new(Kind::Invalid, "model_parameter_unsupported", error.to_string())
        .hint("leave the field out, or choose another operation")
}

/// The recording that was made of a run.
pub(super) struct ShownRecording {
    pub(super) recording: Option<BlobRef>,
    pub(super) cassette: Option<BlobRef>,
    pub(super) incomplete: Option<String>,
}

/// Adds the brief to the answer for a run.
pub(super) fn show(run: &mut api::Run, brief: Brief, made: ShownRecording) {
    let ShownRecording { recording, cassette, incomplete } = made;
    let Brief {
        agent,
        models,
        artifact: _,
        parameters,
        instructions,
        skills,
        record,
        replay,
        guards,
        approvals,
    } = brief;
    run.agent = (!agent.is_react()).then(|| agent.to_string());
    run.models = shown_models(&models);
    run.parameters = parameters.into();
    run.instructions = instructions;
    let skills = skills.into_iter().map(|skill| api::RunSkill {
        name: skill.name,
        description: skill.description,
        sha256: skill.archive.sha256.to_string(),
    });
    run.skills = skills.collect();
    let digest = |blob: BlobRef| blob.sha256.to_string();
    let (sha256, cassette) = (recording.map(digest), cassette.map(digest));
    run.recording = record.map(|name| api::RunRecording { name, sha256, cassette, incomplete });
    run.replay = replay.map(|replay| replay.run.to_string());
    let Guards { joins, dates, turns } = guards;
    run.guards = api::RunGuards { joins, dates, turns };
    // They come from a request, so they fit.
    run.approvals = (!approvals.is_never()).then(|| approvals.policy.try_into().ok()).flatten();
}

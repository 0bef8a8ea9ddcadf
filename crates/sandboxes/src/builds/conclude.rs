//! The end of a build: shared, written down, or neither.

use super::sandboxed::{Stopping, stopped};
use super::{Known, StepError, unknown_build};
use crate::clock::now;
use crate::logs::Level;
use crate::problem::Problem;
use crate::start::Actions;
use crate::template::{BuildRecord, BuildStatus, Reason, Record, Tag};

/// What a build came to.
#[derive(Debug)]
pub(super) struct Finished {
    version: String,
    /// What other nodes make it from, if there are any.
    packed: Option<belljar_objects::Digest>,
}

impl Actions {
    /// Hands a finished build to the other nodes, if there are any.
    pub(super) async fn share(
        &self,
        record: &Record,
        build: &BuildRecord,
        version: String,
        stopping: &Stopping,
    ) -> Result<Finished, Reason> {
        let step = Some("finalize".to_owned());
        let why = tokio::select! {
            carried = self.carry_out(record, &version) => match carried {
                Ok(packed) => return Ok(Finished { version, packed }),
                Err(problem) => StepError::Ours(problem),
            },
            stopped = stopped(stopping) => stopped,
        };
        self.discard(record, vec![BuildRecord { version: Some(version), ..build.clone() }]);
        Err(why.reason(step))
    }

    /// Writes down how a build ended.
    pub(super) async fn conclude(
        &self,
        known: &Known,
        record: &Record,
        build: &BuildRecord,
        built: Result<Finished, Reason>,
    ) {
        let name = &record.name;
        let told = match &built {
            Ok(finished) => self.tell_finished(record, build, finished).await,
            Err(reason) => self.tell_failed(known, record, build, reason.clone()),
        };
        let Err(problem) = told else {
            let status = if built.is_ok() { BuildStatus::Ready } else { BuildStatus::Error };
            tracing::info!(build.id, "build of `{name}`: {status:?}");
            return self.prune(record).await;
        };
        // The template was deleted meanwhile, or others cannot be told of the build.
        tracing::warn!(build.id, %problem, "build of `{name}` discarded");
        if let Ok(Finished { version, .. }) = built {
            self.discard(record, vec![BuildRecord { version: Some(version), ..build.clone() }]);
            let reason = Reason { message: problem.message, step: Some("finalize".to_owned()) };
            // Where there is no record any more, nobody asks.
            let _ = self.tell_failed(known, record, build, reason);
        }
    }

    async fn tell_finished(
        &self,
        record: &Record,
        build: &BuildRecord,
        finished: &Finished,
    ) -> Result<(), Problem> {
        self.change_template(&record.tenant, &record.id, |record| {
            let found = record.builds.iter_mut().find(|known| known.id == build.id);
            let found = found.ok_or_else(|| unknown_build(&build.id))?;
            found.status = BuildStatus::Ready;
            found.version = Some(finished.version.clone());
            found.packed = finished.packed;
            found.finished_at = Some(now());
            let tag = Tag { build: build.id.clone(), at: now() };
            record.tags.extend(build.tags.iter().map(|name| (name.clone(), tag.clone())));
            Ok(())
        })
        .await
    }

    /// Other nodes never hear of it.
    fn tell_failed(
        &self,
        known: &Known,
        record: &Record,
        build: &BuildRecord,
        reason: Reason,
    ) -> Result<(), Problem> {
        known.log.add(Level::Error, reason.step.as_deref(), reason.message.clone());
        self.templates().own().change(&record.tenant, &record.id, |record| {
            let found = record.builds.iter_mut().find(|known| known.id == build.id);
            found.ok_or_else(|| unknown_build(&build.id))?.fail(reason);
            Ok(())
        })
    }
}

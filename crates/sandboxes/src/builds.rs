//! Template builds: asked for, told what to do, waited for.
//!
//! ```text
//!   request ──► waiting ── start ──► building ──► ready (tagged)
//!                                       └───────► error (with the step)
//! ```
//!
//! Builds run in the background, so many at a time; the others wait for their
//! turn. Every command of a build runs in a sandbox, of a tier that its tenant may
//! have: floors hold here as everywhere. A server that stops ends its builds first.

mod begin;
mod catalog;
mod conclude;
mod disk;
mod log;
mod network;
mod request;
mod run;
mod sandboxed;
mod steps;
mod uploads;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, watch};

pub use catalog::Alias;
pub use log::Entry;
pub use steps::{Action, Base, Instructions, Step};
pub use uploads::{Slot, Upload};

use crate::config::BuildLimits;
use crate::keys::Tenant;
use crate::logs::Level;
use crate::problem::{Kind, Problem};
use crate::start::Actions;
use crate::template::{BuildRecord, BuildStatus, Record};
use log::Log;
use sandboxed::Stop;
use uploads::Uploads;

/// What somebody wants to build.
#[derive(Debug, Clone, Default)]
pub struct NewBuild {
    /// `name` or `name:tag`.
    pub name: String,
    pub tags: Vec<String>,
    pub cpu_count: Option<u32>,
    pub memory_mb: Option<u64>,
    /// Space for files that sandboxes must have.
    pub disk_mb: Option<u64>,
}

/// A build that may be started.
#[derive(Debug)]
pub struct Requested {
    pub template: String,
    pub build: String,
    pub name: String,
    pub tags: Vec<String>,
}

/// How a build stands, and what it has said since.
#[derive(Debug)]
pub struct Progress {
    pub build: BuildRecord,
    pub entries: Vec<Entry>,
}

/// Why a step of a build was not done.
#[derive(Debug, thiserror::Error)]
enum StepError {
    /// Words for whoever wrote the step.
    #[error("{0}")]
    Told(String),
    #[error("the build was stopped")]
    Stopped(Stop),
    #[error(transparent)]
    Ours(#[from] Problem),
}

/// Builds that are under way or were lately.
#[derive(Debug)]
pub(crate) struct Builds {
    uploads: Uploads,
    room: Arc<Semaphore>,
    known: Mutex<HashMap<String, Arc<Known>>>,
    /// How many run or wait, and how many removals are under way.
    active: watch::Sender<usize>,
}

#[derive(Debug)]
struct Known {
    tenant: Tenant,
    template: String,
    log: Log,
    stop: watch::Sender<Option<Stop>>,
}

/// Builds of a template that are remembered besides those with a tag.
const REMEMBERED: usize = 5;
/// Builds of a template that were asked for and never started.
const MOST_WAITING: usize = 20;
/// Logs that are kept.
const MOST_LOGS: usize = 500;

impl Builds {
    pub(crate) fn open(state: &Path, limits: &BuildLimits) -> io::Result<Self> {
        Ok(Self {
            uploads: Uploads::open(state)?,
            room: Arc::new(Semaphore::new(limits.at_once)),
            known: Mutex::default(),
            active: watch::Sender::new(0),
        })
    }

    fn uploads(&self) -> &Uploads {
        &self.uploads
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, build: &str, tenant: &Tenant, template: &str) -> Arc<Known> {
        let known = Arc::new(Known {
            tenant: tenant.clone(),
            template: template.to_owned(),
            log: Log::default(),
            stop: watch::Sender::new(None),
        });
        let mut all = self.lock();
        if all.len() >= MOST_LOGS {
            all.retain(|_, known| Arc::strong_count(known) > 1);
        }
        all.insert(build.to_owned(), known.clone());
        known
    }

    /// Tells every build to stop.
    pub(crate) fn cancel(&self) {
        for known in self.lock().values() {
            known.stop.send_replace(Some(Stop::Draining));
        }
    }

    /// Waits until no build runs any more and nothing is being removed.
    pub(crate) async fn finished(&self) {
        // The sender lives as long as `self`.
        let _ = self.active.subscribe().wait_for(|active| *active == 0).await;
    }
}

impl Actions {
    /// Says what to build. It begins when it is its turn.
    pub fn start_build(
        &self,
        tenant: &Tenant,
        template: &str,
        build: &str,
        told: Instructions,
    ) -> Result<(), Problem> {
        self.refuse_when_draining()?;
        if told.steps.len() > steps::MOST_STEPS {
            return Err(Problem::invalid(format!(
                "a build has at most {} steps",
                steps::MOST_STEPS
            )));
        }
        if told.has_commands() {
            self.check_build_tier(tenant)?;
        }
        let mine = |known: &&Arc<Known>| known.tenant == *tenant && Arc::strong_count(known) > 1;
        let most = self.config().builds.per_tenant;
        if self.builds().lock().values().filter(mine).count() >= most {
            let message = format!("your quota of {most} concurrent builds is used up");
            return Err(Problem::new(Kind::TooMany, "too_many_builds", message));
        }
        let own = self.templates().own();
        let (record, build) = own.change(tenant, template, |record| {
            let found = record.builds.iter_mut().find(|known| known.id == build);
            let found = found.ok_or_else(|| unknown_build(build))?;
            if found.status != BuildStatus::Waiting {
                return Err(Problem::invalid("build is not in waiting state"));
            }
            found.status = BuildStatus::Building;
            let build = found.clone();
            Ok((record.clone(), build))
        })?;
        let known = self.builds().enter(&build.id, tenant, template);
        let actions = self.clone();
        self.builds().active.send_modify(|active| *active += 1);
        tokio::spawn(async move {
            // Its own task, so that the count is kept whatever becomes of it.
            let working = tokio::spawn({
                let actions = actions.clone();
                async move { actions.work(&known, record, build, told).await }
            });
            if let Err(error) = working.await {
                tracing::error!(%error, "build task failed");
            }
            actions.builds().active.send_modify(|active| *active -= 1);
        });
        Ok(())
    }

    fn known_build(
        &self,
        tenant: &Tenant,
        template: &str,
        build: &str,
    ) -> Result<Arc<Known>, Problem> {
        let known = self.builds().lock().get(build).cloned();
        let known = known.filter(|known| known.tenant == *tenant && known.template == template);
        known.ok_or_else(|| unknown_build(build))
    }

    async fn work(
        &self,
        known: &Arc<Known>,
        record: Record,
        build: BuildRecord,
        told: Instructions,
    ) {
        let limits = self.config().builds;
        let stopping = known.stop.subscribe();
        let timer = tokio::spawn({
            let known = known.clone();
            async move {
                tokio::time::sleep(limits.whole).await;
                known.stop.send_replace(Some(Stop::TimedOut));
            }
        });
        let work = run::Work {
            actions: self,
            tenant: &known.tenant,
            record: &record,
            build: &build,
            log: &known.log,
            stopping: &stopping,
        };
        let built = async {
            let turn = tokio::select! {
                turn = self.builds().room.clone().acquire_owned() => turn,
                stopped = sandboxed::stopped(&stopping) => return Err(stopped.reason(None)),
            };
            let _turn = turn;
            Box::pin(work.build(&told)).await
        };
        let built = match built.await {
            Ok(version) => self.share(&record, &build, version, &stopping).await,
            Err(reason) => Err(reason),
        };
        timer.abort();
        // Nobody else holds the timer's copy any more.
        let _ = timer.await;
        self.conclude(known, &record, &build, built).await;
    }

    /// How a build stands, with at most `limit` entries of its log from
    /// `offset` on.
    pub fn build_progress(
        &self,
        tenant: &Tenant,
        template: &str,
        build: &str,
        (offset, limit): (usize, usize),
        least: Level,
    ) -> Result<Progress, Problem> {
        let record = self.templates().own().find(tenant, template);
        let record = record.ok_or_else(|| unknown_build(build))?;
        let found = record.build(build).cloned().ok_or_else(|| unknown_build(build))?;
        let known = self.known_build(tenant, &record.id, build);
        let entries = known.map(|known| known.log.from(offset, limit, least));
        Ok(Progress { build: found, entries: entries.unwrap_or_default() })
    }

    /// Where to send the files of a step.
    pub fn upload_slot(
        &self,
        tenant: &Tenant,
        template: &str,
        hash: &str,
    ) -> Result<Slot, Problem> {
        let found = self.templates().own().find(tenant, template);
        found.ok_or_else(|| Problem::not_found("template", template))?;
        self.builds().uploads().slot(tenant, hash)
    }

    /// Takes what is sent to such an address. The address is all the proof.
    pub async fn receive_upload(&self, token: &str) -> Result<Upload, Problem> {
        self.refuse_when_draining()?;
        let limits = self.config().builds;
        let uploads = self.builds().uploads();
        uploads.receive(token, limits.upload_bytes, limits.kept_bytes).await
    }
}

fn unknown_build(id: &str) -> Problem {
    Problem::new(Kind::NotFound, "build_not_found", format!("Build '{id}' not found"))
}

/// Does what waits for disks on a thread for that.
async fn blocking<T, E>(
    attempted: &'static str,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, StepError>
where
    T: Send + 'static,
    E: std::error::Error + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| Problem::internal(attempted, &error).into()),
        Err(error) => Err(Problem::internal(attempted, &error).into()),
    }
}

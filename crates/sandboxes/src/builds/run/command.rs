//! `RUN`: a command in a sandbox, whose writable layer is kept.

use belljar_domain::{EndReason, Limits, Spec, User};
use belljar_template::digest::Fields;
use belljar_template::progress::Lines;
use belljar_template::store::StoreError;
use belljar_template::{Digest, lay};

use super::{Stand, Work};
use crate::builds::disk::StepDisk;
use crate::builds::network::StepNetwork;
use crate::builds::sandboxed::{self, Job, Stream, Watch};
use crate::builds::{StepError, begin, blocking};
use crate::logs::Level;

/// What installing packages takes.
const STEP_MEMORY_BYTES: u64 = 2 << 30;
const STEP_PIDS: u32 = 1024;

impl Work<'_> {
    /// Who a name is inside. Only two can run anything.
    pub(super) async fn user(&self, stand: &Stand, name: &str) -> Result<User, StepError> {
        match self.owner(stand, name).await? {
            Some((0, _)) => Ok(User::Root),
            Some((1000, _)) => Ok(User::User),
            Some(_) => Err(StepError::Told(format!(
                "user '{name}' is not supported; use `user` or `root`"
            ))),
            None => Err(StepError::Told(format!(
                "command failed: unauthenticated: invalid username: '{name}'"
            ))),
        }
    }

    pub(super) async fn owner(
        &self,
        stand: &Stand,
        name: &str,
    ) -> Result<Option<lay::Owner>, StepError> {
        let (layers, name) = (stand.paths(), name.to_owned());
        blocking("look up a user", move || lay::owner(&layers, &name)).await
    }

    pub(super) async fn run(
        &self,
        stand: &mut Stand,
        line: &str,
        user: &str,
        name: &str,
    ) -> Result<(), StepError> {
        let failed = |why: &dyn std::fmt::Display| {
            StepError::Told(format!("failed to run command '{line}': {why}"))
        };
        let known = self.user(stand, user).await.map_err(|error| match error {
            StepError::Told(why) => failed(&why),
            other => other,
        })?;
        let mut inputs = Fields::new();
        inputs.add("run").add(line).add(user).add(stand.workdir.as_deref().unwrap_or(""));
        inputs.all(stand.env.keys()).all(stand.env.values());
        let key = stand.key(&inputs.finish());
        if self.cached(stand, &key, name).await? {
            return Ok(());
        }
        stand.check_room()?;
        // Asked for each command: a floor may have been raised since the last.
        let tier = self.actions.build_tier(self.tenant, stand.base.defaults.tier);
        let tier = tier.map_err(StepError::refused)?;
        let disk = self.step_disk().await?;
        let bounds = self.actions.config().builds;
        // Package managers write files of other users, and start programs as them.
        let profile = self.actions.config().max_profile;
        let (disk_of_step, limits) = (disk.disk(), self.limits());
        let spec = Spec { disk: disk_of_step, limits, profile, ..Spec::new(tier, stand.root()) };
        let mut network = self.network(stand).await?;
        let mut env = network.network.env.clone();
        env.extend(stand.env.clone());
        let mut command = begin::command(line, known, stand.workdir.as_deref(), &env);
        command.wall = Some(bounds.step);
        let mut streams = [("stdout", Lines::default()), ("stderr", Lines::default())];
        let say = |stream: &str, line: &str| {
            self.say(Level::Info, name, format!("[builder {name}] [{stream}]: {line}"));
        };
        let watch = Watch { stopping: self.stopping, disk: &disk };
        let job = Job {
            actions: self.actions,
            tenant: self.tenant,
            spec: &spec,
            network: &mut network,
            command: &command,
        };
        let ended = sandboxed::run(job, watch, |from, bytes| {
            let (stream, lines) = &mut streams[usize::from(from == Stream::Stderr)];
            lines.feed(bytes, |line| say(stream, line));
        });
        let ended = Box::pin(ended).await;
        for (stream, lines) in &mut streams {
            lines.flush(|line| say(stream, line));
        }
        for denied in network.denied() {
            self.say(Level::Warn, name, format!("[builder {name}] connection denied: {denied}"));
        }
        let end = ended.map_err(|error| match error {
            StepError::Told(why) => failed(&why),
            other => other,
        })?;
        if end.reason != EndReason::Done {
            let why = disk.is_full().map(|full| full.to_string());
            let why = why.unwrap_or_else(|| sandboxed::shown(&end));
            return Err(match network.hint() {
                Some(hint) => failed(&format!("{why}; {hint}")),
                None => failed(&why),
            });
        }
        self.keep_step(stand, &key, disk, network).await
    }

    /// The network of a sandbox of this build.
    pub(super) async fn network(&self, stand: &Stand) -> Result<StepNetwork, StepError> {
        let network = self.actions.plan_build_network(&stand.template).await;
        network.map(StepNetwork::new).map_err(StepError::refused)
    }

    /// An empty disk, if there is room for what a step may write.
    async fn step_disk(&self) -> Result<StepDisk, StepError> {
        let (store, bounds) = (self.store(), self.actions.config().builds);
        self.check_free_space(&store)?;
        blocking("create the disk of a step", move || StepDisk::make(&store, &bounds)).await
    }

    async fn keep_step(
        &self,
        stand: &mut Stand,
        key: &Digest,
        disk: StepDisk,
        network: StepNetwork,
    ) -> Result<(), StepError> {
        let (store, key) = (self.store(), *key);
        let kept = blocking("store the layer of a step", move || {
            // What the step did wrong is for its author: it is no failure of ours.
            let layer = match disk.keep(&store, &network) {
                Ok(layer) => layer,
                Err(error) => return Ok(Err(error)),
            };
            store.remember_step(&key, &layer)?;
            Ok::<_, StoreError>(Ok(layer))
        });
        stand.push(kept.await??);
        Ok(())
    }

    /// What a step may use: as much as sandboxes of the template, and what
    /// installing takes if the operator's maximum allows it.
    fn limits(&self) -> Limits {
        let max = self.actions.config().max_limits;
        let template_bytes = self.build.memory_mb << 20;
        Limits {
            memory_bytes: template_bytes.max(STEP_MEMORY_BYTES.min(max.memory_bytes)),
            cpu_millis: self.build.cpu_count.saturating_mul(1000),
            pids: STEP_PIDS.min(max.pids),
            output_bytes: 1 << 30,
            wall: self.actions.config().builds.step,
            open_files: 4096,
            ..Limits::default()
        }
    }
}

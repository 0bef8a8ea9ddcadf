//! `RUN`: a command in a sandbox, whose writable layer is kept.

use belljar_model::{Disk, EndReason, Limits, Spec, User};
use belljar_template::digest::Fields;
use belljar_template::lay;
use belljar_template::progress::Lines;
use belljar_template::tree::Kind as Tree;

use super::{Stand, Work};
use crate::builds::sandboxed::{self, Stream, Watch};
use crate::builds::{StepError, begin, blocking};
use crate::logs::Level;
use crate::problem::Problem;

impl Work<'_> {
    /// Who a name is inside. Only two can run anything.
    pub(super) async fn user(&self, stand: &Stand, name: &str) -> Result<User, StepError> {
        match self.owner(stand, name).await? {
            Some((0, _)) => Ok(User::Root),
            Some((1000, _)) => Ok(User::User),
            Some(_) => Err(StepError::Told(format!(
                "'{name}' cannot run anything here; `user` and `root` can"
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
        let work = self.workspace().await?;
        let disk = work.path().join("disk");
        let upper = disk.join("upper");
        for directory in [&disk, &upper, &disk.join("work")] {
            let made = std::fs::create_dir(directory);
            made.map_err(|error| Problem::internal("make the disk of a step", &error))?;
        }
        let bounds = self.actions.config().builds;
        let spec = Spec {
            disk: Disk::Directory(disk.clone()),
            limits: self.limits(),
            ..Spec::new(tier, stand.root())
        };
        let mut command = begin::command(line, known, stand.workdir.as_deref(), &stand.env);
        command.wall = Some(bounds.step);
        let mut streams = [("stdout", Lines::default()), ("stderr", Lines::default())];
        let say = |stream: &str, line: &str| {
            self.say(Level::Info, name, format!("[builder {name}] [{stream}]: {line}"));
        };
        let watch = Watch { stopping: self.stopping, written: (&upper, bounds.written) };
        let ended = sandboxed::run(self.actions.node(), &spec, &command, watch, |from, bytes| {
            let (stream, lines) = &mut streams[usize::from(from == Stream::Stderr)];
            lines.feed(bytes, |line| say(stream, line));
        });
        let ended = Box::pin(ended).await;
        for (stream, lines) in &mut streams {
            lines.flush(|line| say(stream, line));
        }
        let end = ended.map_err(|error| match error {
            StepError::Told(why) => failed(&why),
            other => other,
        })?;
        if end.reason != EndReason::Done {
            return Err(failed(&sandboxed::shown(&end)));
        }
        self.keep(stand, &key, work, upper, Tree::Upper).await
    }

    /// What a step may use: as much as sandboxes of the template, and what
    /// installing takes.
    fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.build.memory_mb.max(2048) << 20,
            cpu_millis: self.build.cpu_count.saturating_mul(1000),
            pids: 1024,
            output_bytes: 1 << 30,
            wall: self.actions.config().builds.step,
            open_files: 4096,
            ..Limits::default()
        }
    }
}

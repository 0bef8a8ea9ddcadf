//! A tier of ours, as whoever uses a node drives it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use belljar_domain::{Spec, Tier, User};
use belljar_node::{
    CellEvent, Command, Context, ContextOptions, Event, Language, Node, Running, Sandbox,
};
use belljar_template::Template;

use super::{Figures, work};
use crate::commands::bench::machine;
use crate::warmth;

pub(super) struct Ours {
    spec: Spec,
    python: Vec<u8>,
    env: Vec<(Vec<u8>, Vec<u8>)>,
    context: ContextOptions,
    /// What interpreters import before anything is asked of them.
    warm: String,
    /// Where a sandbox with such an interpreter lies, on tiers that can save one.
    saved: Option<PathBuf>,
}

/// The longest that anything here may take; an emulated machine is slow.
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Ours {
    pub(super) async fn prepare(
        node: &Node,
        mut spec: Spec,
        template: &Template,
        place: PathBuf,
    ) -> anyhow::Result<Self> {
        spec.limits.wall = DAY;
        let python = template.languages.get("python").context("the template has no Python")?;
        let env = template.env.iter();
        let env = env.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        let mut ours = Self {
            python: python.as_os_str().as_encoded_bytes().to_vec(),
            env: env.collect(),
            context: warmth::context(template, Language::Python)?,
            warm: template.warm.clone().unwrap_or_default(),
            spec,
            saved: None,
        };
        let sandbox = node.create(&ours.spec).await?;
        ours.echo(&sandbox).await?;
        if ours.tier().can_be_saved() {
            ours.warmed(&sandbox).await?;
            sandbox.suspend(&place).await.context("cannot save it")?;
            ours.saved = Some(place);
        } else {
            sandbox.destroy().await?;
        }
        Ok(ours)
    }

    pub(super) fn spec(&self) -> &Spec {
        &self.spec
    }

    pub(super) fn tier(&self) -> Tier {
        self.spec.tier
    }

    pub(super) async fn turn(
        &mut self,
        node: &Node,
        figures: &mut Figures,
        slow: bool,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        let sandbox = node.create(&self.spec).await?;
        // The first thing that is answered from inside.
        sandbox.stat(User::User, b"/").await?;
        figures.up.push(start.elapsed());
        self.echo(&sandbox).await?;
        figures.word.push(start.elapsed());
        figures.memory_bytes = Some(memory(&sandbox));
        sandbox.destroy().await?;

        let start = Instant::now();
        let sandbox = node.create(&self.spec).await?;
        let said = self.first(&sandbox, &self.script(work::PRINT)).await?;
        figures.python.push(start.elapsed());
        ensure!(said.trim() == "1", "Python said {said:?}");
        let done = sandbox.execute(&self.script(work::SCRIPT)).await?;
        ensure!(done.end.exit_code == Some(0), "the work failed: {}", done.stderr.text());
        figures.work = work::parse(done.stdout.text().trim())?;
        sandbox.destroy().await?;

        if let Some(saved) = &self.saved {
            let start = Instant::now();
            let sandbox = node.resume_from(saved, self.spec.clone()).await?;
            let context = sandbox.contexts().into_iter().next().context("it has no context")?;
            answer(&context).await?;
            figures.restored.push(start.elapsed());
            sandbox.destroy().await?;
            if slow {
                let start = Instant::now();
                let sandbox = node.create(&self.spec).await?;
                self.warmed(&sandbox).await?;
                figures.cold.push(start.elapsed());
                sandbox.destroy().await?;
            }
        }
        Ok(())
    }

    /// An interpreter that has imported everything, and answers.
    async fn warmed(&self, sandbox: &Sandbox) -> anyhow::Result<()> {
        let context = sandbox.context(self.context.clone()).await?;
        let ran = context.execute(self.warm.clone(), Some(DAY)).await;
        ensure!(ran.end.ok, "the template's code failed: {:?}", ran.error);
        answer(&context).await
    }

    fn script(&self, code: &str) -> Command {
        let argv = [self.python.clone(), b"-c".to_vec(), code.into()];
        Command { env: self.env.clone(), ..Command::new(argv) }
    }

    async fn echo(&self, sandbox: &Sandbox) -> anyhow::Result<()> {
        let said = self.first(sandbox, &Command::new(work::ECHO)).await?;
        ensure!(said.trim() == "1", "echo said {said:?}");
        Ok(())
    }

    /// The first words of a call.
    async fn first(&self, sandbox: &Sandbox, command: &Command) -> anyhow::Result<String> {
        let mut call = sandbox.start(command).await?;
        match call.next().await {
            Event::Stdout(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Event::Stderr(bytes) => bail!("{}", String::from_utf8_lossy(&bytes).trim()),
            Event::End(end) => bail!("it ended without a word: {}", end.reason),
        }
    }
}

/// Has a context print, and waits for the first word of it.
async fn answer(context: &Context) -> anyhow::Result<()> {
    let mut running: Running = context.run(work::PRINT, Some(DAY));
    loop {
        match running.next().await {
            CellEvent::Stdout(bytes) => {
                ensure!(bytes.starts_with(b"1"), "the context said {bytes:?}");
                return Ok(());
            }
            CellEvent::End(end) => bail!("the context did not answer: {}", end.reason),
            _ => {}
        }
    }
}

/// What all processes of a sandbox have in the host's memory.
fn memory(sandbox: &Sandbox) -> u64 {
    let id = sandbox.id().to_string();
    let of_it = |pid: &u32| {
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"));
        groups.is_ok_and(|text| text.contains(&id))
    };
    machine::processes().into_iter().filter(of_it).filter_map(machine::proportional).sum()
}

//! A sandbox with an interpreter that has the probes.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use belljar_domain::{EndReason, User};
use belljar_node::{Command, Context, ContextOptions, Origin, Sandbox};
use serde::Deserialize;
use serde_json::Value;

use crate::canary::Canary;
use crate::probe::{Probe, SOURCE};

/// What a probe answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Found(Option<String>),
    /// Nobody in a sandbox has this channel, and why.
    Closed(String),
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) sandbox: Sandbox,
    pub(crate) context: Context,
    /// A second interpreter, for what reaches through the sandbox.
    beside: Option<Context>,
}

/// No probe takes longer; one that does hangs.
const LONGEST: Duration = Duration::from_secs(120);

impl Session {
    pub(crate) async fn start(sandbox: Sandbox, options: &ContextOptions) -> anyhow::Result<Self> {
        let context = sandbox.context(options.clone()).await.context("make a context")?;
        load(&context).await?;
        Ok(Self { sandbox, context, beside: None })
    }

    /// One whose interpreter has the probes already.
    pub(crate) fn copied(sandbox: Sandbox) -> anyhow::Result<Self> {
        let context = sandbox.contexts().into_iter().next().context("a copy has no context")?;
        ensure!(context.facts().origin == Origin::Copied, "a copy is {:?}", context.facts());
        Ok(Self { sandbox, context, beside: None })
    }

    pub(crate) async fn catalogue(&self) -> anyhow::Result<Vec<Probe>> {
        ask(&self.context, "_bleed.catalogue()").await
    }

    /// Leaves a canary.
    pub(crate) async fn plant(&self, probe: &Probe, canary: &Canary) -> anyhow::Result<Answer> {
        if let Some(script) = &probe.root {
            let mut command = Command::new(["/bin/sh", "-ec", script, canary.as_str()]);
            command.user = User::Root;
            let done = self.sandbox.execute(&command).await?;
            ensure!(done.end.reason == EndReason::Done, "as root: {}", done.stderr.text());
        }
        let (name, canary) = (&probe.name, canary.as_str());
        ask(&self.context, &format!("_bleed.plant('{name}', '{canary}')")).await
    }

    /// Looks for one.
    pub(crate) async fn look(&self, probe: &Probe, canary: &Canary) -> anyhow::Result<Answer> {
        look(&self.context, probe, canary).await
    }

    /// Looks from the other interpreter of the same sandbox.
    pub(crate) async fn look_beside(
        &mut self,
        probe: &Probe,
        canary: &Canary,
    ) -> anyhow::Result<Answer> {
        if self.beside.is_none() {
            let context = self.sandbox.context(self.context.options().clone()).await?;
            load(&context).await?;
            self.beside = Some(context);
        }
        let beside = self.beside.as_ref().context("there is a second context")?;
        look(beside, probe, canary).await
    }

    /// A random value, or one from a source that was tampered with.
    pub(crate) async fn draw(&self, probe: &Probe, rigged: bool) -> anyhow::Result<String> {
        let rigged = if rigged { "True" } else { "False" };
        match ask(&self.context, &format!("_bleed.draw('{}', {rigged})", probe.name)).await? {
            Answer::Found(Some(value)) => Ok(value),
            other => bail!("no value was drawn: {other:?}"),
        }
    }
}

async fn load(context: &Context) -> anyhow::Result<()> {
    // JSON text is Python text, too.
    let source = Value::from(SOURCE).to_string();
    let code = format!(
        "import types as _types\n_bleed = _types.ModuleType('_bleed')\n\
         exec(compile({source}, '<bleed>', 'exec'), _bleed.__dict__)"
    );
    run(context, &code).await.context("load the probes").map(drop)
}

async fn look(context: &Context, probe: &Probe, canary: &Canary) -> anyhow::Result<Answer> {
    let hint = probe.hint(canary);
    ask(context, &format!("_bleed.look('{}', '{hint}')", probe.name)).await
}

/// Runs a cell that answers with one line.
async fn ask<T: for<'a> Deserialize<'a>>(context: &Context, code: &str) -> anyhow::Result<T> {
    let text = run(context, code).await?;
    let said = text.lines().filter_map(|line| line.strip_prefix("BLEED ")).next_back();
    let said = said.with_context(|| format!("it answered nothing: {text}"))?;
    serde_json::from_str(said).with_context(|| format!("it answered {said}"))
}

async fn run(context: &Context, code: &str) -> anyhow::Result<String> {
    let ran = context.execute(code, Some(LONGEST)).await;
    if let Some(error) = &ran.error {
        let last: Vec<_> = error.traceback.iter().rev().take(6).rev().map(String::as_str).collect();
        bail!("{}: {} ({})", error.name, error.value, last.join(" | "));
    }
    let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(ran.end.ok, "the cell ended with {}: {}{stderr}", ran.end.reason, ran.text());
    Ok(ran.text())
}

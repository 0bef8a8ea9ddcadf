//! What an attack is: the act, how it is judged, and its control.

use std::future::Future;
use std::pin::Pin;

use anyhow::{Context as _, bail};
use belljar_domain::{SecurityProfile, Spec, User};
use belljar_node::{Command, Defence};

use crate::catalogue::table;
use crate::harness::stage::{Ran, Stage};

/// What a run of an attack came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was stopped; the text says by what.
    Held(String),
    /// It worked.
    Breach(String),
    /// It was stopped, and something else took so long that it seems to hang: this decides
    /// nothing on a host that did not have its cores.
    Late(String),
    /// It cannot be staged on this host, and why.
    NotHere(String),
}

pub(crate) type Run = Pin<Box<dyn Future<Output = anyhow::Result<Seen>> + Send>>;

/// The hostile act. The same one runs against the real jail and, weakened, in
/// the control run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    /// One payload in one sandbox.
    Payload(Payload),
    /// The harness has a part in it.
    Driven(fn(Stage) -> Run),
}

/// How the attack is shown to be able to succeed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Control {
    /// With all of these off, the same act must breach.
    Without(&'static [Defence]),
    /// With each of these sets off in turn, the same act must breach.
    Each(&'static [&'static [Defence]]),
    /// No control can succeed here, and why.
    Because(&'static str),
    /// A run of its own that must breach.
    Own(fn(Stage) -> Run),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Attack {
    pub(crate) id: &'static str,
    /// 0: every commit, 1: nightly, 2: now and then.
    pub(crate) priority: u8,
    pub(crate) title: &'static str,
    pub(crate) act: Act,
    pub(crate) control: Control,
    /// The reason that nothing may run beside it. A neighbour's heartbeat is watched meanwhile.
    pub(crate) alone: Option<&'static str>,
}

impl Attack {
    /// Priority and title come from the table of all attacks.
    pub(crate) fn new(id: &'static str, act: Act, control: Control) -> Self {
        let (priority, title) = table::find(id).map_or((0, ""), |row| (row.priority, row.title));
        Self { id, priority, title, act, control, alone: None }
    }

    /// Runs alone, beside a neighbour that must not notice it.
    pub(crate) fn alone(self, reason: &'static str) -> Self {
        Self { alone: Some(reason), ..self }
    }

    /// Whether it is about warm interpreters.
    pub(crate) fn is_warm(&self) -> bool {
        self.class() == "ZYG" || self.id == "RES-23"
    }

    pub(crate) fn class(&self) -> &'static str {
        self.id.split('-').next().unwrap_or(self.id)
    }
}

/// A payload file with its surroundings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload {
    pub(crate) file: &'static str,
    pub(crate) args: Args,
    /// Changes the sandbox from [`Stage::spec`].
    pub(crate) tune: fn(&mut Spec),
    /// Changes the call, for example to have a terminal.
    pub(crate) call: fn(&mut Command),
    pub(crate) judge: fn(&Ran) -> anyhow::Result<Seen>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Args {
    Fixed(&'static [&'static str]),
    /// Known only when the canaries are.
    Found(fn(&Stage) -> Vec<String>),
}

impl Args {
    pub(crate) fn list(self, stage: &Stage) -> Vec<String> {
        match self {
            Self::Fixed(list) => list.iter().map(|&arg| arg.to_owned()).collect(),
            Self::Found(find) => find(stage),
        }
    }
}

/// A payload without arguments, in the usual sandbox, judged by its verdict.
pub(crate) const fn payload(file: &'static str) -> Payload {
    Payload { file, args: Args::Fixed(&[]), tune: |_| {}, call: |_| {}, judge: verdict }
}

impl Payload {
    pub(crate) const fn args(self, args: &'static [&'static str]) -> Self {
        Self { args: Args::Fixed(args), ..self }
    }

    pub(crate) const fn args_from(self, find: fn(&Stage) -> Vec<String>) -> Self {
        Self { args: Args::Found(find), ..self }
    }

    pub(crate) const fn tune(self, tune: fn(&mut Spec)) -> Self {
        Self { tune, ..self }
    }

    pub(crate) const fn call(self, call: fn(&mut Command)) -> Self {
        Self { call, ..self }
    }

    /// As root of a sandbox with the profile `full`.
    pub(crate) const fn as_full_root(self) -> Self {
        Self { tune: full, call: |call| call.user = User::Root, ..self }
    }

    pub(crate) const fn judge(self, judge: fn(&Ran) -> anyhow::Result<Seen>) -> Self {
        Self { judge, ..self }
    }

    /// Stages it: a sandbox of its own, one call, the verdict.
    pub(crate) async fn run(self, stage: &Stage) -> anyhow::Result<Seen> {
        let sandbox = stage.sandbox(self.tune).await?;
        let args = self.args.list(stage);
        let mut command = stage.place(&sandbox, self.file, &args).await?;
        (self.call)(&mut command);
        let ran = stage.exec(&sandbox, &command).await?;
        (self.judge)(&ran)
    }
}

/// Gives root of the sandbox the capabilities of the profile `full`.
pub(crate) const fn full(spec: &mut Spec) {
    spec.profile = SecurityProfile::Full;
}

/// Reads a payload's verdict: a `BREACH` anywhere, else the last `HELD`.
///
/// Silence is no verdict, and neither is an act that never took place.
pub(crate) fn verdict(ran: &Ran) -> anyhow::Result<Seen> {
    verdict_in(&ran.stdout).with_context(|| format!("the payload ended with {}", ran.ending()))
}

pub(crate) fn verdict_in(output: &[u8]) -> anyhow::Result<Seen> {
    let text = String::from_utf8_lossy(output);
    // What a terminal echoes may stand before the verdict on its line.
    let said = |head: &str| {
        let after = |line| str::split_once(line, head).map(|(_, said)| said);
        text.lines().filter_map(after).next_back()
    };
    if let Some(unstaged) = said("NOTE unstaged") {
        bail!("the act did not take place: {unstaged}");
    }
    match (said("BREACH "), said("HELD ")) {
        (Some(breach), _) => Ok(Seen::Breach(breach.to_owned())),
        (None, Some(held)) => Ok(Seen::Held(held.to_owned())),
        (None, None) => bail!("it printed no verdict"),
    }
}

//! Sandboxes whose pid 1 is an attacker's.

use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use belljar_node::{Node, Sandbox};

use crate::harness::stage::Stage;

/// What the hostile guest does; as in `payloads/agt/guest.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    /// Answers each call with the output `own` and status 5.
    Obedient,
    SaysNothing,
    AnswersNothing,
    ByteByByte,
    OlderGeneration,
    NewerGeneration,
    SaysRoot,
    SaysUnfiltered,
    AnswersBeforeHello,
    GreetsTwice,
    EndlessFrame,
    UnknownKind,
    BadBody,
    BadEnum,
    AnswersTwice,
    /// Speaks on 4095 channels that were never opened, then obeys.
    NeverAsked,
    FloodOfEvents,
    FloodOfAnswers,
    FloodOfCounters,
    LiesAboutUse,
    LiesAboutSize,
    SendsDescriptors,
    /// The first call ends with 77; with every later one that is told again, then 5.
    Replays,
    SpeaksForOthers,
}

/// The scenario is told as the limit on open files, above this.
const SCENARIO_BASE: u64 = 2000;

/// A node all of whose guests are hostile.
pub(super) struct Hostile {
    stage: Stage,
    node: Node,
}

impl Hostile {
    pub(super) async fn start(stage: &Stage) -> anyhow::Result<Self> {
        static GUEST: OnceLock<Vec<u8>> = OnceLock::new();
        let path = stage.programs.path("agt/guest.c")?;
        let bytes = std::fs::read(path)?;
        let guest = GUEST.get_or_init(|| bytes);
        let node = Node::start_with_guest(stage.engines.state(), guest).await?;
        Ok(Self { stage: stage.clone(), node })
    }

    /// A sandbox is there before its guest has said anything.
    pub(super) async fn sandbox(&self, scenario: Scenario) -> anyhow::Result<Arc<Sandbox>> {
        let mut spec = self.stage.spec();
        spec.limits.open_files = SCENARIO_BASE + scenario as u64;
        let made = self.node.create_weakened(&spec, &self.stage.weakened).await;
        self.stage.keep(made.with_context(|| format!("cannot make a sandbox: {scenario:?}"))?)
    }

    /// Ends all its sandboxes, and itself.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.stage.clear().await?;
        self.node.stop().await;
        Ok(())
    }
}

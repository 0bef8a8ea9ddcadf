//! A sandbox beside the attacker that only wants to be left alone.

use std::time::Duration;

use anyhow::Context as _;
use belljar_node::Weakened;

use crate::harness::stage::{Running, Stage};

/// No gap may be longer than this at the 99th percentile. Loose on purpose: it
/// must hold on a small machine that others use, too.
const P99: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Neighbour {
    stage: Stage,
    beats: Running,
}

impl Neighbour {
    /// Moves in beside `attacker`, with every defence in place.
    pub(crate) async fn beside(attacker: &Stage) -> anyhow::Result<Self> {
        let stage = Stage { weakened: Weakened::default(), ..attacker.clone() };
        let sandbox = stage.sandbox(|spec| spec.limits.wall = Duration::from_secs(600)).await?;
        let command = stage.place(&sandbox, "host/heartbeat.c", &[""; 0]).await?;
        let beats = stage.start(&sandbox, &command).await?;
        Ok(Self { stage, beats })
    }

    /// Stops it. Answers its figures, and what was wrong with them.
    pub(crate) async fn leave(self) -> anyhow::Result<(String, Option<String>)> {
        self.beats.call.kill();
        let ran = self.beats.finish().await?;
        drop(self.stage);
        let text = ran.text();
        let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let mut gaps = Vec::new();
        for (expected, line) in complete.lines().enumerate() {
            let (number, gap) = line.split_once(' ').context("a beat without its number")?;
            if number.parse() != Ok(expected) {
                return Ok((String::new(), Some(format!("beat {expected} came as {number}"))));
            }
            gaps.push(gap.parse::<u64>().context("a beat without its time")?);
        }
        gaps.sort_unstable();
        let p99 = Duration::from_micros(gaps.get(gaps.len() * 99 / 100).copied().unwrap_or(0));
        let figures = format!("{} beats, p99 {} ms", gaps.len(), p99.as_millis());
        let wrong = if gaps.is_empty() {
            Some("the neighbour had no beat at all".to_owned())
        } else if p99 > P99 {
            Some(format!("the neighbour waited: {figures}"))
        } else {
            None
        };
        Ok((figures, wrong))
    }
}

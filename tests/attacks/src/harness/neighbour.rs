//! A sandbox beside the attacker that only wants to be left alone.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use belljar_node::Weakened;
use tempfile::NamedTempFile;

use crate::harness::stage::{Running, Stage};

/// No gap of the neighbour's may be longer than this at the 99th percentile, beside what
/// a program of the host has to wait at the same time: a core that the host's own host
/// keeps is kept from both.
const P99: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Neighbour {
    stage: Stage,
    beats: Running,
    reference: Reference,
}

impl Neighbour {
    /// Moves in beside `attacker`, with every defence in place.
    pub(crate) async fn beside(attacker: &Stage) -> anyhow::Result<Self> {
        let stage = Stage { weakened: Weakened::default(), ..attacker.clone() };
        let sandbox = stage.sandbox(|spec| spec.limits.wall = Duration::from_secs(600)).await?;
        let command = stage.place(&sandbox, "host/heartbeat.c", &[""; 0]).await?;
        let beats = stage.start(&sandbox, &command).await?;
        let reference = Reference::start(&stage)?;
        Ok(Self { stage, beats, reference })
    }

    /// Stops it. Answers its figures, and what was wrong with them.
    pub(crate) async fn leave(self) -> anyhow::Result<(String, Option<String>)> {
        self.beats.call.kill();
        let ran = self.beats.finish().await?;
        drop(self.stage);
        let reference = self.reference.stop()?;
        let (count, p99) = match gaps(&ran.text())? {
            Ok(gaps) => gaps,
            Err(wrong) => return Ok((String::new(), Some(wrong))),
        };
        let (_, of_host) = gaps(&reference)?.unwrap_or_default();
        let (millis, host_millis) = (p99.as_millis(), of_host.as_millis());
        let figures = format!("{count} beats, p99 {millis} ms, on the host {host_millis} ms");
        let wrong = if count == 0 {
            Some("the neighbour had no beat at all".to_owned())
        } else if p99 > P99 + of_host {
            Some(format!("the neighbour waited: {figures}"))
        } else {
            None
        };
        Ok((figures, wrong))
    }
}

/// How many beats there were, and the 99th percentile of the gaps between them; or the
/// beat that was out of order.
fn gaps(text: &str) -> anyhow::Result<Result<(usize, Duration), String>> {
    let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let mut gaps = Vec::new();
    for (expected, line) in complete.lines().enumerate() {
        let (number, gap) = line.split_once(' ').context("a beat without its number")?;
        if number.parse() != Ok(expected) {
            return Ok(Err(format!("beat {expected} came as {number}")));
        }
        gaps.push(gap.parse::<u64>().context("a beat without its time")?);
    }
    gaps.sort_unstable();
    let p99 = gaps.get(gaps.len() * 99 / 100).copied().unwrap_or(0);
    Ok(Ok((gaps.len(), Duration::from_micros(p99))))
}

/// The same program as a plain process of the host, which beats at the same time.
#[derive(Debug)]
struct Reference {
    process: Child,
    beats: NamedTempFile,
}

impl Reference {
    fn start(stage: &Stage) -> anyhow::Result<Self> {
        let beats = NamedTempFile::new()?;
        let mut program = Command::new(stage.programs.path("host/heartbeat.c")?);
        program.stdin(Stdio::null()).stdout(beats.reopen()?);
        let process = program.spawn().context("cannot start the reference")?;
        Ok(Self { process, beats })
    }

    fn stop(mut self) -> anyhow::Result<String> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(std::fs::read_to_string(self.beats.path())?)
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_in_order() {
        let beats: String = (0..100).map(|beat| format!("{beat} {}\n", 10_000 + beat)).collect();
        let found = gaps(&(beats + "100 5")).unwrap();
        assert_eq!(found, Ok((100, Duration::from_micros(10_099))));
        assert_eq!(gaps("0 5\n2 5\n").unwrap(), Err("beat 1 came as 2".to_owned()));
        assert_eq!(gaps("").unwrap(), Ok((0, Duration::ZERO)));
    }
}

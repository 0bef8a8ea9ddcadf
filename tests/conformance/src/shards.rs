//! Splits the cases of a tier among processes that run side by side.
//!
//! A case waits more than it computes. Each process has an engine of its own, and looks
//! only at what the sandboxes of that engine leave behind.

use std::env;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::str::FromStr;

use anyhow::{Context as _, bail, ensure};
use belljar_domain::Tier;
use clap::ValueEnum as _;
use tokio::process::Command;

use crate::UNSUPPORTED;
use crate::args::Args;
use crate::cases;
use crate::results::Results;

/// A part of the cases: every `count`th, from `index` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    pub(crate) const WHOLE: Self = Self { index: 0, count: 1 };

    /// Returns true if the case at this index belongs to the shard.
    pub(crate) fn has(self, place: usize) -> bool {
        place % self.count == self.index
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (index, count) = text.split_once('/').context("a shard is INDEX/COUNT")?;
        let (index, count) = (index.parse()?, count.parse()?);
        ensure!(index < count, "there is no shard {index} of {count}");
        Ok(Self { index, count })
    }
}

/// The host cannot run the tier.
#[derive(Debug)]
pub(crate) struct Unsupported(String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsupported {}

/// How many processes the cases are split among. A few cases are not worth an engine more.
pub(crate) fn count(args: &Args) -> usize {
    let wanted = cases::all().filter(|case| args.wants(case)).count();
    if wanted < 10 { 1 } else { args.jobs.max(1) }
}

/// Runs the tier in `count` processes, and returns what they have shown together.
pub(crate) async fn run(tier: Tier, args: &Args, count: usize) -> anyhow::Result<Results> {
    let reports = tempfile::tempdir().context("make a directory for reports")?;
    let mut running = Vec::new();
    for index in 0..count {
        let report = reports.path().join(index.to_string());
        let child = command(tier, args, Shard { index, count }, &report)?.spawn()?;
        running.push((report, child));
    }
    let mut all: Option<Results> = None;
    for (report, child) in running {
        let output = child.wait_with_output().await?;
        let results = read(&report, output.status, &output.stderr)?;
        all = Some(match all {
            Some(before) => before.beside(results),
            None => results,
        });
    }
    all.context("no process ran")
}

fn command(tier: Tier, args: &Args, shard: Shard, report: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(env::current_exe().context("cannot find this program")?);
    command.args(["--tier", tier.as_str(), "--shard", &shard.to_string()]);
    command.arg("--report").arg(report);
    if let Some(subset) = args.subset.and_then(|subset| subset.to_possible_value()) {
        command.args(["--subset", subset.get_name()]);
    }
    command.args(args.skip_without_template.then_some("--skip-without-template"));
    command.args(&args.filter);
    command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    Ok(command)
}

/// A process whose cases failed has written its report all the same.
fn read(report: &Path, status: ExitStatus, stderr: &[u8]) -> anyhow::Result<Results> {
    let said = String::from_utf8_lossy(stderr).trim().to_owned();
    if status.code() == Some(i32::from(UNSUPPORTED)) {
        return Err(Unsupported(said).into());
    }
    match fs::read(report) {
        Ok(bytes) => serde_json::from_slice(&bytes).context("understand a report"),
        Err(_) => bail!("a process of the suite ended with {status}: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_have_each_case_once() {
        let shards: Vec<Shard> = ["0/3", "1/3", "2/3"].map(|text| text.parse().unwrap()).into();
        for place in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.has(place)).count(), 1, "{place}");
        }
        assert!(Shard::WHOLE.has(7));
        assert_eq!(shards[1].to_string(), "1/3");
    }

    #[test]
    fn a_shard_that_cannot_be_is_refused() {
        for text in ["3/3", "0/0", "1", "a/b", ""] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}

//! Runs of this machine: each is `belljar ask` in a process of its own.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, anyhow};
use belljar_domain::RunId;
use belljar_eval::{GuardSettings, RunSettings};
use belljar_journal::{Directory, Journal as _, read_all};
use clap::ValueEnum as _;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::asked::{Began, NotRun, RunOver, Source, Stop, Wanted};
use crate::cli::Eval;
use crate::commands::runs;
use crate::config::Config;

/// Statuses of `belljar ask` whose run is over.
const OVER: [i32; 4] = [0, 3, 4, 5];
const INTERRUPTED: i32 = 130;
/// The end of what a process wrote before it failed.
const MAX_REPORTED: usize = 2_000;
/// Data of all files that a checker gets.
const MAX_FILE_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Local {
    program: Program,
    journal: Directory,
    place: PathBuf,
    model: Vec<OsString>,
    gateway: Option<PathBuf>,
}

/// This executable, with the directories that this command uses.
#[derive(Debug, Clone)]
pub(super) struct Program {
    executable: PathBuf,
    data: PathBuf,
    store: Option<PathBuf>,
    state: Option<PathBuf>,
}

impl Program {
    pub(super) fn of(config: &Config) -> anyhow::Result<Self> {
        Ok(Self {
            executable: std::env::current_exe().context("cannot find this executable")?,
            data: config.data.clone(),
            // Otherwise the process finds both stores as this one did.
            store: config.shared_store.is_none().then(|| config.store.clone()),
            state: config.state.clone(),
        })
    }

    /// A process that no signal from the terminal reaches.
    pub(super) fn command(&self, verb: &str) -> std::process::Command {
        let mut command = std::process::Command::new(&self.executable);
        command.arg(verb).env("BELLJAR_DATA", &self.data).process_group(0);
        for (option, path) in [("--store", &self.store), ("--state", &self.state)] {
            command.args(path.iter().flat_map(|path| [OsStr::new(option), path.as_os_str()]));
        }
        command.stdin(Stdio::null());
        command
    }
}

impl Local {
    pub(super) fn new(options: &Eval, config: &Config, place: &Path) -> anyhow::Result<Self> {
        let mut model: Vec<OsString> = Vec::new();
        let mut add = |option: &str, value: Option<OsString>| {
            model.extend(value.into_iter().flat_map(|value| [option.into(), value]));
        };
        let path = |path: &Option<PathBuf>| path.clone().map(PathBuf::into_os_string);
        add("--gateway", path(&options.gateway));
        if let Some(url) = &options.model_url {
            add("--model-url", Some(url.into()));
            add("--model-key", path(&options.model_key));
            add("--prices", path(&options.prices));
            let dialect = options.dialect.to_possible_value();
            add("--dialect", dialect.map(|value| value.get_name().into()));
        }
        Ok(Self {
            program: Program::of(config)?,
            journal: runs::open(config)?,
            place: place.to_owned(),
            model,
            gateway: options.gateway.clone(),
        })
    }

    pub(super) async fn ask(
        &self,
        wanted: &Wanted<'_>,
        mut stop: Stop,
        began: Began<'_>,
    ) -> Result<RunOver, NotRun> {
        if let Source::Resumed { run } = &wanted.source
            && let Ok(over) = self.read(run.clone()).await
        {
            return Ok(over);
        }
        let (mut command, _instructions) = self.command(wanted)?;
        let mut said = tempfile::tempfile().context("cannot create a file")?;
        command.stdout(Stdio::piped()).stderr(said.try_clone()?);
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
        let output = child.stdout.take().context("the process has no output")?;
        let mut lines = BufReader::new(output).lines();
        let (mut run, mut is_told) = (None, false);
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line?,
                _ = stop.wait_for(|is_stopped| *is_stopped), if !is_told => {
                    is_told = true;
                    let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
                    if let Some(pid) = pid {
                        // One that has ended needs no signal.
                        let _ = kill_process(pid, Signal::INT);
                    }
                    continue;
                }
            };
            let Some(line) = line else { break };
            if run.is_none()
                && let Some(id) = run_of(&line)
            {
                began(&id)?;
                run = Some(id);
            }
        }
        let status = child.wait().await?.code();
        let id = match (&wanted.source, run) {
            (Source::Resumed { run }, None) => Some(run.clone()),
            (_, run) => run,
        };
        match (status, id) {
            (Some(INTERRUPTED), _) => Err(NotRun::Interrupted),
            (Some(status), Some(run)) if OVER.contains(&status) => self.read(run).await,
            _ => Err(NotRun::Failed(failure(&whole(&mut said)?))),
        }
    }

    async fn read(&self, run: String) -> Result<RunOver, NotRun> {
        let address = runs::address(run.parse::<RunId>().context("the run has no id")?);
        let events = read_all(&self.journal, &address).await?;
        let over = RunOver::read(run, None, &events);
        Ok(over.context("the run has no end")?)
    }

    pub(super) async fn files(&self, over: &RunOver) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let address = runs::address(over.run.parse::<RunId>().context("the run has no id")?);
        let mut files = Vec::new();
        let mut left = MAX_FILE_BYTES;
        for artifact in &over.view.artifacts {
            left = left
                .checked_sub(artifact.content.bytes)
                .context("the run's files are too large for a checker")?;
            let bytes = self.journal.get_blob(&address, &artifact.content).await?;
            files.push((artifact.name.clone(), bytes));
        }
        Ok(files)
    }

    /// The command line of a run, and the file with its instructions.
    fn command(
        &self,
        wanted: &Wanted<'_>,
    ) -> anyhow::Result<(std::process::Command, Option<NamedTempFile>)> {
        let mut command = self.program.command("ask");
        command.args(["--json", "--retries", "0"]);
        let settings = wanted.settings;
        match &wanted.source {
            Source::Resumed { run } => {
                command.args(["--resume", run]).args(self.model_of(wanted));
                return Ok((command, None));
            }
            Source::Replayed { run } => {
                command.args(["--replay", run]);
                // Nothing is asked there, but operations have their names and rules from it.
                if let Some(gateway) =
                    self.gateway.as_ref().filter(|_| settings.operations.is_some())
                {
                    command.arg("--gateway").arg(gateway);
                }
            }
            Source::New { name } => {
                let random: String =
                    runs::random()?.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
                command.args(["--record", &format!("{name}-{random}")]);
                command.args(self.model_of(wanted));
            }
        }
        command.args(settings_of(settings));
        let instructions = settings.instructions.as_deref().map(kept).transpose()?;
        if let Some(file) = &instructions {
            let mut option = OsString::from("@");
            option.push(file.path());
            command.arg("--instructions").arg(option);
        }
        for data in wanted.data {
            command.arg("--data").arg(self.place.join(data));
        }
        command.arg("--").arg(wanted.question);
        Ok((command, instructions))
    }
}

impl Local {
    /// The model and the way to it.
    fn model_of(&self, wanted: &Wanted<'_>) -> Vec<OsString> {
        let mut words = self.model.clone();
        if let Some(model) = wanted.model {
            words.extend(["--model".into(), OsString::from(&model.model)]);
            let operation = model.operation.iter();
            words.extend(operation.flat_map(|name| ["--operation".into(), OsString::from(name)]));
        }
        words
    }
}

/// Settings as options of `belljar ask`, without instructions.
fn settings_of(settings: &RunSettings) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |option: &str, value: Option<String>| {
        // Together, so that a value may begin with a dash.
        words.extend(value.map(|value| format!("{option}={value}")));
    };
    add("--template", settings.template.clone());
    add("--tier", settings.tier.clone());
    add("--memory", settings.memory.clone());
    add("--operations", settings.operations.as_ref().map(|names| names.join(",")));
    add("--turns", settings.turns.map(|turns| turns.to_string()));
    add("--budget-usd", settings.budget_usd.clone());
    add("--tokens", settings.tokens.map(|tokens| tokens.to_string()));
    add("--time", settings.time.clone());
    add("--temperature", settings.temperature.map(|number| number.to_string()));
    add("--effort", settings.effort.clone());
    add("--max-output", settings.output_tokens.map(|tokens| tokens.to_string()));
    add("--now", settings.now.clone());
    let GuardSettings { joins, dates, turns } = settings.guards.unwrap_or_default();
    let guards = [("joins", joins), ("dates", dates), ("turns", turns)];
    let off: Vec<&str> = guards.iter().filter(|(_, is_on)| !is_on).map(|(name, _)| *name).collect();
    add("--without-guards", (!off.is_empty()).then(|| off.join(",")));
    words
}

fn kept(text: &str) -> anyhow::Result<NamedTempFile> {
    let mut file = NamedTempFile::new().context("cannot create a file")?;
    file.write_all(text.as_bytes()).context("cannot write a file")?;
    Ok(file)
}

/// The run that an event is of.
fn run_of(line: &str) -> Option<String> {
    let event: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(event.get("run")?.as_str()?.to_owned())
}

/// The error that a process ended with, as it said it.
pub(super) fn failure(said: &[u8]) -> anyhow::Error {
    let text = String::from_utf8_lossy(said).into_owned();
    let from = text.rfind("error: ").map_or(0, |at| at + "error: ".len());
    let told: String = text[from..].trim().chars().take(MAX_REPORTED).collect();
    match told.is_empty() {
        true => anyhow!("the process ended without a word"),
        false => anyhow!(told),
    }
}

/// Reads a file from its beginning.
fn whole(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::asked::sample;
    use super::*;
    use crate::cli::{Cli, Command};

    /// `belljar ask` takes every setting.
    #[test]
    fn settings_become_options() {
        let settings = sample::settings();
        let mut line = vec!["belljar".to_owned(), "ask".to_owned(), "--retries=0".to_owned()];
        line.extend(settings_of(&settings));
        line.extend(["--".to_owned(), "- How many?".to_owned()]);
        let Command::Ask(ask) = Cli::parse_from(line).command else { panic!() };
        let guards = ask.brief.guards();
        assert_eq!((guards.joins, guards.dates, guards.turns), (false, true, false));
        assert_eq!(ask.budget.turns, Some(5));
        assert_eq!(ask.budget.nano_dollars, Some(500_000_000));
        assert_eq!(ask.reaches.operations, ["search", "mail"]);
        assert_eq!(ask.question.unwrap().as_str(), "- How many?");
        assert!(settings_of(&RunSettings::default()).is_empty());
    }

    #[test]
    fn a_failure_is_told_without_what_came_before() {
        let said = b"run abc\nerror: no template\n  because: none\n";
        assert_eq!(failure(said).to_string(), "no template\n  because: none");
        assert!(failure(b"").to_string().contains("without a word"));
    }
}

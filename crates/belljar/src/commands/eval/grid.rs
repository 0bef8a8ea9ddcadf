//! The grid: the file of tasks, the models, and the trials that they make.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use belljar_domain::{Instructions, Question};
use belljar_eval::{Expectation, ReportHead, RunSettings, Suite, Task, TrialKey};
use belljar_objects::Digest;
use belljar_runs::FixedRules;

use crate::cli::{Eval, ModelName, parse_dollars};
use crate::output::{Hint as _, hinted};

/// Dollars that a judge's verdict may cost, unless the task says otherwise.
pub(super) const JUDGE_DOLLARS: &str = "0.10";
/// Attempts of a judge whose verdict cannot be read.
pub(super) const JUDGE_ATTEMPTS: u64 = 2;

#[derive(Debug)]
pub(super) struct Grid {
    pub(super) suite: Suite,
    /// The directory that paths in the file are relative to.
    pub(super) place: PathBuf,
    pub(super) stem: String,
    /// Of everything that decides what is asked and how it is scored.
    pub(super) digest: String,
    /// By name; none: the operation's first model, the fixed rules, or a recorded one.
    models: Vec<(String, Option<ModelName>)>,
    has_model: bool,
    repeats: u32,
}

/// A trial to run.
#[derive(Debug, Clone)]
pub(super) struct Planned<'g> {
    pub(super) key: TrialKey,
    pub(super) task: &'g Task,
    pub(super) model: Option<&'g ModelName>,
    pub(super) settings: RunSettings,
    /// The most that its run and its judge can cost.
    pub(super) nano_dollars: u64,
}

impl Grid {
    pub(super) fn read(file: &Path, options: &Eval) -> anyhow::Result<Self> {
        let hint = "docs/evaluation.md describes the file of tasks";
        let text = fs::read_to_string(file);
        let text = text.with_context(|| format!("cannot read `{}`", file.display()));
        let suite = Suite::read(&text.hint(hint)?);
        let suite = suite.with_context(|| format!("cannot read `{}`", file.display()));
        let mut suite = suite.hint(hint)?;
        let place = file.parent().unwrap_or(Path::new("")).to_owned();
        suite.defaults = with_text(suite.defaults, &place)?;
        for settings in suite.variants.values_mut() {
            *settings = with_text(std::mem::take(settings), &place)?;
        }
        for task in &mut suite.tasks {
            task.run = with_text(std::mem::take(&mut task.run), &place)?;
        }
        let digest = Digest::of(serde_json::to_string(&suite)?.as_bytes()).to_string();
        suite.tasks = chosen(suite.tasks, &options.only)?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let has_model =
            options.gateway.is_some() || options.model_url.is_some() || options.server.is_some();
        let named = options.models.iter().map(|model| (model.to_string(), Some(model.clone())));
        let mut models: Vec<(String, Option<ModelName>)> = named.collect();
        if models.is_empty() {
            let name = if has_model { "default" } else { FixedRules::NAME };
            models.push((name.to_owned(), None));
        }
        let repeats = options.repeats;
        let grid = Self { suite, place, stem, digest, models, has_model, repeats };
        grid.check(options)?;
        Ok(grid)
    }

    /// Refuses what no run could be made of, before anything is paid for.
    fn check(&self, options: &Eval) -> anyhow::Result<()> {
        let is_asked = !options.replay;
        if is_asked && !self.has_model && !options.models.is_empty() {
            let error = anyhow!("--models needs a way to the models");
            return Err(hinted(error, "pass --gateway, --model-url or --server"));
        }
        for task in &self.suite.tasks {
            let wrong = |why: String| anyhow!("task `{}`: {why}", task.id);
            if let Err(error) = task.question.parse::<Question>() {
                return Err(wrong(error.to_string()));
            }
            for data in task.data.iter().filter(|_| options.server.is_none()) {
                let path = self.path(data);
                if !path.is_file() {
                    let error = wrong(format!("there is no file `{}`", path.display()));
                    return Err(hinted(error, "paths are relative to the file of tasks"));
                }
            }
            match &task.expect {
                Expectation::Checker(checker) if !self.path(&checker.file).is_file() => {
                    return Err(wrong(format!("there is no checker `{}`", checker.file)));
                }
                Expectation::Judge(judge) => {
                    let model = judge.model.parse::<ModelName>();
                    model.map_err(|error| wrong(format!("judge: {error}")))?;
                    if is_asked && !self.has_model {
                        let error = wrong("a judge needs a way to its model".to_owned());
                        return Err(hinted(error, "pass --gateway, --model-url or --server"));
                    }
                }
                _ => {}
            }
            for variant in self.suite.variant_names() {
                let settings = self.suite.settings(task, variant);
                let bound = dollars(settings.budget_usd.as_deref()).map_err(wrong)?;
                if options.max_cost.is_some() && bound.is_none() && self.has_model {
                    let error = wrong("--max-cost needs a `budget_usd`".to_owned());
                    return Err(hinted(error, "set it for all tasks in [defaults]"));
                }
            }
        }
        Ok(())
    }

    /// A path of the file.
    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.place.join(relative)
    }

    /// Takes the models and the repeats of recorded trials.
    pub(super) fn take_recorded<'k>(&mut self, keys: impl Iterator<Item = &'k TrialKey>) {
        let mut names: BTreeSet<String> = BTreeSet::new();
        self.repeats = 1;
        for key in keys {
            names.insert(key.model.clone());
            self.repeats = self.repeats.max(key.repeat);
        }
        self.models = names.into_iter().map(|name| (name, None)).collect();
    }

    /// All trials, repeat by repeat, so that a grid that stops early is even.
    pub(super) fn trials(&self) -> anyhow::Result<Vec<Planned<'_>>> {
        let mut trials = Vec::new();
        for repeat in 1..=self.repeats {
            for task in &self.suite.tasks {
                for (name, model) in &self.models {
                    for variant in self.suite.variant_names() {
                        let key = TrialKey {
                            task: task.id.clone(),
                            model: name.clone(),
                            variant: variant.to_owned(),
                            repeat,
                        };
                        let settings = self.suite.settings(task, variant);
                        let nano_dollars = self.most(task, &settings)?;
                        let model = model.as_ref();
                        trials.push(Planned { key, task, model, settings, nano_dollars });
                    }
                }
            }
        }
        Ok(trials)
    }

    fn most(&self, task: &Task, settings: &RunSettings) -> anyhow::Result<u64> {
        if !self.has_model {
            return Ok(0);
        }
        let read = |text: Option<&str>| dollars(text).map_err(|error| anyhow!(error));
        let run = read(settings.budget_usd.as_deref())?.unwrap_or(0);
        let judge = match &task.expect {
            Expectation::Judge(judge) => {
                let text = judge.budget_usd.as_deref().unwrap_or(JUDGE_DOLLARS);
                read(Some(text))?.unwrap_or(0).saturating_mul(JUDGE_ATTEMPTS)
            }
            _ => 0,
        };
        Ok(run.saturating_add(judge))
    }

    /// The facts of the grid for its report.
    pub(super) fn head(&self, options: &Eval) -> ReportHead {
        ReportHead {
            name: self.suite.name.clone(),
            models: self.models.iter().map(|(name, _)| name.clone()).collect(),
            variants: self.suite.variant_names().into_iter().map(str::to_owned).collect(),
            tasks: self.suite.tasks.iter().map(|task| task.id.clone()).collect(),
            repeats: self.repeats,
            seed: options.seed,
            is_replay: options.replay,
            incomplete: None,
        }
    }
}

fn dollars(text: Option<&str>) -> Result<Option<u64>, String> {
    let nano = text.map(parse_dollars).transpose();
    nano.map_err(|error| format!("budget_usd: {error}"))
}

/// Instructions that name a file become its text.
fn with_text(settings: RunSettings, place: &Path) -> anyhow::Result<RunSettings> {
    let Some(name) = settings.instructions.as_deref().and_then(|text| text.strip_prefix('@'))
    else {
        return Ok(settings);
    };
    let path = place.join(name);
    let text = fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read `{}`", path.display()))?;
    let text: Instructions = text.parse()?;
    Ok(RunSettings { instructions: Some(text.into()), ..settings })
}

fn chosen(tasks: Vec<Task>, only: &[String]) -> anyhow::Result<Vec<Task>> {
    if only.is_empty() {
        return Ok(tasks);
    }
    if let Some(name) = only.iter().find(|name| !tasks.iter().any(|task| task.id == **name)) {
        return Err(hinted(anyhow!("there is no task `{name}`"), "--only takes ids of tasks"));
    }
    Ok(tasks.into_iter().filter(|task| only.contains(&task.id)).collect())
}

//! Builds a template from a recipe, step by step, each step a layer.
//!
//! ```text
//! base (+ apt) ─► pip ─► npm ─► files ─► run… ─► manifest
//! ```
//!
//! A step is found again by the digest of the layers under it and of its own
//! inputs, so a change of the last command repeats only that command. The
//! version of a template covers the recipe and the layers that came out.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use belljar_domain::{Bind, End, RootFs};

use crate::digest::{Digest, Fields};
use crate::file;
use crate::oci::{Caps, ImageError};
use crate::packages::apt::AptError;
use crate::progress::{Lines, Outcome, Progress, StepStart};
use crate::recipe::Recipe;
use crate::runner::{Job, Runner};
use crate::store::{Layer, Manifest, Store, StoreError};
use crate::template::{Defaults, Template};
use crate::tool::ToolError;

mod base;
mod steps;

/// Where programs are looked for, unless a recipe or an image says otherwise.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug, Clone)]
pub struct Options {
    /// Most that one step may take.
    pub step_timeout: Duration,
    pub cache: Cache,
    /// A Debian mirror to use instead of the host's own.
    pub mirror: Option<String>,
    /// Bounds on an image that is unpacked.
    pub caps: Caps,
    pub tools: Tools,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            step_timeout: Duration::from_secs(600),
            cache: Cache::Use,
            mirror: None,
            caps: Caps::default(),
            tools: Tools::default(),
        }
    }
}

/// Whether layers of earlier builds are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    Use,
    /// Every step is made again, so that packages are fetched in their newest
    /// versions.
    Refresh,
}

/// The host's programs, by name or path.
#[derive(Debug, Clone)]
pub struct Tools {
    pub mmdebstrap: String,
    pub python: String,
    pub npm: String,
}

impl Default for Tools {
    fn default() -> Self {
        Self { mmdebstrap: "mmdebstrap".into(), python: "python3".into(), npm: "npm".into() }
    }
}

/// What a build gave.
#[derive(Debug)]
pub struct Built {
    pub template: Template,
    pub manifest: Manifest,
    pub steps: usize,
    pub cached: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot build the template `{template}`: {step} failed")]
pub struct BuildError {
    pub template: String,
    /// The step, as progress showed it.
    pub step: String,
    pub source: Box<StepError>,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    File(#[from] file::Error),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Apt(#[from] AptError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error("cannot create a sandbox for the step")]
    Runner(#[source] Box<dyn Error + Send + Sync>),
    #[error("`{command}` ended with {end}; its last output was:\n{tail}")]
    Command { command: String, end: String, tail: String },
    #[error("cannot determine the Python version of `{}` in the template", .0.display())]
    NoPython(PathBuf),
}

/// One step of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'r> {
    Base,
    Pip,
    Npm,
    Files,
    Run(&'r str),
}

/// Builds templates into a store.
pub struct Builder<'a> {
    store: &'a Store,
    runner: &'a dyn Runner,
    options: Options,
}

impl fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("store", self.store).finish_non_exhaustive()
    }
}

/// A build under way.
struct Build<'b> {
    builder: &'b Builder<'b>,
    recipe: &'b Recipe,
    /// Uppermost first.
    layers: Vec<Layer>,
    /// Stands for all layers so far.
    chain: Digest,
    env: BTreeMap<String, String>,
}

impl<'a> Builder<'a> {
    pub fn new(store: &'a Store, runner: &'a dyn Runner, options: Options) -> Self {
        Self { store, runner, options }
    }

    /// Builds a recipe, or finds that nothing changed since it was built.
    pub fn build(&self, recipe: &Recipe, progress: &mut dyn Progress) -> Result<Built, BuildError> {
        let mut build = Build {
            builder: self,
            recipe,
            layers: Vec::new(),
            chain: Digest::of(b""),
            env: BTreeMap::from([
                ("LANG".to_owned(), "C.UTF-8".to_owned()),
                ("PATH".to_owned(), DEFAULT_PATH.to_owned()),
            ]),
        };
        let failed = |step: String| {
            move |source| {
                let template = recipe.name.clone();
                BuildError { template, step, source: Box::new(source) }
            }
        };
        let steps = plan(recipe);
        let mut cached = 0;
        for (index, &step) in steps.iter().enumerate() {
            let name = step.name(recipe);
            let (number, total) = (index + 1, steps.len());
            progress.started(&StepStart { name: &name, number, total });
            let began = Instant::now();
            let result = build.step(step, progress);
            let outcome = result.as_ref().map_or(Outcome::Failed, |outcome| *outcome);
            progress.finished(outcome, began.elapsed());
            cached += usize::from(result.map_err(failed(name))? == Outcome::Cached);
        }
        let manifest = build.manifest();
        let reference = format!("{}@{}", manifest.name, manifest.version);
        let published = self.store.publish(&manifest).and_then(|()| self.store.resolve(&reference));
        let template = published.map_err(|e| failed("publishing".to_owned())(e.into()))?;
        Ok(Built { template, manifest, steps: steps.len(), cached })
    }
}

fn plan(recipe: &Recipe) -> Vec<Step<'_>> {
    let packages = &recipe.packages;
    let optional = [
        (Step::Pip, !packages.pip.is_empty()),
        (Step::Npm, !packages.npm.is_empty()),
        (Step::Files, !recipe.files.is_empty()),
    ];
    let mut steps = vec![Step::Base];
    steps.extend(optional.into_iter().filter(|(_, wanted)| *wanted).map(|(step, _)| step));
    steps.extend(recipe.run.iter().map(|command| Step::Run(command)));
    steps
}

impl Step<'_> {
    fn name(self, recipe: &Recipe) -> String {
        let packages = &recipe.packages;
        match self {
            Self::Base if packages.apt.is_empty() => recipe.base.to_string(),
            Self::Base => format!("{}, {} packages", recipe.base, packages.apt.len()),
            Self::Pip => format!("pip: {}", packages.pip.join(" ")),
            Self::Npm => format!("npm: {}", packages.npm.join(" ")),
            Self::Files => format!("{} files", recipe.files.len()),
            Self::Run(command) => format!("run: {command}"),
        }
    }
}

impl Build<'_> {
    fn step(&mut self, step: Step<'_>, progress: &mut dyn Progress) -> Result<Outcome, StepError> {
        let store = self.builder.store;
        let inputs = match step {
            Step::Base => self.base_inputs()?,
            other => self.step_inputs(other)?,
        };
        let key = Fields::new().digest(&self.chain).digest(&inputs).finish();
        let known = match self.builder.options.cache {
            Cache::Use => store.step(&key)?,
            Cache::Refresh => None,
        };
        let (layer, outcome) = match known {
            Some(layer) => (layer, Outcome::Cached),
            None => {
                let work = store.workspace()?;
                let layer = match step {
                    Step::Base => self.make_base(&work, progress)?,
                    other => self.make_step(other, &work, progress)?,
                };
                store.remember_step(&key, &layer)?;
                (layer, Outcome::Made)
            }
        };
        self.chain = Fields::new().digest(&self.chain).digest(&layer.digest).finish();
        // An overlay takes a directory once; whatever this one has, it has on top.
        self.layers.retain(|below| below.digest != layer.digest);
        self.layers.insert(0, layer);
        if step == Step::Base {
            self.env.extend(self.recipe.env.clone());
        }
        Ok(outcome)
    }

    fn root(&self) -> RootFs {
        RootFs {
            layers: self.layers.iter().map(|layer| layer.path.clone()).collect(),
            binds: Vec::new(),
        }
    }

    /// Runs a command over the layers so far. Returns how it ended and the end
    /// of what it printed.
    fn run(
        &self,
        argv: &[String],
        bind: Option<Bind>,
        also: &[(&str, &str)],
        disk: &Path,
        progress: &mut dyn Progress,
    ) -> Result<(End, String), StepError> {
        let mut root = self.root();
        root.binds.extend(bind);
        let mut env = self.env.clone();
        env.insert("HOME".to_owned(), belljar_domain::User::Root.home().to_owned());
        env.extend(also.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        for directory in [disk.to_owned(), disk.join("upper"), disk.join("work")] {
            fs::create_dir(&directory).map_err(file::at("create", &directory))?;
        }
        let job =
            Job { root: &root, disk, argv, env: &env, timeout: self.builder.options.step_timeout };
        let mut lines = Lines::default();
        let end = self
            .builder
            .runner
            .run(&job, &mut |bytes| lines.feed(bytes, |line| progress.line(line)))
            .map_err(StepError::Runner)?;
        lines.flush(|line| progress.line(line));
        Ok((end, lines.tail()))
    }

    fn manifest(&self) -> Manifest {
        let recipe = self.recipe;
        let version = Fields::new().digest(&recipe.digest()).digest(&self.chain).finish();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let total = |of: fn(&Layer) -> u64| self.layers.iter().map(of).sum();
        Manifest {
            name: recipe.name.clone(),
            version: version.short(),
            description: recipe.description.clone(),
            created: now.map_or(0, |now| now.as_secs()),
            layers: self.layers.iter().map(|layer| layer.digest).collect(),
            binds: Vec::new(),
            env: self.env.clone(),
            languages: recipe.languages.clone(),
            limits: recipe.limits.clone(),
            warm: recipe.warm.clone(),
            defaults: Defaults { tier: recipe.tier, ..Defaults::default() },
            size: total(|layer| layer.facts.bytes),
            files: total(|layer| layer.facts.entries),
        }
    }
}

#[cfg(test)]
mod tests;

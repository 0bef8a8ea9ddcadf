//! A build under way: base, steps, a last look, and the new version.
//!
//! Each step that changes files is a layer, found again by the layers under it
//! and its own inputs. The inputs hold the tenant's name: nobody learns from a
//! layer that is there already what another has built.

mod command;
mod files;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use belljar_domain::{Limits, RootFs, Spec, User};
use belljar_template::digest::Fields;
use belljar_template::recipe::LimitDefaults;
use belljar_template::store::{Layer, Workspace};
use belljar_template::tree::Kind as Tree;
use belljar_template::{Defaults, Digest, Manifest, Reference, Store};

use super::disk::free_bytes;
use super::log::Log;
use super::sandboxed::{Stop, Stopping, stopped};
use super::steps::{Action, Base, Instructions, expand};
use super::{StepError, begin, blocking};
use crate::keys::Tenant;
use crate::logs::Level;
use crate::problem::{Kind, Problem};
use crate::start::Actions;
use crate::template::{BuildRecord, Known, Reason, Record};
use crate::tier::not_made;

/// An overlay takes some sixty layers; sandboxes need no more than that.
const MOST_LAYERS: usize = 48;

/// How long a template may take to be ready when it is tried out.
const PATIENCE: Duration = Duration::from_secs(120);

/// What runs in a build when nobody says otherwise.
const FIRST_USER: &str = "user";

pub(super) struct Work<'a> {
    pub(super) actions: &'a Actions,
    pub(super) tenant: &'a Tenant,
    pub(super) record: &'a Record,
    pub(super) build: &'a BuildRecord,
    pub(super) log: &'a Log,
    pub(super) stopping: &'a Stopping,
}

/// What the steps so far have come to.
struct Stand {
    /// Uppermost first.
    layers: Vec<Layer>,
    /// Stands for all layers so far.
    chain: Digest,
    env: BTreeMap<String, String>,
    user: String,
    workdir: Option<String>,
    /// From here on nothing is taken from earlier builds.
    force: bool,
    base: Manifest,
    /// The template that the build begins with.
    template: Arc<Known>,
}

impl Work<'_> {
    /// Builds, and answers the version in the store.
    pub(super) async fn build(&self, told: &Instructions) -> Result<String, Reason> {
        let at = |step: String| move |error: StepError| error.reason(Some(step));
        let mut stand = self.base(&told.base).await.map_err(at("base".to_owned()))?;
        stand.force = told.force;
        let total = told.steps.len();
        for (index, step) in told.steps.iter().enumerate() {
            let name = (index + 1).to_string();
            let shown = step.action.shown();
            self.say(Level::Info, &name, format!("[builder {name}/{total}] {shown}"));
            stand.force |= step.force;
            let done = self.step(&mut stand, &step.action, &name).await;
            done.map_err(at(name))?;
        }
        let last = at("finalize".to_owned());
        self.finalize(stand, told).await.map_err(last)
    }

    fn say(&self, level: Level, step: &str, message: impl Into<String>) {
        self.log.add(level, Some(step), message);
    }

    fn store(&self) -> Store {
        self.actions.templates().store().clone()
    }

    async fn base(&self, base: &Base) -> Result<Stand, StepError> {
        let known = match base {
            Base::Template(name) => self.actions.find_template(self.tenant, name).await,
            Base::Image(image) => {
                let name = self.image(image)?;
                self.actions.find_template(self.tenant, &name).await
            }
        };
        let known = known.map_err(|problem| StepError::Told(problem.message))?;
        let template = known.template.clone();
        self.say(Level::Info, "base", format!("FROM {} ({})", known.id(), template.version));
        let store = self.store();
        let (base, layers) = blocking("read the base", move || {
            let reference = format!("{}@{}", template.name, template.version);
            let reference: Reference = reference.parse()?;
            let manifest = store.show(&reference)?;
            let mut layers = Vec::new();
            for digest in &manifest.layers {
                let layer = store.layer(digest)?;
                let template = reference.clone();
                let lost =
                    belljar_template::store::StoreError::LostLayer { template, layer: *digest };
                layers.push(layer.ok_or(lost)?);
            }
            Ok::<_, belljar_template::store::StoreError>((manifest, layers))
        })
        .await?;
        let defaults = &base.defaults;
        let user = match (defaults.owner.is_some(), defaults.user) {
            (true, User::Root) => "root",
            _ => FIRST_USER,
        };
        Ok(Stand {
            chain: Fields::new()
                .add("built")
                .add(self.tenant.as_str())
                .all(layers.iter().map(|layer| layer.digest.to_string()))
                .finish(),
            layers,
            env: base.env.clone(),
            user: user.to_owned(),
            workdir: defaults.workdir.clone(),
            force: false,
            base,
            template: known,
        })
    }

    /// The template of this server that has an image's name. No other image is ever used
    /// instead of the one that was named.
    fn image(&self, image: &str) -> Result<String, StepError> {
        let images = &self.actions.config().images;
        images.get(image_name(image)).cloned().ok_or_else(|| {
            StepError::Told(format!(
                "cannot pull the image '{image}': image pulls are not supported yet; \
                 to build on a template of this server, use from_template"
            ))
        })
    }

    async fn step(&self, stand: &mut Stand, action: &Action, name: &str) -> Result<(), StepError> {
        if self.stopping.borrow().is_some() {
            return Err(stopped(self.stopping).await);
        }
        match action {
            Action::Env(variables) => {
                for (key, value) in variables {
                    let value = expand(value, |name| stand.env.get(name).cloned());
                    stand.env.insert(key.clone(), value);
                }
                Ok(())
            }
            Action::User(user) => {
                self.user(stand, user)
                    .await
                    .map_err(|why| StepError::Told(format!("failed to change the user: {why}")))?;
                stand.user.clone_from(user);
                Ok(())
            }
            Action::Workdir(directory) => self.workdir(stand, directory, name).await,
            Action::Copy { .. } => self.copy(stand, action, name).await,
            Action::Run { command, user } => {
                let user = user.as_deref().unwrap_or(&stand.user).to_owned();
                self.run(stand, command, &user, name).await
            }
        }
    }

    async fn workspace(&self) -> Result<Workspace, StepError> {
        let store = self.store();
        self.check_free_space(&store)?;
        blocking("create the directory of a layer", move || store.workspace()).await
    }

    /// Refuses a step that might leave the host too little space.
    fn check_free_space(&self, store: &Store) -> Result<(), StepError> {
        let free = free_bytes(store.root());
        let free = free.map_err(|error| Problem::internal("check free disk space", &error))?;
        let bounds = self.actions.config().builds;
        if free < bounds.written.bytes.saturating_add(bounds.spare_bytes) {
            let message = "the server has no disk space for another layer".to_owned();
            return Err(StepError::Told(message));
        }
        Ok(())
    }

    /// Takes a layer of an earlier build, if there is one.
    async fn cached(&self, stand: &mut Stand, key: &Digest, name: &str) -> Result<bool, StepError> {
        if stand.force {
            return Ok(false);
        }
        let (store, key) = (self.store(), *key);
        let found = blocking("find a layer", move || store.step(&key)).await?;
        let Some(layer) = found else { return Ok(false) };
        self.say(Level::Info, name, format!("[builder {name}] CACHED"));
        stand.push(layer);
        Ok(true)
    }

    /// Seals what a step has made.
    async fn keep(
        &self,
        stand: &mut Stand,
        key: &Digest,
        work: Workspace,
        tree: PathBuf,
        kind: Tree,
    ) -> Result<(), StepError> {
        let (store, key) = (self.store(), *key);
        let layer = blocking("store the layer of a step", move || {
            let layer = store.add_layer(&tree, kind)?;
            store.remember_step(&key, &layer)?;
            drop(work);
            Ok::<_, belljar_template::store::StoreError>(layer)
        })
        .await?;
        stand.push(layer);
        Ok(())
    }

    /// Tries out how sandboxes will begin, and publishes the version.
    async fn finalize(&self, stand: Stand, told: &Instructions) -> Result<String, StepError> {
        self.say(Level::Info, "finalize", "Finalizing template build");
        let user = self.user(&stand, &stand.user).await?;
        let inherited = &stand.base.defaults;
        let (start, ready) = if told.start.is_some() || told.ready.is_some() {
            (told.start.clone(), told.ready.clone())
        } else {
            (inherited.start.clone(), inherited.ready.clone())
        };
        let defaults = Defaults {
            user,
            workdir: stand.workdir.clone(),
            start,
            ready,
            owner: Some(self.tenant.as_str().to_owned()),
            tier: inherited.tier,
        };
        let room = stand.base.limits.over(Limits::default()).disk_bytes;
        let asked = self.build.disk_mb.map(|disk| disk << 20);
        let limits = LimitDefaults {
            memory: Some(self.build.memory_mb << 20),
            cpu_millis: Some(self.build.cpu_count.saturating_mul(1000)),
            disk: asked.map(|asked| asked.max(room)).or(stand.base.limits.disk),
            ..stand.base.limits.clone()
        };
        self.try_out(&stand, &defaults, &limits).await?;
        let version = Fields::new()
            .digest(&stand.chain)
            .add(&self.build.id)
            .add(serde_json::to_vec(&defaults).unwrap_or_default())
            .finish()
            .short();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let total = |of: fn(&Layer) -> u64| stand.layers.iter().map(of).sum();
        let manifest = Manifest {
            name: self.record.stored_name(),
            version: version.clone(),
            description: format!("{} of {}", self.record.name, self.tenant.as_str()),
            created: now.map_or(0, |now| now.as_secs()),
            layers: stand.layers.iter().map(|layer| layer.digest).collect(),
            binds: Vec::new(),
            env: stand.env.clone(),
            languages: stand.base.languages.clone(),
            limits,
            warm: stand.base.warm.clone(),
            defaults,
            size: total(|layer| layer.facts.bytes),
            files: total(|layer| layer.facts.entries),
        };
        let store = self.store();
        blocking("publish the template", move || {
            store.publish(&manifest)?;
            // Held until the version names them.
            drop(stand.layers);
            Ok::<_, belljar_template::store::StoreError>(())
        })
        .await?;
        self.say(Level::Info, "finalize", "Template is ready");
        Ok(version)
    }

    /// A template whose sandboxes could not begin is no use to anybody.
    async fn try_out(
        &self,
        stand: &Stand,
        defaults: &Defaults,
        limits: &LimitDefaults,
    ) -> Result<(), StepError> {
        if let Some(start) = &defaults.start {
            self.say(Level::Info, "finalize", format!("Running start command: {start}"));
        }
        if let Some(ready) = &defaults.ready {
            let message = format!("Waiting for template to be ready: {ready}");
            self.say(Level::Info, "finalize", message);
        }
        let limits = limits.over(Limits::default());
        // As a sandbox of the template would get it.
        let tier = self.actions.choose_tier(self.tenant, None, defaults.tier);
        let tier = tier.map_err(StepError::refused)?;
        // Templates are mostly used by those who build them: clients of E2B's API.
        let profile = self.actions.config().max_profile;
        let spec = Spec { limits, profile, ..Spec::new(tier, stand.root()) };
        let network = self.network(stand).await?;
        let made = self.actions.node().create(&spec).await;
        let sandbox = made.map_err(|error| StepError::refused(not_made(&error)))?;
        let mut env = network.network.env.clone();
        env.extend(stand.env.clone());
        let bound = self.actions.config().builds.step.min(PATIENCE);
        let rehearsal = async {
            let (way, rows) = (&network.network, &network.rows);
            let connected = self.actions.connect_machine(&sandbox, self.tenant, way, rows).await;
            connected.map_err(StepError::refused)?;
            begin::rehearse(&sandbox, defaults, &env, bound).await.map_err(StepError::Told)
        };
        let begun = tokio::select! {
            begun = rehearsal => begun,
            stopped = stopped(self.stopping) => Err(stopped),
        };
        let gone = sandbox.destroy().await;
        gone.map_err(|error| Problem::internal("end the sandbox of a build", &error))?;
        begun
    }
}

impl Stand {
    fn push(&mut self, layer: Layer) {
        self.chain = Fields::new().digest(&self.chain).digest(&layer.digest).finish();
        // An overlay takes a directory once. What lies over everything need not
        // lie below as well: whatever it has, it has on top.
        self.layers.retain(|below| below.digest != layer.digest);
        self.layers.insert(0, layer);
    }

    fn key(&self, inputs: &Digest) -> Digest {
        Fields::new().digest(&self.chain).digest(inputs).finish()
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.layers.iter().map(|layer| layer.path.clone()).collect()
    }

    fn root(&self) -> RootFs {
        RootFs { layers: self.paths(), binds: Vec::new() }
    }

    fn check_room(&self) -> Result<(), StepError> {
        if self.layers.len() < MOST_LAYERS {
            return Ok(());
        }
        Err(StepError::Told(format!(
            "the template would have more than {MOST_LAYERS} layers; join commands with &&"
        )))
    }
}

/// The name of an image without the registry's host that everybody means, and
/// without tag and digest.
fn image_name(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or(image);
    let name = name.strip_prefix("docker.io/").unwrap_or(name);
    let name = name.strip_prefix("library/").unwrap_or(name);
    match name.rsplit_once(':') {
        Some((before, tag)) if !tag.contains('/') => before,
        _ => name,
    }
}

impl StepError {
    /// A step that the server does not do, with the code and what to do instead.
    pub(super) fn refused(problem: Problem) -> Self {
        if problem.kind != Kind::Unsupported {
            return Self::Ours(problem);
        }
        let Problem { code, message, hint, .. } = problem;
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        Self::Told(format!("{code}: {message}{hint}"))
    }

    pub(super) fn reason(self, step: Option<String>) -> Reason {
        let message = match self {
            Self::Told(message) => message,
            Self::Stopped(Stop::Draining) => "the server is stopping".to_owned(),
            Self::Stopped(Stop::TimedOut) => "build timed out".to_owned(),
            Self::Stopped(Stop::Deleted) => "build was cancelled".to_owned(),
            Self::Ours(problem) => problem.message,
        };
        Reason { message, step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_name_alone() {
        for (image, want) in [
            ("ubuntu:22.04", "ubuntu"),
            ("docker.io/library/python:3.12-slim@sha256:00", "python"),
            ("e2bdev/base", "e2bdev/base"),
            ("registry:5000/team/app", "registry:5000/team/app"),
            ("registry:5000/team/app:v1", "registry:5000/team/app"),
        ] {
            assert_eq!(image_name(image), want);
        }
    }
}

//! Templates, as sandboxes are made from them.

mod name;
mod own;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use belljar_domain::{ChosenLimits, Data, Limits, SecurityProfile, Spec, Tier, User};
use belljar_node::{ContextOptions, Language};
use belljar_template::store::StoreError;
use belljar_template::{Lease, Store, Template, host};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::shared::Shared;
use crate::start::StartError;
use crate::warming::Warming;

pub(crate) use name::{DEFAULT_TAG, Name, new_build, tags};
pub(crate) use own::Own;
pub use own::{BuildRecord, BuildStatus, Reason, Record, Tag};

/// A template that sandboxes can be made from, kept from being removed.
#[derive(Debug)]
pub struct Known {
    pub template: Template,
    /// Of each sandbox, unless it says otherwise.
    pub limits: Limits,
    id: String,
    _lease: Lease,
}

impl Known {
    /// What its owner knows it by; a recipe's template is known by its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What its sandboxes are kept in unless they say otherwise; `None`: what the
    /// server says.
    pub fn tier(&self) -> Option<Tier> {
        self.template.defaults.tier
    }

    /// The spec of a sandbox of it, in this tier and with these datasets. `chosen` limits take the
    /// place of the template's.
    pub(crate) fn spec(
        &self,
        tier: Tier,
        profile: SecurityProfile,
        chosen: &ChosenLimits,
        data: &Data,
    ) -> Spec {
        let (limits, data) = (chosen.over(self.limits.clone()), data.clone());
        Spec { profile, limits, data, ..Spec::new(tier, self.template.root.clone()) }
    }

    /// Who calls run as unless they say otherwise.
    pub fn user(&self) -> User {
        self.template.defaults.user
    }

    /// Where calls run unless they say otherwise; `None`: at home.
    pub fn workdir(&self) -> Option<&str> {
        self.template.defaults.workdir.as_deref()
    }

    /// A context of the template's own interpreter.
    pub fn context(&self, language: Language) -> Result<ContextOptions, Problem> {
        let name = language.interpreter();
        let interpreter = self.template.languages.get(name).cloned().ok_or_else(|| {
            Problem::unsupported(format!(
                "the template `{}` does not support {name}",
                self.template.name
            ))
        })?;
        Ok(ContextOptions { language, interpreter, cwd: None, env: self.template.env.clone() })
    }
}

/// A version of a template, as it is written down.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Reference {
    id: String,
    name: String,
    version: String,
}

impl From<&Known> for Reference {
    fn from(known: &Known) -> Self {
        let Template { name, version, .. } = &known.template;
        Self { id: known.id.clone(), name: name.clone(), version: version.clone() }
    }
}

#[derive(Debug)]
pub(crate) struct Templates {
    store: Store,
    own: Own,
    shared: Option<Shared>,
    aliases: BTreeMap<String, Vec<String>>,
    offers_host: bool,
    /// Those in use. Whoever uses one holds it, and with it its files.
    known: Mutex<HashMap<(String, String), Weak<Known>>>,
    /// Everybody's stay: waiting sandboxes stand on them, too.
    kept: Mutex<HashMap<(String, String), Arc<Known>>>,
    warming: Warming,
}

impl Templates {
    pub(crate) fn open(config: &Config) -> Result<Self, StartError> {
        let store = Store::open(&config.store).map_err(StartError::Store)?;
        let own = Own::open(&config.state);
        let own = own.map_err(|source| StartError::State { path: config.state.clone(), source })?;
        let shared = Shared::open(config).map_err(StartError::Objects)?;
        let aliases = config.aliases.clone();
        Ok(Self {
            store,
            own,
            shared,
            aliases,
            offers_host: config.offers_host,
            known: Mutex::default(),
            kept: Mutex::default(),
            warming: Warming::default(),
        })
    }

    pub(crate) fn own(&self) -> &Own {
        &self.own
    }

    /// What this node has in common with others, if there are any.
    pub(crate) fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn warming(&self) -> &Warming {
        &self.warming
    }

    /// Other names of templates.
    pub(crate) fn aliases(&self) -> &BTreeMap<String, Vec<String>> {
        &self.aliases
    }

    /// Finds a template that the tenant may use: one of everybody's by its name
    /// or another name for it, or else one of its own, by name, `name:tag` or id.
    pub(crate) fn find(&self, tenant: &Tenant, name: &str) -> Result<Arc<Known>, Problem> {
        if let Some(known) = self.built_in(name)? {
            return Ok(known);
        }
        if let Some((record, build)) = self.own.resolve(tenant, name)? {
            let version = build.version.unwrap_or_default();
            let stored = format!("{}@{version}", record.stored_name());
            match self.store.resolve(&stored) {
                Ok(template) => return self.know(template, record.id),
                // Whoever looks after the store has removed it.
                Err(StoreError::Unknown(_)) => {}
                Err(error) => return Err(Problem::internal("read the template", &error)),
            }
        }
        let message = format!("template '{name}' not found");
        let problem = Problem::new(Kind::NotFound, "template_not_found", message);
        let build = self.aliases.get(name).and_then(|names| names.first());
        Err(match build {
            Some(build) => problem.hint(format!("build it with `belljar template build {build}`")),
            None => problem,
        })
    }

    /// The very version that something was made from.
    pub(crate) fn exactly(&self, reference: &Reference) -> Result<Arc<Known>, Problem> {
        let Reference { id, name, version } = reference;
        let template = self.stored(&format!("{name}@{version}"));
        let template = template.map_err(|error| Problem::internal("find a template", &error))?;
        self.know(template, id.clone())
    }

    /// What is in the store, or made of the machine itself.
    fn stored(&self, reference: &str) -> Result<Template, StoreError> {
        if self.offers_host && reference.split('@').next() == Some(host::NAME) {
            let template = host::prepare(self.store.root())?;
            let is_meant = [host::NAME.to_owned(), format!("{}@{}", host::NAME, template.version)];
            if is_meant.iter().any(|name| name == reference) {
                return Ok(template);
            }
        }
        self.store.resolve(reference)
    }

    /// A template of everybody's.
    pub(crate) fn built_in(&self, name: &str) -> Result<Option<Arc<Known>>, Problem> {
        let plain = [":default", ":latest"].iter().find_map(|tag| name.strip_suffix(tag));
        let own = [plain.unwrap_or(name).to_owned()];
        let names = self.aliases.get(&own[0]).map_or(&own[..], Vec::as_slice);
        for name in names {
            match self.stored(name) {
                // What somebody had built is for nobody else, nor under this name.
                Ok(template) if template.defaults.owner.is_some() => {}
                Ok(template) => {
                    let id = template.name.clone();
                    return self.know(template, id).map(Some);
                }
                Err(StoreError::Unknown(_) | StoreError::Reference(_)) => {}
                Err(error) => return Err(Problem::internal("read the templates", &error)),
            }
        }
        Ok(None)
    }

    /// Whether a name is everybody's, built or not.
    pub(crate) fn is_taken(&self, name: &str) -> Result<bool, Problem> {
        let known = self.aliases.contains_key(name)
            || self.aliases.values().flatten().any(|built_in| built_in == name);
        Ok(known || self.built_in(name)?.is_some())
    }

    fn know(&self, template: Template, id: String) -> Result<Arc<Known>, Problem> {
        let key = (template.name.clone(), template.version.clone());
        let mut known = lock(&self.known);
        if let Some(known) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let lease =
            template.lease().map_err(|error| Problem::internal("use a template", &error))?;
        let limits = template.limits.over(Limits::default());
        let everybodys = template.defaults.owner.is_none();
        let new = Arc::new(Known { template, limits, id, _lease: lease });
        known.retain(|_, known| known.strong_count() > 0);
        known.insert(key.clone(), Arc::downgrade(&new));
        if everybodys {
            lock(&self.kept).insert(key, new.clone());
        }
        Ok(new)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Templates, as sandboxes are made from them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_model::{Limits, Spec, Tier};
use belljar_node::{ContextOptions, Language, Node, PoolSize, Warmth};
use belljar_template::store::StoreError;
use belljar_template::{Lease, Store, Template};

use crate::config::Config;
use crate::problem::{Kind, Problem};

/// A template that sandboxes can be made from, kept from being removed.
#[derive(Debug)]
pub struct Known {
    pub template: Template,
    pub spec: Spec,
    _lease: Lease,
}

impl Known {
    /// A context of the template's own interpreter.
    pub fn context(&self, language: Language) -> Result<ContextOptions, Problem> {
        let name = language.interpreter();
        let interpreter = self.template.languages.get(name).cloned().ok_or_else(|| {
            Problem::unsupported(format!("the template `{}` has no {name}", self.template.name))
        })?;
        Ok(ContextOptions { language, interpreter, cwd: None, env: self.template.env.clone() })
    }
}

#[derive(Debug)]
pub(crate) struct Templates {
    store: Store,
    aliases: std::collections::BTreeMap<String, Vec<String>>,
    known: Mutex<HashMap<(String, String), Arc<Known>>>,
}

impl Templates {
    pub(crate) fn open(config: &Config) -> Result<Self, StoreError> {
        let store = Store::open(&config.store)?;
        Ok(Self { store, aliases: config.aliases.clone(), known: Mutex::default() })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Finds a template by its name, `name:version`, or another name for it.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Known>, Problem> {
        let own = [name.to_owned()];
        let names = self.aliases.get(name).map_or(&own[..], Vec::as_slice);
        for name in names {
            match self.store.resolve(name) {
                Ok(template) => return self.know(template),
                Err(StoreError::Unknown(_) | StoreError::Reference(_)) => {}
                Err(error) => return Err(Problem::internal("read the templates", &error)),
            }
        }
        let problem = Problem::new(
            Kind::NotFound,
            "template_not_found",
            format!("template '{name}' not found"),
        );
        let build = names.first().map_or(name, String::as_str);
        Err(problem.hint(format!("build it with `belljar template build {build}`")))
    }

    fn know(&self, template: Template) -> Result<Arc<Known>, Problem> {
        let key = (template.name.clone(), template.version.clone());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&key) {
            return Ok(known.clone());
        }
        let lease =
            template.lease().map_err(|error| Problem::internal("use a template", &error))?;
        let limits = template.limits.over(Limits::default());
        let spec = Spec { limits, ..Spec::new(Tier::Jail, template.root.clone()) };
        let new = Arc::new(Known { template, spec, _lease: lease });
        known.insert(key, new.clone());
        Ok(new)
    }

    /// Warms up what is built of the templates that have other names.
    pub(crate) async fn warm_up(&self, node: &Node, pool: PoolSize) {
        let mut done: Vec<String> = Vec::new();
        for alias in self.aliases.keys() {
            let Ok(known) = self.find(alias) else { continue };
            let template = &known.template;
            let (Some(code), Some(interpreter)) =
                (&template.warm, template.languages.get("python"))
            else {
                continue;
            };
            if done.contains(&template.name) {
                continue;
            }
            done.push(template.name.clone());
            let warmth = Warmth {
                root: template.root.clone(),
                interpreter: interpreter.clone(),
                code: code.clone(),
                env: template.env.clone(),
            };
            let size = Some((pool, known.spec.limits.clone()));
            if let Err(error) = node.warm_up(warmth, size).await {
                // Sandboxes of it start all the same, only later.
                tracing::warn!(
                    template = template.name,
                    error = &error as &dyn std::error::Error,
                    "cannot warm up `{}`",
                    template.name
                );
            }
        }
    }
}

//! Templates that commands name: found, or what may have been meant.

use std::path::Path;

use anyhow::{Context as _, bail};
use belljar_domain::Tier;
use belljar_template::store::StoreError;
use belljar_template::{Store, Template, catalog, host};

use crate::config::Config;
use crate::output::{Hint as _, hinted};
use crate::suggest;

/// Finds `host`, or a template of the store.
pub(crate) fn find_template(
    reference: &str,
    tier: Tier,
    config: &Config,
) -> anyhow::Result<Template> {
    if reference == host::NAME {
        let prepared = host::prepare(&config.store).context("cannot prepare the host template");
        return prepared.hint("choose a writable directory with --store");
    }
    if tier == Tier::Process {
        let error =
            anyhow::anyhow!("the process tier has no root filesystem, so it can use no template");
        return Err(hinted(error, "omit --template, or choose another --tier"));
    }
    let unknown = || {
        if catalog::text(reference).is_some() {
            return format!("build it with `belljar template build {reference}`");
        }
        let lists =
            "`belljar template list` shows built templates, `belljar template recipes` the recipes";
        likely(reference, config).map_or_else(|| lists.to_owned(), |near| format!("{near} {lists}"))
    };
    let shared = config.shared_store.as_ref().filter(|store| store.join("templates").is_dir());
    let found = |store: &Path| Store::open(store).and_then(|store| store.resolve(reference));
    let is_unknown = |error: &StoreError| matches!(error, StoreError::Unknown(_));
    let own = config.store.exists().then(|| found(&config.store));
    let resolved = match (own, shared) {
        (Some(Err(error)), Some(shared)) if is_unknown(&error) => found(shared),
        (Some(resolved), _) => resolved,
        (None, Some(shared)) => found(shared),
        (None, None) => {
            bail!(hinted(anyhow::anyhow!("there is no template `{reference}`"), unknown()))
        }
    };
    resolved.map_err(|error| match error {
        StoreError::Unknown(_) | StoreError::Reference(_) => hinted(error, unknown()),
        other => other.into(),
    })
}

/// What a sandbox is kept in: what was asked for, or what its template says.
pub(crate) fn chosen_tier(asked: Option<Tier>, template: &Template) -> Tier {
    asked.or(template.defaults.tier).unwrap_or(Tier::Jail)
}

/// Names of templates and recipes that `typed` may be a misspelling of, as a question.
pub(crate) fn likely(typed: &str, config: &Config) -> Option<String> {
    let (name, _) = typed.split_once('@').unwrap_or((typed, ""));
    // A store that cannot be read has been reported, or will be.
    let store = config.store.exists().then(|| Store::open(&config.store).ok()).flatten();
    let built = store.and_then(|store| store.list().ok()).unwrap_or_default();
    let mut known: Vec<&str> = catalog::names().collect();
    known.push(host::NAME);
    known.extend(built.iter().map(|manifest| manifest.name.as_str()));
    known.sort_unstable();
    known.dedup();
    suggest::did_you_mean(&suggest::nearest(name, known))
}

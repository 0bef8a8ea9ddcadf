//! What a template says about its interpreters, for contexts.

use anyhow::Context as _;
use belljar_node::{ContextOptions, Language, Warmth};
use belljar_template::Template;

use crate::output::hinted;

/// What makes the template's Python warm.
pub(crate) fn warmth(template: &Template) -> anyhow::Result<Warmth> {
    let interpreter = template.languages.get("python").context("the template has no Python")?;
    Ok(Warmth {
        root: template.root.clone(),
        interpreter: interpreter.clone(),
        code: template.warm.clone().unwrap_or_default(),
        env: template.env.clone(),
    })
}

/// A context of the template's own interpreter.
pub(crate) fn context(template: &Template, language: Language) -> anyhow::Result<ContextOptions> {
    let name = language.interpreter();
    let interpreter = template.languages.get(name).ok_or_else(|| {
        let error = anyhow::anyhow!("the template `{}` has no {name}", template.name);
        hinted(error, "choose another with --template; `belljar template list` shows them")
    })?;
    Ok(ContextOptions {
        language,
        interpreter: interpreter.clone(),
        cwd: None,
        env: template.env.clone(),
    })
}

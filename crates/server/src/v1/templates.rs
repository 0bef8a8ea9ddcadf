//! Templates.

mod get;
mod list;

use belljar_api::template as api;
use belljar_sandboxes::Known;

use super::sandboxes::limits;

pub(super) use get::get;
pub(super) use list::list;

fn view(known: &Known) -> api::Template {
    let template = &known.template;
    api::Template {
        name: known.id().to_owned(),
        version: template.version.clone(),
        languages: template.languages.keys().cloned().collect(),
        limits: limits(&known.limits),
        warm: template.warm.is_some(),
        tier: known.tier(),
    }
}

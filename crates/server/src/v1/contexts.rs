//! Contexts: interpreters that keep their state.

mod cells;
mod create;
mod delete;
mod interrupt;
mod list;
mod restart;
mod run;

use belljar_api::context as api;
use belljar_sandboxes::{Actions, ContextInfo, Contexts, Problem, Tenant};

use super::calls::reach;

pub(super) use create::create;
pub(super) use delete::delete;
pub(super) use interrupt::interrupt;
pub(super) use list::list;
pub(super) use restart::restart;
pub(super) use run::run;

/// The contexts of a tenant's own sandbox.
async fn of(actions: &Actions, tenant: &Tenant, id: &str) -> Result<Contexts, Problem> {
    let (sandbox, live) = reach(actions, tenant, id).await?;
    Ok(Contexts::of(&sandbox, live))
}

fn view(context: ContextInfo) -> api::Context {
    let ContextInfo { id, language, cwd } = context;
    api::Context { id, language: language.as_str().to_owned(), cwd }
}

//! Calls: commands in a sandbox.

mod delete;
mod events;
mod follow;
mod gather;
mod get;
mod list;
mod run;
mod signal;
mod source;
mod stdin;

use std::sync::Arc;

use belljar_api::call as api;
use belljar_domain::User;
use belljar_sandboxes::{Actions, Live, Problem, Process, ProcessEnd, Sandbox, Selector, Tenant};

pub(super) use delete::delete;
pub(super) use follow::follow;
pub(super) use get::get;
pub(super) use list::list;
pub(super) use run::{run, wants_events};
pub(super) use signal::signal;
pub(super) use stdin::write_stdin;

/// What runs of a tenant's own sandbox.
pub(super) async fn reach(
    actions: &Actions,
    tenant: &Tenant,
    id: &str,
) -> Result<(Arc<Sandbox>, Arc<Live>), Problem> {
    let sandbox = actions.registry().find(tenant, id)?;
    let live = actions.wake(&sandbox).await?;
    Ok((sandbox, live))
}

/// Who acts: whoever was named, or the template's own.
pub(super) fn user(sandbox: &Sandbox, named: Option<api::User>) -> User {
    match named {
        Some(api::User::User) => User::User,
        Some(api::User::Root) => User::Root,
        None => sandbox.template().user(),
    }
}

/// A call's id; what is no number names none.
fn selector(call: &str) -> Result<Selector, Problem> {
    call.parse().map(Selector::Pid).map_err(|_| Problem::not_found("call", call))
}

fn view(process: &Process, end: Option<ProcessEnd>) -> api::Call {
    let argv = std::iter::once(process.cmd().to_owned()).chain(process.args().iter().cloned());
    api::Call {
        id: process.pid(),
        number: process.number(),
        argv: argv.collect(),
        cwd: process.cwd().map(str::to_owned),
        end: end.map(|end| end.end.into()),
    }
}

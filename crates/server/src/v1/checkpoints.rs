//! Checkpoints: moments of sandboxes, kept.

mod create;
mod delete;
mod fork;
mod list;

use belljar_api::checkpoint as api;
use belljar_sandboxes::Snapshot;

use super::sandboxes::date_time;

pub(super) use create::create;
pub(super) use delete::delete;
pub(super) use fork::fork;
pub(super) use list::list;

fn view(snapshot: &Snapshot) -> api::Checkpoint {
    api::Checkpoint {
        id: snapshot.id.clone(),
        name: snapshot.name.clone(),
        sandbox: snapshot.sandbox.clone(),
        taken_at: date_time(snapshot.taken_at),
        tier: snapshot.tier,
    }
}

//! Content of volumes.

use axum::Router;
use belljar_actions::Actions;

pub(crate) fn router(actions: Actions) -> Router {
    Router::new().with_state(actions)
}

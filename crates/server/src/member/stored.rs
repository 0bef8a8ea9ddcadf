//! Tells control how many bytes this node keeps for tenants, which are charged once an hour.

use std::sync::Arc;
use std::time::Duration;

use belljar_peer_proto::member::SendStored;
use belljar_sandboxes::Actions;

use super::ask::{AskError, Control};
use crate::behind::Cluster;

/// Interval of samples: several in each hour, so that one that is lost does not matter.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(600);
/// Wait before the first sample, and after one that control did not take.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Samples and sends for good.
pub(super) async fn send(cluster: Cluster, control: Arc<Control>, actions: Actions) {
    let mut pause = RETRY_INTERVAL;
    loop {
        tokio::time::sleep(pause).await;
        pause = match sample(&cluster, &control, &actions).await {
            Ok(()) => SAMPLE_INTERVAL,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(error, "stored bytes not sent to control; retrying");
                RETRY_INTERVAL
            }
        };
    }
}

async fn sample(cluster: &Cluster, control: &Control, actions: &Actions) -> Result<(), AskError> {
    let Some(registered) = cluster.registered() else { return Err(AskError::NoControl) };
    let actions = actions.clone();
    let measured = tokio::task::spawn_blocking(move || actions.stored_bytes()).await;
    // A measurement that panicked has said so itself.
    let Ok(stored) = measured else { return Ok(()) };
    control.stored(&SendStored { number: registered.number, stored }).await.map(drop)
}

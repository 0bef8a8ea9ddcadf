//! Says again and again that the worker lives.

use std::sync::Arc;
use std::time::Duration;

use belljar_journal::{Journal, Lease, LeaseError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Renews a lease until it is dropped.
pub(super) struct Keeper {
    task: JoinHandle<()>,
    fenced: watch::Receiver<bool>,
}

impl Keeper {
    pub(super) fn start(journal: Arc<dyn Journal>, lease: Lease, time: Duration) -> Self {
        let (fence, fenced) = watch::channel(false);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(time / 3).await;
                match journal.renew(&lease, time).await {
                    Ok(()) => {}
                    // A journal that fails now may work before the lease ends.
                    Err(LeaseError::Failed(error)) => {
                        tracing::warn!(run.id = %lease.address.run, %error, "cannot renew a lease");
                    }
                    Err(LeaseError::Fenced { .. } | LeaseError::NoRun) => {
                        let _ = fence.send(true);
                        return;
                    }
                }
            }
        });
        Self { task, fenced }
    }

    /// Waits until somebody else has the run.
    pub(super) async fn fenced(&self) {
        let mut fenced = self.fenced.clone();
        if fenced.wait_for(|is| *is).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

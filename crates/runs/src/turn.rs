//! One turn of a run.

use belljar_agent::{Turn, TurnError};
use belljar_journal::Address;

use crate::Runs;

impl Runs {
    /// Reads one turn of a run; none if the run has not come to it.
    pub async fn turn(&self, run: &Address, number: u32) -> Result<Option<Turn>, TurnError> {
        let _one = self.0.viewing.acquire().await;
        let parts = &self.0.parts;
        belljar_agent::turn(&*parts.journal, &*parts.rows, run, number).await
    }
}

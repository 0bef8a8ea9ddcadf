//! The report of a run.

use std::sync::Arc;

use belljar_journal::{Address, BlobError, ReadError};
use belljar_report::RenderedReport;
use belljar_telemetry::metrics;

use crate::Runs;

/// The reason that there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("cannot read the run")]
    Read(#[source] ReadError),
    #[error("the run has not ended")]
    Unfinished,
    #[error("cannot read a file of the run")]
    Blob(#[source] BlobError),
    #[error("the renderer of reports panicked")]
    Renderer,
}

impl From<belljar_agent::ReportError> for ReportError {
    fn from(error: belljar_agent::ReportError) -> Self {
        match error {
            belljar_agent::ReportError::Read(error) => Self::Read(error),
            belljar_agent::ReportError::Unfinished => Self::Unfinished,
            belljar_agent::ReportError::Blob(error) => Self::Blob(error),
        }
    }
}

impl Runs {
    /// Renders the report of an ended run. The same run has the same bytes.
    pub async fn report(&self, run: &Address) -> Result<RenderedReport, ReportError> {
        // It may have many megabytes of charts.
        let permit = Arc::clone(&self.0.viewing).acquire_owned().await;
        let report = belljar_agent::report(&**self.journal(), run).await?;
        let brand = self.settings().brand.clone();
        let rendering = tokio::task::spawn_blocking(move || {
            // The thread works on when the client is gone, and so keeps the permit.
            let _permit = permit;
            belljar_report::render(&report, &brand)
        });
        let rendered = rendering.await.map_err(|_| ReportError::Renderer)?;
        metrics().reports().rendered(rendered.html.len());
        Ok(rendered)
    }
}

//! What the product logs, to be searched.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// All events and spans of this process: ours of every level, which is more than an operator can
/// have logged, and those of libraries as an operator sees them.
#[derive(Debug, Clone, Default)]
pub struct CapturedLog(Arc<Mutex<String>>);

impl CapturedLog {
    /// Hears everything from now on; once in a process.
    pub fn install() -> anyhow::Result<Self> {
        let log = Self::default();
        let subscriber = tracing_subscriber::registry().with(log.clone());
        tracing::subscriber::set_global_default(subscriber).context("logs go elsewhere already")?;
        Ok(log)
    }

    /// What was logged since the last time.
    pub fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, metadata: &Metadata<'_>, record: impl FnOnce(&mut Line)) {
        if !metadata.target().starts_with("belljar") && *metadata.level() > Level::INFO {
            return;
        }
        let mut line = Line(format!("{} {}", metadata.level(), metadata.target()));
        record(&mut line);
        line.0.push('\n');
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(&line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, " {}={value}", field.name());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for CapturedLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.add(event.metadata(), |line| event.record(line));
    }

    fn on_new_span(&self, attributes: &span::Attributes<'_>, _: &span::Id, _: Context<'_, S>) {
        self.add(attributes.metadata(), |line| attributes.record(line));
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        if let Some(metadata) = context.metadata(id) {
            self.add(metadata, |line| values.record(line));
        }
    }
}

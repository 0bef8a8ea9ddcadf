//! What `tracing` tells, kept with its spans and passed on: events as lines,
//! spans that have ended to the exporter.

use std::borrow::Cow;
use std::io::Write as _;
use std::time::SystemTime;

use time::OffsetDateTime;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context as Around;
use tracing_subscriber::registry::LookupSpan;

use crate::fields::{Fields, TRACEPARENT, Value};
use crate::lines::Line;
use crate::metrics::metrics;
use crate::start::Format;
use crate::traces::{Context, Finished, Queue, nanos};

/// The one layer of ours.
pub(crate) struct Trail {
    /// The format of lines; none: events are not written.
    pub(crate) format: Option<Format>,
    /// Where spans go; `None`: nowhere.
    pub(crate) queue: Option<Queue>,
}

/// What is kept with a span.
pub(crate) struct Marks {
    fields: Fields,
    pub(crate) open: Option<Open>,
}

/// A span that is traced.
pub(crate) struct Open {
    pub(crate) context: Context,
    parent: Option<u64>,
    start: u64,
}

impl<S> Layer<S> for Trail
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, around: Around<'_, S>) {
        let Some(span) = around.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let open = self.queue.as_ref().map(|_| {
            let given = fields.text(TRACEPARENT).and_then(Context::parse);
            let parent = given.or_else(|| {
                let parent = span.parent()?;
                let extensions = parent.extensions();
                extensions.get::<Marks>()?.open.as_ref().map(|open| open.context)
            });
            let context = parent.map_or_else(Context::root, Context::child);
            Open { context, parent: parent.map(|parent| parent.span), start: now() }
        });
        let trace = open.as_ref().map(|open| open.context);
        let trace = trace.or_else(|| fields.text(TRACEPARENT).and_then(Context::parse));
        if let Some(trace) = trace {
            fields.set("trace_id", Value::Text(trace.trace_hex()));
        }
        span.extensions_mut().insert(Marks { fields, open });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, around: Around<'_, S>) {
        let Some(span) = around.span(id) else { return };
        if let Some(marks) = span.extensions_mut().get_mut::<Marks>() {
            values.record(&mut marks.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, around: Around<'_, S>) {
        let Some(format) = self.format else { return };
        let mut fields = Fields::default();
        for span in around.event_scope(event).into_iter().flatten().collect::<Vec<_>>().iter().rev()
        {
            if let Some(marks) = span.extensions().get::<Marks>() {
                for (name, value) in &marks.fields.0 {
                    fields.set(name, value.clone());
                }
            }
        }
        event.record(&mut fields);
        let level = *event.metadata().level();
        if level <= Level::WARN {
            metrics().logged(if level == Level::WARN { "warn" } else { "error" });
        }
        let line =
            Line { at: OffsetDateTime::now_utc(), metadata: event.metadata(), fields: &fields };
        // Whoever reads the log may have gone; there is nobody else to tell.
        let _ = std::io::stderr().lock().write_all(line.write(format).as_bytes());
    }

    fn on_close(&self, id: Id, around: Around<'_, S>) {
        let (Some(queue), Some(span)) = (&self.queue, around.span(&id)) else { return };
        let marks = span.extensions_mut().remove::<Marks>();
        let Some(Marks { fields, open: Some(open) }) = marks else { return };
        queue.push(Finished {
            name: Cow::Borrowed(span.name()),
            context: open.context,
            parent: open.parent,
            links: Vec::new(),
            is_client: span.name() == "forward",
            start: open.start,
            end: now(),
            fields,
        });
    }
}

fn now() -> u64 {
    nanos(SystemTime::now())
}

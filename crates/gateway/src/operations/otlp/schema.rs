//! Positions of attributes in OpenTelemetry's messages (`opentelemetry-proto` 1.9).
//!
//! Only fields that lead to attributes are named. All others are copied as they are.

use super::Signal;
use Field::Attribute;

/// A message of protobuf: its fields by number.
#[derive(Debug)]
pub(super) struct Message(&'static [(u32, Field)]);

#[derive(Debug, Clone, Copy)]
pub(super) enum Field {
    /// `KeyValue`.
    Attribute,
    Message(&'static Message),
}

impl Message {
    pub(super) fn field(&self, number: u32) -> Option<Field> {
        self.0.iter().find(|(known, _)| *known == number).map(|(_, field)| *field)
    }
}

pub(super) static RESOURCE: Message = Message(&[(1, Attribute)]);
static SCOPE: Message = Message(&[(3, Attribute)]);

static SCOPE_SPANS: Message = Message(&[(1, Field::Message(&SCOPE)), (2, Field::Message(&SPAN))]);
static SPAN: Message =
    Message(&[(9, Attribute), (11, Field::Message(&EVENT)), (13, Field::Message(&LINK))]);
static EVENT: Message = Message(&[(3, Attribute)]);
static LINK: Message = Message(&[(4, Attribute)]);

static SCOPE_METRICS: Message =
    Message(&[(1, Field::Message(&SCOPE)), (2, Field::Message(&METRIC))]);
static METRIC: Message = Message(&[
    (5, Field::Message(&NUMBERS)),
    (7, Field::Message(&NUMBERS)),
    (9, Field::Message(&HISTOGRAM)),
    (10, Field::Message(&EXPONENTIAL)),
    (11, Field::Message(&SUMMARY)),
    (12, Attribute),
]);
/// A gauge or a sum.
static NUMBERS: Message = Message(&[(1, Field::Message(&NUMBER_POINT))]);
static HISTOGRAM: Message = Message(&[(1, Field::Message(&HISTOGRAM_POINT))]);
static EXPONENTIAL: Message = Message(&[(1, Field::Message(&EXPONENTIAL_POINT))]);
static SUMMARY: Message = Message(&[(1, Field::Message(&SUMMARY_POINT))]);
static NUMBER_POINT: Message = Message(&[(7, Attribute), (5, Field::Message(&EXEMPLAR))]);
static HISTOGRAM_POINT: Message = Message(&[(9, Attribute), (8, Field::Message(&EXEMPLAR))]);
static EXPONENTIAL_POINT: Message = Message(&[(1, Attribute), (11, Field::Message(&EXEMPLAR))]);
static SUMMARY_POINT: Message = Message(&[(7, Attribute)]);
static EXEMPLAR: Message = Message(&[(7, Attribute)]);

static SCOPE_LOGS: Message = Message(&[(1, Field::Message(&SCOPE)), (2, Field::Message(&LOG))]);
static LOG: Message = Message(&[(6, Attribute)]);

impl Signal {
    /// The message within a resource's.
    pub(super) fn scopes(self) -> &'static Message {
        match self {
            Self::Traces => &SCOPE_SPANS,
            Self::Metrics => &SCOPE_METRICS,
            Self::Logs => &SCOPE_LOGS,
        }
    }

    /// The member of a request in JSON, and of each resource in it.
    pub(super) fn members(self) -> (&'static str, &'static str) {
        match self {
            Self::Traces => ("resourceSpans", "scopeSpans"),
            Self::Metrics => ("resourceMetrics", "scopeMetrics"),
            Self::Logs => ("resourceLogs", "scopeLogs"),
        }
    }
}

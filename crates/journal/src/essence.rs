//! What of a transcript does not depend on who worked on it, and how fast.
//!
//! A run that was interrupted and taken over has the same essence as one that was
//! not. Forks are compared by it, too.

use serde_json::Value;

use crate::event::{Body, Event};

/// Measured, so never the same twice; or about one particular log and who wrote it.
const OWN: &[&str] = &["micros", "first_token_micros", "used", "asked", "generation", "exec"];

/// Each event that belongs to the matter, without what was measured.
pub fn essence(events: &[Event]) -> Vec<Value> {
    events.iter().filter(|event| belongs(&event.body)).map(|event| plain(&event.body)).collect()
}

/// Leases are about who works; of questions to the model, those count that were
/// answered, and the answer says so.
fn belongs(body: &Body) -> bool {
    !matches!(
        body,
        Body::LeaseTaken(_) | Body::LlmRequested(_) | Body::LlmFailed(_) | Body::NetworkUsed(_)
    )
}

fn plain(body: &Body) -> Value {
    let mut value = serde_json::to_value(body).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.retain(|name, _| !OWN.contains(&name.as_str()));
    }
    value
}

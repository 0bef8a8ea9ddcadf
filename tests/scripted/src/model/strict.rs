//! What providers refuse: known fields of known types only, roles that take turns,
//! calls and results that belong together, thoughts that nobody changed.
//!
//! The words of the refusals are theirs as far as a test may want to look at them.

mod chat;
mod messages;
mod responses;

use std::collections::BTreeSet;

use serde_json::Value;

use super::dialect::Dialect;

/// What is wrong with a request, or nothing.
pub(crate) fn check(dialect: Dialect, body: &Value) -> Result<(), String> {
    match dialect {
        Dialect::Messages => messages::check(body),
        Dialect::Responses => responses::check(body),
        Dialect::Chat => chat::check(body),
    }
}

/// The value is an object with no other keys than these.
fn keys(value: &Value, place: &str, known: &[&str]) -> Result<(), String> {
    let members = value.as_object().ok_or_else(|| format!("{place}: Input should be an object"))?;
    match members.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("{place}.{key}: Extra inputs are not permitted")),
        None => Ok(()),
    }
}

fn text<'v>(value: &'v Value, key: &str, place: &str) -> Result<&'v str, String> {
    value[key].as_str().ok_or_else(|| format!("{place}.{key}: Input should be a valid string"))
}

fn list<'v>(value: &'v Value, key: &str, place: &str) -> Result<&'v [Value], String> {
    let items = value[key].as_array();
    items.map(Vec::as_slice).ok_or_else(|| format!("{place}.{key}: Input should be a valid list"))
}

/// Names of tools and ids of calls.
fn word<'v>(value: &'v Value, key: &str, place: &str) -> Result<&'v str, String> {
    let word = text(value, key, place)?;
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&word.len()) && word.bytes().all(is_letter) {
        return Ok(word);
    }
    Err(format!("{place}.{key}: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"))
}

fn object_schema(schema: &Value, place: &str) -> Result<(), String> {
    if schema["type"] == "object" {
        return Ok(());
    }
    Err(format!("{place}.type: Input should be 'object'"))
}

/// Calls that wait for their results.
#[derive(Debug, Default)]
struct Due<'v> {
    open: BTreeSet<&'v str>,
    all: BTreeSet<&'v str>,
}

impl<'v> Due<'v> {
    fn call(&mut self, id: &'v str) -> Result<(), String> {
        if !self.all.insert(id) {
            return Err(format!("tool call ids must be unique: {id}"));
        }
        self.open.insert(id);
        Ok(())
    }

    fn result(&mut self, id: &str) -> Result<(), String> {
        if self.open.remove(id) {
            return Ok(());
        }
        Err(format!("unexpected tool result for {id}: it answers no call just before it"))
    }

    fn is_settled(&self) -> Result<(), String> {
        match self.open.first() {
            Some(id) => Err(format!("No tool output found for the tool call {id}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

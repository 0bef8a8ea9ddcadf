//! JSON objects with optional members.

use serde_json::Value;

/// Adds a member to an object. A value that is no object stays as it is.
pub(crate) fn set(object: &mut Value, name: &str, member: impl Into<Value>) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), member.into());
    }
}

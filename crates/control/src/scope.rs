//! What a key must open for what.
//!
//! | | looks | changes |
//! |---|---|---|
//! | sandboxes, snapshots, volumes, secrets | `read` or `sandboxes` | `sandboxes` |
//! | templates | `read`, `templates` or `sandboxes` | `templates` |
//!
//! `admin` opens all of it. Whoever may only look sees no token: it would open
//! what he may not.

use belljar_store::Scope;
use http::Method;
use serde_json::Value;

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Sandboxes,
    Templates,
}

/// The scope that is missing, if one is.
pub(crate) fn missing(has: &[Scope], method: &Method, subject: Subject) -> Option<Scope> {
    let looks = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let opens: &[Scope] = match (subject, looks) {
        (Subject::Sandboxes, true) => &[Scope::Read, Scope::Sandboxes],
        (Subject::Sandboxes, false) => &[Scope::Sandboxes],
        (Subject::Templates, true) => &[Scope::Read, Scope::Templates, Scope::Sandboxes],
        (Subject::Templates, false) => &[Scope::Templates],
    };
    let fits = has.iter().any(|scope| *scope == Scope::Admin || opens.contains(scope));
    if fits { None } else { opens.first().copied() }
}

/// Whether answers must be cleared of tokens.
pub(crate) fn only_looks(has: &[Scope]) -> bool {
    !has.iter().any(|scope| matches!(scope, Scope::Admin | Scope::Sandboxes))
}

/// Fields that open something.
const TOKENS: [&str; 5] =
    ["envdAccessToken", "trafficAccessToken", "traffic_token", "access_token", "token"];

pub(crate) fn clear(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in TOKENS {
                if let Some(field) = fields.get_mut(name) {
                    *field = Value::Null;
                }
            }
            fields.values_mut().for_each(clear);
        }
        Value::Array(items) => items.iter_mut().for_each(clear),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_scope_opens_what_it_says() {
        use Scope::{Admin, Read, Sandboxes, Templates};
        use Subject as S;
        let table = [
            (Read, [true, false, true, false]),
            (Sandboxes, [true, true, true, false]),
            (Templates, [false, false, true, true]),
            (Admin, [true, true, true, true]),
        ];
        let asked = [
            (Method::GET, S::Sandboxes),
            (Method::POST, S::Sandboxes),
            (Method::GET, S::Templates),
            (Method::DELETE, S::Templates),
        ];
        for (scope, opens) in table {
            for ((method, subject), open) in asked.iter().zip(opens) {
                let missing = missing(&[scope], method, *subject);
                assert_eq!(missing.is_none(), open, "{scope:?} {method} {subject:?}");
            }
        }
        assert!(asked.iter().all(|(method, subject)| missing(&[], method, *subject).is_some()));
    }

    #[test]
    fn whoever_only_looks_sees_no_token() {
        let mut value = json!([
            {"envdAccessToken": "a", "id": "x", "in": {"traffic_token": "b"}, "access_token": "c"},
        ]);
        clear(&mut value);
        assert_eq!(
            value,
            json!([
                {"envdAccessToken": null, "id": "x", "in": {"traffic_token": null}, "access_token": null},
            ])
        );
    }
}

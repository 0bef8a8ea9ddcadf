//! Markers in what a model says: `{{result}}` becomes what the last tool answered.

use anyhow::bail;
use serde_json::Value;

/// What markers stand for, in one conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Markers {
    /// Texts of the tool results, in order.
    pub(crate) results: Vec<String>,
    /// What the user said last.
    pub(crate) user: String,
    pub(crate) model: String,
}

impl Markers {
    /// Refuses a text with a marker that stands for nothing.
    pub(crate) fn check(text: &str) -> anyhow::Result<()> {
        Self::default().each(text, |name, known| {
            if known.is_none() {
                bail!("`{{{{{name}}}}}` is not a marker");
            }
            Ok(())
        })
    }

    /// The text with everything filled in. Results that are not there are empty.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, name, after)) = next(rest) {
            filled.push_str(before);
            filled.push_str(&self.value(name).unwrap_or_default());
            rest = after;
        }
        filled + rest
    }

    /// The same, in every string of a value.
    pub(crate) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill(text).into(),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(members) => {
                let filled =
                    members.iter().map(|(key, value)| (key.clone(), self.fill_value(value)));
                Value::Object(filled.collect())
            }
            other => other.clone(),
        }
    }

    fn each(
        &self,
        text: &str,
        mut visit: impl FnMut(&str, Option<String>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut rest = text;
        while let Some((_, name, after)) = next(rest) {
            visit(name, self.value(name))?;
            rest = after;
        }
        Ok(())
    }

    /// `result`, `result.2` (the second of all), `user`, `model`.
    fn value(&self, name: &str) -> Option<String> {
        match name {
            "result" => Some(self.results.last().cloned().unwrap_or_default()),
            "user" => Some(self.user.clone()),
            "model" => Some(self.model.clone()),
            _ => {
                let number: usize = name.strip_prefix("result.")?.parse().ok()?;
                let result = self.results.get(number.checked_sub(1)?);
                Some(result.cloned().unwrap_or_default())
            }
        }
    }
}

/// What stands before a marker, its name, and what stands after.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (name, after) = rest.split_once("}}")?;
    Some((before, name, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_become_what_was_said() {
        let markers = Markers {
            results: vec!["one".to_owned(), "{{user}}".to_owned()],
            user: "Count!".to_owned(),
            model: "m".to_owned(),
        };
        assert_eq!(markers.fill("{{result.1}}, {{result}}; {{model}}"), "one, {{user}}; m");
        assert_eq!(markers.fill("{{result.9}}|{not} }} {{open"), "|{not} }} {{open");
        let value = serde_json::json!({ "a": ["{{user}}", 1], "{{user}}": null });
        assert_eq!(
            markers.fill_value(&value),
            serde_json::json!({ "a": ["Count!", 1], "{{user}}": null })
        );
    }

    #[test]
    fn unknown_markers_are_refused() {
        assert!(Markers::check("{{result}} {{result.3}} {{user}}").is_ok());
        for bad in ["{{results}}", "{{result.0}}", "{{}}", "{{ result }}"] {
            assert!(Markers::check(bad).is_err(), "{bad}");
        }
    }
}

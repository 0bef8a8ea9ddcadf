//! What the operator says about the requests of one operation.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::fields::READ_FIRST;

/// Rules of one operation.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    pub models: Models,
    /// Top-level fields that have this value, whatever the client says.
    pub pinned: BTreeMap<String, serde_json::Value>,
    /// The most tokens that one answer may have.
    pub max_output: u64,
    /// The field that says so, where the upstream knows an older name only.
    pub max_output_field: Option<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            models: Models::default(),
            pinned: BTreeMap::new(),
            max_output: 32_000,
            max_output_field: None,
        }
    }
}

/// Which models may be used. Nothing is allowed that is not said here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Models {
    /// Every request goes to this one.
    pub pin: Option<String>,
    /// What clients say → what the upstream calls it.
    pub alias: BTreeMap<String, String>,
    /// Names that go through, exact or up to a `*` at the end.
    pub allow: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRules {
    #[error("`{0}` cannot be pinned: it has a rule of its own")]
    Pinned(String),
    #[error("an answer has at least one token")]
    NoOutput,
}

impl Rules {
    pub fn check(&self) -> Result<(), InvalidRules> {
        if self.max_output == 0 {
            return Err(InvalidRules::NoOutput);
        }
        match self.pinned.keys().find(|field| READ_FIRST.contains(&field.as_str())) {
            Some(field) => Err(InvalidRules::Pinned(field.clone())),
            None => Ok(()),
        }
    }
}

impl Models {
    /// What the upstream calls the model; none when it may not be used.
    pub fn find<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        if let Some(pin) = &self.pin {
            return Some(pin);
        }
        if let Some(upstream) = self.alias.get(name) {
            return Some(upstream);
        }
        let is_allowed = |pattern: &String| match pattern.strip_suffix('*') {
            Some(front) => name.starts_with(front),
            None => name == pattern,
        };
        self.allow.iter().any(is_allowed).then_some(name)
    }

    /// Names that a client can be told of.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let exact = self.allow.iter().filter(|pattern| !pattern.ends_with('*'));
        self.pin.iter().chain(self.alias.keys()).chain(exact).map(String::as_str)
    }
}

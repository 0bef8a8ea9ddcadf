//! Operator's caps on the gateway operations that tenants and API keys may name.

use serde::{Deserialize, Serialize};

/// The longest name of an operation, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Returns true if an operation can have this name.
pub fn is_operation_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(plain)
}

/// A cap on operations: the names that are allowed, or all that are configured.
///
/// As text: `all`, `none`, or names with commas between them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationCap(Option<Vec<String>>);

/// A text that is no cap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not `all`, `none` or names of operations with commas between them")]
pub struct InvalidOperationCap(String);

impl OperationCap {
    /// The cap that allows every operation.
    pub const ALL: Self = Self(None);

    /// Allows these operations and no other.
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self(Some(names))
    }

    /// The allowed names; none: all.
    pub fn names(&self) -> Option<&[String]> {
        self.0.as_deref()
    }

    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    pub fn allows(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.iter().any(|allowed| allowed == name))
    }

    /// Returns the cap that allows what both allow.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (None, _) => other.clone(),
            (_, None) => self.clone(),
            (Some(names), Some(_)) => {
                Self(Some(names.iter().filter(|name| other.allows(name)).cloned().collect()))
            }
        }
    }
}

impl std::str::FromStr for OperationCap {
    type Err = InvalidOperationCap;

    fn from_str(text: &str) -> Result<Self, InvalidOperationCap> {
        match text {
            "all" => return Ok(Self::ALL),
            "none" => return Ok(Self::of([])),
            _ => {}
        }
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        if names.iter().all(|name| is_operation_name(name)) {
            return Ok(Self::of(names.into_iter().map(str::to_owned)));
        }
        Err(InvalidOperationCap(text.to_owned()))
    }
}

impl std::fmt::Display for OperationCap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.names() {
            None => f.write_str("all"),
            Some([]) => f.write_str("none"),
            Some(names) => f.write_str(&names.join(",")),
        }
    }
}

/// The caps that hold for a request: those of its tenant and of its API key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationCaps {
    #[serde(skip_serializing_if = "OperationCap::is_all")]
    pub tenant: OperationCap,
    #[serde(skip_serializing_if = "OperationCap::is_all")]
    pub key: OperationCap,
}

/// The owner of a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapHolder {
    Tenant,
    Key,
}

impl std::fmt::Display for CapHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tenant => "tenant",
            Self::Key => "API key",
        })
    }
}

/// An operation that a cap does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the operations of your {holder} are capped to {cap}; `{operation}` is not among them")]
pub struct OperationCapped {
    pub operation: String,
    pub holder: CapHolder,
    pub cap: OperationCap,
}

impl OperationCaps {
    pub fn is_all(&self) -> bool {
        self.tenant.is_all() && self.key.is_all()
    }

    /// Refuses the first name that a cap does not have.
    pub fn check<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<(), OperationCapped> {
        for name in names {
            for (cap, holder) in [(&self.tenant, CapHolder::Tenant), (&self.key, CapHolder::Key)] {
                if !cap.allows(name) {
                    let (operation, cap) = (name.to_owned(), cap.clone());
                    return Err(OperationCapped { operation, holder, cap });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cap(text: &str) -> OperationCap {
        text.parse().unwrap()
    }

    #[test]
    fn a_cap_is_shown_as_it_is_read() {
        for text in ["all", "none", "llm,search", "a:b"] {
            assert_eq!(cap(text).to_string(), text);
        }
        assert_eq!(cap("search, llm,search"), cap("llm,search"));
        for text in ["", ",", "a,,b", "a b", "a/b", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(text.parse::<OperationCap>().is_err(), "{text}");
        }
    }

    #[test]
    fn both_caps_hold_and_the_refusal_names_the_one_that_lacks_the_operation() {
        let caps = OperationCaps { tenant: cap("llm,search"), key: cap("llm,admin") };
        assert_eq!(caps.check(["llm"]), Ok(()));
        let refused = caps.check(["llm", "search"]).unwrap_err();
        assert_eq!((refused.holder, refused.operation.as_str()), (CapHolder::Key, "search"));
        let refused = caps.check(["admin"]).unwrap_err();
        assert_eq!(refused.holder, CapHolder::Tenant);
        assert_eq!(
            refused.to_string(),
            "the operations of your tenant are capped to llm,search; `admin` is not among them"
        );
        assert!(OperationCaps::default().check(["anything"]).is_ok());
        assert!(OperationCaps { key: cap("none"), ..caps }.check(["llm"]).is_err());
    }

    #[test]
    fn caps_that_allow_all_leave_no_trace_in_messages() {
        assert_eq!(serde_json::to_string(&OperationCaps::default()).unwrap(), "{}");
        let caps = OperationCaps { key: cap("none"), ..OperationCaps::default() };
        let text = serde_json::to_string(&caps).unwrap();
        assert_eq!(text, r#"{"key":[]}"#);
        assert_eq!(serde_json::from_str::<OperationCaps>(&text).unwrap(), caps);
    }

    #[test]
    fn several_caps_of_one_tenant_allow_what_all_of_them_do() {
        assert_eq!(cap("a,b").and(&cap("b,c")), cap("b"));
        assert_eq!(cap("all").and(&cap("b")), cap("b"));
        assert_eq!(cap("b").and(&cap("all")), cap("b"));
        assert_eq!(cap("a").and(&cap("b")), cap("none"));
    }
}

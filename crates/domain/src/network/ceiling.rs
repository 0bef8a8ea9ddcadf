//! The most network access that a policy may ask for.

use super::{Policy, Reach};

/// The most that a tenant may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ceiling {
    /// Cassettes can still be played: nothing goes out.
    None,
    /// Package indexes.
    Packages,
    /// Hosts by name.
    Allow,
    Open,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown network `{0}`; use none, packages, allow or open")]
pub struct UnknownCeiling(String);

impl Ceiling {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Packages => "packages",
            Self::Allow => "allow",
            Self::Open => "open",
        }
    }

    /// The lowest ceiling that a policy fits under. `packages`: it also asks for the indexes of
    /// its template.
    pub fn over(policy: &Policy, packages: bool) -> Self {
        match &policy.reach {
            // A request that such a replay does not know is not sent.
            _ if policy.tape.is_sealed() => Self::None,
            Reach::Open => Self::Open,
            Reach::Allow(rules) if !rules.is_empty() => Self::Allow,
            _ if packages || !policy.packages.is_empty() => Self::Packages,
            Reach::None | Reach::Allow(_) => Self::None,
        }
    }
}

impl std::str::FromStr for Ceiling {
    type Err = UnknownCeiling;

    fn from_str(text: &str) -> Result<Self, UnknownCeiling> {
        let all = [Self::None, Self::Packages, Self::Allow, Self::Open];
        let found = all.into_iter().find(|ceiling| ceiling.as_str() == text);
        found.ok_or_else(|| UnknownCeiling(text.to_owned()))
    }
}

//! The security profile of a sandbox: the rights of root in it.

use belljar_model::SecurityProfile;

use crate::problem::{Kind, Problem};
use crate::start::Actions;

impl Actions {
    /// The profile of a new sandbox. One that the operator does not allow is refused, never
    /// replaced by another.
    pub(crate) fn choose_profile(
        &self,
        asked: Option<SecurityProfile>,
    ) -> Result<SecurityProfile, Problem> {
        let profile = asked.unwrap_or_default();
        allow(profile, self.config().max_profile)?;
        Ok(profile)
    }

    /// The profile of a fork: that of its original, or a narrower one.
    pub(crate) fn keep_profile(
        &self,
        asked: Option<SecurityProfile>,
        original: SecurityProfile,
    ) -> Result<SecurityProfile, Problem> {
        if let Some(asked) = asked.filter(|asked| *asked > original) {
            let message = format!(
                "the profile `{asked}` was requested, but the original has the profile `{original}`"
            );
            return Err(Problem::new(Kind::Unsupported, "profile_fixed", message));
        }
        let profile = asked.unwrap_or(original);
        allow(profile, self.config().max_profile)?;
        Ok(profile)
    }
}

fn allow(profile: SecurityProfile, most: SecurityProfile) -> Result<(), Problem> {
    if profile <= most {
        return Ok(());
    }
    let message = format!("this server does not offer the profile `{profile}`");
    let problem = Problem::new(Kind::Unsupported, "profile_not_offered", message);
    Err(problem.hint("the operator sets the widest profile with --max-profile"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_wider_than_the_operator_allows_is_given() {
        use SecurityProfile::{Full, Strict};
        assert!(allow(Strict, Strict).is_ok() && allow(Full, Full).is_ok());
        assert!(allow(Strict, Full).is_ok());
        assert_eq!(allow(Full, Strict).unwrap_err().code, "profile_not_offered");
    }
}

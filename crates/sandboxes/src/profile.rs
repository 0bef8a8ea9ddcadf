//! The security profile of a sandbox: the rights of root in it.

use belljar_domain::SecurityProfile;

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

    /// The profile of a fork or of a sandbox that returns: that of its original, or a narrower one
    /// if none of its processes run on.
    pub(crate) fn keep_profile(
        &self,
        asked: Option<SecurityProfile>,
        original: SecurityProfile,
        processes: Processes,
    ) -> Result<SecurityProfile, Problem> {
        let profile = keep(asked, original, processes)?;
        allow(profile, self.config().max_profile)?;
        Ok(profile)
    }
}

/// The fate of an original's processes. Those that run on keep the rights that they had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processes {
    Gone,
    RunOn,
}

fn keep(
    asked: Option<SecurityProfile>,
    original: SecurityProfile,
    processes: Processes,
) -> Result<SecurityProfile, Problem> {
    let profile = asked.unwrap_or(original);
    let is_kept = match processes {
        Processes::Gone => profile <= original,
        Processes::RunOn => profile == original,
    };
    if is_kept {
        return Ok(profile);
    }
    let message = format!(
        "the profile `{profile}` was requested, but the original has the profile `{original}`"
    );
    Err(Problem::new(Kind::Unsupported, "profile_fixed", message))
}

fn allow(profile: SecurityProfile, most: SecurityProfile) -> Result<(), Problem> {
    if profile <= most {
        return Ok(());
    }
    let message = format!("this server does not offer the profile `{profile}`");
    let problem = Problem::new(Kind::Unsupported, "profile_not_offered", message);
    Err(problem.hint(
        "ask for `strict`; the operator of a server with root on its host sets --max-profile full",
    ))
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

    #[test]
    fn rights_that_processes_have_are_not_denied_by_the_name_of_a_profile() {
        use Processes::{Gone, RunOn};
        use SecurityProfile::{Full, Strict};
        for processes in [Gone, RunOn] {
            assert_eq!(keep(None, Full, processes).unwrap(), Full);
            assert_eq!(keep(Some(Strict), Strict, processes).unwrap(), Strict);
            assert_eq!(keep(Some(Full), Strict, processes).unwrap_err().code, "profile_fixed");
        }
        assert_eq!(keep(Some(Strict), Full, Gone).unwrap(), Strict);
        assert_eq!(keep(Some(Strict), Full, RunOn).unwrap_err().code, "profile_fixed");
    }
}

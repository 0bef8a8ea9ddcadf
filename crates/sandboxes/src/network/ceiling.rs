//! How far anybody may reach.

use belljar_domain::network::{Ceiling, Policy, Reach};

use super::NetworkWish;
use crate::problem::{Kind, Problem};

/// How many rules one policy may have.
const MOST_RULES: usize = 512;

impl NetworkWish {
    /// The least ceiling that this fits under.
    pub fn height(&self) -> Ceiling {
        Ceiling::over(&self.policy, self.packages)
    }

    /// Refuses what is more than `most`, or more than can be held.
    pub(super) fn check(&self, most: Ceiling) -> Result<(), Problem> {
        let asked = self.height();
        if asked > most {
            let (asked, most) = (asked.as_str(), most.as_str());
            let message =
                format!("the network `{asked}` was requested; this server allows `{most}` at most");
            let problem = Problem::new(Kind::Unsupported, "network_not_offered", message);
            return Err(
                problem.hint("the operator can allow more with `belljar serve --max-network`")
            );
        }
        let rules = match &self.policy.reach {
            Reach::Allow(rules) => rules.len(),
            Reach::None | Reach::Open => 0,
        };
        let Policy { deny, deny_hosts, .. } = &self.policy;
        if rules.max(deny.len()).max(deny_hosts.len()) > MOST_RULES {
            let message =
                format!("a network policy can have at most {MOST_RULES} rules of each kind");
            return Err(Problem::invalid(message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::network::{Miss, Rule, Tape};

    use super::*;

    fn wish(reach: Reach) -> NetworkWish {
        NetworkWish { policy: Policy { reach, ..Policy::default() }, packages: false }
    }

    #[test]
    fn each_wish_fits_under_its_own_ceiling_and_no_lower_one() {
        let all = [Ceiling::None, Ceiling::Packages, Ceiling::Allow, Ceiling::Open];
        let rule = Rule::of("example.org".parse().unwrap());
        let cassette: belljar_domain::network::CassetteId = "c".parse().unwrap();
        let tape = |tape| {
            let open = wish(Reach::Open);
            NetworkWish { policy: Policy { tape, ..open.policy }, ..open }
        };
        for (wish, least) in [
            (wish(Reach::None), Ceiling::None),
            (wish(Reach::Allow(vec![])), Ceiling::None),
            (NetworkWish { packages: true, ..wish(Reach::None) }, Ceiling::Packages),
            (NetworkWish { packages: true, ..wish(Reach::Allow(vec![rule])) }, Ceiling::Allow),
            (wish(Reach::Open), Ceiling::Open),
            (tape(Tape::Record { cassette: cassette.clone() }), Ceiling::Open),
            (tape(Tape::Replay { cassette: cassette.clone(), miss: Miss::Strict }), Ceiling::None),
            (tape(Tape::Replay { cassette: cassette.clone(), miss: Miss::Judged }), Ceiling::None),
            (tape(Tape::Replay { cassette, miss: Miss::Fallthrough }), Ceiling::Open),
        ] {
            for most in all {
                assert_eq!(wish.check(most).is_ok(), most >= least, "{wish:?} {most:?}");
            }
        }
    }

    #[test]
    fn more_rules_than_can_be_held_are_refused() {
        let rule = Rule::of("example.org".parse().unwrap());
        assert!(wish(Reach::Allow(vec![rule.clone(); MOST_RULES])).check(Ceiling::Open).is_ok());
        assert!(wish(Reach::Allow(vec![rule; MOST_RULES + 1])).check(Ceiling::Open).is_err());
    }
}

//! The operator's bounds on the time and the money of each run.

use belljar_domain::ModelParameters;
use belljar_journal::event::Budget;

/// The most that one run may use. It is what a run gets that names less or nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunBounds {
    /// Wall-clock time since the run's creation; none: any.
    pub wall_ms: Option<u64>,
    /// Cost of the model, in billionths of a dollar; none: any.
    pub nano_dollars: Option<u64>,
    /// Tokens of one answer of the model; none: any.
    pub output_tokens: Option<u32>,
}

/// A budget that exceeds a bound of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{name} must be at most {most}, not {asked}")]
pub struct OverBudget {
    pub name: &'static str,
    pub asked: u64,
    pub most: u64,
}

impl RunBounds {
    /// Refuses a budget that exceeds a bound. A bound that it does not name is as it was.
    pub fn check(&self, budget: &Budget) -> Result<(), OverBudget> {
        let within = |name, asked: Option<u64>, most: Option<u64>| match (asked, most) {
            (Some(asked), Some(most)) if asked > most => Err(OverBudget { name, asked, most }),
            _ => Ok(()),
        };
        within("budget.wall_ms", budget.wall_ms, self.wall_ms)?;
        within("budget.nano_dollars", budget.nano_dollars, self.nano_dollars)
    }

    /// Refuses longer answers than the operator allows.
    pub fn check_output(&self, parameters: &ModelParameters) -> Result<(), OverBudget> {
        match (parameters.output_tokens, self.output_tokens) {
            (Some(asked), Some(most)) if asked > most => {
                let (asked, most) = (asked.into(), most.into());
                Err(OverBudget { name: "parameters.output_tokens", asked, most })
            }
            _ => Ok(()),
        }
    }

    /// Fills in the length of answers that parameters do not name.
    #[must_use]
    pub fn over_output(&self, parameters: ModelParameters) -> ModelParameters {
        let output_tokens = parameters.output_tokens.or(self.output_tokens);
        ModelParameters { output_tokens, ..parameters }
    }

    /// Fills in the bounds that a budget does not name.
    #[must_use]
    pub fn over(&self, budget: Budget) -> Budget {
        Budget {
            wall_ms: budget.wall_ms.or(self.wall_ms),
            nano_dollars: budget.nano_dollars.or(self.nano_dollars),
            ..budget
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: RunBounds =
        RunBounds { wall_ms: Some(1000), nano_dollars: Some(5), output_tokens: Some(100) };

    #[test]
    fn an_answer_is_as_long_as_the_operator_allows() {
        let of = |output_tokens| ModelParameters { output_tokens, ..ModelParameters::default() };
        assert_eq!(BOUNDS.check_output(&of(Some(100))), Ok(()));
        assert_eq!(BOUNDS.over_output(of(None)), of(Some(100)));
        assert_eq!(BOUNDS.over_output(of(Some(7))), of(Some(7)));
        assert_eq!(RunBounds::default().over_output(of(None)), of(None));
        let error = BOUNDS.check_output(&of(Some(101))).unwrap_err();
        assert_eq!(error.to_string(), "parameters.output_tokens must be at most 100, not 101");
    }

    #[test]
    fn what_a_budget_does_not_name_is_bounded_all_the_same() {
        let named = Budget { wall_ms: Some(10), turns: Some(3), ..Budget::default() };
        assert_eq!(BOUNDS.over(named), Budget { nano_dollars: Some(5), ..named });
        assert_eq!(RunBounds::default().over(named), named);
    }

    #[test]
    fn a_budget_above_a_bound_is_refused_by_name() {
        let budget = |wall_ms, nano_dollars| Budget { wall_ms, nano_dollars, ..Budget::default() };
        assert_eq!(BOUNDS.check(&budget(Some(1000), Some(5))), Ok(()));
        assert_eq!(BOUNDS.check(&budget(None, None)), Ok(()));
        assert_eq!(RunBounds::default().check(&budget(Some(u64::MAX), Some(u64::MAX))), Ok(()));
        for (budget, name) in [
            (budget(Some(1001), None), "budget.wall_ms"),
            (budget(None, Some(6)), "budget.nano_dollars"),
        ] {
            assert_eq!(BOUNDS.check(&budget).map_err(|error| error.name), Err(name));
        }
        let error = BOUNDS.check(&budget(None, Some(6))).unwrap_err();
        assert_eq!(error.to_string(), "budget.nano_dollars must be at most 5, not 6");
    }
}

//! The limits of a sandbox: those of its template, and what its client chose in their place.
//!
//! A choice above the operator's maximum is refused, never lowered. So is a template that a
//! tenant built while the maximum was higher. Templates of the operator are not bounded.

use belljar_domain::{ChosenLimits, MaxLimits, OutOfRange};

use crate::host;
use crate::problem::{Kind, Problem};
use crate::start::Actions;
use crate::template::Known;

impl Actions {
    /// The largest limits that a client may choose here: the operator's maximum, and no more
    /// memory than this host has.
    pub fn max_limits(&self) -> MaxLimits {
        fitting(self.config().max_limits, host::memory_bytes())
    }

    /// Checks the limits of a new sandbox.
    pub(crate) fn choose_limits(
        &self,
        asked: ChosenLimits,
        template: &Known,
    ) -> Result<ChosenLimits, Problem> {
        let max = self.max_limits();
        asked.check(&max).map_err(|error| out_of_range("limits.", &error, LARGEST))?;
        let built = limits_of_builder(asked, template);
        let max = self.config().max_limits;
        built.check(&max).map_err(|error| out_of_range("the template's ", &error, BUILT))?;
        Ok(asked)
    }

    /// Checks the limits of a fork, or of a sandbox that comes back from disk: those of its
    /// original.
    pub(crate) fn keep_limits(
        &self,
        asked: ChosenLimits,
        original: ChosenLimits,
        template: &Known,
    ) -> Result<ChosenLimits, Problem> {
        if !asked.agrees_with(&original.over(template.limits.clone())) {
            let message = "a fork has the limits of its original";
            return Err(Problem::new(Kind::Unsupported, "limits_fixed", message)
                .hint("leave `limits` out, or create a new sandbox"));
        }
        self.choose_limits(original, template)
    }
}

/// The next step after a limit that is out of range.
const LARGEST: &str = "GET /v1/templates has the largest values in `max_limits`";
const BUILT: &str = "choose less with `limits`, or build the template again with less";

/// The limits that a tenant chose when it built a template, without those that a sandbox of it
/// replaces. Empty for a template of the operator.
fn limits_of_builder(asked: ChosenLimits, template: &Known) -> ChosenLimits {
    if template.template.defaults.owner.is_none() {
        return ChosenLimits::default();
    }
    // Files of a sandbox are in its memory, which bounds them; processes are not the builder's
    // to choose.
    let ChosenLimits { memory_bytes, cpu_millis, .. } = ChosenLimits::of(&template.limits);
    ChosenLimits {
        memory_bytes: memory_bytes.filter(|_| asked.memory_bytes.is_none()),
        cpu_millis: cpu_millis.filter(|_| asked.cpu_millis.is_none()),
        ..ChosenLimits::default()
    }
}

/// A maximum, with no more memory than there is.
fn fitting(max: MaxLimits, memory_bytes: Option<u64>) -> MaxLimits {
    let memory_bytes = memory_bytes.unwrap_or(u64::MAX).min(max.memory_bytes);
    MaxLimits { memory_bytes, ..max }
}

fn out_of_range(before: &str, error: &OutOfRange, hint: &str) -> Problem {
    Problem::new(Kind::Invalid, "limit_out_of_range", format!("{before}{error}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_memory_is_offered_than_the_host_has() {
        let max = MaxLimits { memory_bytes: 8 << 30, ..MaxLimits::default() };
        assert_eq!(fitting(max, Some(4 << 30)).memory_bytes, 4 << 30);
        assert_eq!(fitting(max, Some(16 << 30)), max);
        assert_eq!(fitting(max, None), max);
    }

    #[test]
    fn a_refusal_names_the_field_and_both_values() {
        let asked = ChosenLimits { pids: Some(9999), ..ChosenLimits::default() };
        let error = asked.check(&MaxLimits::default()).unwrap_err();
        let problem = out_of_range("limits.", &error, LARGEST);
        assert_eq!(problem.code, "limit_out_of_range");
        assert_eq!(problem.message, "limits.pids must be between 16 and 1024, not 9999");
    }
}

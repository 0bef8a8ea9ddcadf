//! Parameters that were not in force as the run chose them: each is written down once.

use belljar_domain::ModelParameters;
use belljar_journal::NewEvent;
use belljar_journal::event::{DeviationCause, ParameterDeviated};
use belljar_provider::{Deviation, Options};

use super::{Work, WorkError};

impl Work<'_> {
    /// Notes that the rest of the budget pays for fewer tokens than the run chose.
    pub(super) async fn note_bounded_output(
        &self,
        turn: u32,
        options: &Options,
    ) -> Result<(), WorkError> {
        let asked = self.brief.parameters.output_tokens.map(u64::from);
        let Some(asked) = asked.filter(|asked| options.max_output < *asked) else { return Ok(()) };
        let deviation = Deviation {
            parameter: ModelParameters::OUTPUT_TOKENS,
            asked: asked.to_string(),
            applied: Some(options.max_output.to_string()),
        };
        self.note(event(turn, deviation, DeviationCause::Budget)).await
    }

    /// The deviations of an answer, as far as the run chose the parameter.
    pub(super) fn deviated(&self, turn: u32, deviations: Vec<Deviation>) -> Vec<ParameterDeviated> {
        let chosen = self.brief.parameters;
        let is_chosen = |deviation: &Deviation| match deviation.parameter {
            ModelParameters::TEMPERATURE => chosen.temperature.is_some(),
            ModelParameters::EFFORT => chosen.effort.is_some(),
            _ => chosen.output_tokens.is_some(),
        };
        let found = deviations.into_iter().filter(is_chosen);
        found.map(|deviation| event(turn, deviation, DeviationCause::Provider)).collect()
    }

    /// Writes deviations down that were not written before.
    pub(super) async fn write_deviations(
        &self,
        deviated: Vec<ParameterDeviated>,
    ) -> Result<(), WorkError> {
        for one in deviated {
            self.note(one).await?;
        }
        Ok(())
    }

    async fn note(&self, deviated: ParameterDeviated) -> Result<(), WorkError> {
        let known = (deviated.parameter.clone(), deviated.cause);
        if self.story.view.deviations.contains(&known) {
            return Ok(());
        }
        self.append(NewEvent::new(deviated).waiting()).await.map(drop)
    }
}

fn event(turn: u32, deviation: Deviation, cause: DeviationCause) -> ParameterDeviated {
    let Deviation { parameter, asked, applied } = deviation;
    ParameterDeviated { turn, parameter: parameter.to_owned(), asked, applied, cause }
}

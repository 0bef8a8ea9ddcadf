//! Parameters that were not in force as the run chose them: each is written down once.

use belljar_journal::NewEvent;
use belljar_journal::event::{DeviationCause, ParameterDeviated};
use belljar_model::ModelParameters;
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
        self.note(turn, deviation, DeviationCause::Budget).await
    }

    /// Notes deviations of an answer, as far as the run chose the parameter.
    pub(super) async fn note_deviations(
        &self,
        turn: u32,
        deviations: Vec<Deviation>,
    ) -> Result<(), WorkError> {
        let chosen = self.brief.parameters;
        let is_chosen = |parameter: &str| match parameter {
            ModelParameters::TEMPERATURE => chosen.temperature.is_some(),
            ModelParameters::EFFORT => chosen.effort.is_some(),
            _ => chosen.output_tokens.is_some(),
        };
        for deviation in deviations {
            if is_chosen(deviation.parameter) {
                self.note(turn, deviation, DeviationCause::Provider).await?;
            }
        }
        Ok(())
    }

    async fn note(
        &self,
        turn: u32,
        deviation: Deviation,
        cause: DeviationCause,
    ) -> Result<(), WorkError> {
        let Deviation { parameter, asked, applied } = deviation;
        let parameter = parameter.to_owned();
        if self.story.view.deviations.contains(&(parameter.clone(), cause)) {
            return Ok(());
        }
        let deviated = ParameterDeviated { turn, parameter, asked, applied, cause };
        self.append(NewEvent::new(deviated).waiting()).await.map(drop)
    }
}

//! Who answers.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use belljar_agent::{Prices, Rules};
use belljar_journal::Address;
use belljar_journal::event::Brief;
use belljar_provider::{Provider, UnsupportedParameter};
use futures_util::future::BoxFuture;

/// What a run is answered by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Of the gateway; none: fixed rules, and no model.
    pub operation: Option<String>,
    pub model: String,
}

/// Whom to ask, and what that costs.
pub type Priced = (Arc<dyn Provider>, Prices);

/// Nobody here answers like that.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoModel(pub String);

/// A brief that the chosen model cannot follow.
#[derive(Debug, thiserror::Error)]
pub enum UnsupportedBrief {
    #[error(transparent)]
    Parameter(#[from] UnsupportedParameter),
    #[error("fixed rules have no `{0}`; name the operation of a model")]
    FixedRules(&'static str),
}

/// The model cannot be asked just now.
#[derive(Debug, thiserror::Error)]
#[error("the model cannot be reached")]
pub struct NoProvider(#[source] pub Box<dyn Error + Send + Sync>);

/// What a process has to ask models with. Whoever implements it holds no credential:
/// the gateway does.
pub trait Models: fmt::Debug + Send + Sync {
    /// What a run gets that says this much.
    fn choose(&self, operation: Option<&str>, model: Option<&str>) -> Result<Choice, NoModel>;

    /// The choice for a published program, which speaks this dialect.
    fn choose_speaking(
        &self,
        dialect: &str,
        operation: Option<&str>,
        model: Option<&str>,
    ) -> Result<Choice, NoModel> {
        let choice = self.choose(operation, model)?;
        match choice.operation {
            Some(_) => Ok(choice),
            None => Err(NoModel(format!("there is no operation for models that speaks {dialect}"))),
        }
    }

    /// Refuses a brief that the chosen model cannot follow.
    fn check(&self, choice: &Choice, brief: &Brief) -> Result<(), UnsupportedBrief> {
        match choice.operation {
            Some(_) => Ok(()),
            None => FixedRules::check_brief(brief),
        }
    }

    /// Whom to ask for a run, and what that costs.
    fn provider<'a>(
        &'a self,
        run: &'a Address,
        operation: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Priced, NoProvider>>;
}

/// No model at all: rules that match words of the question to columns of the data.
#[derive(Debug, Clone, Copy, Default)]
pub struct FixedRules;

impl FixedRules {
    pub const NAME: &str = "heuristic";

    /// Refuses what only a model can follow.
    fn check_brief(brief: &Brief) -> Result<(), UnsupportedBrief> {
        let named = [
            (!brief.parameters.is_default(), "parameters"),
            (brief.instructions.is_some(), "instructions"),
            (!brief.skills.is_empty(), "skills"),
            (!brief.models.is_empty(), "models"),
        ];
        match named.into_iter().find(|(is_named, _)| *is_named) {
            Some((_, name)) => Err(UnsupportedBrief::FixedRules(name)),
            None => Ok(()),
        }
    }
}

impl Models for FixedRules {
    fn choose(&self, operation: Option<&str>, model: Option<&str>) -> Result<Choice, NoModel> {
        if let Some(operation) = operation {
            return Err(NoModel(format!("there is no operation `{operation}`, nor any other")));
        }
        match model {
            None | Some(Self::NAME) => Ok(Choice { operation: None, model: Self::NAME.to_owned() }),
            Some(model) => Err(NoModel(format!(
                "there is no model `{model}`; without one, `{}` answers",
                Self::NAME
            ))),
        }
    }

    fn provider<'a>(
        &'a self,
        _: &'a Address,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Priced, NoProvider>> {
        Box::pin(async {
            let provider: Arc<dyn Provider> = Arc::new(Rules);
            Ok((provider, Prices::default()))
        })
    }
}

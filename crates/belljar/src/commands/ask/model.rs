//! Who answers: a model behind the gateway, which holds the key, or fixed rules.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use belljar_agent::Prices;
use belljar_agent::program::program;
use belljar_journal::event::Brief;
use belljar_journal::{Address, Journal};
use belljar_node::Gateway;
use belljar_provider::{Heuristic, Provider};
use belljar_runs::{Choice, FixedRules, Models};
use belljar_sandboxes::{BudgetFile, RowQueue};
use tempfile::TempDir;

use crate::cli::{self, ModelChoice};
use crate::commands::models::{self, Behind};
use crate::config::Config;
use crate::output::{Hint as _, hinted};

/// What the one operation is called of a configuration that nobody wrote.
pub(super) const OPERATION: &str = "model";

/// What answers, and what that costs.
pub(super) struct Chosen {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) model: String,
    /// Of the gateway, which reaches it.
    pub(super) operation: Option<String>,
    pub(super) prices: Prices,
    gateway: Option<Gateway>,
    /// A configuration that nobody wrote.
    _settings: Option<TempDir>,
}

impl Chosen {
    pub(super) async fn open(
        choice: &ModelChoice,
        config: &Config,
        run: &Address,
        (journal, queue): (&Arc<dyn Journal>, &RowQueue),
        brief: &Brief,
    ) -> anyhow::Result<Self> {
        let (path, settings) = match (&choice.gateway, &choice.model_url) {
            (Some(path), _) => (path.clone(), None),
            (None, Some(_)) => {
                let settings = tempfile::Builder::new().prefix("belljar-gateway-").tempdir()?;
                let path = settings.path().join("gateway.toml");
                std::fs::write(&path, written(choice)?)?;
                (path, Some(settings))
            }
            (None, None) => {
                let hint =
                    "pass the gateway configuration with --gateway; docs/runs.md has an example";
                let chosen = Self::of(&FixedRules, choice, run, brief, (None, None)).await;
                return chosen.map_err(|error| hinted(error, hint));
            }
        };
        let hint = match settings {
            Some(_) => "--model-key takes a file that holds only the provider's key",
            None => models::CONFIGURATION,
        };
        let data = config.data.join("gateway");
        let budgets = Arc::new(BudgetFile::of_gateway(&data));
        let gateway = models::start(&path, &data, config, budgets, hint).await?;
        belljar_server::forward_rows(&gateway, queue.clone());
        let behind = Behind::new(&path, gateway.clone(), journal.clone())?;
        if behind.is_empty() {
            return Err(anyhow!("`{}` has no operation for models", path.display()));
        }
        let next = match settings {
            Some(_) => {
                "--prices FILE has prices of models that belljar does not know; docs/operations.md \
                 describes the file"
            }
            None => {
                "choose with --operation and --model; `kind = \"model\"` marks operations for models"
            }
        };
        let kept = (Some(gateway), settings);
        Self::of(&behind, choice, run, brief, kept).await.hint(next)
    }

    /// Of a replay: a recording answers, and nothing else is asked.
    pub(super) fn recorded(choice: &ModelChoice, recorded: Option<&str>) -> Self {
        let model = choice.model.as_deref().or(recorded).unwrap_or_default();
        Self {
            provider: Arc::new(Heuristic),
            model: model.to_owned(),
            operation: None,
            prices: Prices::default(),
            gateway: None,
            _settings: None,
        }
    }

    /// Has the gateway say its last rows, and give back what is left of its slices of budgets.
    /// Returns it: once the rows are stored, its charge log forgets them.
    pub(super) async fn close(self) -> Option<Gateway> {
        if let Some(gateway) = &self.gateway {
            // A gateway that died has nothing more to say.
            let _ = gateway.finish().await;
        }
        self.gateway
    }

    async fn of(
        models: &dyn Models,
        choice: &ModelChoice,
        run: &Address,
        brief: &Brief,
        (gateway, settings): (Option<Gateway>, Option<TempDir>),
    ) -> anyhow::Result<Self> {
        let (operation, model) = (choice.operation.as_deref(), choice.model.as_deref());
        let chosen = match program(brief.agent) {
            Some(program) => models.choose_speaking(program.speaks, operation, model)?,
            None => models.choose(operation, model)?,
        };
        models.check(&chosen, brief)?;
        let (provider, prices) = models.provider(run, chosen.operation.as_deref()).await?;
        let Choice { operation, model } = chosen;
        Ok(Self { provider, model, operation, prices, gateway, _settings: settings })
    }
}

/// A configuration for one model.
fn written(choice: &ModelChoice) -> anyhow::Result<String> {
    let (dialect, form) = match choice.dialect {
        cli::Dialect::AnthropicMessages => ("anthropic-messages", "x-api-key"),
        cli::Dialect::OpenaiResponses => ("openai-responses", "bearer"),
        cli::Dialect::OpenaiChat => ("openai-chat", "bearer"),
    };
    let url = choice.model_url.clone().unwrap_or_default();
    let mut operation = toml::Table::new();
    operation.insert("kind".into(), "model".into());
    operation.insert("plaintext".into(), url.starts_with("http:").into());
    operation.insert("upstream".into(), url.into());
    operation.insert("dialects".into(), vec![dialect].into());
    operation.insert("models".into(), vec![choice.model.clone().unwrap_or_default()].into());
    if let Some(key) = &choice.model_key {
        let path = key.canonicalize();
        let path = path.with_context(|| format!("cannot read `{}`", key.display()))?;
        let mut credential = toml::Table::new();
        credential.insert("file".into(), path.display().to_string().into());
        credential.insert("as".into(), form.into());
        operation.insert("credential".into(), credential.into());
    }
    if let Some(prices) = &choice.prices {
        let path = prices.canonicalize();
        let path = path.with_context(|| format!("cannot read `{}`", prices.display()))?;
        operation.insert("prices".into(), path.display().to_string().into());
    }
    let operations = toml::Table::from_iter([(OPERATION.to_owned(), operation.into())]);
    let whole = toml::Table::from_iter([("operations".to_owned(), toml::Value::from(operations))]);
    Ok(toml::to_string(&whole)?)
}

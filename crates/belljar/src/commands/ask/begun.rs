//! What a run was begun with: whoever goes on with it does not choose again.

use anyhow::anyhow;
use belljar_agent::program::program;
use belljar_domain::RunId;
use belljar_journal::{Address, Journal, RunView, read_all};
use belljar_runs::FixedRules;

use super::model::OPERATION;
use crate::cli::{Ask, Dialect, ModelChoice};
use crate::output::{Hint as _, hinted};

/// What sandboxes stand on when nobody says otherwise.
const TEMPLATE: &str = "python-data";

/// Nothing of a run that is new.
#[derive(Debug, Default)]
pub(super) struct Begun {
    model: Option<String>,
    template: Option<String>,
    operation: Option<String>,
    is_replay: bool,
}

impl Begun {
    pub(super) async fn read(journal: &dyn Journal, run: &Address) -> anyhow::Result<Self> {
        let events = read_all(journal, run).await.hint("`belljar runs list` shows runs")?;
        let view = RunView::of(&events);
        let is_over = view.finished.is_some();
        let wish = view.created.and_then(|created| created.wish);
        Ok(Self {
            // Nobody is asked any more.
            model: (!is_over).then_some(view.model),
            template: wish.as_ref().map(|wish| wish.template.clone()),
            is_replay: wish.as_ref().is_some_and(|wish| wish.brief.replay.is_some()),
            operation: wish.and_then(|wish| wish.operation),
        })
    }

    /// Refuses what would make another run of it.
    pub(super) fn agrees(&self, options: &Ask) -> anyhow::Result<()> {
        let choice = &options.model;
        let has_model = choice.gateway.is_some() || choice.model_url.is_some();
        if let (Some(begun), Some(asked)) = (&self.template, &options.place.template)
            && begun != asked
        {
            let error = anyhow!("the run uses the template `{begun}`, not `{asked}`");
            return Err(hinted(error, "omit --template"));
        }
        let Some(model) = &self.model else { return Ok(()) };
        if let Some(asked) = choice.model.as_ref().filter(|asked| *asked != model) {
            let error = anyhow!("the run uses the model `{model}`, not `{asked}`");
            return Err(hinted(error, format!("omit --model, or set it to `{model}`")));
        }
        if self.is_replay {
            return Ok(());
        }
        match (model == FixedRules::NAME, has_model) {
            (true, true) => Err(hinted(
                anyhow!("the run uses fixed rules, not a model"),
                "omit the model's options, or start a new run",
            )),
            (false, false) => Err(hinted(
                anyhow!("the run uses the model `{model}`, and no option says how to reach it"),
                "use the options of its start: --gateway FILE, or --model-url with --model-key",
            )),
            _ => Ok(()),
        }
    }

    /// Returns true if a recording answers.
    pub(super) fn is_replay(&self) -> bool {
        self.is_replay
    }

    pub(super) fn template(&self, options: &Ask) -> String {
        let asked = options.place.template.clone().or_else(|| self.template.clone());
        let usual = program(options.agent.kind()).map_or(TEMPLATE, |program| program.template);
        asked.unwrap_or_else(|| usual.to_owned())
    }

    /// What was asked for, and for the rest what the run was begun with.
    pub(super) fn choice(&self, asked: &ModelChoice) -> ModelChoice {
        let mut choice = asked.clone();
        choice.model = choice.model.or_else(|| self.model.clone());
        if choice.gateway.is_some() {
            let operation = self.operation.clone().filter(|name| name != OPERATION);
            choice.operation = choice.operation.or(operation);
        }
        choice
    }
}

/// The command that goes on with a run that was begun like this.
pub(super) fn again(options: &Ask, run: &RunId) -> String {
    let mut words = vec!["belljar ask --resume".to_owned(), run.to_string()];
    let mut add = |option: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [option.to_owned(), quoted(&value)]));
    };
    let (choice, place) = (&options.model, &options.place);
    let path = |path: &std::path::PathBuf| path.display().to_string();
    add("--gateway", choice.gateway.as_ref().map(path));
    if choice.model_url.is_some() {
        add("--model-url", choice.model_url.clone());
        add("--model", choice.model.clone());
        add("--model-key", choice.model_key.as_ref().map(path));
        add("--prices", choice.prices.as_ref().map(path));
        let dialect = match choice.dialect {
            Dialect::AnthropicMessages => None,
            Dialect::OpenaiResponses => Some("openai-responses"),
            Dialect::OpenaiChat => Some("openai-chat"),
        };
        add("--dialect", dialect.map(str::to_owned));
    }
    add("--server", place.server.clone());
    add("--server-key", place.server_key.as_ref().map(path));
    add("--out", options.out.as_ref().map(path));
    words.join(" ")
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_takes_what_is_quoted_for_one_word() {
        for word in ["a b", "it's", "", "$HOME", "plain/path.toml", "`x`"] {
            let said = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(word))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&said.stdout), word);
        }
        assert_eq!(quoted("plain/path.toml"), "plain/path.toml");
    }
}

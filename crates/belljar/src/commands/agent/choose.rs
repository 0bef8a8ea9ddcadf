//! Which operation and which model, where nobody says so: the gateway's
//! configuration knows.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, anyhow};
use serde::Deserialize;

use crate::cli;
use crate::output::{Hint as _, hinted};
use belljar_agent::program::Program;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) operations: Vec<String>,
    pub(super) model: String,
}

/// As much of the configuration as matters here. The gateway reads all of it,
/// and says what is wrong with it.
#[derive(Debug, Deserialize)]
struct Settings {
    #[serde(default)]
    operations: BTreeMap<String, Operation>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Operation {
    kind: String,
    dialects: Vec<String>,
    models: Vec<String>,
    aliases: BTreeMap<String, String>,
    pin: toml::Table,
}

pub(super) fn choose(
    program: &Program,
    network: &cli::Network,
    model: Option<&str>,
) -> anyhow::Result<Choice> {
    let Some(path) = &network.gateway else {
        let error = anyhow!("{} needs a gateway with a model operation", program.name);
        return Err(hinted(
            error,
            format!("write a file like this and pass it with --gateway:\n{}", example(program)),
        ));
    };
    let text = fs::read_to_string(path);
    let text = text
        .with_context(|| format!("cannot read `{}`", path.display()))
        .hint("pass the gateway configuration with --gateway; docs/agents.md has an example")?;
    let settings: Settings =
        toml::from_str(&text).with_context(|| format!("`{}` is not valid", path.display()))?;
    let choice = from(program, &settings, &network.operation, model);
    choice.with_context(|| format!("`{}` cannot be used", path.display()))
}

fn from(
    program: &Program,
    settings: &Settings,
    named: &[String],
    model: Option<&str>,
) -> anyhow::Result<Choice> {
    let speaks = |operation: &Operation| {
        operation.kind == "model" && operation.dialects.iter().any(|one| one == program.speaks)
    };
    let fitting: Vec<&String> = match named {
        [] => settings
            .operations
            .iter()
            .filter(|(_, one)| speaks(one))
            .map(|(name, _)| name)
            .collect(),
        // One that is not there is for the gateway to refuse.
        named => {
            named.iter().filter(|name| settings.operations.get(*name).is_none_or(speaks)).collect()
        }
    };
    let operation = match (&fitting[..], named) {
        ([], _) => {
            let error = anyhow!(
                "no operation has the dialect {}, which {} needs",
                program.speaks,
                program.name
            );
            return Err(hinted(error, format!("add one:\n{}", example(program))));
        }
        ([one], []) | ([one, ..], [_, ..]) => *one,
        (several, []) => {
            let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
            let error = anyhow!(
                "several operations have the dialect {}: {}",
                program.speaks,
                names.join(", ")
            );
            return Err(hinted(error, "choose one with --operation"));
        }
    };
    let usual = settings.operations.get(operation).and_then(Operation::usual_model);
    let model = model.map(str::to_owned).or(usual);
    let model = model.ok_or_else(|| anyhow!("the operation `{operation}` names no model"));
    let model = model.hint("choose one with --model")?;
    let operations = if named.is_empty() { vec![operation.clone()] } else { named.to_vec() };
    Ok(Choice { operations, model })
}

impl Operation {
    fn usual_model(&self) -> Option<String> {
        let pinned = self.pin.get("model").and_then(|model| model.as_str());
        let listed = || self.models.iter().map(String::as_str).find(|name| !name.contains('*'));
        let alias = || self.aliases.keys().next().map(String::as_str);
        pinned.or_else(listed).or_else(alias).map(str::to_owned)
    }
}

fn example(program: &Program) -> String {
    let form = if program.speaks.starts_with("anthropic") { "x-api-key" } else { "bearer" };
    format!(
        "  [operations.llm]\n  \
           kind = \"model\"\n  \
           dialects = [\"{}\"]\n  \
           upstream = \"https://models.example.com\"\n  \
           credential = {{ file = \"/etc/belljar/keys/llm\", as = \"{form}\" }}\n  \
           models = [\"the-model\"]",
        program.speaks
    )
}

#[cfg(test)]
mod tests {
    use belljar_agent::program::program;
    use belljar_pipeline::AgentKind;

    use super::*;

    const TWO: &str = r#"
        [gateway]
        resolver = ["127.0.0.1:53"]
        [operations.claude]
        kind = "model"
        dialects = ["anthropic-messages"]
        upstream = "https://models.example.com"
        models = ["large-*", "large-1"]
        [operations.search]
        kind = "http"
        upstream = "https://search.example.com"
        [operations.openai]
        kind = "model"
        dialects = ["openai-responses", "openai-chat"]
        aliases = { small = "m-2" }
        [operations.second]
        kind = "model"
        dialects = ["openai-responses"]
        pin = { model = "m-3" }
    "#;

    fn chosen(agent: AgentKind, named: &[&str], model: Option<&str>) -> anyhow::Result<Choice> {
        let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
        from(program(agent).unwrap(), &toml::from_str(TWO).unwrap(), &named, model)
    }

    fn choice(operations: &[&str], model: &str) -> Choice {
        let operations = operations.iter().map(|&name| name.to_owned()).collect();
        Choice { operations, model: model.to_owned() }
    }

    #[test]
    fn what_is_clear_need_not_be_said() {
        let claude = chosen(AgentKind::ClaudeCode, &[], None).unwrap();
        assert_eq!(claude, choice(&["claude"], "large-1"));
        let named = chosen(AgentKind::Codex, &["openai", "search"], None).unwrap();
        assert_eq!(named, choice(&["openai", "search"], "small"));
        let pinned = chosen(AgentKind::Codex, &["second"], None).unwrap();
        assert_eq!(pinned, choice(&["second"], "m-3"));
        let said = chosen(AgentKind::ClaudeCode, &[], Some("x")).unwrap();
        assert_eq!(said, choice(&["claude"], "x"));
    }

    #[test]
    fn what_is_not_clear_is_asked_for() {
        let message = |result: anyhow::Result<Choice>| result.unwrap_err().to_string();
        let several = message(chosen(AgentKind::Codex, &[], None));
        assert!(several.contains("openai, second"), "{several}");
        let wrong = message(chosen(AgentKind::ClaudeCode, &["openai"], None));
        assert!(wrong.contains("anthropic-messages"), "{wrong}");
    }

    #[test]
    fn the_example_is_what_is_asked_for() {
        for agent in [AgentKind::ClaudeCode, AgentKind::Codex] {
            let program = program(agent).unwrap();
            let settings = toml::from_str(&example(program)).unwrap();
            assert_eq!(from(program, &settings, &[], None).unwrap(), choice(&["llm"], "the-model"));
        }
    }
    #[test]
    fn programs_have_recipes_and_know_the_gateway() {
        for agent in [AgentKind::ClaudeCode, AgentKind::Codex] {
            let program = program(agent).unwrap();
            assert!(belljar_template::catalog::text(program.template).is_some(), "{agent}");
        }
        let gateway = format!("http://127.0.0.1:{}", belljar_peer_proto::gateway::PORT);
        assert_eq!(belljar_agent::program::GATEWAY, gateway);
    }
}

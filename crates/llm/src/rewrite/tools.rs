//! Tools that run at the provider.
//!
//! They would reach the network past every policy, run code elsewhere, and cost
//! what no price here covers. What is not known to run in the client is removed:
//! new kinds of tools appear without notice.

use super::{Change, Refused, Rules};
use crate::dialect::Dialect;
use crate::json::{Edits, Kind, Misspelled, ObjectEdit, Value};
use crate::request::{Invalid, Request};

/// Kinds of tools that the client itself runs, or that only look through the
/// request's own tools. Where a `*` stands, a date follows.
fn run_inside(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::AnthropicMessages => {
            &["custom", "bash_*", "text_editor_*", "computer_*", "memory_*", "tool_search_tool_*"]
        }
        Dialect::OpenAiResponses => &[
            "function",
            "custom",
            "local_shell",
            "apply_patch",
            "computer",
            "computer_use_preview",
            "tool_search",
        ],
        Dialect::OpenAiChat => &["function", "custom"],
    }
}

/// Takes tools that run at the provider out of the request.
pub(super) fn remove(
    request: &Request<'_>,
    rules: &Rules,
    top: &mut ObjectEdit<'_>,
    edits: &mut Edits,
    changes: &mut Vec<Change>,
) -> Result<(), Refused> {
    let tools = match request.body.get("tools") {
        Some(tools) if !tools.is_null() && !rules.pinned.contains_key("tools") => tools,
        _ => return Ok(()),
    };
    if tools.kind() != Kind::Array {
        return Err(Invalid::Field("tools").into());
    }
    let dialect = request.dialect;
    let mut removed = Removed::default();
    let is_any_left = removed.look(dialect, tools).map_err(Invalid::from)?;
    if removed.kinds.is_empty() {
        return Ok(());
    }
    let choice = request.body.get("tool_choice").filter(|choice| !choice.is_null());
    let is_choice_gone = choice.is_some_and(|choice| !is_any_left || removed.has(choice));
    if is_choice_gone {
        top.remove("tool_choice");
        changes.push(Change::FieldRemoved("tool_choice"));
    }
    if is_any_left {
        cut(dialect, tools, edits);
    } else {
        // Providers take neither an empty list nor settings for it.
        top.remove("tools");
        top.remove("parallel_tool_calls");
    }
    changes.extend(removed.kinds.into_iter().map(Change::ToolRemoved));
    Ok(())
}

fn cut(dialect: Dialect, tools: Value<'_>, edits: &mut Edits) {
    let runs_inside = |tool: Value<'_>| runs_inside(dialect, tool).unwrap_or(false);
    edits.remove_items(tools, |tool| !runs_inside(tool));
    for tool in tools.items().filter(|tool| runs_inside(*tool)) {
        if let Some(nested) = nested(dialect, tool) {
            cut(dialect, nested, edits);
        }
    }
}

/// Responses groups tools under a name.
fn nested(dialect: Dialect, tool: Value<'_>) -> Option<Value<'_>> {
    let is_group = dialect == Dialect::OpenAiResponses
        && tool.get("type").is_some_and(|kind| kind.is("namespace"));
    if is_group { tool.get("tools") } else { None }
}

fn runs_inside(dialect: Dialect, tool: Value<'_>) -> Result<bool, Misspelled> {
    if let Some(nested) = nested(dialect, tool) {
        return nested.items().try_fold(false, |any, tool| Ok(any | runs_inside(dialect, tool)?));
    }
    let kind = match tool.spelled("type")? {
        // A tool of one's own needs no kind there.
        None => return Ok(dialect == Dialect::AnthropicMessages && tool.kind() == Kind::Object),
        Some(kind) => kind.str().unwrap_or_default(),
    };
    if dialect == Dialect::OpenAiResponses && kind == "shell" {
        // The same word runs commands here or at the provider.
        return Ok(tool.at(&["environment", "type"]).is_some_and(|place| place.is("local")));
    }
    Ok(run_inside(dialect).iter().any(|known| match known.strip_suffix('*') {
        Some(front) => kind.starts_with(front),
        None => kind == *known,
    }))
}

/// What has been taken out.
#[derive(Default)]
struct Removed {
    kinds: Vec<String>,
    names: Vec<String>,
}

impl Removed {
    /// Notes what runs at the provider; whether any other tool is left.
    fn look(&mut self, dialect: Dialect, tools: Value<'_>) -> Result<bool, Misspelled> {
        let mut is_any_left = false;
        for tool in tools.items() {
            if runs_inside(dialect, tool)? {
                is_any_left = true;
                if let Some(nested) = nested(dialect, tool) {
                    self.look(dialect, nested)?;
                }
            } else {
                let text = |field| tool.get(field).and_then(|value| value.str());
                self.kinds.push(text("type").unwrap_or("without a type".into()).into_owned());
                self.names.extend(text("name").map(|name| name.into_owned()));
            }
        }
        Ok(is_any_left)
    }

    /// Whether a choice names one of them.
    fn has(&self, choice: Value<'_>) -> bool {
        choice.objects().any(|object| {
            let among = |field, list: &[String]| {
                let value = object.get(field).and_then(|value: Value<'_>| value.str());
                value.is_some_and(|value| list.iter().any(|removed| *removed == value))
            };
            among("type", &self.kinds) || among("name", &self.names)
        })
    }
}

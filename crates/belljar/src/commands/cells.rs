//! `belljar cells`: a file of cells, run one after the other in one context.
//!
//! Cells begin at lines `# %%` (`// %%` in JavaScript). A word behind it asks
//! for more: `checkpoint NAME` keeps the state after the cell, `at NAME` runs
//! the cell in a copy of the sandbox as it was then.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;

use anyhow::{Context as _, bail};
use belljar_model::{Limits, Spec, Tier};
use belljar_node::{CellEnd, CellEvent, Checkpoint, Context, Language, Node, Sandbox};
use serde_json::{Value, json};

use crate::cli::Cells;
use crate::config::Config;
use crate::output::{Hint as _, Printer};
use crate::session::{chosen_tier, find_template};
use crate::warmth;

/// One cell and what its first line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Cell {
    code: String,
    wish: Wish,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Wish {
    Plain,
    Checkpoint(String),
    At(String),
}

pub(crate) async fn run(options: &Cells, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    let text = fs::read_to_string(&options.file)
        .with_context(|| format!("cannot read `{}`", options.file.display()))?;
    let is_javascript = options.file.extension().is_some_and(|e| e == "js" || e == "mjs");
    let language = if is_javascript { Language::JavaScript } else { Language::Python };
    let cells = split(&text)?;
    let template = find_template(&options.template, options.tier.unwrap_or(Tier::Jail), config)?;
    let tier = chosen_tier(options.tier, &template);
    let _lease = template.lease()?;
    let context = warmth::context(&template, language)?;
    let node = Node::start(config.state.as_deref()).await?;
    if tier == Tier::Jail && cells.iter().any(|cell| cell.wish != Wish::Plain) {
        // Copies in the jail are made of what was forked from a warm interpreter.
        node.warm_up(warmth::warmth(&template)?, None).await?;
    }
    let limits = template.limits.over(Limits::default());
    let spec = Spec { limits, ..Spec::new(tier, template.root.clone()) };
    let sandbox = node.create(&spec).await?;
    let opened = sandbox.context(context).await;
    let opened =
        opened.hint("contexts need IPython, or Node.js; the template `python-data` has IPython");
    let ran = match opened {
        Ok(context) => all(&cells, &node, &sandbox, &context, printer).await,
        Err(error) => Err(error),
    };
    sandbox.destroy().await?;
    node.stop().await;
    ran
}

/// Runs the cells; stops at the first that fails.
async fn all(
    cells: &[Cell],
    node: &Node,
    sandbox: &Sandbox,
    context: &Context,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let mut kept: BTreeMap<&str, Checkpoint> = BTreeMap::new();
    for cell in cells {
        let end = match &cell.wish {
            Wish::At(name) => {
                let checkpoint = kept.get(name.as_str());
                let checkpoint =
                    checkpoint.with_context(|| format!("there is no checkpoint `{name}`"));
                let checkpoint = checkpoint
                    .hint(format!("an earlier cell must begin with `# %% checkpoint {name}`"))?;
                let copy = node.fork(checkpoint).await?;
                let contexts = copy.contexts();
                let first = contexts.first().context("the fork has no context")?;
                let end = one(&cell.code, first, printer).await;
                copy.destroy().await?;
                end?
            }
            Wish::Plain | Wish::Checkpoint(_) => one(&cell.code, context, printer).await?,
        };
        if let Wish::Checkpoint(name) = &cell.wish {
            kept.insert(name, sandbox.checkpoint().await?);
        }
        if !end.ok {
            return Ok(end.reason.exit_code().unwrap_or(1));
        }
    }
    Ok(0)
}

async fn one(code: &str, context: &Context, printer: &Printer) -> anyhow::Result<CellEnd> {
    if code.trim().is_empty() {
        return Ok(context.execute("", None).await.end);
    }
    let mut running = context.run(code, None);
    let origin = running.origin().as_str();
    loop {
        let event = running.next().await;
        if printer.is_json() {
            let mut line = as_json(&event);
            if let (CellEvent::End(_), Some(line)) = (&event, line.as_object_mut()) {
                line.insert("state".into(), "kept".into());
                line.insert("interpreter".into(), origin.into());
            }
            printer.data(line)?;
        } else {
            show(&event)?;
        }
        if let CellEvent::End(end) = event {
            return Ok(end);
        }
    }
}

/// What a person reads: streams as they are, results by their plain text.
fn show(event: &CellEvent) -> anyhow::Result<()> {
    let plain = |data: &belljar_node::Bundle| {
        let text = data.get("text/plain").and_then(Value::as_str).map(str::to_owned);
        let kinds = || data.keys().cloned().collect::<Vec<_>>().join(", ");
        text.unwrap_or_else(|| format!("<{}>", kinds()))
    };
    let mut out = std::io::stdout().lock();
    match event {
        CellEvent::Stdout(bytes) => out.write_all(bytes)?,
        CellEvent::Stderr(bytes) => std::io::stderr().lock().write_all(bytes)?,
        CellEvent::Display(display) => writeln!(out, "{}", plain(&display.data))?,
        CellEvent::Result { data, .. } => writeln!(out, "{}", plain(data))?,
        CellEvent::Error(error) => {
            let mut err = std::io::stderr().lock();
            writeln!(err, "{}", error.traceback.join("\n"))?;
        }
        CellEvent::End(end) if end.reason.exit_code().is_some() => {
            writeln!(std::io::stderr().lock(), "the cell ended: {}", end.reason)?;
        }
        CellEvent::End(_) => {}
    }
    Ok(out.flush()?)
}

fn as_json(event: &CellEvent) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match event {
        CellEvent::Stdout(bytes) => json!({"stdout": text(bytes)}),
        CellEvent::Stderr(bytes) => json!({"stderr": text(bytes)}),
        CellEvent::Display(display) => json!({"display": display.data}),
        CellEvent::Result { data, .. } => json!({"result": data}),
        CellEvent::Error(error) => json!({
            "error": {"name": error.name, "value": error.value, "traceback": error.traceback}
        }),
        CellEvent::End(end) => json!({
            "end": end.reason.as_str(), "ok": end.ok, "count": end.count, "usage": end.usage,
        }),
    }
}

/// Cuts a file into cells. What stands before the first mark is a cell too.
fn split(text: &str) -> anyhow::Result<Vec<Cell>> {
    let mut cells = vec![Cell { code: String::new(), wish: Wish::Plain }];
    for line in text.lines() {
        let mark = line.strip_prefix("# %%").or_else(|| line.strip_prefix("// %%"));
        match (mark, cells.last_mut()) {
            (Some(words), _) => cells.push(Cell { code: String::new(), wish: wish(words)? }),
            (None, Some(cell)) => {
                cell.code.push_str(line);
                cell.code.push('\n');
            }
            (None, None) => {}
        }
    }
    cells.retain(|cell| cell.wish != Wish::Plain || !cell.code.trim().is_empty());
    Ok(cells)
}

fn wish(words: &str) -> anyhow::Result<Wish> {
    let words: Vec<&str> = words.split_whitespace().collect();
    Ok(match words[..] {
        ["checkpoint", name] => Wish::Checkpoint(name.to_owned()),
        ["at", name] => Wish::At(name.to_owned()),
        ["checkpoint" | "at", ..] => bail!("`# %% checkpoint` and `# %% at` take one name"),
        // Titles of cells are for people.
        _ => Wish::Plain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_begin_at_marks_and_say_what_they_wish() {
        let text = "a = 1\n# %% checkpoint one\na += 1\n# %% a title\nb\n# %% at one\nprint(a)\n";
        let found = split(text).unwrap();
        let wishes: Vec<_> = found.iter().map(|cell| cell.wish.clone()).collect();
        let one = || "one".to_owned();
        assert_eq!(wishes, [Wish::Plain, Wish::Checkpoint(one()), Wish::Plain, Wish::At(one())]);
        assert_eq!(found[3].code, "print(a)\n");
    }

    #[test]
    fn a_mark_without_its_name_is_an_error() {
        assert!(split("# %% at\nx").is_err());
        assert!(split("# %% checkpoint a b\n").is_err());
    }
}

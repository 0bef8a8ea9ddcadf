//! `belljar cells`: a notebook or a file of cells, run one after the other in one context.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use belljar_domain::{End, EndReason, Limits, Usage};
use belljar_node::{CellEnd, CellEvent, CellOptions, Checkpoint, Context, NetworkSigns};

use self::charts::Charts;
use self::notebook::Notebook;
use self::source::{Source, Wish};
use crate::cli::{Cells, Interpreters};
use crate::config::Config;
use crate::output::{Hint as _, Printer};
use crate::session::{self, Session};
use crate::{files, limits};

mod charts;
mod notebook;
mod show;
mod source;

pub(crate) async fn run(options: &Cells, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    // Everything that can be wrong with the request is found before the sandbox is made.
    let mut source = source::read(&options.file)?;
    if let Some(path) = &options.save_notebook {
        check_target(path)?;
    }
    let charts = Charts::new(options.save_charts.as_deref())?;
    let mut sandbox = options.sandbox.clone();
    if source.cells.iter().any(|cell| cell.wish != Wish::Plain) {
        // Copies in the jail are made of what was forked from a warm interpreter.
        sandbox.interpreters = Interpreters::Warm;
    }
    session::within(&sandbox, Limits::default(), config, printer, async |session| {
        session.prepare(&sandbox, printer).await?;
        let context = session.context(source.language, &sandbox).await;
        let context = context
            .hint("contexts need IPython, or Node.js; the template `python-data` has IPython")?;
        let mut runner = Runner {
            session,
            context,
            printer,
            charts,
            signs: NetworkSigns::default(),
            kept: BTreeMap::new(),
        };
        let end = Box::pin(runner.all(&mut source)).await;
        // A cell that failed is no reason to lose what the others showed.
        let saved = save(&source.notebook, options, printer);
        let end = end?;
        session.collect(&sandbox, &end, printer).await?;
        saved?;
        runner.charts.hint(printer);
        Ok(end.status())
    })
    .await
}

/// Fails if no file can be written at `path`.
fn check_target(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let wrong = path.file_name().is_none() || path.is_dir() || !parent.is_dir();
    anyhow::ensure!(!wrong, "cannot write `{}`: its directory does not exist", path.display());
    Ok(())
}

fn save(notebook: &Notebook, options: &Cells, printer: &Printer) -> anyhow::Result<()> {
    match &options.save_notebook {
        Some(path) => files::write(path, notebook.to_text()?.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display())),
        None if options.file.extension().is_some_and(|end| end == "ipynb") => {
            printer.note("hint: --save-notebook FILE writes the notebook with these outputs");
            Ok(())
        }
        None => Ok(()),
    }
}

/// Runs the cells of one file in one sandbox.
struct Runner<'a> {
    session: &'a Session,
    context: Context,
    printer: &'a Printer,
    charts: Charts,
    /// Of the cell that runs.
    signs: NetworkSigns,
    /// Checkpoints by name.
    kept: BTreeMap<String, Checkpoint>,
}

impl Runner<'_> {
    /// Runs the cells; stops at the first that fails. Answers how the last one ended.
    async fn all(&mut self, source: &mut Source) -> anyhow::Result<End> {
        let mut last = ended(EndReason::Done, Usage::default());
        for (index, cell) in source.cells.iter().enumerate() {
            let end = self.one(index, &cell.code, &cell.wish, &mut source.notebook).await?;
            // An exception ends a cell, not the interpreter.
            let reason =
                if end.ok || end.reason != EndReason::Done { end.reason } else { EndReason::Exit };
            last = ended(reason, end.usage);
            if end.ok {
                continue;
            }
            if end.alive && cell.may_fail {
                last = ended(EndReason::Done, end.usage);
                continue;
            }
            self.explain(&end, &last);
            if let Some(hint) = self.session.network_hint(&self.signs) {
                self.printer.always(format_args!("hint: {hint}"));
            }
            let skipped = source.cells.len() - index - 1;
            if skipped > 0 {
                let cells = if skipped == 1 { "cell was" } else { "cells were" };
                let number = index + 1;
                self.printer
                    .always(format_args!("cell {number} failed; {skipped} {cells} not run"));
            }
            break;
        }
        Ok(last)
    }

    /// Says why a limit or an exit ended the interpreter.
    fn explain(&self, end: &CellEnd, as_call: &End) {
        let (what, hint) = match limits::explain(as_call, &self.session.limits) {
            Some(explained) => explained,
            None if end.alive => return,
            None => ("ended: the interpreter exited".to_owned(), None),
        };
        self.printer.always(what);
        if let Some(hint) = hint {
            self.printer.always(format_args!("hint: {hint}"));
        }
    }

    /// Runs one cell where it wishes to.
    async fn one(
        &mut self,
        index: usize,
        code: &str,
        wish: &Wish,
        notebook: &mut Notebook,
    ) -> anyhow::Result<CellEnd> {
        let Wish::At(name) = wish else {
            let context = self.context.clone();
            let end = self.execute(index, code, &context, BTreeMap::new(), notebook).await?;
            if let Wish::Checkpoint(name) = wish {
                let checkpoint = self.session.sandbox.checkpoint().await?;
                self.kept.insert(name.clone(), checkpoint);
            }
            return Ok(end);
        };
        let checkpoint = self.kept.get(name);
        let checkpoint = checkpoint.with_context(|| format!("there is no checkpoint `{name}`"));
        let checkpoint =
            checkpoint.hint(format!("an earlier cell must begin with `# %% checkpoint {name}`"))?;
        let (fork, variables) = self.session.fork(checkpoint).await?;
        let contexts = fork.contexts();
        let end = match contexts.first() {
            Some(first) => self.execute(index, code, first, variables, notebook).await,
            None => Err(anyhow::anyhow!("the fork has no context")),
        };
        fork.destroy().await?;
        end
    }

    /// Runs code in a context, and shows and keeps what it gives.
    async fn execute(
        &mut self,
        index: usize,
        code: &str,
        context: &Context,
        env: BTreeMap<String, String>,
        notebook: &mut Notebook,
    ) -> anyhow::Result<CellEnd> {
        if code.trim().is_empty() {
            return Ok(context.execute("", None).await.end);
        }
        self.signs = NetworkSigns::default();
        let mut running = context.run_with(code, CellOptions { env, ..CellOptions::default() });
        let origin = running.origin();
        loop {
            let event = running.next().await;
            if self.printer.is_json() {
                self.printer.data(show::as_json(&event, origin))?;
            } else {
                show::show(&event)?;
            }
            match &event {
                CellEvent::Stdout(bytes) | CellEvent::Stderr(bytes) => self.signs.push(bytes),
                CellEvent::Error(error) => self.signs.push(error.value.as_bytes()),
                _ => {}
            }
            self.charts.take(index, &event, self.printer)?;
            notebook.take(index, &event);
            if let CellEvent::End(end) = event {
                return Ok(end);
            }
        }
    }
}

/// A cell's end as that of a call.
fn ended(reason: EndReason, usage: Usage) -> End {
    let exit_code = match reason {
        EndReason::Done => Some(0),
        EndReason::Exit => Some(1),
        _ => None,
    };
    End { reason, exit_code, signal: None, usage }
}

//! Cells that are executed once.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_node::Display;

use super::log::{Amount, Log, Piece};
use super::recorded::Recorded;
use super::{Asked, Heard, Kept};
use crate::contexts::{Allowance, Contexts, Execution, Output, Place};
use crate::problem::Problem;
use crate::sandbox::Sandbox;
use crate::start::Actions;

impl Piece for Output {
    fn amount(&self) -> Amount {
        let mut amount = Amount::default();
        match self {
            Self::Stdout(text) => amount.stdout = text.len() as u64,
            Self::Stderr(text) => amount.stderr = text.len() as u64,
            Self::Display(Display { data, .. }) | Self::Result(data) => {
                amount.shown = data.iter().map(|(kind, value)| written(kind, value)).sum();
            }
            Self::Flaw(flaw) => {
                amount.shown = (flaw.name.len() + flaw.value.len() + flaw.traceback.len()) as u64;
            }
            Self::Begun { .. } | Self::Ended(_) | Self::Gone => {}
        }
        amount
    }

    fn is_essential(&self) -> bool {
        matches!(self, Self::Begun { .. }) || self.is_last()
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Gone)
    }
}

/// How long a representation is; the quotes of one that is a text do not count.
fn written(kind: &str, value: &serde_json::Value) -> u64 {
    let value = value.as_str().map_or_else(|| value.to_string().len(), str::len);
    (kind.len() + value) as u64
}

impl Actions {
    /// Runs a cell that bears a key: executed once, and told as often as it is
    /// asked for.
    pub async fn cell_once(
        &self,
        sandbox: &Arc<Sandbox>,
        asked: &Asked,
        (place, code): (Place, String),
        env: BTreeMap<String, String>,
        allowance: Allowance,
    ) -> Result<Heard<Output>, Problem> {
        if let Some(Kept::Cell(cell)) = sandbox.once.finished(asked)? {
            return Ok(Heard::again(&cell));
        }
        let contexts = Contexts::of(sandbox, self.wake(sandbox).await?);
        let begin = || {
            let execution = contexts.run_within(&place, code, env, allowance)?;
            let cell = Recorded::new(Log::default());
            tokio::spawn(record(execution, cell.clone(), sandbox.clone()));
            Ok(Kept::Cell(cell))
        };
        match sandbox.once.attach_or(asked, begin)? {
            (Kept::Cell(cell), is_new) => Ok(Heard::of(&cell, is_new)),
            (Kept::Call(_), _) => Err(super::mismatch()),
        }
    }
}

/// Writes down what a cell says, whoever listens.
async fn record(mut execution: Execution, cell: Arc<Recorded<Output>>, sandbox: Arc<Sandbox>) {
    loop {
        // What ends without a word has ended with its sandbox.
        let output = execution.next().await.unwrap_or(Output::Gone);
        let is_last = output.is_last();
        cell.say(output).await;
        if is_last {
            return sandbox.once.enforce();
        }
    }
}

//! One turn of a run, put together from its transcript and from the rows of sandboxes and
//! gateways.
//!
//! The transcript has the code, its output and the cost. Rows have what the code reached and
//! which files it changed. They are joined by the execution id of a call.

use std::collections::{BTreeMap, BTreeSet};

use belljar_api::bounds::DateTime;
use belljar_api::network::{Charge, Decision, Kind, Transferred};
use belljar_api::run::RunFile;
use belljar_api::turn::{
    Turn, TurnCall, TurnCallEnd, TurnConnection, TurnFileChange, TurnNetwork, TurnRequest,
    TurnTokens, TurnUsed,
};
use belljar_domain::network as model;
use belljar_domain::rows::{AttributedRow, CallRow, ChangeKind, ConnectionRow, RowBody};
use belljar_domain::{SandboxId, Sequence};
use belljar_journal::event::{
    Artifact, Block, Body, CallRef, Event, LlmRequested, Tokens, ToolFinished, ToolStarted,
};
use belljar_journal::{
    Address, BlobError, Failure, FoundRow, Journal, MostRows, ReadError, RowStore, read_all,
    stage_calls,
};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Rows of a turn that are shown at most.
const MAX_ROWS: MostRows = MostRows { rows: 2000, bytes: 4 << 20 };
/// Output of a turn that is shown at most.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

/// The reason a turn cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error("cannot read the run")]
    Read(#[from] ReadError),
    #[error("cannot read the rows of the run")]
    Rows(#[source] Failure),
    #[error("cannot read the output of a call")]
    Blob(#[from] BlobError),
}

/// Reads one turn of a run; none if the run has not come to it.
pub async fn turn(
    journal: &dyn Journal,
    rows: &dyn RowStore,
    run: &Address,
    number: u32,
) -> Result<Option<Turn>, TurnError> {
    let events = read_all(journal, run).await?;
    let Some(first) = events.iter().find(|event| turn_of(&event.body) == Some(number)) else {
        return Ok(None);
    };
    // Rows name the run that did the turn: this one, or one that it was forked from.
    let owner = owner(journal, run, first.seq).await?;
    let found = rows.of_turn(&owner, number, MAX_ROWS).await.map_err(TurnError::Rows)?;
    let mut outputs = BTreeMap::new();
    let mut left = MAX_OUTPUT_BYTES;
    for event in &events {
        if let Body::ToolFinished(finished) = &event.body
            && finished.call.turn == number
        {
            let output = output(journal, run, finished, &mut left).await?;
            outputs.insert(finished.call.id.clone(), output);
        }
    }
    let parts = Parts { run, number, events: &events, rows: &found.rows, outputs };
    Ok(Some(Turn { connections_truncated: found.is_cut, ..parts.assemble() }))
}

/// The run that wrote an event.
async fn owner(journal: &dyn Journal, run: &Address, seq: Sequence) -> Result<Address, ReadError> {
    let mut owner = run.clone();
    loop {
        let row = journal.find(&owner).await?;
        match row.parent {
            Some(parent) if seq <= parent.after => owner.run = parent.run,
            _ => return Ok(owner),
        }
    }
}

/// The whole output of a call, as far as it fits, and whether that is not all.
async fn output(
    journal: &dyn Journal,
    run: &Address,
    finished: &ToolFinished,
    left: &mut usize,
) -> Result<(String, bool), BlobError> {
    let mut text = match finished.outputs.iter().find(|output| output.stream == "all") {
        // Not even read if nothing of it would be shown.
        Some(_) if *left == 0 => return Ok((String::new(), true)),
        Some(whole) => {
            let content = journal.get_blob(run, &whole.content).await?;
            String::from_utf8_lossy(&content).into_owned()
        }
        None => finished.shown.clone(),
    };
    let is_cut = text.len() > *left;
    text.truncate(text.floor_char_boundary(*left));
    *left -= text.len();
    Ok((text, is_cut))
}

/// The turn that an event belongs to.
fn turn_of(body: &Body) -> Option<u32> {
    Some(match body {
        Body::PromptBuilt(it) => it.turn,
        Body::LlmRequested(it) => it.turn,
        Body::LlmResponded(it) => it.turn,
        Body::LlmFailed(it) => it.turn,
        Body::ToolIntended(it) => it.call.turn,
        Body::ToolStarted(it) => it.call.turn,
        Body::ToolFinished(it) => it.call.turn,
        Body::GuardReported(it) => it.call.turn,
        Body::ArtifactAdded(it) => it.call.as_ref()?.turn,
        Body::StageMessage(it) => it.turn,
        _ => return None,
    })
}

/// All that a turn is made of.
struct Parts<'a> {
    run: &'a Address,
    number: u32,
    events: &'a [Event],
    rows: &'a [FoundRow],
    /// Whole outputs, and whether they were cut, by the model's id of a call.
    outputs: BTreeMap<String, (String, bool)>,
}

impl Parts<'_> {
    fn assemble(mut self) -> Turn {
        let mut turn = Turn {
            run: self.run.run.to_string(),
            turn: self.number,
            requests: Vec::new(),
            text: None,
            calls: Vec::new(),
            connections: Vec::new(),
            model_connections: Vec::new(),
            connections_truncated: false,
            files: Vec::new(),
            used: TurnUsed::default(),
        };
        let mut asked = BTreeMap::new();
        for event in self.events {
            if turn_of(&event.body) == Some(self.number) {
                self.apply(&mut turn, &mut asked, event);
            }
        }
        self.add_rows(&mut turn);
        turn
    }

    fn apply(&mut self, turn: &mut Turn, asked: &mut BTreeMap<Sequence, usize>, event: &Event) {
        let used = &mut turn.used;
        match &event.body {
            Body::LlmRequested(it) => {
                asked.insert(event.seq, turn.requests.len());
                turn.requests.push(request(it, event.at));
            }
            Body::LlmResponded(it) => {
                used.tokens = used.tokens.saturating_add(it.tokens.total());
                used.nano_dollars = used.nano_dollars.saturating_add(it.nano_dollars);
                used.model_ms = used.model_ms.saturating_add(it.micros / 1000);
                let index = asked.get(&it.asked);
                if let Some(request) = index.and_then(|index| turn.requests.get_mut(*index)) {
                    request.outcome = Some("answered".to_owned());
                    (request.tokens, request.nano_dollars) = (tokens(&it.tokens), it.nano_dollars);
                    request.ms = it.micros / 1000;
                }
                turn.text = text(&it.blocks);
                turn.calls = it.blocks.iter().filter_map(call).collect();
            }
            Body::LlmFailed(it) => {
                used.nano_dollars = used.nano_dollars.saturating_add(it.nano_dollars);
                used.model_ms = used.model_ms.saturating_add(it.micros / 1000);
                let index = asked.get(&it.asked);
                if let Some(request) = index.and_then(|index| turn.requests.get_mut(*index)) {
                    request.outcome = Some(it.trouble.as_str().to_owned());
                    request.message = Some(it.message.clone());
                    (request.nano_dollars, request.ms) = (it.nano_dollars, it.micros / 1000);
                }
            }
            Body::ToolStarted(ToolStarted { call, exec, sandbox, .. }) => {
                if let Some(known) = named(&mut turn.calls, call) {
                    known.call = Some(exec.to_string());
                    known.sandbox = Some(sandbox.to_string());
                }
            }
            Body::ToolFinished(it) => {
                used.call_ms = used.call_ms.saturating_add(it.used.wall_micros / 1000);
                used.cpu_ms = used.cpu_ms.saturating_add(it.used.cpu_micros / 1000);
                used.output_bytes = used.output_bytes.saturating_add(it.used.output_bytes);
                let output = self.outputs.remove(&it.call.id).unwrap_or_default();
                if let Some(known) = named(&mut turn.calls, &it.call) {
                    known.end = Some(end(it, output));
                }
            }
            Body::ArtifactAdded(it) => turn.files.push(file(&it.artifact)),
            Body::StageMessage(it) => {
                let calls = stage_calls(it).into_iter();
                turn.calls.extend(calls.map(|call| wanted(call.call.id, call.name, call.input)));
            }
            _ => {}
        }
    }

    fn add_rows(&self, turn: &mut Turn) {
        let sandboxes: BTreeSet<&SandboxId> = self
            .events
            .iter()
            .filter_map(|event| match &event.body {
                Body::SandboxAttached(attached) => Some(&attached.sandbox),
                _ => None,
            })
            .collect();
        for FoundRow { row, is_of_node } in self.rows {
            let is_of_run = sandboxes.contains(&row.sandbox);
            // A node knows of its sandboxes alone. What it says of others is not the run's.
            if *is_of_node && !is_of_run {
                continue;
            }
            match &row.body {
                RowBody::Call(call) => add_changes(turn, row, call),
                RowBody::Sandbox(_) => {}
                RowBody::Connection(of_row) => {
                    let connection = connection(row, of_row);
                    if !is_of_run {
                        turn.model_connections.push(connection);
                        continue;
                    }
                    let TurnNetwork { out, into, denied } = &mut turn.used.network;
                    *out = out.saturating_add(of_row.bytes.out);
                    *into = into.saturating_add(of_row.bytes.into);
                    *denied += u64::from(of_row.decision == model::Decision::Denied);
                    turn.connections.push(connection);
                }
            }
        }
    }
}

fn named<'c>(calls: &'c mut [TurnCall], call: &CallRef) -> Option<&'c mut TurnCall> {
    calls.iter_mut().find(|known| known.id == call.id)
}

fn request(asked: &LlmRequested, at: OffsetDateTime) -> TurnRequest {
    let at = at.to_offset(time::UtcOffset::UTC).format(&Rfc3339);
    TurnRequest {
        attempt: asked.attempt,
        model: asked.model.clone(),
        prompt_sha256: asked.prompt.to_string(),
        at: DateTime(at.unwrap_or_else(|_| "1970-01-01T00:00:00Z".to_owned())),
        outcome: None,
        message: None,
        tokens: TurnTokens::default(),
        nano_dollars: 0,
        ms: 0,
    }
}

fn tokens(tokens: &Tokens) -> TurnTokens {
    let Tokens { input, cache_read, cache_write, output } = *tokens;
    TurnTokens { input, cache_read, cache_write, output }
}

fn text(blocks: &[Block]) -> Option<String> {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn call(block: &Block) -> Option<TurnCall> {
    let Block::ToolUse { id, name, input } = block else { return None };
    Some(wanted(id.clone(), name.clone(), input.clone()))
}

fn wanted(id: String, name: String, input: Value) -> TurnCall {
    TurnCall {
        id,
        call: None,
        name,
        input,
        sandbox: None,
        end: None,
        changes: Vec::new(),
        changes_truncated: false,
    }
}

fn end(finished: &ToolFinished, (output, output_truncated): (String, bool)) -> TurnCallEnd {
    TurnCallEnd {
        reason: finished.reason.as_str().to_owned(),
        exit_code: finished.exit_code,
        output,
        output_truncated,
        fault: finished.fault.as_ref().map(|fault| fault.category.clone()),
        ms: finished.used.wall_micros / 1000,
        cpu_ms: finished.used.cpu_micros / 1000,
        peak_memory_bytes: finished.used.peak_bytes,
        output_bytes: finished.used.output_bytes,
    }
}

fn file(artifact: &Artifact) -> RunFile {
    RunFile {
        name: artifact.name.clone(),
        bytes: artifact.content.bytes,
        sha256: artifact.content.sha256.to_string(),
        media_type: Some(artifact.media_type.clone()),
    }
}

fn add_changes(turn: &mut Turn, row: &AttributedRow, call: &CallRow) {
    let name = row.attribution.as_ref().and_then(|it| it.call.as_ref()).map(ToString::to_string);
    let known = turn.calls.iter_mut().find(|known| known.call.is_some() && known.call == name);
    let Some(known) = known else { return };
    known.changes_truncated |= call.is_cut;
    known.changes.extend(call.files.iter().map(|file| {
        TurnFileChange {
            path: file.path.clone(),
            change: match file.change {
                ChangeKind::Created => "created",
                ChangeKind::Modified => "modified",
                ChangeKind::Removed => "removed",
            }
            .to_owned(),
            bytes: file.bytes,
        }
    }));
}

fn connection(row: &AttributedRow, of_row: &ConnectionRow) -> TurnConnection {
    let reason = serde_json::to_value(of_row.reason).ok();
    let charge = of_row.charge.as_ref().map(Charge::from);
    TurnConnection {
        call: row.attribution.as_ref().and_then(|it| it.call.as_ref()).map(ToString::to_string),
        sandbox: row.sandbox.to_string(),
        sequence: of_row.sequence,
        kind: match of_row.kind {
            model::Kind::Connection => Kind::Connection,
            model::Kind::Lookup => Kind::Lookup,
            model::Kind::Exchange => Kind::Exchange,
            model::Kind::Operation => Kind::Operation,
        },
        decision: match of_row.decision {
            model::Decision::Allowed => Decision::Allowed,
            model::Decision::Denied => Decision::Denied,
            model::Decision::Played => Decision::Played,
            model::Decision::Failed => Decision::Failed,
        },
        reason: reason.and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default(),
        host: of_row.host.clone(),
        port: of_row.port,
        operation: of_row.operation.clone(),
        method: of_row.method.clone(),
        path: of_row.path.clone(),
        status: of_row.status,
        bytes: Transferred { out: of_row.bytes.out, into: of_row.bytes.into },
        charge,
        is_late: of_row.is_late,
        began: row.began,
        micros: row.micros,
    }
}

#[cfg(test)]
mod tests;

//! The trace of a run whose worker is killed: it stays one trace, without gaps.
//!
//! Requirements: O1, P2

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::platform::begin;
use super::runs::{Ended, create, end_of};
use crate::case::{Case, until};
use crate::rig::cluster::Shape;
use crate::rig::collector::Span;

/// A call that takes longer than it takes to kill its worker.
const SLOW_CALL: &str = r#"
    [[turn]]
    call = [{ tool = "shell", input = { command = "touch /tmp/here; sleep 12" } }]
    [[turn]]
    delay-ms = 500
    call = [{ tool = "shell", input = { command = "true" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "Done." } }]
"#;

/// F-83: the replica that works on a run is killed while a call of the run executes.
///
/// A span is sent at most a second after it ended. All that ended before the kill are with the
/// collector by then, so none may be missing.
pub(crate) async fn worker_killed(case: &mut Case) -> anyhow::Result<String> {
    let shape = Shape { nodes: 3, script: Some(SLOW_CALL), is_traced: true, ..Shape::default() };
    let clients = begin(case, shape).await?;
    case.patience = Duration::from_secs(120);
    let id = create(&clients, "traced").await?;
    until("a call of the run executes", async || {
        let run = clients[0].plain("GET", &format!("/v1/runs/{id}"), None).await;
        let run = run.map_or(Value::Null, |(_, run)| run);
        let Some(sandbox) = run["sandbox"].as_str() else { return false };
        let here = format!("/v1/sandboxes/{sandbox}/files?path=/tmp");
        let listed = clients[0].plain("GET", &here, None).await;
        listed.is_ok_and(|(status, files)| status == 200 && files.to_string().contains("here\""))
    })
    .await?;
    until("the request of the first turn is traced", async || {
        spans(case).is_ok_and(|spans| {
            spans
                .iter()
                .any(|span| span.name.starts_with("chat ") && span.run.as_deref() == Some(&*id))
        })
    })
    .await?;
    let cluster = case.cluster()?;
    let owner = cluster.postgres.sql(&format!("select lease_owner from run where id = '{id}'"))?;
    let number = cluster
        .controls
        .iter()
        .position(|control| owner.trim().ends_with(&format!("-{}", control.pid())));
    let number = number.with_context(|| format!("no replica is {}", owner.trim()))?;
    case.history.may_break(true);
    let control = &mut case.cluster()?.controls[number];
    control.kill();
    control.start()?;
    case.cluster()?.is_whole().await?;
    case.history.may_break(false);
    let ended = end_of(&clients, &id).await?;
    ensure!(ended.outcome() == "answered", "it ended as {}", ended.outcome());
    ensure!(ended.count("lease_taken") >= 2, "the run was not taken over");
    let expected = expected(&ended);
    until("all spans of the run are with the collector", async || {
        spans(case).is_ok_and(|spans| counts(&spans, &id) == expected)
    })
    .await
    .or_else(|error| -> anyhow::Result<Duration> {
        let found = counts(&spans(case)?, &id);
        Err(error.context(format!("spans are {found:?}, and {expected:?} by the transcript")))
    })?;
    let all = spans(case)?;
    let total = is_joined(&all, &id)?;
    case.heal(&clients[0]).await?;
    Ok(format!("{total} spans in one trace, {} of the run's own", expected.values().sum::<usize>()))
}

fn spans(case: &Case) -> anyhow::Result<Vec<Span>> {
    let cluster = case.cluster.as_ref();
    let collector = cluster.and_then(|cluster| cluster.collector.as_ref());
    Ok(collector.context("the platform has no collector")?.spans())
}

/// The kind of a span of a run.
fn kind(span: &Span) -> &str {
    span.name.split(' ').next().unwrap_or_default()
}

/// Spans of a run's own events by kind, as its transcript has them.
fn expected(ended: &Ended) -> BTreeMap<String, usize> {
    let turns: BTreeSet<String> =
        ended.of_kind("llm_requested").map(|event| event["turn"].to_string()).collect();
    let requests = ended.count("llm_responded") + ended.count("llm_failed");
    let all = [
        ("invoke_agent", 1),
        ("turn", turns.len()),
        ("chat", requests),
        ("execute_tool", ended.count("tool_finished")),
    ];
    all.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect()
}

fn counts(spans: &[Span], run: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for span in spans.iter().filter(|span| span.run.as_deref() == Some(run)) {
        *counts.entry(kind(span).to_owned()).or_default() += 1;
    }
    counts
}

/// Checks that the spans of a run are one tree: run, turns, requests and calls. Returns the number
/// of all spans of its trace.
fn is_joined(spans: &[Span], run: &str) -> anyhow::Result<usize> {
    let ours: Vec<&Span> = spans.iter().filter(|span| span.run.as_deref() == Some(run)).collect();
    let traces: BTreeSet<&str> = ours.iter().map(|span| span.trace.as_str()).collect();
    ensure!(traces.len() == 1, "the run has the traces {traces:?}");
    let trace: Vec<&Span> =
        spans.iter().filter(|span| traces.contains(span.trace.as_str())).collect();
    let mut ids = BTreeSet::new();
    for span in &trace {
        ensure!(ids.insert(span.id.as_str()), "span {} was sent twice: {}", span.id, span.name);
    }
    for span in &ours {
        let parent = ours.iter().find(|one| Some(&one.id) == span.parent.as_ref());
        let is_in_place = match kind(span) {
            "invoke_agent" => span.parent.is_none(),
            "turn" => parent.is_some_and(|parent| kind(parent) == "invoke_agent"),
            _ => parent.is_some_and(|parent| kind(parent) == "turn"),
        };
        ensure!(is_in_place, "{} is below {parent:?}", span.name);
    }
    Ok(trace.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name: &str, trace: &str, id: &str, parent: Option<&str>) -> Span {
        let (name, trace, id) = (name.to_owned(), trace.to_owned(), id.to_owned());
        Span { name, trace, id, parent: parent.map(str::to_owned), run: Some("r".to_owned()) }
    }

    #[test]
    fn a_second_trace_a_repeated_span_and_a_lost_parent_are_found() {
        let whole = [
            span("invoke_agent belljar", "t", "run", None),
            span("turn", "t", "one", Some("run")),
            span("chat m", "t", "asked", Some("one")),
            span("execute_tool shell", "t", "call", Some("one")),
        ];
        assert_eq!(is_joined(&whole, "r").unwrap(), 4);
        let with = |more: Span| [&whole[..], &[more]].concat();
        assert!(is_joined(&with(span("chat m", "u", "other", Some("one"))), "r").is_err());
        assert!(is_joined(&with(span("chat m", "t", "asked", Some("one"))), "r").is_err());
        assert!(is_joined(&with(span("chat m", "t", "more", Some("gone"))), "r").is_err());
        assert!(is_joined(&with(span("chat m", "t", "more", Some("run"))), "r").is_err());
        assert_eq!(counts(&whole, "r")["chat"], 1);
        assert!(counts(&whole, "another").is_empty());
    }
}

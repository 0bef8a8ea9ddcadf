//! The figures, for people.

use std::fmt::Write as _;

use super::super::plot::{Bar, Bars, Figure, Panel};
use super::super::report;
use super::super::stats::Summary;
use super::{AgentTurns, MAX_TURN_MS, Report};

pub(super) fn table(report: &Report) -> String {
    let Report { cores, template, rounds, .. } = report;
    let mut text = format!(
        "turns outside of model and code (ms): {rounds} runs of each agent, server and model on \
         {cores} cores; template {template}\n"
    );
    report::header(&mut text);
    for AgentTurns { agent, turns, stages } in &report.agents {
        report::row(&mut text, agent, *turns, &count(*turns));
        for stage in stages {
            let name = format!("  {}", stage.stage.name());
            report::row(&mut text, &name, stage.turns, &count(stage.turns));
            if stage.sandbox.is_some() {
                report::row(&mut text, "    until its sandbox", stage.sandbox, "");
            }
        }
    }
    text.push('\n');
    report::aims(&mut text, &report.aims);
    text.push_str("\nfor docs/benchmarks.md:\n\n");
    text.push_str(&markdown(report));
    text
}

fn count(turns: Option<Summary>) -> String {
    turns.map(|turns| format!("{} turns", turns.count)).unwrap_or_default()
}

/// The table as `docs/benchmarks.md` has it.
fn markdown(report: &Report) -> String {
    let mut text = "| ms | p50 | p99 | aim |\n|---|---|---|---|\n".to_owned();
    let mut row = |name: &str, turns: Option<Summary>, aim: &str| {
        if let Some(turns) = turns {
            let _ =
                writeln!(text, "| {name} | {:.1} | {:.1} | {aim} |", turns.p50_ms, turns.p99_ms);
        }
    };
    for (AgentTurns { agent, turns, stages }, aim) in report.agents.iter().zip(&report.aims) {
        let verdict = if aim.met { "met" } else { "not met" };
        row(agent, *turns, &format!("p50 ≤ {MAX_TURN_MS}: {verdict}"));
        for stage in stages {
            row(&format!("– {}", stage.stage.name()), stage.turns, "");
            row("– – until its sandbox", stage.sandbox, "");
        }
    }
    text
}

pub(super) fn figure(report: &Report) -> Figure {
    let bar = |label: &str, turns: Option<Summary>, aim| {
        let label = label.to_owned();
        turns.map(|turns| Bar { label, value: turns.p50_ms, tail: Some(turns.p99_ms), aim })
    };
    let panels = report.agents.iter().map(|agent| {
        let whole = bar("all turns", agent.turns, Some(MAX_TURN_MS));
        let stages = agent.stages.iter().map(|it| bar(it.stage.name(), it.turns, None));
        let rows = [whole].into_iter().chain(stages).flatten().collect();
        Panel::Bars(Bars { heading: agent.agent.to_owned(), rows })
    });
    Figure {
        title: "A turn outside of model and code".to_owned(),
        note: format!("{} runs of each agent; bar: p50, line: p99, in ms", report.rounds),
        panels: panels.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Stage, Turn};
    use super::*;
    use crate::cli::TurnAgent;
    use std::time::Duration;

    #[test]
    fn the_report_has_every_stage_and_the_verdict() {
        let turn = |stage, ms: u64, sandbox: Option<u64>| Turn {
            stage,
            outside: Duration::from_millis(ms),
            sandbox: sandbox.map(Duration::from_millis),
        };
        let turns = [turn(Stage::Plan, 3, None), turn(Stage::Code, 20, Some(9))];
        let agents = vec![AgentTurns::of(TurnAgent::Pipeline, &turns)];
        let aims = vec![report::Aim::at_most("pipeline", MAX_TURN_MS, Some(3.0))];
        let template = "t".to_owned();
        let report = Report { cores: 2, template, rounds: 1, agents, aims };
        let text = table(&report);
        for part in ["pipeline", "  plan", "  program", "until its sandbox", "2 turns", "(met)"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("| – program | 20.0 | 20.0 |  |"), "{text}");
        assert!(!text.contains("repaired program"), "{text}");
        let svg = figure(&report).svg();
        assert!(svg.contains("all turns") && !svg.contains("repaired"));
    }
}

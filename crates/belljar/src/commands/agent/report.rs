//! What came of it: the answer, what it used, what it cost.

use belljar_agent::program::Program;
use belljar_domain::Limits;
use serde_json::{Value, json};

use super::follow::Followed;
use crate::limits;
use crate::network::Traffic;
use crate::output::{Printer, printable};

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) followed: Followed,
    /// What it left behind, without its own files.
    pub(super) files: Vec<Value>,
    /// The last text, if it was not shown yet.
    pub(super) held: Option<String>,
    pub(super) limits: Limits,
}

impl Outcome {
    pub(super) fn is_well(&self) -> bool {
        let Followed { end, work, is_cut, .. } = &self.followed;
        let left_well = *is_cut || end.status() == 0;
        left_well && work.verdict.as_ref().is_some_and(|verdict| verdict.is_well)
    }

    /// A limit's own status, else the program's; never 0 if it did not end well.
    pub(super) fn status(&self) -> u8 {
        let end = &self.followed.end;
        match self.is_well() {
            true => 0,
            false if self.followed.is_cut => 1,
            false => end.status().max(1),
        }
    }

    pub(super) fn text(&self) -> &str {
        self.followed.work.verdict.as_ref().map_or("", |verdict| &verdict.text)
    }

    /// Why it did not end well.
    pub(super) fn why(&self) -> Option<String> {
        if self.is_well() {
            return None;
        }
        let Followed { end, work, stderr, .. } = &self.followed;
        let stopped = limits::explain(end, &self.limits).filter(|_| !self.followed.is_cut);
        let said = work.verdict.as_ref().and_then(|verdict| verdict.why.clone());
        let said = said.or_else(|| work.last_error().map(str::to_owned));
        let printed = || Some(stderr.text().trim().to_owned()).filter(|text| !text.is_empty());
        let exited = || format!("it exited with status {} and reported no result", end.status());
        Some(stopped.map(|(what, _)| what).or(said).or_else(printed).unwrap_or_else(exited))
    }
}

/// Prints the answer, and then what it took.
pub(super) fn report(
    program: &Program,
    outcome: &Outcome,
    traffic: &Traffic,
    printer: &Printer,
) -> anyhow::Result<()> {
    let turns = match u64::from(outcome.followed.work.turns) {
        // It does not tell them apart; each is a request.
        0 => traffic.requests,
        turns => turns,
    };
    if printer.is_json() {
        return Ok(printer.data(document(outcome, traffic, turns))?);
    }
    let text = outcome.text();
    if let Some(held) = outcome.held.as_deref().filter(|held| *held != text) {
        printer.note(held);
    }
    if outcome.is_well() && !text.is_empty() {
        printer.data(printable(text))?;
    }
    if let Some(why) = outcome.why() {
        printer.always(format_args!("{}: failed: {why}", program.name));
    }
    printer.note(summary(program, traffic, turns, outcome));
    Ok(())
}

fn summary(program: &Program, traffic: &Traffic, turns: u64, outcome: &Outcome) -> String {
    let charge = &traffic.charge;
    let tokens = charge.input + charge.cache_read + charge.cache_write + charge.output;
    format!(
        "{}: {turns} turns, {} model requests, {tokens} tokens ({} in, {} cached, {} out), ${}, \
         {} requests and {} connections refused, {:.1} s",
        program.name,
        traffic.requests,
        charge.input + charge.cache_write,
        charge.cache_read,
        charge.output,
        dollars(charge.nano_dollars),
        traffic.refused_requests,
        traffic.refused_connections,
        outcome.followed.end.usage.wall.as_secs_f64(),
    )
}

fn document(outcome: &Outcome, traffic: &Traffic, turns: u64) -> Value {
    let end = &outcome.followed.end;
    let charge = &traffic.charge;
    json!({
        "type": "result",
        "ok": outcome.is_well(),
        "text": outcome.text(),
        "error": outcome.why(),
        "end": {
            "reason": end.reason.as_str(),
            "exit_code": end.exit_code,
            "signal": end.signal,
        },
        "turns": turns,
        "requests": traffic.requests,
        "tokens": {
            "input": charge.input,
            "cache_read": charge.cache_read,
            "cache_write": charge.cache_write,
            "output": charge.output,
        },
        "nano_dollars": charge.nano_dollars,
        "dollars": dollars(charge.nano_dollars),
        "refused": {
            "requests": traffic.refused_requests,
            "connections": traffic.refused_connections,
        },
        "usage": super::call::usage(&end.usage),
        "files": outcome.files,
    })
}

/// Exact, with as many places as it needs, two at least.
pub(super) fn dollars(nano: u64) -> String {
    let text = format!("{}.{:09}", nano / 1_000_000_000, nano % 1_000_000_000);
    let least = text.len() - 7;
    let kept = text.trim_end_matches('0').len();
    text[..kept.max(least)].to_owned()
}

#[cfg(test)]
mod tests {
    use belljar_domain::{End, EndReason, Usage};
    use belljar_node::Capture;

    use super::*;
    use belljar_agent::program::{ProgramDialect, ProgramWork};

    #[test]
    fn money_is_exact() {
        assert_eq!(dollars(0), "0.00");
        assert_eq!(dollars(1_500_000_000), "1.50");
        assert_eq!(dollars(1), "0.000000001");
        assert_eq!(dollars(12_345_600), "0.0123456");
    }

    fn outcome(lines: &[&str], reason: EndReason, exit_code: Option<i32>, is_cut: bool) -> Outcome {
        let mut work = ProgramWork::default();
        for line in lines {
            work.read(ProgramDialect::Claude, line);
        }
        let end = End { reason, exit_code, signal: None, usage: Usage::default() };
        let stderr = Capture::new(100).finish();
        let followed = Followed { end, work, stderr, is_cut };
        Outcome { followed, files: Vec::new(), held: None, limits: Limits::default() }
    }

    #[test]
    fn only_what_ended_well_is_0() {
        let well = r#"{"type":"result","is_error":false,"result":"yes"}"#;
        let failed = r#"{"type":"result","is_error":true,"result":"no"}"#;
        assert_eq!(outcome(&[well], EndReason::Done, Some(0), false).status(), 0);
        assert_eq!(outcome(&[well], EndReason::Killed, None, true).status(), 0);
        assert_eq!(outcome(&[failed], EndReason::Done, Some(0), false).status(), 1);
        assert_eq!(outcome(&[well], EndReason::Exit, Some(3), false).status(), 3);
        assert_eq!(outcome(&[], EndReason::Done, Some(0), false).status(), 1);
        let late = outcome(&[], EndReason::TimeoutWall, None, false);
        assert_eq!(late.status(), 124);
        assert!(late.why().unwrap().contains("timeout_wall"), "{:?}", late.why());
        let why = outcome(&[failed], EndReason::Done, Some(0), false).why();
        assert_eq!(why.as_deref(), Some("error: no"));
    }
}

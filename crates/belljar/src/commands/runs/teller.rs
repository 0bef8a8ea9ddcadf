//! A run, told as it happens: a few lines for each event that people care about.

use belljar_domain::units::format_size;
use belljar_journal::event::{
    Block, Body, Brought, Dataset, Environment, Event, ForkedFrom, Injected, Lack, Limit,
    NetworkUsed, PausePoint, Request, StageMessage, ToolFinished, Verdict,
};
use belljar_journal::{Call, RunView};
use belljar_pipeline::{Category, MAX_ATTEMPTS, Message};
use serde_json::Value;

use crate::page::{Page, separated};

/// Lines of code and of output that are shown.
const CODE_LINES: usize = 12;
const OUTPUT_LINES: usize = 8;
/// Columns of a shown line where there is no terminal.
const WIDTH: usize = 160;

/// Tells events in the order in which they come.
#[derive(Debug, Default)]
pub(in crate::commands) struct Teller {
    view: RunView,
    detail: Detail,
    page: Option<Page>,
}

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::commands) enum Detail {
    /// What code there is, and what it printed.
    #[default]
    Full,
    /// How far it is.
    Brief,
}

impl Teller {
    /// With a page, no line is wider than it.
    pub(in crate::commands) fn new(detail: Detail, page: Option<Page>) -> Self {
        Self { detail, page, ..Self::default() }
    }

    /// What is to be said of this event, if anything.
    pub(in crate::commands) fn tell(&mut self, event: &Event) -> Option<String> {
        let said = self.words(event);
        self.view.apply(event);
        match self.page {
            Some(page) => said.map(|text| page.wrapped(&text).trim_end().to_owned()),
            None => said,
        }
    }

    fn words(&self, event: &Event) -> Option<String> {
        Some(match &event.body {
            Body::RunCreated(created) => {
                let given = created.datasets.iter();
                let given = given.filter(|data| data.name != belljar_agent::MANIFEST);
                let data: Vec<_> = given.map(dataset).collect();
                let data = if data.is_empty() { "no data".to_owned() } else { data.join(", ") };
                format!("question: {}\nmodel {}, {data}", created.question.trim(), created.model)
            }
            Body::ForkedFrom(forked) => beginning(forked),
            Body::LeaseTaken(taken) => {
                let lost = taken.took_over.as_ref()?;
                format!("taken over from {lost}, whose lease expired")
            }
            Body::SandboxAttached(attached) => {
                let data = match attached.data {
                    Some(Brought::Mounted) => ", data mounted",
                    Some(Brought::Copied) => ", data copied",
                    None => "",
                };
                let given = attached.environment.filter(|_| self.detail == Detail::Full);
                let given = given.as_ref().map(environment).unwrap_or_default();
                format!("sandbox {} of {}{given}{data}", attached.sandbox, attached.template)
            }
            Body::LlmResponded(answer) => {
                let tokens = &answer.tokens;
                let prompt = tokens.total() - tokens.output;
                let mut text = format!(
                    "{}turn {}  model {}, {} tokens in ({} cached), {} out{}",
                    if self.detail == Detail::Brief { "" } else { "\n" },
                    answer.turn,
                    seconds(answer.micros),
                    separated(prompt),
                    separated(tokens.cache_read),
                    separated(tokens.output),
                    money(answer.nano_dollars),
                );
                let is_brief = self.detail == Detail::Brief;
                for block in answer.blocks.iter().filter(|_| !is_brief) {
                    text.push_str(&block_text(block, self.columns()));
                }
                text
            }
            Body::LlmFailed(failed) => format!("  the model did not answer: {}", failed.message),
            Body::ToolFinished(finished) => self.finished(finished),
            Body::NetworkUsed(used) if used.refusals.is_empty() && used.approved == 0 => {
                return None;
            }
            Body::NetworkUsed(used) => refused(used),
            Body::GuardReported(report) => format!("  guard {}: {}", report.guard, report.message),
            Body::ArtifactAdded(added) => {
                let artifact = &added.artifact;
                format!("  saved {} ({} bytes)", artifact.name, separated(artifact.content.bytes))
            }
            Body::InjectedMessage(message) => {
                let who = match message.kind {
                    Injected::Operator => "told",
                    Injected::Restored => "restored",
                    Injected::Repair => "repair",
                    _ => "warned",
                };
                format!("  {who}: {}", message.text)
            }
            Body::LimitHit(hit) => {
                let name = format!("{:?}", hit.limit).to_lowercase();
                let amount = |value| amount(hit.limit, value);
                format!("  limit: {name}, {} of {}", amount(hit.used), amount(hit.allowed))
            }
            Body::ControlRequested(asked) => {
                format!("  {} requests: {}", asked.by, wish(&asked.request))
            }
            Body::Paused(paused) => paused_at(paused.at.as_ref()),
            Body::Resumed(_) => "resumed".to_owned(),
            Body::Cancelled(_) => "cancelled".to_owned(),
            Body::BudgetChanged(_) => "  the budget has changed".to_owned(),
            Body::Finished(finished) => {
                let outcome = finished.outcome.as_str();
                let why =
                    finished.message.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                let spent = &self.view.spent;
                format!(
                    "{}{outcome}{why}  {}, model {}, code {}, {} tokens{}",
                    if self.detail == Detail::Brief { "" } else { "\n" },
                    counted(self.view.turns.into(), "turn"),
                    seconds(spent.model_micros),
                    seconds(spent.call_micros),
                    separated(spent.tokens.total()),
                    money(spent.nano_dollars),
                )
            }
            Body::RecordingMade(made) => match &made.incomplete {
                Some(why) => format!("  recorded as {}, incomplete: {why}", made.name),
                None => format!("  recorded as {}", made.name),
            },
            Body::ParameterDeviated(deviated) => {
                let applied = deviated.applied.as_deref().unwrap_or("another value");
                let (parameter, asked) = (&deviated.parameter, &deviated.asked);
                format!("  {parameter} was {applied}, not {asked} ({})", deviated.cause.as_str())
            }
            Body::StageMessage(sent) => message(sent),
            Body::SnapshotRefused(refused) => {
                format!("  no checkpoint, each attempt installs: {}", refused.reason)
            }
            Body::StageChanged(_)
            | Body::PromptBuilt(_)
            | Body::LlmRequested(_)
            | Body::ToolIntended(_)
            | Body::ToolStarted(_)
            | Body::SnapshotTaken(_)
            | Body::SessionSaved(_) => return None,
            Body::Unknown(unknown) => format!("{} (event of a newer version)", unknown.kind),
        })
    }

    fn finished(&self, finished: &ToolFinished) -> String {
        let call = self.view.calls.iter().find(|call| call.call == finished.call);
        let name = call.map_or("call", |call: &Call| call.name.as_str());
        let used = &finished.used;
        let peak = used.peak_bytes.map(|bytes| format!(", {} MB", bytes >> 20)).unwrap_or_default();
        let fault = finished.fault.as_ref().map(|fault| format!(", {}", fault.category));
        let mut text = format!(
            "  {name} {}, CPU {}{peak}, {} bytes{}",
            seconds(used.wall_micros),
            seconds(used.cpu_micros),
            separated(used.output_bytes),
            fault.unwrap_or_default(),
        );
        if self.detail == Detail::Full {
            text.push_str(&quoted(&finished.shown, OUTPUT_LINES, "    > ", self.columns()));
        }
        text
    }

    /// Columns of code and output. They are cut: wrapped, neither code nor tables can be read.
    fn columns(&self) -> usize {
        self.page.map_or(WIDTH, |page| page.width.min(WIDTH))
    }
}

/// A message of a pipeline, on one line, with its agent and attempt.
fn message(sent: &StageMessage) -> String {
    let attempt = format!("[Attempt {}/{MAX_ATTEMPTS}]", sent.attempt);
    match &sent.message {
        Message::Plan(plan) => format!("  [Planner] {}", plan.task),
        Message::Code(artifact) => format!("  [Coder] {}", artifact.filename),
        Message::Execution(result) if result.success => format!("  [Executor] {attempt} done"),
        Message::Execution(result) => {
            let code = result.exit_code.map_or_else(|| "none".to_owned(), |code| code.to_string());
            let category = result.category.map_or("error", Category::as_str);
            let error = result.error.as_deref().unwrap_or_default();
            format!("  [Executor] {attempt} failed rc={code} {category}: {error}")
        }
        Message::Diagnosis(diagnosis) => format!("  [Debugger] {attempt} {}", diagnosis.cause),
        Message::Question(asked) => format!("  [Question] {}", asked.question),
    }
}

/// The refusals of the gateway, and what a human approved, on one line.
fn refused(used: &NetworkUsed) -> String {
    let parts = used.refusals.iter().map(|refusal| {
        let named = refusal.operation.as_ref().or(refusal.host.as_ref());
        let times = if refusal.count > 1 { format!(" ×{}", refusal.count) } else { String::new() };
        format!("{} ({}){times}", named.map_or("a request", String::as_str), refusal.reason)
    });
    let refused = parts.collect::<Vec<_>>().join(", ");
    match (refused.is_empty(), used.approved) {
        (false, 0) => format!("  refused: {refused}"),
        (true, approved) => format!("  approved by a human: {approved}"),
        (false, approved) => format!("  refused: {refused}; approved by a human: {approved}"),
    }
}

/// The tier and the limits of a sandbox, each after a comma.
fn environment(environment: &Environment) -> String {
    let Environment { tier, limits } = environment;
    let parts = [
        tier.map(|tier| tier.to_string()),
        limits.memory_bytes.map(|bytes| format!("{} of memory", format_size(bytes))),
        limits.cpu_millis.map(|millis| format!("{} CPU", cores(millis))),
        limits.disk_bytes.map(|bytes| format!("{} of disk", format_size(bytes))),
        limits.pids.map(|pids| format!("{} processes", separated(pids))),
        limits.wall_ms.map(|millis| format!("{} for a call", seconds(millis.saturating_mul(1000)))),
    ];
    parts.into_iter().flatten().map(|part| format!(", {part}")).collect()
}

/// Thousandths of a core, as `--cpus` takes them.
fn cores(millis: u64) -> String {
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn dataset(data: &Dataset) -> String {
    match &data.origin {
        Some(origin) if origin.kept < origin.records => {
            format!("{} ({} of {} records)", origin.name, origin.kept, origin.records)
        }
        Some(origin) => format!("{} (as {})", origin.name, data.name),
        None => data.name.clone(),
    }
}

fn beginning(forked: &ForkedFrom) -> String {
    let ForkedFrom { parent, after, budget, retry, .. } = forked;
    let Some(retry) = retry else {
        return format!("\nforked from {parent} after event {after}");
    };
    let lacked: Vec<&str> = retry
        .lacked
        .iter()
        .map(|lack| match lack {
            Lack::Turns => "turns",
            Lack::Memory => "memory",
        })
        .collect();
    let turns = budget.and_then(|budget| budget.turns).map(|turns| format!("{turns} turns"));
    let memory = retry.memory_bytes.map(|bytes| format!("{} MB of memory", bytes >> 20));
    let now: Vec<String> = turns.into_iter().chain(memory).collect();
    format!(
        "\nattempt {}, after {parent} ran out of {}: now {}",
        retry.attempt,
        lacked.join(" and "),
        now.join(", ")
    )
}

fn block_text(block: &Block, columns: usize) -> String {
    match block {
        Block::Text { text } if text.trim().is_empty() => String::new(),
        Block::Text { text } => quoted(text, OUTPUT_LINES, "  ", WIDTH),
        Block::Thinking { .. } | Block::Opaque { .. } => String::new(),
        Block::ToolUse { name, input, .. } => {
            // As the model wrote it, which may be no JSON.
            let read = input.as_str().and_then(|text| serde_json::from_str(text).ok());
            let input: &Value = read.as_ref().unwrap_or(input);
            let main = ["code", "command", "path", "answer"].into_iter();
            let main = main.filter_map(|field| input.get(field)?.as_str()).next();
            let text = main.map_or_else(|| input.to_string(), str::to_owned);
            format!("\n  {name}{}", quoted(&text, CODE_LINES, "    ", columns))
        }
    }
}

/// The beginning of a text, each line after a mark and cut to so many columns.
fn quoted(text: &str, most: usize, mark: &str, columns: usize) -> String {
    let room = columns.saturating_sub(mark.len());
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let mut shown = String::new();
    for line in lines.iter().take(most) {
        let line = line.replace('\t', "    ");
        let is_long = line.chars().count() > room;
        let line: String = match is_long {
            true => line.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
            false => line,
        };
        shown.push_str(&format!("\n{mark}{line}"));
    }
    if lines.len() > most {
        shown.push_str(&format!("\n{mark}({} more lines)", lines.len() - most));
    }
    shown
}

fn paused_at(at: Option<&PausePoint>) -> String {
    match at {
        None => "paused".to_owned(),
        Some(PausePoint::Turn { turn }) => format!("paused before turn {turn}"),
        Some(PausePoint::Call { call }) => format!("paused before a call of turn {}", call.turn),
        Some(PausePoint::Question { text, .. }) => format!("question: {text}"),
        Some(PausePoint::Approval { tool, .. }) => {
            format!("waiting for an approval of {}: {}", tool.tool, tool.input)
        }
    }
}

fn wish(request: &Request) -> String {
    match request {
        Request::Pause => "pause".to_owned(),
        Request::Resume => "resume".to_owned(),
        Request::Cancel => "cancel".to_owned(),
        Request::Tell { text } => format!("tell {text:?}"),
        Request::Budget { .. } => "change the budget".to_owned(),
        Request::Step => "one step".to_owned(),
        Request::Breakpoints { .. } => "change the breakpoints".to_owned(),
        Request::Answer { text } => format!("answer {text:?}"),
        Request::Decide { decision } => match decision.verdict {
            Verdict::Approved => "approve the call".to_owned(),
            Verdict::Denied => "deny the call".to_owned(),
            Verdict::Expired => "deny the call: its time is over".to_owned(),
        },
    }
}

/// As people say it.
fn amount(limit: Limit, value: u64) -> String {
    match limit {
        Limit::Turns => value.to_string(),
        Limit::Wall | Limit::Cpu => seconds(value.saturating_mul(1000)),
        Limit::Money => dollars(value),
        Limit::Tokens => counted(value, "token"),
        Limit::Output => counted(value, "byte"),
    }
}

fn counted(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// Microseconds as the milliseconds of `--json`, to the nearest.
pub(super) fn millis(micros: u64) -> u64 {
    micros.saturating_add(500) / 1000
}

pub(super) fn seconds(micros: u64) -> String {
    let millis = micros / 1000;
    format!("{}.{:03} s", millis / 1000, millis % 1000)
}

/// To a hundredth of a cent; nothing where nothing was paid.
pub(super) fn money(nano: u64) -> String {
    match nano {
        0 => String::new(),
        nano => format!(", {}", dollars(nano)),
    }
}

pub(in crate::commands) fn dollars(nano: u64) -> String {
    let parts = nano.div_ceil(100_000);
    format!("${}.{:04}", parts / 10_000, parts % 10_000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(body: Value) -> Event {
        let mut value = json!({ "seq": 7, "at": "2026-01-02T03:04:05Z" });
        value.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    /// A turn with long words of the model, long code and a wide table.
    fn turn() -> Vec<Event> {
        let code = format!("ask = \"{}\"", "where".repeat(40));
        let shown = "a column\tof a table".repeat(20);
        vec![
            event(json!({
                "kind": "llm_responded", "v": 1, "turn": 1, "asked": 4, "stop": "tool_use",
                "blocks": [
                    { "type": "text", "text": "I look at every column. ".repeat(6) },
                    { "type": "tool_use", "id": "c1", "name": "shell", "input": { "code": code } },
                ],
                "tokens": { "input": 1, "cache_read": 2, "cache_write": 3, "output": 4 },
                "nano_dollars": 5, "micros": 6,
            })),
            event(json!({
                "kind": "tool_finished", "v": 1, "call": { "turn": 1, "id": "c1" },
                "reason": "done", "exit_code": 0, "shown": shown,
                "used": { "wall_micros": 1, "cpu_micros": 1, "written_bytes": 0, "output_bytes": 9 },
            })),
        ]
    }

    fn told(page: Option<Page>) -> String {
        let mut teller = Teller::new(Detail::Full, page);
        turn().iter().filter_map(|event| teller.tell(event)).map(|text| text + "\n").collect()
    }

    #[test]
    fn what_is_told_is_no_wider_than_the_terminal() {
        for width in [40, 80, 120] {
            let text = told(Some(Page { width, has_colour: false }));
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width, "{widest}: {text}");
            // Nothing is lost of what the model says; code and output are cut.
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(["I look at every column."; 6].join(" ").as_str()), "{text}");
            for mark in ["    ask = ", "    > a column"] {
                let cut = |line: &str| line.starts_with(mark) && line.ends_with('…');
                assert!(text.lines().any(cut), "{mark}: {text}");
            }
        }
        let text = told(None);
        assert!(text.lines().any(|line| line.chars().count() == WIDTH), "{text}");
    }
}

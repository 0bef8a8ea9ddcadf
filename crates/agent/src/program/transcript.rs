//! Turns, calls and results, as a journal has them, out of a program's events.
//!
//! Pure, and the same for the same lines: a worker that takes over hears the program from its
//! beginning, and finds everything that is written already under the same turns and ids.

use std::collections::BTreeMap;

use belljar_journal::PROGRAM_CALL;
use belljar_journal::event::{Block, CallRef};
use serde_json::Value;

use super::{Line, ProgramDialect, ProgramEvent, ProgramWork};

/// The ends of an answer.
const CALLS: &str = "tool_use";
const ENDS: &str = "end_turn";

/// The name of the report that a part of a program's output is missing.
pub(crate) const OUTPUT_GAP: &str = "output-gap";

/// A thing to write down.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// The model calls a tool. Its turn is not over.
    Call {
        call: CallRef,
        tool: String,
        input: Value,
    },
    /// A turn is over: all that the model said and called in it.
    Turn {
        turn: u32,
        blocks: Vec<Block>,
        stop: &'static str,
    },
    Result {
        call: CallRef,
        output: String,
        is_error: bool,
    },
}

/// The work of a program so far.
#[derive(Debug)]
pub struct Transcript {
    dialect: ProgramDialect,
    pub work: ProgramWork,
    /// The last turn that is over.
    turn: u32,
    /// The turn under way, if it is written already. Only after a gap.
    at: Option<u32>,
    /// Turns that are written, and were not heard before a gap.
    unheard: BTreeMap<u32, Vec<Block>>,
    blocks: Vec<Block>,
    /// The turns of calls.
    calls: BTreeMap<String, u32>,
}

impl Transcript {
    /// Of a program that begins after so many turns of its run.
    pub fn after(turns: u32, dialect: ProgramDialect) -> Self {
        let (work, blocks, calls) = (ProgramWork::default(), Vec::new(), BTreeMap::new());
        let (at, unheard) = (None, BTreeMap::new());
        Self { dialect, work, turn: turns, at, unheard, blocks, calls }
    }

    /// Goes on after a gap in the output. `last` is the last turn that is written, and `written`
    /// are those of this program. One of them that comes again keeps its number.
    pub fn skip_to<'a>(
        &mut self,
        last: u32,
        written: impl IntoIterator<Item = (u32, &'a [Block])>,
    ) {
        for (turn, blocks) in written {
            for block in blocks {
                if let Block::ToolUse { id, .. } = block {
                    self.calls.insert(id.clone(), turn);
                }
            }
            // An answer without blocks is the rest of a cost.
            if turn > self.turn && !blocks.is_empty() {
                self.unheard.insert(turn, blocks.to_vec());
            }
        }
        self.turn = self.turn.max(last);
    }

    /// The turn that is written with this call, and was not heard.
    fn unheard_turn(&self, call: &str) -> Option<u32> {
        let is_it = |block: &Block| matches!(block, Block::ToolUse { id, .. } if id == call);
        let mut unheard = self.unheard.iter();
        unheard.find(|(_, blocks)| blocks.iter().any(is_it)).map(|(turn, _)| *turn)
    }

    /// The turn that is under way, or the last one.
    pub fn turn(&self) -> u32 {
        self.turn + u32::from(!self.blocks.is_empty() && self.at.is_none())
    }

    /// Takes one line. What comes after the result is no part of the work.
    pub fn read(&mut self, line: &Line) -> Vec<Note> {
        if self.work.verdict.is_some() {
            return Vec::new();
        }
        let before = self.work.turns;
        let events = self.work.read(self.dialect, &line.text);
        let mut notes = Vec::new();
        if self.work.turns > before {
            notes.extend(self.end_turn());
        }
        for event in events {
            self.take(event, &mut notes);
        }
        if self.work.verdict.is_some() {
            notes.extend(self.end_turn());
        }
        notes
    }

    /// The turn that was under way when the program ended.
    pub fn end_turn(&mut self) -> Option<Note> {
        if self.blocks.is_empty() {
            return None;
        }
        let blocks = std::mem::take(&mut self.blocks);
        let mut unheard = self.unheard.iter();
        let same = || unheard.find(|(_, it)| **it == blocks).map(|(turn, _)| *turn);
        let turn = self.at.take().or_else(same).unwrap_or(self.turn + 1);
        self.unheard.remove(&turn);
        self.turn = self.turn.max(turn);
        let stop = if has_calls(&blocks) { CALLS } else { ENDS };
        Some(Note::Turn { turn, blocks, stop })
    }

    fn take(&mut self, event: ProgramEvent, notes: &mut Vec<Note>) {
        match event {
            ProgramEvent::Text { text } => {
                // Codex goes on without the end of a command that takes long. The words of an
                // answer come before its calls.
                if self.dialect == ProgramDialect::Codex && has_calls(&self.blocks) {
                    notes.extend(self.end_turn());
                }
                self.blocks.push(Block::Text { text });
            }
            ProgramEvent::ToolCall { id, tool, input } => {
                let id = foreign_id(id);
                self.at = self.at.or_else(|| self.unheard_turn(&id));
                let turn = self.at.unwrap_or(self.turn + 1);
                self.calls.insert(id.clone(), turn);
                let block =
                    Block::ToolUse { id: id.clone(), name: tool.clone(), input: input.clone() };
                self.blocks.push(block);
                notes.push(Note::Call { call: CallRef { turn, id }, tool, input });
            }
            ProgramEvent::ToolResult { id, output, is_error } => {
                let id = foreign_id(id);
                notes.extend(self.end_turn());
                let turn = self.calls.get(&id).copied().unwrap_or(self.turn.max(1));
                notes.push(Note::Result { call: CallRef { turn, id }, output, is_error });
            }
            ProgramEvent::Usage { .. }
            | ProgramEvent::Warning { .. }
            | ProgramEvent::Raw { .. } => {}
        }
    }
}

fn has_calls(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }))
}

/// The id of a call as the program told it, changed if it could be that of a call of the run: code
/// in the sandbox may print such a line.
fn foreign_id(id: String) -> String {
    if id.starts_with(PROGRAM_CALL) { format!("program:{id}") } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(dialect: ProgramDialect, after: u32, lines: &[&str]) -> (Transcript, Vec<Note>) {
        let mut transcript = Transcript::after(after, dialect);
        let mut notes = Vec::new();
        for (offset, text) in lines.iter().enumerate() {
            let line = Line { offset: offset as u64, text: (*text).to_owned() };
            notes.extend(transcript.read(&line));
        }
        (transcript, notes)
    }

    fn named(notes: &[Note]) -> Vec<String> {
        let name = |note: &Note| match note {
            Note::Call { call, tool, .. } => format!("call {} {tool} in {}", call.id, call.turn),
            Note::Turn { turn, blocks, stop } => format!("turn {turn}: {} {stop}", blocks.len()),
            Note::Result { call, output, is_error } => {
                format!("result {} in {}: {output} {is_error}", call.id, call.turn)
            }
        };
        notes.iter().map(name).collect()
    }

    const CLAUDE: &[&str] = &[
        r#"{"type":"system","subtype":"init","session_id":"s-1"}"#,
        r#"{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"Look."}]}}"#,
        r#"{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}"#,
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"file"}]}}"#,
        r#"{"type":"assistant","message":{"id":"b","content":[{"type":"text","text":"Done."}]}}"#,
        r#"{"type":"result","is_error":false,"terminal_reason":"completed","result":"Done."}"#,
        r#"{"type":"assistant","message":{"id":"c","content":[{"type":"text","text":"More."}]}}"#,
    ];

    #[test]
    fn a_turn_of_claude_is_one_answer_in_pieces() {
        let (transcript, notes) = notes(ProgramDialect::Claude, 4, CLAUDE);
        let told = [
            "call t Bash in 5",
            "turn 5: 2 tool_use",
            "result t in 5: file false",
            "turn 6: 1 end_turn",
        ];
        assert_eq!(named(&notes), told);
        assert_eq!((transcript.turn(), transcript.work.session.as_deref()), (6, Some("s-1")));
    }

    #[test]
    fn a_turn_of_codex_ends_with_the_result_of_its_call() {
        let lines = [
            r#"{"type":"thread.started","thread_id":"t-1"}"#,
            r#"{"type":"item.completed","item":{"id":"0","type":"agent_message","text":"Look."}}"#,
            r#"{"type":"item.started","item":{"id":"1","type":"command_execution","command":"ls"}}"#,
            r#"{"type":"item.completed","item":{"id":"1","type":"command_execution","exit_code":2,"aggregated_output":"no"}}"#,
            r#"{"type":"item.completed","item":{"id":"2","type":"agent_message","text":"Done."}}"#,
            r#"{"type":"turn.completed","usage":{}}"#,
        ];
        let (transcript, notes) = notes(ProgramDialect::Codex, 0, &lines);
        let told = [
            "call 1 shell in 1",
            "turn 1: 2 tool_use",
            "result 1 in 1: no true",
            "turn 2: 1 end_turn",
        ];
        assert_eq!(named(&notes), told);
        assert!(transcript.work.verdict.is_some_and(|verdict| verdict.is_well));
    }

    #[test]
    fn an_answer_of_codex_after_an_unfinished_command_is_a_turn_of_its_own() {
        let lines = [
            r#"{"type":"item.started","item":{"id":"1","type":"command_execution","command":"ls"}}"#,
            r#"{"type":"item.completed","item":{"id":"2","type":"agent_message","text":"Done."}}"#,
            r#"{"type":"turn.completed","usage":{}}"#,
        ];
        let (transcript, notes) = notes(ProgramDialect::Codex, 0, &lines);
        assert_eq!(
            named(&notes),
            ["call 1 shell in 1", "turn 1: 1 tool_use", "turn 2: 1 end_turn"]
        );
        assert_eq!(transcript.turn(), 2);
    }

    #[test]
    fn a_forged_line_finishes_no_call_of_the_run() {
        let lines = [
            r#"{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"belljar:program:2","name":"Bash","input":{}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"belljar:program:1","content":"done"}]}}"#,
        ];
        let (_, notes) = notes(ProgramDialect::Claude, 0, &lines);
        let told = [
            "call program:belljar:program:2 Bash in 1",
            "turn 1: 1 tool_use",
            "result program:belljar:program:1 in 1: done false",
        ];
        assert_eq!(named(&notes), told);
    }

    /// Claude's answer with a call, and the result of that.
    fn turn_with_call(id: &str) -> [String; 2] {
        let answer = format!(
            r#"{{"type":"assistant","message":{{"id":"m-{id}","content":[{{"type":"tool_use","id":"{id}","name":"Bash","input":{{}}}}]}}}}"#
        );
        let result = format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}","content":"r"}}]}}}}"#
        );
        [answer, result]
    }

    fn read_all(transcript: &mut Transcript, lines: &[String]) -> Vec<Note> {
        let line = |text: &String| Line { offset: 0, text: text.clone() };
        lines.iter().flat_map(|text| transcript.read(&line(text))).collect()
    }

    #[test]
    fn turns_keep_their_numbers_over_a_gap() {
        let said = |id: &str, text: &str| {
            format!(
                r#"{{"type":"assistant","message":{{"id":"{id}","content":[{{"type":"text","text":"{text}"}}]}}}}"#
            )
        };
        let mut lines: Vec<String> = ["a", "b", "c"].into_iter().flat_map(turn_with_call).collect();
        lines.push(said("t", "So far."));
        lines.extend(turn_with_call("d"));
        let mut whole = Transcript::after(0, ProgramDialect::Claude);
        let first = read_all(&mut whole, &lines);
        let written: Vec<(u32, Vec<Block>)> = first
            .iter()
            .filter_map(|note| match note {
                Note::Turn { turn, blocks, .. } => Some((*turn, blocks.clone())),
                _ => None,
            })
            .collect();
        assert_eq!(written.len(), 5);

        // Another worker hears the first turn, and then the end alone.
        let mut torn = Transcript::after(0, ProgramDialect::Claude);
        let mut heard = read_all(&mut torn, &lines[..2]);
        torn.skip_to(5, written.iter().map(|(turn, blocks)| (*turn, blocks.as_slice())));
        heard.extend(read_all(&mut torn, &lines[5..]));
        let told = [
            "call a Bash in 1",
            "turn 1: 1 tool_use",
            "result a in 1: r false",
            "result c in 3: r false",
            "turn 4: 1 end_turn",
            "call d Bash in 5",
            "turn 5: 1 tool_use",
            "result d in 5: r false",
        ];
        assert_eq!(named(&heard), told);
        let new = read_all(&mut torn, &turn_with_call("e"));
        assert_eq!(
            named(&new),
            ["call e Bash in 6", "turn 6: 1 tool_use", "result e in 6: r false"]
        );
        assert_eq!(torn.turn(), 6);
    }

    #[test]
    fn a_turn_after_a_gap_takes_no_number_that_is_written() {
        let written = [Block::Text { text: "Lost in the gap.".into() }];
        let mut torn = Transcript::after(0, ProgramDialect::Claude);
        torn.skip_to(7, [(7, &written[..])]);
        let notes = read_all(&mut torn, &turn_with_call("z"));
        assert_eq!(
            named(&notes),
            ["call z Bash in 8", "turn 8: 1 tool_use", "result z in 8: r false"]
        );
    }

    #[test]
    fn a_turn_that_is_cut_off_is_kept() {
        let (mut transcript, notes) = notes(ProgramDialect::Claude, 0, &CLAUDE[..3]);
        assert_eq!(named(&notes), ["call t Bash in 1"]);
        assert_eq!(transcript.turn(), 1);
        let last: Vec<Note> = transcript.end_turn().into_iter().collect();
        assert_eq!(named(&last), ["turn 1: 2 tool_use"]);
        assert_eq!(transcript.end_turn(), None);
    }
}

//! What a scripted model answers.
//!
//! A conversation carries its own state: the number of tool results in it, or of
//! answers, says which turn is due. So one server serves any number of clients, and
//! a client that repeats a request gets the same answer. Only faults are counted,
//! over all clients of the server.

mod markers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;

pub(crate) use markers::Markers;

/// The whole script: turns, and scenes for requests that hold a certain text.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// What the list of models says.
    pub models: Vec<String>,
    pub pick: Pick,
    /// Refuse what providers refuse: unknown fields, roles that do not take turns,
    /// calls without results. Programs of others send more than is known here.
    pub strict: bool,
    #[serde(rename = "turn")]
    pub turns: Vec<Turn>,
    #[serde(rename = "scene")]
    pub scenes: Vec<Scene>,
}

/// What says which turn is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The number of tool results. The last turn is for all that come after.
    #[default]
    Results,
    /// The number of answers: turns may do without calls, and end.
    Answers,
}

/// Turns for requests whose body holds `when`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    pub when: String,
    #[serde(rename = "turn")]
    pub turns: Vec<Turn>,
}

/// One answer of the model.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Turn {
    /// What it thinks before it speaks, for clients that want to know.
    pub think: String,
    pub say: String,
    #[serde(rename = "call")]
    pub calls: Vec<Call>,
    pub usage: Usage,
    /// Why it stops, if not because it is done or calls something.
    pub stop: Option<Stop>,
    /// In how many pieces the text is streamed; a piece for each word if unset.
    pub pieces: Option<usize>,
    /// Silence before the first byte of the answer.
    pub delay_ms: u64,
    /// Silence between events.
    pub gap_ms: u64,
    pub fault: Option<Fault>,
    /// The fault strikes this often, then never again; always if unset.
    pub fault_times: Option<u32>,
    /// Instead: each of these strikes once, one after the other.
    pub faults: Vec<Fault>,
    #[serde(skip)]
    struck: AtomicU32,
}

/// A tool call: a command for whichever shell tool the client offers, a tool by its
/// name, arguments that need not be JSON, or a tool that nobody offers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub enum Call {
    Shell { shell: String },
    Tool { tool: String, input: BTreeMap<String, Value> },
    Raw { tool: String, arguments: String },
    Invented { invented: String, input: BTreeMap<String, Value> },
}

/// Why a model stops early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// It will not say this.
    Refusal,
    /// It has said as much as it may at once.
    Length,
}

/// Tokens, as Anthropic counts them: `input` is what no cache held.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cached: u64,
    pub written: u64,
}

/// What goes wrong instead of, or in the middle of, an answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[serde(tag = "kind")]
pub enum Fault {
    /// An error in the dialect's own form.
    Status {
        status: u16,
        code: Option<String>,
        retry_after: Option<u64>,
        should_retry: Option<bool>,
    },
    /// The connection is cut after so many events.
    Cut { after: usize },
    /// The answer ends after so many events, as if that were all of it.
    End { after: usize },
    /// The stream goes on forever without a byte, after so many events.
    Stall { after: usize },
    /// An error inside a stream that began with 200, after so many events.
    ErrorEvent { after: usize, code: Option<String> },
    /// The request's headers, credential included, come back.
    Echo { place: Place },
    /// Another place is named. A client that follows takes the credential along.
    Redirect { status: u16, to: String },
    /// The answer never ends: events, or one line that never ends.
    Endless { what: Endless },
    /// The answer is compressed although nobody asked.
    Gzip,
    /// This many bytes of zeros, compressed.
    GzipBomb { megabytes: u64 },
    /// So many informational responses before the answer; 0 for endless.
    Informational { count: u64 },
    /// The answer says nothing of what it used.
    NoUsage,
    /// Bytes that are not of any dialect, with 200.
    Garbage,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In the message of an error.
    Body,
    /// In the headers of an answer that is fine otherwise.
    Headers,
    /// In the text of the answer.
    Text,
    /// In the text of the answer, where a stream has its seams.
    Split,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Endless {
    Events,
    Line,
}

impl Script {
    /// Reads TOML, or JSON if the file's name says so.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the script `{}`", path.display()))?;
        let script = if path.extension().is_some_and(|end| end == "json") {
            serde_json::from_str(&text).map_err(anyhow::Error::from).and_then(Self::checked)
        } else {
            Self::parse(&text)
        };
        script.with_context(|| format!("the script `{}` is not valid", path.display()))
    }

    /// Reads TOML.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        Self::checked(toml::from_str(text)?)
    }

    /// One shell command, then an answer: what most tests want.
    pub fn shell(command: &str, answer: &str) -> Self {
        let call = Call::Shell { shell: command.to_owned() };
        let first = Turn { say: "I will look.".to_owned(), calls: vec![call], ..Turn::default() };
        let last = Turn { say: answer.to_owned(), ..Turn::default() };
        Self { turns: vec![first, last], ..Self::default() }
    }

    fn checked(self) -> anyhow::Result<Self> {
        let scenes = self.scenes.iter().map(|scene| &scene.turns);
        for turns in scenes.chain([&self.turns]) {
            let early = turns.iter().rev().skip(1).any(|turn| turn.calls.is_empty());
            if early && self.pick == Pick::Results {
                bail!("only the last turn may be without calls: the number of results picks it");
            }
            for turn in turns {
                turn.check()?;
            }
        }
        Ok(self)
    }

    /// The turn that is due in a conversation with so many tool results and answers.
    pub(crate) fn turn(
        &self,
        body: &[u8],
        results: usize,
        answers: usize,
    ) -> Option<(usize, &Turn)> {
        let scene = self.scenes.iter().find(|scene| holds(body, scene.when.as_bytes()));
        let turns = scene.map_or(&self.turns, |scene| &scene.turns);
        if self.pick == Pick::Answers {
            return turns.get(answers).map(|turn| (answers, turn));
        }
        let mut before = 0;
        let mut due = None;
        for (index, turn) in turns.iter().enumerate() {
            if before > results {
                break;
            }
            due = Some((index, turn));
            before += turn.calls.len();
        }
        due
    }
}

impl Turn {
    fn check(&self) -> anyhow::Result<()> {
        if !self.faults.is_empty() && self.fault.is_some() {
            bail!("a turn has either one fault or a list of them");
        }
        Markers::check(&self.say)?;
        Markers::check(&self.think)?;
        for call in &self.calls {
            match call {
                Call::Shell { shell: text } | Call::Raw { arguments: text, .. } => {
                    Markers::check(text)?;
                }
                Call::Tool { input, .. } | Call::Invented { input, .. } => {
                    Markers::check(&serde_json::to_string(input)?)?
                }
            }
        }
        Ok(())
    }

    /// The fault, if it strikes this time.
    pub(crate) fn strike(&self) -> Option<&Fault> {
        if !self.faults.is_empty() {
            let struck = self.struck.fetch_add(1, Ordering::SeqCst);
            return self.faults.get(struck as usize);
        }
        let fault = self.fault.as_ref()?;
        let Some(times) = self.fault_times else { return Some(fault) };
        let more = |struck: u32| (struck < times).then(|| struck + 1);
        self.struck.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok().map(|_| fault)
    }

    /// What it says, with its markers filled in, as it is streamed.
    pub(crate) fn pieces(&self, markers: &Markers) -> Vec<String> {
        let say = markers.fill(&self.say);
        let words: Vec<&str> = say.split_inclusive(' ').collect();
        let pieces = self.pieces.unwrap_or(words.len()).clamp(1, words.len().max(1));
        let size = words.len().div_ceil(pieces).max(1);
        words.chunks(size).map(<[&str]>::concat).collect()
    }
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 1000, output: 50, cached: 0, written: 0 }
    }
}

/// Whether `needle` occurs in `bytes`.
pub(crate) fn holds(bytes: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && bytes.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = r#"
        [[turn]]
        say = "one two three"
        pieces = 2
        call = [{ shell = "true" }, { tool = "look", input = { at = 3 } }]
        fault = { kind = "status", status = 429, retry-after = 1 }
        fault-times = 1
        [[turn]]
        call = [{ shell = "false" }]
        [[turn]]
        say = "done"
        [[scene]]
        when = "other"
        [[scene.turn]]
        say = "elsewhere"
    "#;

    #[test]
    fn results_pick_the_turn() {
        let script = Script::parse(SCRIPT).unwrap();
        let due = |body: &str, results| script.turn(body.as_bytes(), results, 0).unwrap().0;
        assert_eq!([0, 1, 2, 3, 9].map(|results| due("", results)), [0, 0, 1, 2, 2]);
        assert_eq!(script.turn(b"an other", 3, 0).unwrap().1.say, "elsewhere");
    }

    #[test]
    fn answers_pick_the_turn_until_there_is_none() {
        let script = "pick = \"answers\"\n[[turn]]\nsay = \"a\"\n[[turn]]\nsay = \"b\"";
        let script = Script::parse(script).unwrap();
        let due = |answers| script.turn(b"", 7, answers).map(|(_, turn)| turn.say.as_str());
        assert_eq!([0, 1, 2].map(due), [Some("a"), Some("b"), None]);
    }

    #[test]
    fn a_fault_strikes_as_often_as_it_says() {
        let script = Script::parse(SCRIPT).unwrap();
        assert!(matches!(script.turns[0].strike(), Some(Fault::Status { status: 429, .. })));
        assert!(script.turns[0].strike().is_none());
        let list = "[[turn]]\nfaults = [{ kind = \"garbage\" }, { kind = \"cut\", after = 2 }]";
        let script = Script::parse(list).unwrap();
        assert!(matches!(script.turns[0].strike(), Some(Fault::Garbage)));
        assert!(matches!(script.turns[0].strike(), Some(Fault::Cut { after: 2 })));
        assert!(script.turns[0].strike().is_none());
    }

    #[test]
    fn text_is_whole_in_its_pieces() {
        let script = Script::parse(SCRIPT).unwrap();
        let pieces = |turn: &Turn| turn.pieces(&Markers::default());
        assert_eq!(pieces(&script.turns[0]), ["one two ", "three"]);
        assert_eq!(pieces(&script.turns[1]), Vec::<String>::new());
    }

    #[test]
    fn scripts_that_come_along_are_valid() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
        assert_eq!(Script::load(&dir.join("shell.toml")).unwrap().turns.len(), 2);
        assert_eq!(Script::load(&dir.join("conversation.toml")).unwrap().pick, Pick::Answers);
        let faults = Script::load(&dir.join("faults.toml")).unwrap();
        assert!(faults.scenes.iter().all(|scene| scene.turns[0].fault.is_some()));
        // A scene whose word begins another's would be played in its place.
        for (index, scene) in faults.scenes.iter().enumerate() {
            let earlier = &faults.scenes[..index];
            assert!(
                !earlier.iter().any(|other| scene.when.contains(&other.when)),
                "{}",
                scene.when
            );
        }
    }

    #[test]
    fn mistakes_are_refused() {
        assert!(Script::parse("[[turn]]\nsya = \"x\"").is_err());
        assert!(Script::parse("[[turn]]\nsay = \"x\"\n[[turn]]\nsay = \"y\"").is_err());
        assert!(Script::parse("[[turn]]\nsay = \"{{reslut}}\"").is_err());
    }
}

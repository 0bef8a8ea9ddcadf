//! What a scripted model answers.
//!
//! A conversation carries its own state: the number of tool results in it says
//! which turn is due. So one server serves any number of clients, and a client
//! that repeats a request gets the same answer. Only `fault-times` counts, over
//! all clients of the server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;

/// The whole script: turns, and scenes for requests that hold a certain text.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// What the list of models says.
    pub models: Vec<String>,
    #[serde(rename = "turn")]
    pub turns: Vec<Turn>,
    #[serde(rename = "scene")]
    pub scenes: Vec<Scene>,
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
    pub say: String,
    #[serde(rename = "call")]
    pub calls: Vec<Call>,
    pub usage: Usage,
    /// In how many pieces the text is streamed; a piece for each word if unset.
    pub pieces: Option<usize>,
    /// Silence before the first byte of the answer.
    pub delay_ms: u64,
    /// Silence between events.
    pub gap_ms: u64,
    pub fault: Option<Fault>,
    /// The fault strikes this often, then never again; always if unset.
    pub fault_times: Option<u32>,
    #[serde(skip)]
    struck: AtomicU32,
}

/// A tool call: a command for whichever shell tool the client offers, or a tool
/// by its name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub enum Call {
    Shell { shell: String },
    Tool { tool: String, input: BTreeMap<String, Value> },
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
            if early {
                bail!("only the last turn may be without calls: the number of results picks it");
            }
        }
        Ok(self)
    }

    /// The turn that is due in a conversation with so many tool results.
    pub(crate) fn turn(&self, body: &[u8], results: usize) -> Option<(usize, &Turn)> {
        let scene = self.scenes.iter().find(|scene| holds(body, scene.when.as_bytes()));
        let turns = scene.map_or(&self.turns, |scene| &scene.turns);
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
    /// The fault, if it strikes this time.
    pub(crate) fn strike(&self) -> Option<&Fault> {
        let fault = self.fault.as_ref()?;
        let Some(times) = self.fault_times else { return Some(fault) };
        let more = |struck: u32| (struck < times).then(|| struck + 1);
        self.struck.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok().map(|_| fault)
    }

    /// The text, as it is streamed. Never empty.
    pub(crate) fn pieces(&self) -> Vec<String> {
        let words: Vec<&str> = self.say.split_inclusive(' ').collect();
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
        let due = |body: &str, results| script.turn(body.as_bytes(), results).unwrap().0;
        assert_eq!([0, 1, 2, 3, 9].map(|results| due("", results)), [0, 0, 1, 2, 2]);
        assert_eq!(script.turn(b"an other", 3).unwrap().1.say, "elsewhere");
    }

    #[test]
    fn a_fault_strikes_as_often_as_it_says() {
        let script = Script::parse(SCRIPT).unwrap();
        assert!(matches!(script.turns[0].strike(), Some(Fault::Status { status: 429, .. })));
        assert!(script.turns[0].strike().is_none());
    }

    #[test]
    fn text_is_whole_in_its_pieces() {
        let script = Script::parse(SCRIPT).unwrap();
        assert_eq!(script.turns[0].pieces(), ["one two ", "three"]);
        assert_eq!(script.turns[1].pieces(), Vec::<String>::new());
    }

    #[test]
    fn scripts_that_come_along_are_valid() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
        assert_eq!(Script::load(&dir.join("shell.toml")).unwrap().turns.len(), 2);
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
    }
}

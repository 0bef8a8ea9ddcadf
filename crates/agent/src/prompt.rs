//! The words that the model is told, as files with a version.
//!
//! A version that has been used is never changed: a run goes on with the words that
//! it began with, and its journal names their digest. A change is a new version.

use belljar_journal::RunView;
use belljar_journal::event::{Budget, Injected, NetworkAccess, Prompt, RunCreated};
use belljar_objects::Digest;
use belljar_pipeline::AgentKind;
use time::OffsetDateTime;

use crate::brief;
use crate::budget::described;
use crate::network;

/// The newest prompt, by name and version.
pub const PROMPT: (&str, &str) = ("react", "2");

/// One version of the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texts {
    name: &'static str,
    version: &'static str,
    system: &'static str,
    first: &'static str,
    turns_left_3: &'static str,
    turns_left_1: &'static str,
    last: &'static str,
    restored: &'static str,
    repair: &'static str,
    network: Option<NetworkTexts>,
    roles: Option<RoleTexts>,
}

/// The rules of each agent of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoleTexts {
    pub(crate) planner: &'static str,
    pub(crate) coder: &'static str,
    pub(crate) debugger: &'static str,
}

/// Texts about the network, for runs that have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NetworkTexts {
    network: &'static str,
    operations: &'static str,
}

const REACT_1: Texts = Texts {
    name: "react",
    version: "1",
    system: include_str!("../prompts/react/1/system.md"),
    first: include_str!("../prompts/react/1/first.md"),
    turns_left_3: include_str!("../prompts/react/1/turns-left-3.md"),
    turns_left_1: include_str!("../prompts/react/1/turns-left-1.md"),
    last: include_str!("../prompts/react/1/final.md"),
    restored: include_str!("../prompts/react/1/restored.md"),
    repair: include_str!("../prompts/react/1/repair.md"),
    network: None,
    roles: None,
};

/// The same for runs with a network. The rest have the shorter one, which says that there is none.
const REACT_NETWORK_1: Texts = Texts {
    name: "react-network",
    system: include_str!("../prompts/react-network/1/system.md"),
    network: Some(NetworkTexts {
        network: include_str!("../prompts/react-network/1/network.md"),
        operations: include_str!("../prompts/react-network/1/operations.md"),
    }),
    ..REACT_1
};

/// With the way to show charts in reports.
const REACT_2: Texts =
    Texts { version: "2", system: include_str!("../prompts/react/2/system.md"), ..REACT_1 };

/// Also with operations for git, and approvals.
const REACT_NETWORK_2: Texts = Texts {
    name: "react-network",
    system: include_str!("../prompts/react-network/2/system.md"),
    network: Some(NetworkTexts {
        network: include_str!("../prompts/react-network/1/network.md"),
        operations: include_str!("../prompts/react-network/2/operations.md"),
    }),
    ..REACT_2
};

/// For runs of several agents. What is said of a network is the same.
const PIPELINE_1: Texts = Texts {
    name: "pipeline",
    repair: include_str!("../prompts/pipeline/1/repair.md"),
    roles: Some(RoleTexts {
        planner: include_str!("../prompts/pipeline/1/planner.md"),
        coder: include_str!("../prompts/pipeline/1/coder.md"),
        debugger: include_str!("../prompts/pipeline/1/debugger.md"),
    }),
    ..REACT_NETWORK_1
};

const ALL: &[Texts] = &[REACT_1, REACT_NETWORK_1, REACT_2, REACT_NETWORK_2, PIPELINE_1];

/// What a run's words are about, read once when somebody begins to work on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub texts: Texts,
    /// The network access of its sandboxes.
    pub network: NetworkAccess,
    /// The owner's skills and instructions; empty: there are none.
    pub brief: String,
    /// What is said of the datasets; empty: there are none.
    pub data: String,
}

impl Facts {
    /// Those of a run with these events and this description of its data.
    pub fn of(texts: Texts, run: &RunView, data: String) -> Self {
        let wish = run.created.as_ref().and_then(|created| created.wish.as_ref());
        let brief = wish.map(|wish| brief::describe(&wish.brief)).unwrap_or_default();
        Self { texts, network: run.network.clone(), brief, data }
    }
}

impl Texts {
    /// The newest.
    pub fn newest() -> Self {
        REACT_2
    }

    /// The newest for runs with this network access.
    pub fn newest_for(access: &NetworkAccess) -> Self {
        if access.is_connected() { REACT_NETWORK_2 } else { Self::newest() }
    }

    /// The newest for runs of this agent.
    pub fn newest_of(agent: AgentKind, access: &NetworkAccess) -> Self {
        if agent.is_pipeline() { PIPELINE_1 } else { Self::newest_for(access) }
    }

    /// The rules of the agents of a pipeline; none: there is one model.
    pub(crate) fn roles(&self) -> Option<RoleTexts> {
        self.roles
    }

    /// Those that a run began with; none: this version does not have them.
    pub fn of(prompt: &Prompt) -> Option<Self> {
        ALL.iter().copied().find(|texts| texts.prompt() == *prompt)
    }

    /// How a journal names them.
    pub fn prompt(&self) -> Prompt {
        let mut all = vec![
            self.system,
            self.first,
            self.turns_left_3,
            self.turns_left_1,
            self.last,
            self.restored,
            self.repair,
        ];
        all.extend(self.network.iter().flat_map(|texts| [texts.network, texts.operations]));
        all.extend(self.roles.iter().flat_map(|it| [it.planner, it.coder, it.debugger]));
        Prompt {
            name: self.name.to_owned(),
            version: self.version.to_owned(),
            sha256: Digest::of(all.join("\0").as_bytes()),
        }
    }

    /// The same for every run, so that providers have it in their caches.
    pub(crate) fn system(&self) -> &'static str {
        self.system.trim_end()
    }

    /// The network that there is; none: the rules say already that there is none.
    pub(crate) fn network(&self, access: &NetworkAccess) -> Option<String> {
        let texts = self.network?;
        let names: Vec<String> = access.operations.iter().map(|name| format!("`{name}`")).collect();
        let operations = match names.is_empty() {
            true => "No operation of the gateway can be called.".to_owned(),
            false => filled(texts.operations, &[("names", &names.join(", "))]),
        };
        let hosts = network::hosts(access);
        Some(filled(texts.network, &[("hosts", &hosts), ("operations", &operations)]))
    }

    /// What is different in every run: the day, the budget, the question.
    pub(crate) fn first(&self, created: &RunCreated) -> String {
        filled(
            self.first,
            &[
                ("anchor", &anchor(created.now)),
                ("budget", &described(&created.budget)),
                ("question", created.question.trim()),
            ],
        )
    }

    pub(crate) fn turns_left(&self, left: u32) -> (Injected, String) {
        match left {
            1 => (Injected::TurnsLeft1, filled(self.turns_left_1, &[])),
            _ => (Injected::TurnsLeft3, filled(self.turns_left_3, &[("left", &left.to_string())])),
        }
    }

    pub(crate) fn last(&self, why: &str) -> String {
        filled(self.last, &[("why", why)])
    }

    pub(crate) fn restored(&self) -> String {
        filled(self.restored, &[])
    }

    pub(crate) fn repair(&self) -> String {
        filled(self.repair, &[])
    }

    pub(crate) fn budget(budget: &Budget) -> String {
        format!("The budget has changed. {}", described(budget))
    }
}

/// What "now" is, with all that follows from it and that models get wrong.
pub(crate) fn anchor(now: OffsetDateTime) -> String {
    let monday = now.date() - time::Duration::days(now.weekday().number_days_from_monday().into());
    let quarter = (u8::from(now.month()) - 1) / 3 + 1;
    format!(
        "Now is {}, {} {}, {}, {:02}:{:02} UTC ({}). The week began on Monday, {monday}; the quarter is Q{quarter} {}.",
        now.weekday(),
        now.month(),
        now.day(),
        now.year(),
        now.hour(),
        now.minute(),
        now.date(),
        now.year(),
    )
}

/// Fills in each mark once, in one pass: what is filled in is not looked at again.
fn filled(text: &str, values: &[(&str, &str)]) -> String {
    let mut rest = text.trim_end();
    let mut whole = String::new();
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        whole.push_str(before);
        whole.push_str(values.iter().find(|(known, _)| *known == name).map_or("", |(_, v)| v));
        rest = after;
    }
    whole + rest
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// What was once used stays as it is: a change of words is a new version.
    #[test]
    fn a_version_keeps_its_words() {
        let digests: Vec<String> = ALL
            .iter()
            .map(|texts| format!("{}/{} {}", texts.name, texts.version, texts.prompt().sha256))
            .collect();
        expect![[r#"
            react/1 792fb99eb4d24f86de5c2ef2171b7500542e3b2e7e691450c576e61e74cb3a18
            react-network/1 e64b002883820ca6ce25f9138fff4763acfab50bf6d08a0ed8249b2a1c7b1a02
            react/2 4008107c3c7f939f9bccea3e43c9f88b108077703ad6977ef67f126b78a73106
            react-network/2 dd3c9b3cd7985aa45508a007bd989fa864a3cf116fce4959481f185696164e3f
            pipeline/1 03b5d33f444e542235c5ef8c420b2d31db99df7d5dfbd6530256e2e6c9ac8180"#]]
        .assert_eq(&digests.join("\n"));
    }

    #[test]
    fn the_newest_version_is_the_named_one() {
        let prompt = Texts::newest().prompt();
        assert_eq!((prompt.name.as_str(), prompt.version.as_str()), PROMPT);
        assert_eq!(Texts::of(&prompt), Some(Texts::newest()));
        assert_eq!(Texts::of(&Prompt { version: "0".into(), ..prompt }), None);
    }

    /// Each prompt says what earlier runs have taught.
    /// Requirements: A5
    #[test]
    fn the_prompt_says_what_was_learned() {
        for system in ALL.iter().filter(|texts| texts.roles.is_none()).map(Texts::system) {
            says_what_was_learned(system);
        }
        for (alone, connected) in [(REACT_1, REACT_NETWORK_1), (REACT_2, REACT_NETWORK_2)] {
            assert!(alone.system().contains("has no network"));
            assert!(!connected.system().contains("no network"));
        }
        assert!(REACT_2.system().contains("](chart:FILE)"));
        assert!(REACT_NETWORK_2.system().contains("](chart:FILE)"));
    }

    fn says_what_was_learned(system: &str) {
        for (what, words) in [
            ("execution model", "keeps its state"),
            ("fresh execution", "\"fresh\": true"),
            ("batching", "Do several things in one piece of code"),
            ("no redundant checks", "Do not check again what has been checked"),
            ("temporal anchoring", "Wednesday, January 7"),
            ("temporal anchoring", "the week of March 16"),
            ("dates verified in code", "with Python's `datetime`"),
            ("join rules", "An empty join is never a finding"),
            ("no placeholders", "No placeholders"),
            ("truncation", "4,000 characters"),
            ("one-line loading", "load_data()"),
        ] {
            assert!(system.contains(words), "{what}");
        }
        // Whatever is different from day to day, or from run to run, is not here.
        assert!(!system.contains("{{"));
    }

    /// A run is told the network that it has, and how to call its operations.
    #[test]
    fn the_network_and_the_operations_are_named() {
        let access = NetworkAccess {
            operations: vec!["search".into(), "llm:chat".into()],
            ..NetworkAccess::default()
        };
        assert_eq!(Texts::newest_for(&NetworkAccess::default()), REACT_2);
        let texts = Texts::newest_for(&access);
        assert_eq!(texts, REACT_NETWORK_2);
        let text = texts.network(&access).unwrap();
        for words in [
            "No host can be reached",
            "`search`, `llm:chat`",
            "$BELLJAR_GATEWAY/operations/NAME/PATH",
            "BELLJAR_TOKEN_FILE",
            "x-belljar-reason",
            "`git push`",
            "until a human approves it",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("{{"), "{text}");
        // The example is code as it is, with its braces.
        assert!(text.contains("{os.environ['BELLJAR_GATEWAY']}"), "{text}");
        assert_eq!(REACT_1.network(&NetworkAccess::default()), None);
    }

    #[test]
    fn the_first_message_has_the_day_the_budget_and_the_question() {
        let created = RunCreated {
            question: " Which {{budget}} deals slipped? ".into(),
            datasets: vec![],
            model: "m".into(),
            prompt: REACT_1.prompt(),
            budget: Budget { turns: Some(30), ..Budget::default() },
            now: OffsetDateTime::from_unix_timestamp(1_773_997_500).unwrap(),
            wish: None,
        };
        expect![[r#"
            Now is Friday, March 20, 2026, 09:05 UTC (2026-03-20). The week began on Monday, 2026-03-16; the quarter is Q1 2026.

            Budget: 30 turns.

            Question: Which {{budget}} deals slipped?"#]]
        .assert_eq(&REACT_1.first(&created));
    }

    #[test]
    fn warnings_say_how_much_is_left() {
        expect!["You have only 3 turns remaining. Write your final result NOW: write result.md and call finish."]
            .assert_eq(&REACT_1.turns_left(3).1);
        assert_eq!(REACT_1.turns_left(1).0, Injected::TurnsLeft1);
        assert!(
            REACT_1.last("All 30 turns are used.").starts_with("All 30 turns are used. No tool")
        );
    }
}

use belljar_domain::{ChosenLimits, EndReason, SandboxId, Sequence};
use belljar_journal::event::{
    Block, Brief, Budget, Environment, LlmRequested, SandboxAttached, SnapshotRefused,
    SnapshotTaken, ToolFinished, ToolIntended, Used, Wish,
};
use belljar_journal::{CallState, RunView};
use belljar_objects::Digest;
use belljar_pipeline::{Language, Output, PlanRequest, code, plan};
use belljar_provider::{Conversation, Heuristic, Options, Provider};
use serde_json::{Value, json};

use super::*;
use crate::compose::compose;
use crate::decide::{Step, decide};
use crate::invented::{self, Log, moment};
use crate::prompt::{Facts, Texts};
use crate::story::Story;

const QUESTION: &str = "Write a Python script that computes the mean of the secret list";

/// A pipeline run that is written down step by step.
struct Tale(Log);

impl Tale {
    fn of(agent: AgentKind, models: RoleModels, artifact: Option<CodeArtifact>) -> Self {
        let artifact = artifact.map(Box::new);
        let brief = Brief { agent, models, artifact, ..Brief::default() };
        let mut log = Log(Vec::new());
        let wish: Wish = serde_json::from_value(json!({ "template": "t" })).unwrap();
        log.add(belljar_journal::event::RunCreated {
            question: QUESTION.into(),
            prompt: Texts::newest_of(agent, &Default::default()).prompt(),
            wish: Some(Wish { brief: Box::new(brief), ..wish }),
            ..invented::created(Budget { turns: Some(30), ..Budget::default() })
        });
        Self(log)
    }

    fn new() -> Self {
        Self::of(AgentKind::Pipeline, RoleModels::default(), None)
    }

    fn story(&self) -> Story {
        Story::of(&self.0.0)
    }

    fn pipeline(&self) -> Pipeline {
        self.story().pipeline.unwrap()
    }

    /// The next step, as text.
    #[track_caller]
    fn step(&self) -> String {
        format!("{:?}", decide(&self.story(), moment(self.0.0.len() as u64 + 1)))
    }

    fn facts(&self) -> Facts {
        let texts = Texts::newest_of(AgentKind::Pipeline, &Default::default());
        Facts::of(texts, &RunView::of(&self.0.0), "# Data\n\n`deals.csv`".into())
    }

    fn conversation(&self) -> Conversation {
        compose(&self.0.0, &self.facts())
    }

    /// An agent says something, and hands in what it called.
    fn answer(&mut self, tool: &str, input: Value) {
        let turn = self.story().view.turns + 1;
        let asked = self.0.ask(turn, false);
        let blocks = vec![Block::ToolUse { id: format!("c{turn}"), name: tool.into(), input }];
        self.0.add(invented::responded(turn, asked, blocks));
    }

    fn end(&mut self, id: &str, fault: Option<(&str, &str)>, shown: &str) {
        let view = self.story().view;
        let call = view.calls.iter().find(|call| call.call.id == id).unwrap().call.clone();
        let fault = fault.map(|(category, message)| ToolFault {
            category: category.into(),
            message: message.into(),
        });
        let (name, arguments) = (String::new(), Digest::of(b""));
        self.0.add(ToolIntended { call: call.clone(), name, arguments });
        self.0.add(ToolFinished {
            call,
            exec: None,
            reason: EndReason::Done,
            exit_code: Some(i32::from(fault.is_some())),
            shown: shown.into(),
            cut: None,
            outputs: vec![],
            fault,
            used: Used::default(),
        });
    }

    /// An agent's message is taken.
    fn hand_in(&mut self, message: Message) {
        let role = self.pipeline().role();
        let mut input = serde_json::to_value(&message).unwrap();
        input.as_object_mut().unwrap().remove("type");
        self.answer(role.tool(), input);
        let turn = self.story().view.turns;
        self.send(message, turn);
        self.end(&format!("c{turn}"), None, "Accepted.");
    }

    fn send(&mut self, message: Message, turn: u32) {
        let pipeline = self.pipeline();
        let (round, attempt) = (pipeline.round, pipeline.next_attempt(&message));
        self.0.add(StageMessage { turn, round, attempt, message });
    }

    /// Writes messages down until another step is due.
    fn settle(&mut self) {
        while let Step::Send(message) = decide(&self.story(), moment(self.0.0.len() as u64 + 1)) {
            let pipeline = self.pipeline();
            let turn = pipeline.current.as_ref().map_or(1, |attempt| attempt.turn);
            self.send(*message, turn);
        }
    }

    fn attach(&mut self, number: u32, restored: bool) {
        let sandbox = SandboxId::from_random([u8::try_from(number).unwrap(); 16]);
        let taken = SnapshotTaken { snapshot: "s".into(), after: Sequence(1) };
        self.0.add(SandboxAttached {
            sandbox,
            number,
            template: "t".into(),
            restored: restored.then_some(taken),
            data: None,
            environment: None,
        });
    }
}

fn planned() -> Plan {
    Plan {
        language: Language::Python,
        dependencies: vec![],
        task: "mean of numbers".into(),
        steps: vec![],
        inputs: vec![],
        output: Output::Text,
    }
}

fn program(code: &str, install: Option<&str>) -> CodeArtifact {
    CodeArtifact {
        filename: "main.py".into(),
        code: code.into(),
        install_command: install.map(str::to_owned),
        run_command: "python main.py".into(),
        install_seconds: None,
        run_seconds: None,
        memory_bytes: None,
    }
}

fn diagnosed(code: &str) -> Message {
    let artifact = program(code, None);
    let (category, cause) = (Category::Syntax, "a colon".to_owned());
    Message::Diagnosis(belljar_pipeline::Diagnosis { category, cause, artifact })
}

/// A conversation, as text.
fn text(conversation: &Conversation) -> String {
    serde_json::to_string(conversation).unwrap()
}

#[test]
fn a_program_that_works_is_the_answer() {
    let mut tale = Tale::new();
    assert!(tale.step().starts_with("Ask"), "{}", tale.step());
    tale.hand_in(Message::Plan(planned()));
    assert!(tale.step().starts_with("Ask"));
    tale.hand_in(Message::Code(program("print(1)", None)));
    assert!(tale.step().starts_with("Intend"));
    tale.attach(1, false);
    assert!(tale.pipeline().has_sandbox(false) && !tale.pipeline().has_sandbox(true));
    tale.end(RUN_CALL, None, "1");
    tale.settle();
    let step = tale.step();
    assert!(step.contains("Answered") && step.contains("Some(\"1\")"), "{step}");
}

#[test]
fn the_coder_and_the_debugger_never_see_the_sentence() {
    let mut tale = Tale::new();
    let planner = text(&tale.conversation());
    assert!(planner.contains("secret") && planner.contains("submit_plan"));
    assert!(planner.contains("deals.csv"));
    tale.hand_in(Message::Plan(planned()));
    let coder = text(&tale.conversation());
    assert!(!coder.contains("secret") && coder.contains("mean of numbers"), "{coder}");
    assert!(coder.contains("deals.csv") && !coder.contains("submit_plan"));
    tale.hand_in(Message::Code(program("print(2", None)));
    tale.attach(1, false);
    tale.end(RUN_CALL, Some(("syntax", "SyntaxError: '(' was never closed")), "SyntaxError");
    tale.settle();
    let debugger = text(&tale.conversation());
    assert!(!debugger.contains("secret"), "{debugger}");
    for part in ["mean of numbers", "print(2", "was never closed", "submit_diagnosis"] {
        assert!(debugger.contains(part), "{part}");
    }
}

#[test]
fn three_attempts_fail_and_a_human_is_asked() {
    let mut tale = Tale::new();
    tale.hand_in(Message::Plan(planned()));
    tale.hand_in(Message::Code(program("a", None)));
    for attempt in 1..=3 {
        assert_eq!(tale.pipeline().current.unwrap().number, attempt);
        assert!(!tale.pipeline().has_sandbox(false), "each attempt has a sandbox of its own");
        tale.attach(attempt, false);
        tale.end(RUN_CALL, Some(("exception", "Error: no")), "Error: no");
        tale.settle();
        if attempt < 3 {
            assert!(tale.step().starts_with("Ask"));
            tale.hand_in(diagnosed(&format!("b{attempt}")));
        }
    }
    let view = tale.story().view;
    let asked = view.unfinished().unwrap();
    assert_eq!((asked.call.id.as_str(), asked.name.as_str()), (QUESTION_CALL, "ask_human"));
    let question = asked.input["question"].as_str().unwrap();
    assert!(question.starts_with("All 3 attempts failed."), "{question}");

    // An answer begins a new round; the programs of the last one stay known.
    let mut hinted = Tale(Log(tale.0.0.clone()));
    hinted.end(QUESTION_CALL, None, "use the median");
    assert_eq!((hinted.pipeline().round, hinted.pipeline().role()), (2, Role::Planner));
    assert!(text(&hinted.conversation()).contains("use the median"));
    assert!(hinted.step().starts_with("Ask"));
    assert!(hinted.pipeline().is_repeated(&program("a # once more", None)));

    tale.end(QUESTION_CALL, None, "Give up.");
    let step = tale.step();
    assert!(step.contains("Failed") && step.contains("Attempt 3: exception"), "{step}");
}

#[test]
fn an_attempt_after_an_installation_is_a_fork_of_its_checkpoint() {
    let mut tale = Tale::new();
    tale.hand_in(Message::Plan(planned()));
    tale.hand_in(Message::Code(program("a", Some("pip install x"))));
    tale.attach(1, false);
    tale.end(INSTALL_CALL, None, "installed");
    assert!(tale.pipeline().lacks_checkpoint());
    let mut refused = Tale(Log(tale.0.0.clone()));
    tale.0.add(SnapshotTaken { snapshot: "s".into(), after: Sequence(9) });
    assert_eq!(tale.pipeline().checkpoint(), Some("s"));
    assert!(!tale.pipeline().has_sandbox(true));
    tale.attach(2, true);
    assert!(tale.pipeline().has_sandbox(true));
    tale.end(RUN_CALL, Some(("exception", "no")), "no");
    tale.settle();
    let result = tale.pipeline().tried[0].result.clone();
    assert_eq!(result.sandbox, Preparation::Checkpoint);
    // The same installation is used again, another one is not.
    let next = |tale: &Tale, artifact| {
        let mut next = Tale(Log(tale.0.0.clone()));
        let (category, cause) = (Category::Exception, "c".to_owned());
        next.hand_in(Message::Diagnosis(belljar_pipeline::Diagnosis { category, cause, artifact }));
        next.pipeline()
    };
    let same = next(&tale, program("b", Some("pip install x")));
    assert_eq!(same.checkpoint(), Some("s"));
    assert!(!same.has_sandbox(true));
    let other = next(&tale, program("b", Some("pip install y")));
    assert_eq!((other.checkpoint(), other.lacks_checkpoint()), (None, true));
    let larger =
        CodeArtifact { memory_bytes: Some(1 << 30), ..program("b", Some("pip install x")) };
    assert_eq!(next(&tale, larger).checkpoint(), None);
    assert_eq!(next(&tale, program("b", None)).checkpoint(), None);

    // Without checkpoints, the program runs in the sandbox with the packages.
    refused.0.add(SnapshotRefused { after: Sequence(9), reason: "not here".into() });
    assert!(!refused.pipeline().lacks_checkpoint() && refused.pipeline().has_sandbox(false));
    refused.end(RUN_CALL, None, "1");
    refused.settle();
    let result = refused.pipeline().tried[0].result.clone();
    assert_eq!(result.sandbox, Preparation::Installed);
    assert_eq!(result.no_checkpoint.as_deref(), Some("not here"));
}

#[test]
fn an_installation_that_fails_is_the_failure_of_the_attempt() {
    let mut tale = Tale::new();
    tale.hand_in(Message::Plan(planned()));
    tale.hand_in(Message::Code(program("a", Some("pip install x"))));
    tale.attach(1, false);
    tale.end(INSTALL_CALL, Some(("install", "no network")), "ERROR: no network");
    assert!(tale.pipeline().is_uninstalled());
    tale.end(RUN_CALL, None, "The installation failed.");
    tale.settle();
    let result = tale.pipeline().tried[0].result.clone();
    assert_eq!((result.success, result.category), (false, Some(Category::Install)));
    assert_eq!(result.error.as_deref(), Some("no network"));
}

#[test]
fn answers_that_cannot_be_used_are_repaired_twice_by_larger_models() {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let models = RoleModels {
        planner: list(&["small", "large"]),
        debugger: list(&["middle", "large"]),
        ..RoleModels::default()
    };
    let mut tale = Tale::of(AgentKind::Pipeline, models, None);
    for (refused, model) in [(0, "small"), (1, "large"), (2, "large")] {
        assert!(tale.step().starts_with("Ask"), "{refused}");
        assert_eq!(tale.pipeline().model(), Some(model));
        tale.answer("submit_plan", json!({}));
        let turn = tale.story().view.turns;
        tale.end(&format!("c{turn}"), Some(("arguments", "no task")), "no task");
        assert!(text(&tale.conversation()).contains("no task"));
    }
    tale.settle();
    let question = tale.story().view.unfinished().unwrap().input["question"].clone();
    assert!(question.as_str().unwrap().contains("the planner gave no usable answer"), "{question}");

    tale.end(QUESTION_CALL, None, "again");
    tale.hand_in(Message::Plan(planned()));
    assert_eq!(tale.pipeline().model(), None, "the run's");
    tale.hand_in(Message::Code(program("a", None)));
    for (attempt, model) in [(1, "middle"), (2, "large")] {
        tale.attach(attempt, false);
        tale.end(RUN_CALL, Some(("exception", "no")), "no");
        tale.settle();
        assert_eq!(tale.pipeline().model(), Some(model));
        tale.hand_in(diagnosed(&format!("b{attempt}")));
    }
}

/// A model may call its tool twice at once. That is one answer, and it may repair it twice.
#[test]
fn an_answer_with_two_calls_that_cannot_be_used_is_one_answer() {
    let mut tale = Tale::new();
    for refused in 1..=2 {
        assert!(tale.step().starts_with("Ask"), "{refused}");
        let turn = tale.story().view.turns + 1;
        let asked = tale.0.ask(turn, false);
        let call = |id: String| Block::ToolUse { id, name: "submit_plan".into(), input: json!({}) };
        let ids = [format!("c{turn}a"), format!("c{turn}b")];
        tale.0.add(invented::responded(turn, asked, ids.clone().map(call).to_vec()));
        for id in &ids {
            tale.end(id, Some(("arguments", "no task")), "no task");
        }
    }
    assert!(tale.step().starts_with("Ask"), "{}", tale.step());
    tale.answer("submit_plan", json!({}));
    let turn = tale.story().view.turns;
    tale.end(&format!("c{turn}"), Some(("arguments", "no task")), "no task");
    assert!(tale.step().starts_with("Send"), "{}", tale.step());
}

#[test]
fn the_executor_alone_runs_what_it_is_given_and_asks_nobody() {
    for (fault, outcome) in [(None, "Answered"), (Some(("exit", "no")), "Failed")] {
        let mut tale =
            Tale::of(AgentKind::Executor, RoleModels::default(), Some(program("a", None)));
        tale.settle();
        tale.attach(1, false);
        tale.end(RUN_CALL, fault, "out");
        tale.settle();
        let step = tale.step();
        assert!(step.starts_with("Close") && step.contains(outcome), "{step}");
        assert!(step.contains("fingerprint"), "{step}");
        let asked = |event: &Event| matches!(event.body, Body::LlmRequested(LlmRequested { .. }));
        assert!(!tale.0.0.iter().any(asked));
    }
}

#[test]
fn a_lost_sandbox_is_no_fault_of_the_program() {
    let mut tale = Tale::new();
    tale.hand_in(Message::Plan(planned()));
    tale.hand_in(Message::Code(program("a", None)));
    tale.attach(1, false);
    tale.end(RUN_CALL, Some(("lost", "the sandbox was lost")), "");
    tale.settle();
    let step = tale.step();
    assert!(step.starts_with("Close") && step.contains("Sandbox"), "{step}");

    // Another attempt at the run has the program written anew.
    let (parent, after) = (belljar_domain::RunId::from_bits([1; 16]), tale.story().view.head);
    let (model, prompt, budget, retry) = (None, None, None, None);
    tale.0.add(belljar_journal::event::ForkedFrom { parent, after, model, prompt, budget, retry });
    assert_eq!(tale.pipeline().role(), Role::Coder);
    assert!(tale.step().starts_with("Ask"), "{}", tale.step());
    assert!(!tale.pipeline().is_repeated(&program("a", None)));
}

#[test]
fn a_message_is_worked_on_as_the_call_that_it_asks_for() {
    let mut tale = Tale::new();
    tale.hand_in(Message::Plan(planned()));
    tale.hand_in(Message::Code(program("a", Some("pip install x"))));
    let view = tale.story().view;
    let states: Vec<_> =
        view.calls.iter().map(|call| (call.call.id.as_str(), call.state.clone())).collect();
    let expected = [
        ("c2", CallState::Finished),
        (INSTALL_CALL, CallState::Wanted),
        (RUN_CALL, CallState::Wanted),
    ];
    assert_eq!(states, expected);
}

/// The rules answer in the form of a model, for each role and from the same conversation.
#[tokio::test]
async fn rules_play_each_agent_from_the_conversation() {
    let question = "Write a Python script that computes the mean of a list";
    let mut tale = Tale::new();
    let Body::RunCreated(created) = &mut tale.0.0[0].body else { panic!("no run") };
    question.clone_into(&mut created.question);
    let answered = async |tale: &Tale| {
        let conversation = tale.conversation();
        let options = Options::new("heuristic", 100);
        let answer = Rules.answer(&conversation, &options, &mut |_| {}).await.unwrap();
        let [belljar_provider::Block::ToolCall(call)] = &answer.blocks[..] else {
            panic!("{answer:?}")
        };
        (call.name.clone(), call.input.parse::<Value>().unwrap())
    };
    let request = PlanRequest { question: question.into(), ..PlanRequest::default() };
    let (tool, input) = answered(&tale).await;
    assert_eq!(tool, "submit_plan");
    let expected = plan(&request).unwrap();
    assert_eq!(serde_json::from_value::<Plan>(input).unwrap(), expected);
    tale.hand_in(Message::Plan(expected.clone()));
    let (tool, input) = answered(&tale).await;
    assert_eq!(tool, "submit_code");
    let artifact = code(&expected).unwrap();
    assert_eq!(serde_json::from_value::<CodeArtifact>(input).unwrap(), artifact);
    tale.hand_in(Message::Code(artifact));
    tale.attach(1, false);
    let error = "ModuleNotFoundError: No module named 'yaml'";
    tale.end(RUN_CALL, Some(("missing_module", error)), error);
    tale.settle();
    let (tool, input) = answered(&tale).await;
    assert_eq!(tool, "submit_diagnosis");
    assert_eq!(input["artifact"]["install_command"], "pip install pyyaml");
    assert_eq!(Rules.name(), Heuristic.name());
}

/// The template's memory is not known to the rules, but that of the sandbox is told.
#[tokio::test]
async fn rules_ask_for_more_memory_than_the_sandbox_had() {
    let mut tale = Tale::new();
    tale.hand_in(Message::Plan(planned()));
    tale.hand_in(Message::Code(program("a", None)));
    let limits = ChosenLimits { memory_bytes: Some(2 << 30), ..ChosenLimits::default() };
    tale.0.add(SandboxAttached {
        sandbox: SandboxId::from_random([1; 16]),
        number: 1,
        template: "t".into(),
        restored: None,
        data: None,
        environment: Some(Environment { limits, ..Environment::default() }),
    });
    tale.end(RUN_CALL, Some(("memory", "it needed more")), "");
    tale.settle();
    let conversation = tale.conversation();
    assert!(text(&conversation).contains("2147483648"));
    let options = Options::new("heuristic", 100);
    let answer = Rules.answer(&conversation, &options, &mut |_| {}).await.unwrap();
    let [belljar_provider::Block::ToolCall(call)] = &answer.blocks[..] else {
        panic!("{answer:?}")
    };
    let input = call.input.parse::<Value>().unwrap();
    assert_eq!(input["artifact"]["memory_bytes"], 4_u64 << 30);
}

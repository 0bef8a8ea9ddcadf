use belljar_domain::{EndReason, Sequence};
use belljar_journal::event::{
    Block as Kept, Budget, BudgetChanged, CallRef, Injected, InjectedMessage, LlmFailed,
    LlmRequested, LlmResponded, LlmTrouble, NetworkAccess, Tokens, ToolFinished, Used,
};
use belljar_objects::Digest;
use serde_json::json;

use super::*;

fn log(bodies: Vec<Body>) -> Vec<Event> {
    let event = |(index, body)| {
        let at = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        Event { seq: Sequence(index as u64 + 1), at, lease: None, key: None, body }
    };
    bodies.into_iter().enumerate().map(event).collect()
}

fn created(day: i64, question: &str) -> Body {
    RunCreated {
        question: question.into(),
        datasets: vec![],
        model: "m".into(),
        prompt: Texts::newest().prompt(),
        budget: Budget { turns: Some(4), nano_dollars: Some(1_000_000_000), ..Budget::default() },
        now: OffsetDateTime::from_unix_timestamp(1_773_997_500 + day * 86_400).unwrap(),
        wish: None,
    }
    .into()
}

fn asked(turn: u32, attempt: u32) -> Body {
    let (model, prompt) = ("m".to_owned(), Digest::of(b""));
    LlmRequested { turn, attempt, model, prompt, reservation: None, last: false }.into()
}

fn called(turn: u32, id: &str) -> Body {
    let input = json!({ "command": "ls" });
    let call = Kept::ToolUse { id: id.into(), name: "shell".into(), input };
    LlmResponded {
        turn,
        asked: Sequence(2),
        blocks: vec![Kept::Text { text: format!("turn {turn}") }, call],
        stop: "tool_calls".into(),
        tokens: Tokens::default(),
        nano_dollars: 10_000_000,
        assumed: false,
        upstream_request: None,
        raw: None,
        first_token_micros: None,
        micros: 1,
    }
    .into()
}

fn finished(turn: u32, id: &str) -> Body {
    ToolFinished {
        call: CallRef { turn, id: id.into() },
        exec: None,
        reason: EndReason::Done,
        exit_code: Some(0),
        shown: "a.txt".into(),
        cut: None,
        outputs: vec![],
        fault: None,
        used: Used::default(),
    }
    .into()
}

fn warned(turn: u32) -> Body {
    let text = "hurry".to_owned();
    InjectedMessage { kind: Injected::TurnsLeft3, turn, text, answers: None }.into()
}

fn facts() -> Facts {
    Facts {
        texts: Texts::newest(),
        network: NetworkAccess::default(),
        brief: String::new(),
        data: "# Datasets\n\n- deals".into(),
    }
}

fn texts(message: &Message) -> Vec<String> {
    let text = |block: &Block| match block {
        Block::Text { text } => text.clone(),
        Block::ToolCall(call) => format!("call {}", call.id),
        Block::ToolResult(result) => format!("result {}: {}", result.call, result.text),
        Block::Opaque(_) => "opaque".into(),
    };
    message.blocks.iter().map(text).collect()
}

#[test]
fn results_come_first_then_where_the_run_stands_then_what_was_put_in() {
    let events =
        log(vec![created(0, "?"), asked(1, 1), called(1, "c"), finished(1, "c"), warned(2)]);
    let conversation = compose(&events, &facts());
    conversation.check().unwrap();
    let last = conversation.messages.last().unwrap();
    assert_eq!(
        texts(last),
        ["result c: a.txt", "[turn 1 of 4 is done; $0.01 of $1.00 spent]", "hurry"]
    );
}

#[test]
fn what_was_sent_is_a_prefix_of_what_is_sent_next() {
    let budget = Budget { turns: Some(9), ..Budget::default() };
    let failed = LlmFailed {
        turn: 2,
        asked: Sequence(6),
        trouble: LlmTrouble::Lost,
        message: String::new(),
        nano_dollars: 0,
        micros: 0,
    };
    let events = log(vec![
        created(0, "?"),
        asked(1, 1),
        called(1, "c"),
        finished(1, "c"),
        warned(2),
        asked(2, 1),
        BudgetChanged { answers: Sequence(1), budget }.into(),
        failed.into(),
        asked(2, 2),
        called(2, "d"),
        finished(2, "d"),
        asked(3, 1),
    ]);
    // As it was when the model was asked: everything before the event that says so.
    let sent = |at: usize| compose(&events[..at], &facts()).messages;
    let (first, lost, again, third) = (sent(1), sent(5), sent(8), sent(11));
    assert_eq!(lost[..1], first[..]);
    assert_eq!(again[..2], lost[..2]);
    // The message that was lost goes out again, with what came since at its end.
    assert_eq!(texts(&again[2])[..3], texts(&lost[2])[..]);
    assert!(texts(&again[2])[3].starts_with("The budget has changed. Budget: 9 turns"));
    assert_eq!(third[..3], again[..]);
    assert_eq!(third.len(), 5);
}

#[test]
fn the_day_the_question_and_the_data_leave_the_prefix_alone() {
    let one = compose(&log(vec![created(0, "one")]), &facts());
    let other = compose(&log(vec![created(1, "another")]), &facts());
    assert_eq!((&one.tools, &one.system), (&other.tools, &other.system));
    assert_ne!(one.messages, other.messages);
    let else_where = Facts { data: "# Datasets\n\n- others".into(), ..facts() };
    let data = compose(&log(vec![created(0, "one")]), &else_where);
    assert_eq!(one.system[0], data.system[0]);
    assert_eq!(one.system.len(), 2);
    assert!(one.system.iter().all(|part| part.ends_prefix));
}

#[test]
fn the_network_stands_between_the_rules_and_the_data() {
    let operations = vec!["search".to_owned()];
    let network = NetworkAccess { operations, ..NetworkAccess::default() };
    let texts = Texts::newest_for(&network);
    let connected = Facts { texts, network, ..facts() };
    let told = compose(&log(vec![created(0, "one")]), &connected).system;
    assert_eq!(told.len(), 3);
    assert!(told[1].text.contains("`search`") && told[2].text.contains("deals"));
    // No more marks than without a network: providers take four in all.
    let marks: Vec<bool> = told.iter().map(|part| part.ends_prefix).collect();
    assert_eq!(marks, [true, false, true]);
    let alone = Facts { data: String::new(), ..connected };
    let told = compose(&log(vec![created(0, "one")]), &alone).system;
    assert!(told.len() == 2 && told[1].ends_prefix);
}

/// A5, A6: what the owner says is part of the prefix, and the same for each question.
#[test]
fn a_brief_stands_between_the_shared_words_and_the_data() {
    let facts = Facts { brief: "# Skills\n\n- `sales`".into(), ..facts() };
    let one = compose(&log(vec![created(0, "one")]), &facts);
    let other = compose(&log(vec![created(1, "another")]), &facts);
    assert_eq!(one.system, other.system);
    let texts: Vec<_> = one.system.iter().map(|part| part.text.as_str()).collect();
    assert_eq!(texts, [facts.texts.system(), facts.brief.as_str(), facts.data.as_str()]);
    // Providers take four marks: for tools, two parts, and the messages.
    let marked: Vec<_> = one.system.iter().map(|part| part.ends_prefix).collect();
    assert_eq!(marked, [false, true, true]);
    let plain = Facts { brief: String::new(), ..facts.clone() };
    let plain = compose(&log(vec![created(0, "one")]), &plain);
    assert_eq!(plain.system[0].text, one.system[0].text);
}

#[test]
fn the_state_of_the_budget_can_be_left_out() {
    let events = log(vec![created(0, "?"), asked(1, 1), called(1, "c"), finished(1, "c")]);
    let with = compose(&events, &facts()).messages;
    let without = compose_without_status(&events, &facts()).messages;
    assert_eq!(texts(with.last().unwrap()).len(), 2);
    assert_eq!(texts(without.last().unwrap()), ["result c: a.txt"]);
    assert_eq!(with[..2], without[..2]);
}

use super::*;
use crate::record::{AttemptOutcome, AttemptUsage, FileRef, Outputs, StepEnded};

const FLOW: &str = r#"
name = "five"
budget = { nano_dollars = 1000 }
[steps.count]
kind = "call"
call = { script = "seq 3" }
[steps.left]
kind = "run"
run = { question = "How many are {{n}}?" }
inputs = { n = "steps.count.value[0]" }
[steps.right]
kind = "run"
run = { question = "How many are {{n}}?" }
inputs = { n = "steps.count.value[1]" }
retry = { attempts = 2 }
[steps.each]
kind = "call"
call = { script = "cat n" }
for_each = "steps.count.value"
inputs = { n = "item" }
parallel = 2
[steps.never]
kind = "call"
call = { script = "true" }
when = "steps.count.value[0] > 5"
[outputs]
each = "steps.each.answer"
left = "steps.left.answer"
"#;

fn created(definition: &str) -> Event {
    Event::Created {
        v: 1,
        definition: definition.to_owned(),
        inputs: BTreeMap::new(),
        caps: Default::default(),
        request: String::new(),
    }
}

/// Answers as steps would, without a sandbox: the answer is the same however often it is asked.
fn executed(started: &StepStarted) -> StepEnded {
    let key = started.key.clone();
    let (outcome, answer) = match (key.step.as_str(), key.attempt) {
        ("count", _) => (AttemptOutcome::Done, "[1, 2, 3]".to_owned()),
        ("right", 0) => (AttemptOutcome::Failed, String::new()),
        ("each", 0) if key.item == 1 => (AttemptOutcome::Lost, String::new()),
        (step, _) => (AttemptOutcome::Done, format!("{step} {}", key.item)),
    };
    let used = AttemptUsage { tokens: 1, nano_dollars: started.nano_dollars.unwrap_or(0) / 2 };
    let files = [("f".to_owned(), FileRef { sha256: "0".repeat(64), bytes: 1 })].into();
    let outputs = Outputs { answer: Some(answer), files };
    StepEnded { key, outcome, error: None, outputs, used }
}

/// Goes on from a log until the end. The worker dies after so many writes.
fn drive(log: &mut Vec<String>, mut writes: usize) -> bool {
    let mut state = State::of(log).unwrap();
    loop {
        let mut events = decide(&state, StopSignals::default());
        if events.is_empty() {
            let Some(open) = state.open_attempts().next() else { return true };
            events = vec![Event::StepEnded(executed(&open.started))];
        }
        if writes == 0 {
            return false;
        }
        writes -= 1;
        log.extend(events.iter().map(|event| serde_json::to_string(event).unwrap()));
        events.into_iter().for_each(|event| state.apply(event));
        if state.ending.is_some() {
            return true;
        }
    }
}

fn first(definition: &str) -> Vec<String> {
    crate::validate::check(definition).unwrap();
    vec![serde_json::to_string(&created(definition)).unwrap()]
}

#[test]
fn a_worker_that_dies_after_any_write_changes_nothing() {
    let mut whole = first(FLOW);
    assert!(drive(&mut whole, usize::MAX));
    let state = State::of(&whole).unwrap();
    let ending = state.ending.clone().unwrap();
    assert_eq!(ending.outcome, WorkflowOutcome::Done, "{ending:?}");
    let each = serde_json::json!(["each 0", "each 1", "each 2"]);
    assert_eq!(ending.outputs["each"], StepValue::Value(each));
    assert_eq!(state.status("never"), StepStatus::Skipped);
    assert_eq!(state.steps["right"].attempts[&0].len(), 2);
    assert_eq!(state.steps["each"].attempts[&1].len(), 2);
    for before_first in 0..whole.len() {
        for before_second in [0, 1, 5] {
            let mut log = first(FLOW);
            if !drive(&mut log, before_first) && !drive(&mut log, before_second) {
                assert!(drive(&mut log, usize::MAX));
            }
            assert_eq!(log, whole, "{before_first} {before_second}");
        }
    }
}

#[test]
fn the_budget_is_divided_and_never_exceeded() {
    let mut log = first(FLOW);
    drive(&mut log, usize::MAX);
    let mut held = 0;
    let mut bounds = BTreeMap::new();
    let mut used = 0;
    for text in &log[1..] {
        match serde_json::from_str(text).unwrap() {
            Event::StepStarted(started) => {
                let bound = started.nano_dollars.unwrap_or(0);
                held += bound;
                bounds.insert(started.key, bound);
            }
            Event::StepEnded(ended) => {
                held -= bounds[&ended.key];
                used += ended.used.nano_dollars;
            }
            _ => {}
        }
        assert!(held + used <= 1000, "{text}");
    }
    let first_share = |step: &str| {
        bounds.iter().find(|(key, _)| key.step == step && key.attempt == 0).map(|it| *it.1)
    };
    assert_eq!((first_share("left"), first_share("right")), (Some(500), Some(500)));
}

#[test]
fn a_workflow_stops_where_it_is_told() {
    let flow = FLOW.replacen("1000", "1", 1);
    let mut log = first(&flow);
    drive(&mut log, usize::MAX);
    let ending = State::of(&log).unwrap().ending.unwrap();
    assert_eq!(ending.outcome, WorkflowOutcome::Exhausted);

    let mut log = first(FLOW);
    drive(&mut log, 2);
    let state = State::of(&log).unwrap();
    assert_eq!(state.open_attempts().count(), 1);
    let signs = StopSignals { is_cancelled: true, is_late: false };
    assert_eq!(decide(&state, signs), []);
    assert!(is_stopping(&state, signs));
    let state = State::of(&first(FLOW)).unwrap();
    let ended = decide(&state, StopSignals { is_cancelled: false, is_late: true });
    let [Event::Ended { outcome, .. }] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(*outcome, WorkflowOutcome::Exhausted);
}

#[test]
fn a_failure_ends_the_workflow_or_skips_what_needs_it() {
    let flow = r#"
        name = "f"
        [steps.bad]
        kind = "call"
        call = { script = "false" }
        on_failure = "continue"
        [steps.needs]
        kind = "call"
        call = { script = "true" }
        inputs = { x = "steps.bad.answer" }
        [steps.mends]
        kind = "call"
        call = { script = "true" }
        when = "steps.bad.outcome == 'failed'"
        [outputs]
        x = "steps.needs.answer"
        m = "steps.mends.answer"
    "#;
    let end = |flow: &str| {
        let mut state = State::of(&first(flow)).unwrap();
        while state.ending.is_none() {
            let mut events = decide(&state, StopSignals::default());
            if events.is_empty() {
                let open = state.open_attempts().next().unwrap();
                let mut ended = executed(&open.started);
                if ended.key.step == "bad" {
                    ended.outcome = AttemptOutcome::Failed;
                    ended.error = Some("status 1".to_owned());
                }
                events = vec![Event::StepEnded(ended)];
            }
            events.into_iter().for_each(|event| state.apply(event));
        }
        (state.status("needs"), state.status("mends"), state.ending.unwrap())
    };
    let (needs, mends, ending) = end(flow);
    assert_eq!((needs, mends), (StepStatus::Skipped, StepStatus::Done));
    assert_eq!(ending.outcome, WorkflowOutcome::Done);
    assert_eq!(ending.outputs.keys().collect::<Vec<_>>(), ["m"]);
    let (_, _, ending) = end(&flow.replacen("continue", "fail", 1));
    assert_eq!(ending.outcome, WorkflowOutcome::Failed);
    assert_eq!(ending.error.as_deref(), Some("step `bad` failed: status 1"));
}

#[test]
fn items_and_events_of_a_workflow_are_bounded() {
    let step = |number: u32| {
        let call = "kind = \"call\"\ncall = { script = \"true\" }";
        format!("[steps.s{number}]\n{call}\nfor_each = \"inputs.list\"\n")
    };
    let steps: String = (0..6).map(step).collect();
    let flow = format!("name = \"n\"\n[inputs]\nlist = \"value\"\n{steps}");
    let mut state = State::of(&first(&flow)).unwrap();
    state.inputs.insert("list".to_owned(), StepValue::Value(vec![0; MAX_ITEMS].into()));
    let events = decide(&state, StopSignals::default());
    let expanded = events.iter().filter(|event| matches!(event, Event::Expanded { .. }));
    assert_eq!((expanded.count(), events.len()), (5, 6));
    state.bytes = MAX_RECORD_BYTES + 1;
    let ended = decide(&state, StopSignals::default());
    let [Event::Ended { outcome, .. }] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(*outcome, WorkflowOutcome::Failed);
}

use super::*;

fn read(dialect: ProgramDialect, lines: &[&str]) -> (ProgramWork, Vec<ProgramEvent>) {
    let mut work = ProgramWork::default();
    let events = lines.iter().flat_map(|line| work.read(dialect, line)).collect();
    (work, events)
}

fn kinds(events: &[ProgramEvent]) -> Vec<String> {
    let kind = |event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
    events.iter().map(kind).collect()
}

#[test]
fn claude_tells_a_call_and_an_answer() {
    let (work, events) = read(
        ProgramDialect::Claude,
        &[
            r#"{"type":"system","subtype":"init","model":"m"}"#,
            r#"{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"Look."}]}}"#,
            r#"{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"file"}]}]}}"#,
            r#"{"type":"assistant","message":{"id":"b","content":[{"type":"text","text":"Done."}]}}"#,
            r#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"Done.","usage":{"input_tokens":3,"cache_read_input_tokens":2,"output_tokens":1}}"#,
        ],
    );
    assert_eq!(kinds(&events), ["raw", "text", "tool_call", "tool_result", "text", "usage"]);
    assert_eq!(work.turns, 2);
    let done = Verdict { is_well: true, text: "Done.".into(), why: None };
    assert_eq!(work.verdict, Some(done));
    let usage = ProgramEvent::Usage { input: 3, cache_read: 2, cache_write: 0, output: 1 };
    assert_eq!(events.last(), Some(&usage));
    let result =
        ProgramEvent::ToolResult { id: "t".into(), output: "file".into(), is_error: false };
    assert_eq!(events[3], result);
}

#[test]
fn claudes_success_is_not_believed() {
    let verdict = |line: &str| read(ProgramDialect::Claude, &[line]).0.verdict.unwrap();
    let failed = verdict(
        r#"{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","result":"API Error: 402"}"#,
    );
    assert_eq!(failed.why.as_deref(), Some("api_error: API Error: 402"));
    let cut = verdict(
        r#"{"type":"result","subtype":"error_max_turns","is_error":false,"terminal_reason":"max_turns"}"#,
    );
    assert!(!cut.is_well);
    assert_eq!(cut.why.as_deref(), Some("max_turns"));
    assert!(!verdict(r#"{"type":"result","subtype":"success"}"#).is_well);
}

#[test]
fn answers_of_helpers_are_not_turns() {
    let (work, _) = read(
        ProgramDialect::Claude,
        &[
            r#"{"type":"assistant","message":{"id":"a","content":[]}}"#,
            r#"{"type":"assistant","parent_tool_use_id":"t","message":{"id":"x","content":[]}}"#,
            r#"{"type":"assistant","message":{"id":"a","content":[]}}"#,
        ],
    );
    assert_eq!(work.turns, 1);
}

#[test]
fn codex_tells_a_call_and_an_answer() {
    let (work, events) = read(
        ProgramDialect::Codex,
        &[
            r#"{"type":"thread.started","thread_id":"x"}"#,
            r#"{"type":"turn.started"}"#,
            r#"{"type":"item.started","item":{"id":"i","type":"command_execution","command":"ls","status":"in_progress"}}"#,
            r#"{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"ls","aggregated_output":"file\n","exit_code":0}}"#,
            r#"{"type":"item.completed","item":{"id":"j","type":"agent_message","text":"Done."}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":2}}"#,
        ],
    );
    assert_eq!(kinds(&events), ["raw", "raw", "tool_call", "tool_result", "text", "usage"]);
    assert_eq!(
        work.verdict.map(|verdict| (verdict.is_well, verdict.text)),
        Some((true, "Done.".into()))
    );
    let usage = ProgramEvent::Usage { input: 6, cache_read: 4, cache_write: 0, output: 2 };
    assert_eq!(events.last(), Some(&usage));
}

#[test]
fn codex_tells_why_it_failed() {
    let (work, _) = read(
        ProgramDialect::Codex,
        &[
            r#"{"type":"error","message":"Quota exceeded."}"#,
            r#"{"type":"turn.failed","error":{"message":"Quota exceeded."}}"#,
        ],
    );
    let verdict = work.verdict.unwrap();
    assert!(!verdict.is_well);
    assert_eq!(verdict.why.as_deref(), Some("Quota exceeded."));
}

#[test]
fn what_is_no_event_is_kept_as_it_came() {
    for dialect in [ProgramDialect::Claude, ProgramDialect::Codex] {
        for line in ["", "no json", "[1]", "7", r#"{"type":9}"#, r#"{"type":"item.completed"}"#] {
            let (work, events) = read(dialect, &[line]);
            assert_eq!(kinds(&events), ["raw"], "{line}");
            assert!(work.verdict.is_none());
        }
    }
}

#[test]
fn sessions_have_names_that_can_be_arguments() {
    let session = |dialect, line: &str| read(dialect, &[line]).0.session;
    let claude = r#"{"type":"system","subtype":"init","session_id":"0d1e-2f"}"#;
    assert_eq!(session(ProgramDialect::Claude, claude).as_deref(), Some("0d1e-2f"));
    let codex = r#"{"type":"thread.started","thread_id":"0199a213-81c0"}"#;
    assert_eq!(session(ProgramDialect::Codex, codex).as_deref(), Some("0199a213-81c0"));
    for wrong in ["--help", "", "a b", "a/../b"] {
        let line = serde_json::json!({ "type": "system", "session_id": wrong }).to_string();
        assert_eq!(session(ProgramDialect::Claude, &line), None, "{wrong:?}");
    }
}

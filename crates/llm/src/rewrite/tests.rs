use expect_test::{Expect, expect};

use super::*;
use crate::json::Reader;

const ANTHROPIC: Dialect = Dialect::AnthropicMessages;
const RESPONSES: Dialect = Dialect::OpenAiResponses;
const CHAT: Dialect = Dialect::OpenAiChat;

fn rules() -> Rules {
    let rules: Rules = toml::from_str(
        "max_output = 1000\nmodels = { alias = { small = 'tiny-1' }, allow = ['m', 'big-*'] }",
    )
    .unwrap();
    rules.check().unwrap();
    rules
}

fn rewrite_by(
    rules: &Rules,
    dialect: Dialect,
    endpoint: Endpoint,
    body: &str,
) -> Result<Rewritten, Refused> {
    let mut reader = Reader::new();
    let body = reader.read(body.as_bytes()).map_err(Invalid::from)?;
    Rewritten::new(&Request::view(dialect, endpoint, body)?, rules)
}

fn rewrite(dialect: Dialect, body: &str) -> Result<Rewritten, Refused> {
    rewrite_by(&rules(), dialect, Endpoint::Generate, body)
}

/// What goes out for `body`.
fn text(done: &Rewritten, body: &str) -> String {
    let changed = done.body.clone().map(|changed| String::from_utf8(changed).unwrap());
    changed.unwrap_or_else(|| body.to_owned())
}

fn shown(result: Result<Rewritten, Refused>, body: &str) -> String {
    match result {
        Ok(done) => {
            let changes: Vec<_> = done.changes.iter().map(ToString::to_string).collect();
            format!("{}\n[{}]", text(&done, body), changes.join(", "))
        }
        Err(refused) => format!("refused: {refused}"),
    }
}

#[track_caller]
fn check(dialect: Dialect, body: &str, want: Expect) {
    want.assert_eq(&shown(rewrite(dialect, body), body));
}

#[test]
fn what_needs_no_change_is_the_same_bytes() {
    let texts = [
        (
            ANTHROPIC,
            " {\"model\" : \"m\",\t\"max_tokens\":1000, \"x\\u0079\": 1.0e2, \"messages\":[{\"role\":\"system\",\"content\":\"\\ud83d\"}],\n\"tools\":[{\"name\":\"a\",\"defer_loading\":true},{\"type\":\"bash_20250124\"}],\"thinking\":{\"type\":\"adaptive\"},\"context_management\":{},\"output_config\":null, \"mcp_servers\":[] }\r\n",
        ),
        (
            RESPONSES,
            r#"{"model":"big-1","store":false ,"max_output_tokens":5,"input":[{"type":"function_call","arguments":"{\"image_url\":1}"}],"tools":[{"type":"namespace","tools":[{"type":"function"}]}],"include":["reasoning.encrypted_content"],"client_metadata":{"a":1}}"#,
        ),
        (
            CHAT,
            r#"{"model":"m","max_tokens":1,"stream":true,"stream_options":{"include_usage":true},"messages":[],"tools":[]}"#,
        ),
    ];
    for (dialect, body) in texts {
        let done = rewrite(dialect, body).unwrap();
        assert_eq!(done.body, None);
        assert_eq!(done.changes, []);
        assert!(!done.drop_usage);
    }
}

#[test]
fn models_are_named_as_the_upstream_does() {
    check(
        ANTHROPIC,
        r#"{"model":"small","max_tokens":1}"#,
        expect![[r#"
        {"model":"tiny-1","max_tokens":1}
        [model small → tiny-1]"#]],
    );
    check(
        ANTHROPIC,
        r#"{"model":"other","max_tokens":1}"#,
        expect!["refused: the model `other` is not among those this token may use"],
    );
    let nothing = Rules::default();
    for model in ["m", "*", "big-1"] {
        let body = format!(r#"{{"model":"{model}","max_tokens":1}}"#);
        assert!(rewrite_by(&nothing, ANTHROPIC, Endpoint::Generate, &body).is_err());
    }
}

#[test]
fn pinned_fields_win() {
    let rules: Rules = toml::from_str(
        "pinned = { temperature = 0, thinking = { type = 'disabled' }, tools = [] }\nmodels.pin = 'p'",
    )
    .unwrap();
    rules.check().unwrap();
    let body = r#"{"model":"x","temperature":1,"max_tokens":99999999,"thinking":{"type":"enabled","budget_tokens":99999},"tools":[{"type":"web_search_1"},{"name":"a"}]}"#;
    expect![[r#"
        {"model":"p","temperature":0,"max_tokens":32000,"thinking":{"type":"disabled"},"tools":[]}
        [model x → p, output 99999999 → 32000, pinned temperature, pinned thinking, pinned tools]"#]]
    .assert_eq(&shown(rewrite_by(&rules, ANTHROPIC, Endpoint::Generate, body), body));
    // A client that asks for the pinned value gets what it asks for.
    let same = r#"{"model":"p","temperature":0,"max_tokens":9,"thinking":{"type":"disabled"}}"#;
    let changes = rewrite_by(&rules, ANTHROPIC, Endpoint::Generate, same).unwrap().changes;
    assert_eq!(changes, [Change::Pinned("tools".into())]);
    let parameters: Vec<_> = [
        Change::Pinned("temperature".into()),
        Change::Pinned("reasoning".into()),
        Change::MaxOutput { from: Some(9), to: 5 },
        Change::MaxOutput { from: None, to: 5 },
        Change::NotStored,
    ]
    .iter()
    .filter_map(Change::parameter)
    .collect();
    assert_eq!(parameters, ["temperature", "effort", "output_tokens"]);
    let counted = r#"{"model":"x","messages":[]}"#;
    expect![[r#"
        {"model":"p","messages":[]}
        [model x → p]"#]]
    .assert_eq(&shown(rewrite_by(&rules, ANTHROPIC, Endpoint::CountTokens, counted), counted));
    for text in ["pinned = { model = 'x' }", "pinned = { n = 2 }", "max_output = 0"] {
        assert!(toml::from_str::<Rules>(text).unwrap().check().is_err(), "{text}");
    }
}

#[test]
fn output_is_bounded_in_every_dialect() {
    check(
        RESPONSES,
        r#"{"model":"m","store":false}"#,
        expect![[r#"
        {"max_output_tokens":1000,"model":"m","store":false}
        [output at most 1000]"#]],
    );
    check(
        CHAT,
        r#"{"model":"m","max_tokens":null,"n":3}"#,
        expect![[r#"
        {"max_completion_tokens":1000,"model":"m","max_tokens":null,"n":3}
        [output at most 1000]"#]],
    );
    check(
        CHAT,
        r#"{"model":"m","max_tokens":9000,"max_completion_tokens":5}"#,
        expect![[r#"
        {"model":"m","max_tokens":1000,"max_completion_tokens":5}
        [output 9000 → 1000]"#]],
    );
    let done = rewrite(CHAT, r#"{"model":"m","max_tokens":10,"n":3}"#).unwrap();
    assert_eq!(done.max_output, 30);
}

#[test]
fn thinking_leaves_room_for_an_answer() {
    let mut rules = rules();
    rules.max_output = 4000;
    let body =
        r#"{"model":"m","max_tokens":64000,"thinking":{"type":"enabled","budget_tokens":63999}}"#;
    expect![[r#"
        {"model":"m","max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":2000}}
        [output 64000 → 4000, thinking 63999 → 2000]"#]]
    .assert_eq(&shown(rewrite_by(&rules, ANTHROPIC, Endpoint::Generate, body), body));
    check(
        ANTHROPIC,
        body,
        expect!["refused: at most 1000 tokens may be generated, too few for thinking"],
    );
}

#[test]
fn tools_that_run_at_the_provider_are_removed() {
    check(
        ANTHROPIC,
        r#"{"model":"m","max_tokens":1,"tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"a"},{"type":"web_fetch_20250910","name":"web_fetch"},{"type":"code_execution_20250825","name":"x"},{"type":"mcp_toolset"},{"type":"text_editor_20250728"},{"type":"new_20300101"}],"tool_choice":{"type":"tool","name":"web_fetch"},"mcp_servers":[{"url":"https://x"}],"container":"c","speed":"fast"}"#,
        expect![[r#"
            {"model":"m","max_tokens":1,"tools":[{"name":"a"},{"type":"text_editor_20250728"}]}
            [removed tool_choice, removed tool web_search_20250305, removed tool web_fetch_20250910, removed tool code_execution_20250825, removed tool mcp_toolset, removed tool new_20300101, removed mcp_servers, removed container, removed speed]"#]],
    );
    check(
        RESPONSES,
        r#"{"model":"m","max_output_tokens":1,"store":false,"tools":[{"type":"function","name":"f"},{"type":"web_search"},{"type":"namespace","name":"n","tools":[{"type":"mcp","server_url":"u"},{"type":"function","name":"g"}]},{"type":"namespace","tools":[{"type":"file_search"}]},{"type":"shell"},{"type":"shell","environment":{"type":"local"}},{"type":"image_generation"},{"type":"code_interpreter"}],"tool_choice":"auto","service_tier":"priority"}"#,
        expect![[r#"
            {"model":"m","max_output_tokens":1,"store":false,"tools":[{"type":"function","name":"f"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"g"}]},{"type":"shell","environment":{"type":"local"}}],"tool_choice":"auto"}
            [removed tool web_search, removed tool mcp, removed tool namespace, removed tool shell, removed tool image_generation, removed tool code_interpreter, removed service_tier]"#]],
    );
    check(
        CHAT,
        r#"{"tools":[{"type":"web_search"}],"model":"m","max_tokens":1,"tool_choice":"auto","parallel_tool_calls":true,"web_search_options":{}}"#,
        expect![[r#"
            {"model":"m","max_tokens":1}
            [removed tool_choice, removed tool web_search, removed web_search_options]"#]],
    );
}

#[test]
fn answers_are_not_stored() {
    for (dialect, store, want) in [
        (RESPONSES, "", Some("\"store\":false,")),
        (RESPONSES, ",\"store\":true", Some(",\"store\":false")),
        (RESPONSES, ",\"store\":null", Some(",\"store\":false")),
        (RESPONSES, ",\"store\":\"no\"", Some(",\"store\":false")),
        (RESPONSES, ",\"store\":false", None),
        (CHAT, ",\"store\":true", Some(",\"store\":false")),
        (CHAT, "", None),
    ] {
        let field = dialect.max_output_fields()[0];
        let body = format!("{{\"model\":\"m\",\"{field}\":1{store}}}");
        let done = rewrite(dialect, &body).unwrap();
        let text = text(&done, &body);
        match want {
            Some(want) => assert!(text.contains(want), "{text}"),
            None => assert_eq!(text, body),
        }
    }
}

#[test]
fn usage_of_a_streamed_chat_is_asked_for() {
    for (options, want) in [
        ("", "{\"stream_options\":{\"include_usage\":true},\"model\""),
        (",\"stream_options\":null", ",\"stream_options\":{\"include_usage\":true}"),
        (",\"stream_options\":{}", ",\"stream_options\":{\"include_usage\":true}"),
        (
            ",\"stream_options\":{\"x\":1,\"include_usage\":false}",
            ",\"stream_options\":{\"x\":1,\"include_usage\":true}",
        ),
    ] {
        let body = format!("{{\"model\":\"m\",\"max_tokens\":1,\"stream\":true{options}}}");
        let done = rewrite(CHAT, &body).unwrap();
        let text = text(&done, &body);
        assert!(done.drop_usage && text.contains(want), "{text}");
    }
    assert!(!rewrite(CHAT, r#"{"model":"m","max_tokens":1,"stream":false}"#).unwrap().drop_usage);
}

#[test]
fn nothing_goes_elsewhere_or_refers_to_what_others_keep() {
    for (dialect, field) in [
        (CHAT, r#""api_base":"http://x""#),
        (CHAT, r#""Base_URL":"http://x""#),
        (CHAT, r#""base\u005furl":"http://x""#),
        (ANTHROPIC, r#""endpoint":"x""#),
        (ANTHROPIC, r#""extra_headers":{}"#),
        (ANTHROPIC, r#""extra_headers":null"#),
        (CHAT, r#""AWS_bedrock_runtime_endpoint":"x""#),
        (CHAT, r#""litellm_params":{}"#),
        (CHAT, r#""models":["dear"]"#),
        (CHAT, r#""fallbacks":[]"#),
        (ANTHROPIC, r#""Tools":[{"type":"web_search_1"}]"#),
        (ANTHROPIC, r#""tools":[{"Type":"web_search_1"}]"#),
        (ANTHROPIC, r#""tools":{"a":1}"#),
        (ANTHROPIC, r#""inference_geo":"us""#),
        (RESPONSES, r#""background":true"#),
        (RESPONSES, r#""previous_response_id":"r""#),
        (RESPONSES, r#""conversation":"c""#),
        (RESPONSES, r#""prompt":{"id":"p"}"#),
        (RESPONSES, r#""input":[{"type":"item_reference","id":"i"}]"#),
        (
            RESPONSES,
            r#""input":[{"content":[{"type":"input_image","image_url":"http://169.254.169.254/"}]}]"#,
        ),
        (CHAT, r#""messages":[{"content":[{"type":"image_url","image_url":{"url":"http://x"}}]}]"#),
        (ANTHROPIC, r#""messages":[{"content":[{"source":{"type":"file","file_id":"f"}}]}]"#),
    ] {
        let result = rewrite(dialect, &format!("{{\"model\":\"m\",{field}}}"));
        assert!(result.is_err(), "{field}: {}", shown(result, ""));
    }
    for (dialect, field) in [
        (RESPONSES, r#""background":false,"previous_response_id":null,"conversation":null"#),
        (ANTHROPIC, r#""inference_geo":null"#),
        (CHAT, r#""metadata":{"base_url":"x"}"#),
    ] {
        let result = rewrite(dialect, &format!("{{\"model\":\"m\",{field}}}"));
        assert!(result.is_ok(), "{field}: {}", shown(result, ""));
    }
}

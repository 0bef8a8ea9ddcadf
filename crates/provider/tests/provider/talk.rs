//! Conversations: the same in every dialect, streamed or whole.

use std::collections::BTreeSet;

use belljar_llm::{Dialect, Table, Usage};
use belljar_provider::{
    Answer, Block, Delta, Effort, Form, Input, Message, Options, Provider as _, Stop, ToolChoice,
    Version,
};

use crate::world::{DIALECTS, World, options, question};

/// Thoughts, two calls at once, a call that quotes a result, and a text.
const SCRIPT: &str = r#"
pick = "answers"

[[turn]]
think = "I should count."
say = "Let me count them."
call = [
  { tool = "execute_python", input = { code = "print(len(deals)) # \"ä\" \\ 🙂" } },
  { tool = "shell", input = { command = "date" } },
]
usage = { input = 700, output = 40, cached = 200, written = 100 }

[[turn]]
call = [{ tool = "finish", input = { answer = "There are {{result.1}}." } }]
usage = { input = 20, output = 15, cached = 1000 }

[[turn]]
say = "You asked: {{user}} I said {{result.1}} on {{result.2}}."
"#;

fn with_effort(form: Form) -> Options {
    Options { effort: Some(Effort::Low), ..options(form) }
}

/// Has the whole conversation, answering calls with `200` and `Monday`.
async fn converse(world: &World, dialect: Dialect, version: Version, form: Form) -> Vec<Answer> {
    let client = world.versioned(dialect, version);
    let mut conversation = question();
    let mut answers = Vec::new();
    for _ in 0..3 {
        let answer = client.answer(&conversation, &with_effort(form), &mut |_| {}).await.unwrap();
        let results = answer.calls().map(|call| match call.name.as_str() {
            "shell" => call.answered("Monday"),
            "finish" => call.answered("noted"),
            _ => call.answered("200"),
        });
        let results = Message::results(results);
        conversation.messages.push(answer.message());
        if !results.blocks.is_empty() {
            conversation.messages.push(results);
        }
        answers.push(answer);
    }
    // A transcript survives being written down.
    let text = serde_json::to_string(&conversation).unwrap();
    assert_eq!(
        serde_json::from_str::<belljar_provider::Conversation>(&text).unwrap(),
        conversation
    );
    answers
}

/// What was answered, but for ids and what only one provider understands.
fn plain(answer: &Answer) -> Vec<String> {
    let plain = |block: &Block| match block {
        Block::Text { text } => Some(text.clone()),
        Block::ToolCall(call) => {
            let value: serde_json::Value = call.input.parse().unwrap();
            Some(format!("{} {value}", call.name))
        }
        Block::Opaque(_) => None,
        Block::ToolResult(_) => panic!("a model answers no calls"),
    };
    answer.blocks.iter().filter_map(plain).collect()
}

#[tokio::test]
async fn a_conversation_is_the_same_in_every_dialect_and_form() {
    let world = World::start(SCRIPT).await;
    let kinds = DIALECTS.map(|dialect| (dialect, Version::V2023_06_01));
    for (dialect, version) in kinds.into_iter().chain([(DIALECTS[0], Version::V2026_10_21)]) {
        for form in [Form::Stream, Form::Whole] {
            let answers = converse(&world, dialect, version, form).await;
            let said: Vec<_> = answers.iter().map(plain).collect();
            assert_eq!(
                said,
                [
                    vec![
                        "Let me count them.",
                        r##"execute_python {"code":"print(len(deals)) # \"ä\" \\ 🙂"}"##,
                        r#"shell {"command":"date"}"#,
                    ],
                    vec![r#"finish {"answer":"There are 200."}"#],
                    vec!["You asked: How many deals are there? I said 200 on Monday."],
                ],
                "{dialect:?} {form:?}"
            );
            let stops: Vec<_> = answers.iter().map(|answer| &answer.stop).collect();
            assert_eq!(stops, [&Stop::ToolCalls, &Stop::ToolCalls, &Stop::End]);
            let thoughts =
                answers[0].blocks.iter().filter(|block| matches!(block, Block::Opaque(_))).count();
            assert_eq!(thoughts, usize::from(dialect != Dialect::OpenAiChat), "{dialect:?}");
        }
    }
    // The server is strict, so that thoughts came back unchanged is proven by this.
    assert!(world.model.record().all().iter().all(|asked| asked.status == 200));
}

#[tokio::test]
async fn usage_is_counted_in_the_same_way_and_has_a_price() {
    let world = World::start(SCRIPT).await;
    let table =
        "[[price]]\nmodels = [\"m\"]\ninput = 10\ncache_read = 1\ncache_write_5m = 12\noutput = 50";
    let table = Table::parse(table).unwrap();
    for form in [Form::Stream, Form::Whole] {
        let answer = world.ask(Dialect::AnthropicMessages, form).await.unwrap();
        let usage = answer.usage.unwrap();
        let want = Usage {
            input: 700,
            cache_read: 200,
            cache_write_5m: 100,
            output: 40,
            ..Usage::default()
        };
        assert_eq!(usage, want);
        let price = table.price("m").unwrap();
        assert_eq!(price.cost(&usage), 700 * 10 + 200 + 100 * 12 + 40 * 50);
        for dialect in [Dialect::OpenAiResponses, Dialect::OpenAiChat] {
            // These do not tell what was written into their caches.
            let usage = world.ask(dialect, form).await.unwrap().usage.unwrap();
            let want = Usage { input: 800, cache_write_5m: 0, ..want };
            assert_eq!(usage, want, "{dialect:?} {form:?}");
        }
    }
}

#[tokio::test]
async fn pieces_put_together_are_the_answer() {
    let world = World::start(SCRIPT).await;
    for dialect in DIALECTS {
        let (mut text, mut calls, mut thoughts) = (String::new(), Vec::new(), String::new());
        let mut hear = |delta: Delta<'_>| match delta {
            Delta::Text(piece) => text.push_str(piece),
            Delta::Reasoning(piece) => thoughts.push_str(piece),
            Delta::ToolCall { name } => calls.push((name.to_owned(), String::new())),
            Delta::Arguments(piece) => calls.last_mut().unwrap().1.push_str(piece),
            Delta::Again { .. } => panic!("nothing failed"),
        };
        let answer = world
            .client(dialect)
            .answer(&question(), &with_effort(Form::Stream), &mut hear)
            .await
            .unwrap();
        assert_eq!(text, answer.text());
        let made: Vec<_> =
            answer.calls().map(|call| (call.name.clone(), call.input.text().to_owned())).collect();
        assert_eq!(calls, made, "{dialect:?}");
        let shows = dialect != Dialect::OpenAiResponses;
        assert_eq!(thoughts, if shows { "I should count." } else { "" }, "{dialect:?}");
    }
}

#[tokio::test]
async fn arguments_that_are_not_json_can_be_told_to_the_model() {
    let script = r#"
        pick = "answers"
        [[turn]]
        call = [{ tool = "shell", arguments = "{\"command\": \"ls" }]
        [[turn]]
        say = "I was told: {{result}}"
    "#;
    let world = World::start(script).await;
    for dialect in DIALECTS {
        let client = world.client(dialect);
        let mut conversation = question();
        let options = options(Form::Stream);
        let answer = client.answer(&conversation, &options, &mut |_| {}).await.unwrap();
        let call = answer.calls().next().unwrap();
        assert!(matches!(&call.input, Input::Invalid { text, .. } if text == "{\"command\": \"ls"));
        let complaint = call.input.parse::<serde_json::Value>().unwrap_err().to_string();
        conversation.messages.push(answer.message());
        conversation.messages.push(Message::results([call.failed(complaint)]));
        let answer = client.answer(&conversation, &options, &mut |_| {}).await.unwrap();
        assert!(answer.text().contains("the text ends too early"), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_last_turn_without_tools_is_possible_after_calls() {
    let world = World::start(SCRIPT).await;
    for dialect in DIALECTS {
        let client = world.client(dialect);
        let mut conversation = question();
        let answer =
            client.answer(&conversation, &options(Form::Stream), &mut |_| {}).await.unwrap();
        conversation.messages.push(answer.message());
        let mut results = Message::results(answer.calls().map(|call| call.answered("x")));
        results.blocks.push(Block::text("This is the last turn: write the result now."));
        conversation.messages.push(results);
        let last = Options { tools: ToolChoice::None, ..options(Form::Stream) };
        client.answer(&conversation, &last, &mut |_| {}).await.unwrap();
        let required = Options { tools: ToolChoice::Required, ..options(Form::Stream) };
        client.answer(&conversation, &required, &mut |_| {}).await.unwrap();
        let bodies: BTreeSet<_> =
            world.model.record().all().into_iter().filter_map(|asked| asked.body).collect();
        assert!(bodies.iter().any(|body| body.contains("\"none\"")), "{dialect:?}");
        world.model.record().clear();
    }
}

#[tokio::test]
async fn answers_of_one_provider_can_be_taken_on_by_another() {
    let world = World::start(SCRIPT).await;
    for first in DIALECTS {
        for second in DIALECTS {
            let mut conversation = question();
            let options = with_effort(Form::Stream);
            let client = world.client(first);
            let answer = client.answer(&conversation, &options, &mut |_| {}).await.unwrap();
            conversation.messages.push(answer.message());
            let results = Message::results(answer.calls().map(|call| call.answered("200")));
            conversation.messages.push(results);
            let client = world.client(second);
            let answer = client.answer(&conversation, &options, &mut |_| {}).await.unwrap();
            assert_eq!(plain(&answer), [r#"finish {"answer":"There are 200."}"#]);
        }
    }
}

#[tokio::test]
async fn thoughts_that_led_to_nothing_are_left_out() {
    let world = World::start(SCRIPT).await;
    for dialect in DIALECTS {
        let client = world.client(dialect);
        let mut conversation = question();
        let options = with_effort(Form::Stream);
        let answer = client.answer(&conversation, &options, &mut |_| {}).await.unwrap();
        // As if the model had been cut off before it said anything.
        let mut message = answer.message();
        message.blocks.retain(|block| matches!(block, Block::Opaque(_)));
        conversation.messages.extend([message, Message::user("Go on.")]);
        client.answer(&conversation, &options, &mut |_| {}).await.unwrap();
    }
}

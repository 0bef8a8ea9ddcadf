//! Whole conversations from a script in a file, as suites play them.

use belljar_llm::Dialect;
use belljar_provider::{
    Answer, AnswerError, Conversation, Form, Message, Provider as _, ToolResult,
};
use belljar_scripted::Script;

use crate::world::{DIALECTS, World, options, question, tool};

const SCRIPT: &str = include_str!("../../../../tests/scripted/scripts/conversation.toml");

async fn world() -> World {
    World::of(Script::parse(SCRIPT).unwrap()).await
}

/// Answers calls like a sandbox would, until the model finishes or only talks.
async fn play(world: &World, dialect: Dialect, prompt: &str) -> Result<Vec<Answer>, AnswerError> {
    let client = world.client(dialect);
    let mut conversation = Conversation { messages: vec![Message::user(prompt)], ..question() };
    conversation.tools.push(tool("write_file", "content"));
    let mut answers = Vec::new();
    loop {
        let answer = client.answer(&conversation, &options(Form::Stream), &mut |_| {}).await?;
        conversation.messages.push(answer.message());
        let results: Vec<ToolResult> = answer
            .calls()
            .map(|call| match call.input.parse::<serde_json::Value>() {
                Ok(_) => call.answered("42"),
                Err(complaint) => call.failed(complaint.to_string()),
            })
            .collect();
        let is_last = results.is_empty() || answer.calls().any(|call| call.name == "finish");
        answers.push(answer);
        if is_last {
            return Ok(answers);
        }
        conversation.messages.push(Message::results(results));
    }
}

#[tokio::test]
async fn a_script_is_played_to_its_end() {
    let world = world().await;
    for dialect in DIALECTS {
        let answers = play(&world, dialect, "Add it up.").await.unwrap();
        let calls: Vec<_> = answers
            .iter()
            .flat_map(Answer::calls)
            .map(|call| (call.name.as_str(), call.input.parse::<serde_json::Value>().unwrap()))
            .collect();
        assert_eq!(calls[1].1["content"], "The sum is 42.");
        assert_eq!((calls[2].0, &calls[2].1["answer"]), ("finish", &"42".into()));
        let read: u64 = answers.iter().filter_map(|a| a.usage).map(|usage| usage.cache_read).sum();
        assert_eq!(read, 3200, "{dialect:?}");
    }
}

#[tokio::test]
async fn scenes_go_wrong_as_they_say() {
    for dialect in DIALECTS {
        let world = world().await;
        let mut client = world.client(dialect);
        client.retries.attempts = 6;
        let prompt = Conversation { messages: vec![Message::user("scene-rough")], ..question() };
        let answer = client.answer(&prompt, &options(Form::Stream), &mut |_| {}).await.unwrap();
        assert_eq!((answer.text().as_str(), answer.retries.len()), ("That took a while.", 5));

        let answers = play(&world, dialect, "scene-slip").await.unwrap();
        assert!(answers[1].text().contains("I was told: The arguments are not a JSON object"));

        let error = play(&world, dialect, "scene-broke").await.unwrap_err();
        assert!(matches!(error, AnswerError::OutOfBudget { .. }), "{dialect:?} {error:?}");
    }
}

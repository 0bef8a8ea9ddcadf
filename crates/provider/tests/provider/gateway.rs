//! What is sent passes our own gateway as it is: nothing to refuse, nothing to change.

use belljar_llm::json::Reader;
use belljar_llm::rewrite::Models;
use belljar_llm::{Endpoint, Request, Rewritten, Rules};
use belljar_provider::{
    Block, Client, Effort, Form, Input, Message, Options, Role, ToolCall, Upstream,
};

use crate::world::{DIALECTS, Loopback, Still, options, question};

#[test]
fn the_gateway_changes_nothing() {
    let models = Models { allow: vec!["claude-*".to_owned()], ..Models::default() };
    let rules = Rules { models, ..Rules::default() };
    let mut conversation = question();
    // As deep as arguments may be.
    let input = Input::read(&format!("{{\"code\":{}{}}}", "[".repeat(63), "]".repeat(63)));
    assert!(matches!(input, Input::Object(_)));
    let call = ToolCall { id: "call_1".to_owned(), name: "execute_python".to_owned(), input };
    let result = call.answered("see https://example.org/a.png");
    let blocks = vec![Block::ToolCall(call)];
    conversation.messages.push(Message { role: Role::Assistant, blocks });
    conversation.messages.push(Message::results([result]));
    for dialect in DIALECTS {
        for form in [Form::Stream, Form::Whole] {
            let nowhere = Loopback(([127, 0, 0, 1], 1).into());
            let client = Client::new(Upstream::new(dialect), nowhere, Still::default()).unwrap();
            let options = Options { effort: Some(Effort::High), ..options(form) };
            let body = client.body(&conversation, &options);
            let mut reader = Reader::new();
            let value = reader.read(&body).unwrap();
            let request = Request::view(dialect, Endpoint::Generate, value).unwrap();
            let rewritten = Rewritten::new(&request, &rules).unwrap();
            assert_eq!(rewritten.changes, [], "{dialect:?} {form:?}");
            assert_eq!(rewritten.body, None);
            assert_eq!((rewritten.stream, rewritten.max_output), (form == Form::Stream, 4096));
        }
    }
}

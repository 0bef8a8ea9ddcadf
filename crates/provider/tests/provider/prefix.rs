//! How much of a request is the last one again: what providers do not charge twice.
//!
//! Requirements: A6

use std::sync::Arc;

use belljar_llm::Dialect;
use belljar_provider::{
    Block, Client, Conversation, Form, Input, Lifetime, Message, Options, Role, ToolCall,
    ToolChoice, Upstream,
};

use crate::world::{DIALECTS, Loopback, Still, options, question};

fn client(dialect: Dialect, lifetime: Lifetime) -> Client<Arc<Loopback>, Still> {
    let upstream = Upstream { lifetime, ..Upstream::new(dialect) };
    let nowhere = Arc::new(Loopback(([127, 0, 0, 1], 1).into()));
    Client::new(upstream, nowhere, Still::default()).unwrap()
}

fn call(turn: usize) -> ToolCall {
    let code = format!("print(deals.groupby('stage').amount.sum().head({turn}))");
    let input = Input::of(&serde_json::json!({ "code": code }));
    ToolCall { id: format!("call_{turn}"), name: "execute_python".to_owned(), input }
}

/// A turn as they come: some words, a call, and its result, longer and longer.
fn next(conversation: &mut Conversation, turn: usize) {
    let blocks = vec![Block::text(format!("Step {turn}.")), Block::ToolCall(call(turn))];
    conversation.messages.push(Message { role: Role::Assistant, blocks });
    let mut results = Message::results([call(turn).answered("won 17\n".repeat(10 * turn))]);
    if turn == 9 {
        results.blocks.push(Block::text("You have only 3 turns left."));
    }
    conversation.messages.push(results);
}

fn common(first: &[u8], second: &[u8]) -> usize {
    first.iter().zip(second).take_while(|(one, other)| one == other).count()
}

#[test]
#[expect(clippy::print_stdout, reason = "the figure is wanted")]
fn a_request_begins_with_nearly_all_of_the_last_one() {
    for dialect in DIALECTS {
        let client = client(dialect, Lifetime::default());
        let mut conversation = question();
        let mut last = client.body(&conversation, &options(Form::Stream));
        let (mut least, mut shared, mut sent) = (1.0_f64, 0, 0);
        for turn in 1..=12 {
            next(&mut conversation, turn);
            let options = Options {
                // What may change from turn to turn stands at the end.
                max_output: 4096 - turn as u64,
                tools: if turn == 12 { ToolChoice::None } else { ToolChoice::Auto },
                ..options(Form::Stream)
            };
            let body = client.body(&conversation, &options);
            let same = common(&last, &body);
            least = least.min(same as f64 / last.len() as f64);
            shared += same;
            sent += last.len();
            last = body;
        }
        let mean = shared as f64 / sent as f64;
        println!("{dialect:?}: least {least:.4}, over all {mean:.4}");
        assert!(least >= 0.95, "{dialect:?}: {least}");
    }
}

#[test]
fn the_same_conversation_is_the_same_bytes() {
    for dialect in DIALECTS {
        let client = client(dialect, Lifetime::default());
        let conversation = question();
        let body = client.body(&conversation, &options(Form::Stream));
        let mut other = conversation.clone();
        other.tools.reverse();
        let schema = serde_json::to_string(&other.tools[0].schema).unwrap();
        other.tools[0].schema = serde_json::from_str(&schema).unwrap();
        assert_eq!(client.body(&other, &options(Form::Stream)), body);
    }
}

/// Where Anthropic is asked to remember, as (place, lifetime).
fn breakpoints(body: &[u8]) -> Vec<(String, String)> {
    fn walk(value: &serde_json::Value, place: &str, found: &mut Vec<(String, String)>) {
        if let Some(control) = value.get("cache_control") {
            let ttl = control["ttl"].as_str().unwrap_or("5m");
            found.push((place.to_owned(), ttl.to_owned()));
        }
        match value {
            serde_json::Value::Object(members) => {
                members
                    .iter()
                    .for_each(|(key, value)| walk(value, &format!("{place}/{key}"), found));
            }
            serde_json::Value::Array(items) => {
                let items = items.iter().enumerate();
                items.for_each(|(index, item)| walk(item, &format!("{place}/{index}"), found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(&serde_json::from_slice(body).unwrap(), "", &mut found);
    found.sort();
    found
}

#[test]
fn breakpoints_follow_tools_system_and_the_last_message() {
    let client = client(Dialect::AnthropicMessages, Lifetime::OneHour);
    let mut conversation = question();
    next(&mut conversation, 1);
    next(&mut conversation, 2);
    let find = |conversation: &Conversation| {
        breakpoints(&client.body(conversation, &options(Form::Stream)))
    };
    let named = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(place, ttl)| ((*place).to_owned(), (*ttl).to_owned())).collect()
    };
    assert_eq!(
        find(&conversation),
        named(&[
            ("/messages/4/content/0", "5m"),
            ("/system/0", "1h"),
            ("/system/1", "1h"),
            ("/tools/2", "1h"),
        ])
    );
    // With one to spare, the end of the last request is remembered too.
    conversation.system[0].ends_prefix = false;
    assert_eq!(
        find(&conversation),
        named(&[
            ("/messages/2/content/0", "5m"),
            ("/messages/4/content/0", "5m"),
            ("/system/1", "1h"),
            ("/tools/2", "1h"),
        ])
    );
    // Never more than four, whatever is marked.
    conversation.system = vec![belljar_provider::Part::ending_prefix("x"); 9];
    assert_eq!(find(&conversation).len(), 4);
}

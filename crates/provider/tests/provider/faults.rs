//! What goes wrong with providers, and what is done about it.

use std::time::Duration;

use belljar_llm::Dialect;
use belljar_provider::{AnswerError, Client, Delta, Failure, Form, Provider as _, Upstream};

use crate::world::{DIALECTS, Loopback, Still, World, options, question};

const FORMS: [Form; 2] = [Form::Stream, Form::Whole];

#[tokio::test]
async fn what_passes_is_waited_for() {
    let script = r#"
        [[turn]]
        say = "one two three"
        faults = [
          { kind = "status", status = 429, retry-after = 3 },
          { kind = "status", status = 529 },
          { kind = "cut", after = 3 },
          { kind = "error-event", after = 2 },
          { kind = "end", after = 3 },
          { kind = "garbage" },
        ]
    "#;
    for dialect in DIALECTS {
        for form in FORMS {
            let world = World::start(script).await;
            let mut client = world.client(dialect);
            client.retries.attempts = 7;
            let (mut text, mut again) = (String::new(), 0);
            let mut hear = |delta: Delta<'_>| match delta {
                Delta::Text(piece) => text.push_str(piece),
                Delta::Again { .. } => {
                    text.clear();
                    again += 1;
                }
                _ => {}
            };
            let answer = client.answer(&question(), &options(form), &mut hear).await.unwrap();
            assert_eq!(answer.text(), "one two three", "{dialect:?} {form:?}");
            assert_eq!((again, world.requests()), (6, 7));
            if form == Form::Stream {
                assert_eq!(text, "one two three");
            }
            let waits: Vec<_> = answer.retries.iter().map(|retry| retry.wait).collect();
            assert_eq!(waits, world.clock.slept());
            assert_eq!(waits[0], Duration::from_secs(3));
            assert!(waits[1..].iter().all(|wait| *wait >= Duration::from_millis(250)));
            // What a broken answer had used by then is not forgotten.
            if dialect == Dialect::AnthropicMessages && form == Form::Stream {
                assert_eq!(answer.retries[2].usage.unwrap().input, 1000);
            }
        }
    }
}

#[tokio::test]
async fn an_empty_budget_is_not_asked_twice() {
    for fault in [
        "kind = \"status\", status = 402",
        "kind = \"status\", status = 429, code = \"insufficient_quota\"",
        "kind = \"status\", status = 429, should-retry = false",
        "kind = \"status\", status = 429, retry-after = 1, should-retry = false",
    ] {
        for dialect in DIALECTS {
            for form in FORMS {
                let world = World::start(&format!("[[turn]]\nfault = {{ {fault} }}")).await;
                let error = world.ask(dialect, form).await.unwrap_err();
                assert!(matches!(error, AnswerError::OutOfBudget { .. }), "{dialect:?} {error:?}");
                assert_eq!((world.requests(), world.clock.slept().len()), (1, 0), "{fault}");
            }
        }
    }
}

#[tokio::test]
async fn a_budget_that_ends_in_mid_stream_is_one_too() {
    for dialect in DIALECTS {
        let code = match dialect {
            Dialect::AnthropicMessages => "billing_error",
            Dialect::OpenAiResponses | Dialect::OpenAiChat => "insufficient_quota",
        };
        let fault = format!("kind = \"error-event\", after = 3, code = \"{code}\"");
        let world = World::start(&format!("[[turn]]\nsay = \"a b\"\nfault = {{ {fault} }}")).await;
        let error = world.ask(dialect, Form::Stream).await.unwrap_err();
        assert!(matches!(error, AnswerError::OutOfBudget { .. }), "{dialect:?} {error:?}");
        assert_eq!(world.requests(), 1);
    }
}

#[tokio::test]
async fn enough_is_enough() {
    for dialect in DIALECTS {
        let world = World::start("[[turn]]\nfault = { kind = \"status\", status = 503 }").await;
        let error = world.ask(dialect, Form::Stream).await.unwrap_err();
        let AnswerError::GaveUp { attempts: 5, last: Failure::Status { status: 503, .. } } = error
        else {
            panic!("{error:?}");
        };
        assert_eq!((world.requests(), world.clock.slept().len()), (5, 4));

        let fault = "fault = { kind = \"status\", status = 429, retry-after = 7200 }";
        let world = World::start(&format!("[[turn]]\n{fault}")).await;
        let error = world.ask(dialect, Form::Stream).await.unwrap_err();
        assert!(matches!(error, AnswerError::GaveUp { attempts: 1, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn what_is_refused_is_not_repeated() {
    for (fault, want) in [
        ("kind = \"status\", status = 401", 401),
        ("kind = \"status\", status = 400", 400),
        ("kind = \"status\", status = 413", 413),
        ("kind = \"status\", status = 503, should-retry = false", 503),
        ("kind = \"redirect\", status = 307, to = \"http://elsewhere.test/\"", 307),
    ] {
        for dialect in DIALECTS {
            let world = World::start(&format!("[[turn]]\nfault = {{ {fault} }}")).await;
            let error = world.ask(dialect, Form::Stream).await.unwrap_err();
            assert_eq!(error.is_too_long(), want == 413);
            let AnswerError::Refused(Failure::Status { status, .. }) = error else {
                panic!("{fault}: {error:?}");
            };
            assert_eq!((status, world.requests()), (want, 1));
        }
    }
}

#[tokio::test]
async fn nobody_there_is_a_failure_like_others() {
    let world = World::start("[[turn]]\nsay = \"hi\"").await;
    let address = world.model.address();
    drop(world);
    // The port may be anybody's by now, but nobody answers there as a model does.
    let clock = Still::default();
    let upstream = Upstream::new(Dialect::OpenAiChat);
    let client = Client::new(upstream, Loopback(address), clock.clone()).unwrap();
    let error = client.answer(&question(), &options(Form::Stream), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, AnswerError::GaveUp { attempts: 5, .. }), "{error:?}");
    assert_eq!(clock.slept().len(), 4);
}

#[tokio::test]
async fn a_conversation_that_nobody_takes_costs_nothing() {
    let world = World::start("[[turn]]\nsay = \"hi\"").await;
    let mut conversation = question();
    conversation.messages.clear();
    for dialect in DIALECTS {
        let client = world.client(dialect);
        let answer = client.answer(&conversation, &options(Form::Stream), &mut |_| {}).await;
        assert!(matches!(answer, Err(AnswerError::Invalid(_))));
    }
    assert_eq!(world.requests(), 0);
}

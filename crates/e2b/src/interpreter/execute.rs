//! `/execute`: code in, lines out.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::{Contexts, Execution, Output, Place, now};
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use http::{StatusCode, header};
use serde::Deserialize;

use super::Refused;
use super::contexts::{language, refused};
use super::line::Line;
use super::mime::result;

#[derive(Debug, Deserialize)]
pub(super) struct Execute {
    code: String,
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    env_vars: Option<BTreeMap<String, String>>,
}

/// How long nothing may be said: whoever went without a word is noticed by it.
const SILENCE: Duration = Duration::from_secs(5);

pub(super) fn execute(contexts: &Contexts, wish: Execute) -> Result<Response, Refused> {
    let id = wish.context_id.filter(|id| !id.is_empty());
    let place = match (id, wish.language.filter(|language| !language.is_empty())) {
        (Some(_), Some(_)) => {
            let text = "Only one of context_id or language can be provided";
            return Err(Refused::plain(StatusCode::BAD_REQUEST, text));
        }
        (Some(id), None) => Place::Context(id),
        (None, name) => Place::Language(language(name.as_deref())?),
    };
    let env = wish.env_vars.unwrap_or_default();
    let execution = contexts.run(&place, wish.code, env).map_err(refused)?;
    let body = Body::from_stream(lines(execution));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// The lines of an execution. Dropped early, it interrupts the code.
fn lines(execution: Execution) -> impl Stream<Item = Result<Bytes, io::Error>> + Send {
    stream::unfold(Some(execution), |execution| async {
        let mut execution = execution?;
        loop {
            let output = match tokio::time::timeout(SILENCE, execution.next()).await {
                Err(_) => return Some((Ok(Line::Keepalive.encode()), Some(execution))),
                Ok(output) => output,
            };
            match output {
                // Cut off: clients ask then whether the sandbox is still there.
                None | Some(Output::Gone) => {
                    let gone = io::Error::other("the sandbox was ended");
                    return Some((Err(gone), None));
                }
                Some(Output::Ended(_)) => {
                    return Some((Ok(Line::EndOfExecution.encode()), None));
                }
                Some(output) => {
                    if let Some(line) = line(output) {
                        return Some((Ok(line.encode()), Some(execution)));
                    }
                }
            }
        }
    })
}

fn line(output: Output) -> Option<Line> {
    let timestamp = || now().to_string();
    Some(match output {
        Output::Begun { count, .. } => Line::NumberOfExecutions { execution_count: count },
        Output::Stdout(text) => Line::Stdout { text, timestamp: timestamp() },
        Output::Stderr(text) => Line::Stderr { text, timestamp: timestamp() },
        // A change of what was shown before; there is no line for that.
        Output::Display(display) if display.update => return None,
        Output::Display(display) => Line::Result(result(display.data, false)),
        Output::Result(data) => Line::Result(result(data, true)),
        Output::Flaw(flaw) => {
            Line::Error { name: flaw.name, value: flaw.value, traceback: flaw.traceback }
        }
        Output::Ended(_) | Output::Gone => return None,
    })
}

#[cfg(test)]
mod tests {
    use belljar_node::Display;
    use belljar_sandboxes::Flaw;
    use serde_json::{Value, json};

    use super::*;

    fn value(output: Output) -> Option<Value> {
        line(output).map(|line| serde_json::from_slice(&line.encode()).unwrap())
    }

    #[test]
    fn every_text_has_a_time() {
        for (output, kind) in [
            (Output::Stdout("x\n".to_owned()), "stdout"),
            (Output::Stderr("x\n".to_owned()), "stderr"),
        ] {
            let line = value(output).unwrap();
            assert_eq!((&line["type"], &line["text"]), (&json!(kind), &json!("x\n")));
            let time = line["timestamp"].as_str().unwrap();
            assert!(time.len() >= 20 && time.contains('T'), "{time}");
        }
    }

    #[test]
    fn an_error_has_three_texts() {
        let flaw = Flaw {
            name: "NameError".to_owned(),
            value: "name 'x' is not defined".to_owned(),
            traceback: "one\ntwo".to_owned(),
        };
        assert_eq!(
            value(Output::Flaw(flaw)),
            Some(json!({
                "type": "error",
                "name": "NameError",
                "value": "name 'x' is not defined",
                "traceback": "one\ntwo",
            }))
        );
    }

    #[test]
    fn only_the_last_expression_is_the_main_result() {
        let data = || [("text/plain".to_owned(), json!("1"))].into();
        let display = |update| {
            let metadata = serde_json::Map::new();
            Output::Display(Display { data: data(), metadata, display_id: None, update })
        };
        let main = value(Output::Result(data())).unwrap();
        assert_eq!(main, json!({"type": "result", "text": "1", "is_main_result": true}));
        assert_eq!(value(display(false)).unwrap()["is_main_result"], json!(false));
        assert_eq!(value(display(true)), None);
    }
}

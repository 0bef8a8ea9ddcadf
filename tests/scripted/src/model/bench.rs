//! One prepared answer for every request, so that the upstream of a benchmark is
//! never what is measured.

use std::sync::Arc;

use bytes::Bytes;

use super::ask::Ask;
use super::dialect::Dialect;
use super::reply::Reply;
use crate::body::{Step, Steps};
use crate::script::{Markers, Usage};

/// What a benchmark is answered.
#[derive(Debug, Clone, Copy)]
pub struct Bench {
    /// Deltas of text in a streamed answer; 0 for an answer in one piece.
    pub events: usize,
    pub usage: Usage,
}

#[derive(Debug)]
pub(crate) struct Prepared {
    answers: [Arc<[Step]>; 3],
    stream: bool,
}

impl Prepared {
    pub(crate) fn new(bench: Bench) -> Self {
        let stream = bench.events > 0;
        let answer = |dialect: Dialect| -> Arc<[Step]> {
            let ask = Ask {
                model: "scripted".to_owned(),
                stream,
                include_usage: true,
                wants_thoughts: false,
                results: 0,
                answers: 0,
                markers: Markers::default(),
                tools: Vec::new(),
                id: "bench".to_owned(),
            };
            let pieces = vec!["a piece of text ".to_owned(); bench.events.max(1)];
            let reply = Reply {
                thoughts: None,
                pieces,
                calls: Vec::new(),
                stop: None,
                usage: Some(bench.usage),
            };
            let parts = if stream {
                dialect.events(&ask, &reply)
            } else {
                vec![Bytes::from(dialect.unary(&ask, &reply).to_string())]
            };
            parts.into_iter().map(Step::Send).collect()
        };
        let answers = [Dialect::Messages, Dialect::Responses, Dialect::Chat].map(answer);
        Self { answers, stream }
    }

    pub(crate) fn answer(&self, dialect: Dialect) -> http::Response<Steps> {
        let [messages, responses, chat] = &self.answers;
        let steps = match dialect {
            Dialect::Messages => messages,
            Dialect::Responses => responses,
            Dialect::Chat => chat,
        };
        let kind = if self.stream { "text/event-stream" } else { "application/json" };
        let mut response = http::Response::new(Steps::new(steps.clone()));
        response.headers_mut().insert("content-type", http::HeaderValue::from_static(kind));
        response
    }
}

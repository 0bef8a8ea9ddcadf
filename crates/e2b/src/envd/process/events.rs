//! What clients are told about a process that they follow.

use std::pin::Pin;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_sandboxes::{Following, Happened, ProcessEnd, Stream};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::envd::Visit;
use crate::envd::connect::{Error, until};
use crate::json;

/// The events of a process, up to its end, the caller's deadline, or the moment
/// when its sandbox does not run any more.
pub(super) struct Events {
    following: Following,
    state: State,
    deadline: Option<Instant>,
    silence: Duration,
    interrupted: Pin<Box<dyn Future<Output = ()> + Send>>,
}

enum State {
    New,
    Running,
    Over,
}

impl Events {
    pub(super) fn new(visit: &Visit, following: Following) -> Result<Self, Error> {
        Ok(Self {
            following,
            state: State::New,
            deadline: visit.timeout()?.map(|timeout| Instant::now() + timeout),
            silence: visit.keepalive(),
            interrupted: Box::pin(visit.sandbox.interrupted()),
        })
    }

    pub(super) fn into_stream(
        self,
    ) -> impl futures_util::Stream<Item = Result<Value, Error>> + Send + 'static {
        stream::unfold(self, |mut events| async {
            let event = events.next().await?;
            Some((event.map(|event| json!({ "event": event })), events))
        })
    }

    async fn next(&mut self) -> Option<Result<Value, Error>> {
        match self.state {
            State::New => {
                self.state = State::Running;
                return Some(Ok(json!({ "start": { "pid": self.following.pid() } })));
            }
            State::Running => {}
            State::Over => return None,
        }
        tokio::select! {
            biased;
            () = until(self.deadline) => Some(Err(Error::too_late())),
            happened = self.following.next() => self.told(happened),
            () = &mut self.interrupted => Some(Err(Error::gone())),
            () = tokio::time::sleep(self.silence) => Some(Ok(json!({ "keepalive": {} }))),
        }
    }

    fn told(&mut self, happened: Happened) -> Option<Result<Value, Error>> {
        match happened {
            Happened::Output(stream, bytes) => {
                let name = match stream {
                    Stream::Stdout => "stdout",
                    Stream::Stderr => "stderr",
                    Stream::Terminal => "pty",
                };
                Some(Ok(json!({ "data": { name: STANDARD.encode(bytes) } })))
            }
            Happened::Ended(end) if end.is_lost() => Some(Err(Error::gone())),
            Happened::Ended(end) => {
                self.state = State::Over;
                Some(Ok(ended(&end)))
            }
        }
    }
}

fn ended(end: &ProcessEnd) -> Value {
    let mut value = json!({
        "exitCode": end.exit_code,
        "exited": end.exited,
        "status": end.status,
    });
    if let Some(error) = &end.error {
        json::set(&mut value, "error", error.as_str());
    }
    json!({ "end": value })
}

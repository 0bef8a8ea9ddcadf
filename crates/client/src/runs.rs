//! Runs of a server or a platform.

use belljar_api::Operation;
use belljar_api::data::Data;
use belljar_api::run::{
    AnswerRun, ChangeRun, CreateRun, FollowRun, ListRuns, RetryRun, Run, RunBreakpoints, RunDelta,
    RunEvent, RunPage, RunPrompt, TellRun,
};
use belljar_api::usage::{GetUsage, Usage};
use bytes::Bytes;
use http::{HeaderValue, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;

use crate::client::Client;
use crate::error::{Error, Protocol};
use crate::events::Events;
use crate::file::FileBody;
use crate::key::Key;
use crate::request::Asking;

/// A change of a run that is under way.
#[derive(Debug, Clone)]
pub enum RunWish {
    Pause,
    Resume,
    Step,
    Cancel,
    Tell(TellRun),
    Answer(AnswerRun),
    Breakpoints(RunBreakpoints),
    Budget(ChangeRun),
}

/// News of a followed run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunNews {
    Event(RunEvent),
    Delta(RunDelta),
}

/// The events of a run as they come.
#[derive(Debug)]
pub struct RunEvents(Events<Value>);

impl Client {
    /// One page of the tenant's runs, the newest first.
    pub async fn runs(&self, query: &ListRuns) -> Result<RunPage, Error> {
        self.value(Asking::new(Operation::ListRuns, &[]).query(query)?).await
    }

    /// Creates a run. With a key it is created once.
    pub async fn create_run(&self, wish: &CreateRun, key: Option<&Key>) -> Result<Run, Error> {
        self.value(Asking::new(Operation::CreateRun, &[]).json(wish)?.once(key)).await
    }

    /// The whole of a file that a run made.
    pub async fn run_file_bytes(&self, id: &str, name: &str) -> Result<Bytes, Error> {
        self.bytes(Asking::new(Operation::ReadRunFile, &[id, name])).await
    }

    /// Uploads a file for runs.
    pub async fn create_data(&self, bytes: impl Into<Bytes>) -> Result<Data, Error> {
        let body = Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync();
        let kind = HeaderValue::from_static("application/octet-stream");
        let asking = Asking::new(Operation::CreateData, &[]).body(body);
        self.value(asking.header(header::CONTENT_TYPE, kind)).await
    }

    /// A file that a run made.
    pub async fn run_file(&self, id: &str, name: &str) -> Result<FileBody, Error> {
        Ok(FileBody::of(self.open(Asking::new(Operation::ReadRunFile, &[id, name])).await?))
    }

    pub async fn run(&self, id: &str) -> Result<Run, Error> {
        self.value(Asking::new(Operation::GetRun, &[id])).await
    }

    /// Has a wish recorded; the run's worker does it next. With a key it is recorded once.
    pub async fn steer_run(
        &self,
        id: &str,
        wish: &RunWish,
        key: Option<&Key>,
    ) -> Result<Run, Error> {
        let to = |operation| Asking::new(operation, &[id]);
        let asking = match wish {
            RunWish::Pause => to(Operation::PauseRun),
            RunWish::Resume => to(Operation::ResumeRun),
            RunWish::Step => to(Operation::StepRun),
            RunWish::Cancel => to(Operation::CancelRun),
            RunWish::Tell(tell) => to(Operation::TellRun).json(tell)?,
            RunWish::Answer(answer) => to(Operation::AnswerRun).json(answer)?,
            RunWish::Breakpoints(points) => to(Operation::SetRunBreakpoints).json(points)?,
            RunWish::Budget(change) => to(Operation::ChangeRun).json(change)?,
        };
        self.value(asking.once(key)).await
    }

    /// Makes another attempt at a run. Asked again, it is the same one.
    pub async fn retry_run(&self, id: &str, wish: &RetryRun) -> Result<Run, Error> {
        self.value(Asking::new(Operation::RetryRun, &[id]).json(wish)?).await
    }

    /// Sums of the tenant's charges.
    pub async fn usage(&self, query: &GetUsage) -> Result<Usage, Error> {
        self.value(Asking::new(Operation::GetUsage, &[]).query(query)?).await
    }

    pub async fn run_prompt(&self, id: &str, turn: u32) -> Result<RunPrompt, Error> {
        self.value(Asking::new(Operation::ReadRunPrompt, &[id, &turn.to_string()])).await
    }

    /// The report of an ended run, as an HTML page.
    pub async fn run_report(&self, id: &str) -> Result<FileBody, Error> {
        Ok(FileBody::of(self.open(Asking::new(Operation::GetRunReport, &[id])).await?))
    }

    /// The events of a run until it is over.
    pub async fn follow_run(&self, id: &str, query: &FollowRun) -> Result<RunEvents, Error> {
        let asking = Asking::new(Operation::FollowRun, &[id]).query(query)?.streamed();
        Ok(RunEvents(Events::new(self.open(asking).await?.into_body())))
    }
}

impl RunEvents {
    /// The next news; none: the stream is over.
    pub async fn next(&mut self) -> Result<Option<RunNews>, Error> {
        let Some(value) = self.0.next().await? else { return Ok(None) };
        let news = match value.get("kind").and_then(Value::as_str) {
            Some("delta") => serde_json::from_value(value).map(RunNews::Delta),
            _ => serde_json::from_value(value).map(RunNews::Event),
        };
        Ok(Some(news.map_err(Protocol::Json)?))
    }
}

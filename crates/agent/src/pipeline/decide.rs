//! The step of a pipeline run between two calls, decided from its log and the clock.

use belljar_journal::event::{ErrorCategory, Outcome};
use belljar_pipeline::{AgentKind, Category, Message};
use time::OffsetDateTime;

use super::{MAX_REFUSED, Pipeline};
use crate::answer::{CONTEXT_FULL, NO_ANSWER, REFUSAL};
use crate::decide::{Closing, Step, in_trouble, used_up};
use crate::story::Story;

/// The one thing to do now; no call is unfinished, and no request.
pub(crate) fn between<'a>(
    story: &'a Story,
    pipeline: &Pipeline,
    now: OffsetDateTime,
    turn: u32,
    attempt: u32,
) -> Step<'a> {
    let view = &story.view;
    if let Some((trouble, message)) = &story.trouble {
        return Step::Close(in_trouble(*trouble, message));
    }
    if pipeline.has_given_up {
        return Step::Close(given_up(pipeline));
    }
    if pipeline.current.is_none()
        && let Some(artifact) = &pipeline.given
    {
        return send(Message::Code(artifact.clone()));
    }
    if let Some(result) = pipeline.report() {
        return send(Message::Execution(result));
    }
    if let Some(closing) = executed(pipeline) {
        return Step::Close(closing);
    }
    if view.is_answered && story.stop == REFUSAL {
        let why = "the model refuses to answer";
        return Step::Close(Closing::failed(ErrorCategory::Model, why));
    }
    if view.is_answered && story.stop == CONTEXT_FULL {
        let why = "the conversation is longer than the model can read";
        return Step::Close(Closing::failed(ErrorCategory::Model, why));
    }
    if let Some(first) = used_up(story, now).first() {
        if !view.limits.contains(&first.limit) {
            return Step::Limit(first.hit(turn));
        }
        return Step::Close(Closing {
            result: Some(summary(pipeline)),
            message: Some(first.reason()),
            ..Closing::of(Outcome::Exhausted)
        });
    }
    let is_unable = view.is_answered && story.stop == NO_ANSWER;
    let is_refused = pipeline.refused >= MAX_REFUSED;
    if is_unable || is_refused || (pipeline.last().is_some() && pipeline.is_over()) {
        let refused = format!("the {} gave no usable answer", pipeline.role().as_str());
        let why = if is_unable { story.words.as_str() } else { refused.as_str() };
        return send(Message::Question(pipeline.question(Some(why))));
    }
    if view.is_answered {
        return Step::Repair;
    }
    Step::Ask { turn, attempt, last: false }
}

fn send(message: Message) -> Step<'static> {
    Step::Send(Box::new(message))
}

/// The end of a run whose last program ended the matter.
fn executed(pipeline: &Pipeline) -> Option<Closing> {
    let last = pipeline.last()?;
    let result = match pipeline.agent {
        AgentKind::Executor => serde_json::to_string_pretty(&last.result).unwrap_or_default(),
        _ => last.result.output.clone(),
    };
    if last.result.success {
        return Some(Closing { result: Some(result), ..Closing::of(Outcome::Answered) });
    }
    let error = last.result.error.as_deref().unwrap_or("the program failed");
    if last.result.category == Some(Category::Lost) {
        let closing = Closing::failed(ErrorCategory::Sandbox, error);
        return Some(Closing { result: Some(result), ..closing });
    }
    let is_alone = pipeline.agent == AgentKind::Executor;
    is_alone.then(|| Closing {
        result: Some(result),
        ..Closing::failed(ErrorCategory::NoResult, error)
    })
}

fn given_up(pipeline: &Pipeline) -> Closing {
    let why = "a human gave the task up";
    Closing { result: Some(summary(pipeline)), ..Closing::failed(ErrorCategory::NoResult, why) }
}

/// The result of a run without an answer.
fn summary(pipeline: &Pipeline) -> String {
    let mut text = "No program answered this.".to_owned();
    for tried in &pipeline.tried {
        let category = tried.result.category.map_or("success", Category::as_str);
        let error = tried.result.error.as_deref().unwrap_or_default();
        text = format!("{text}\n\nAttempt {}: {category}. {error}", tried.number);
    }
    text
}

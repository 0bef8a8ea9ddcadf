//! `POST …/merge-requests`: opens a merge request for a branch that may be pushed.

use std::time::Duration;

use ::http::{Request, StatusCode};
use belljar_domain::approval::ApprovalAction;
use belljar_domain::network::Decision;
use http_body_util::BodyExt as _;
use serde::Serialize;

use super::commands::is_branch;
use super::forge::{Draft, MergeRequest};
use super::route::Route;
use super::source::Source;
use super::{Git, Refused, approve, default_branch};
use crate::answer;
use crate::body::{Answer, Inner};
use crate::budget::Amount;
use crate::operations::http::reserve;
use crate::operations::read::{self, ReadError};
use crate::operations::refuse::Refusal;
use crate::operations::serve::Asked;

const MAX_BODY: u64 = 64 << 10;
const MAX_TITLE: usize = 255;

/// The answer to the sandbox.
#[derive(Serialize)]
struct Opened<'a> {
    number: u64,
    url: &'a str,
    source: &'a str,
    target: &'a str,
    /// False for one that was open already.
    created: bool,
}

pub(super) async fn ask(
    asked: &mut Asked,
    git: &Git,
    route: &Route,
    request: Request<Inner>,
) -> Result<Answer, Refusal> {
    let forge = git.forge.as_ref().ok_or(Refused::NoForge)?;
    let draft = draft(asked, request).await?;
    check(git, &draft)?;
    let target = match draft.target.clone() {
        Some(target) => target,
        None => default_branch::find(asked, route).await?.ok_or_else(|| {
            Refused::MergeRequest("the default branch is unknown; name a `target`".to_owned())
        })?,
    };
    if target == draft.source {
        return Err(invalid("`source` and `target` are the same branch"));
    }
    let change = format!("{} into {target}: {}", draft.source, draft.title);
    approve(asked, git, route, ApprovalAction::MergeRequest, vec![change]).await?;
    let mut reservation = reserve(asked, Amount { requests: 1, ..Amount::default() }).await?;
    if let Some(entry) = &mut asked.entry {
        let (host, port) = forge.place();
        entry.to(host, port);
    }
    reservation.dispatch();
    let opened = forge.open(&route.repository, &draft, &target).await;
    reservation.settle(Amount { requests: 1, ..Amount::default() });
    let MergeRequest { number, url, is_new } = opened?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    if let Some(mut entry) = asked.entry.take() {
        entry.decide(Decision::Allowed, asked.allowed);
        entry.row().status = Some(status.as_u16());
    }
    let opened =
        Opened { number, url: &url, source: &draft.source, target: &target, created: is_new };
    Ok(answer::json(status, None, &opened))
}

async fn draft(asked: &Asked, request: Request<Inner>) -> Result<Draft, Refusal> {
    let (head, body) = request.into_parts();
    let unpacked = Source::new(&head.headers, body, u64::MAX)?;
    let within = Duration::from_secs(asked.operation.timeouts.body_seconds);
    let room = &asked.session.room;
    let body = Inner::Streamed(unpacked.boxed_unsync());
    let held = read::read(body, MAX_BODY, within, room).await.map_err(|error| match error {
        ReadError::TooLarge => Refusal::TooLarge(MAX_BODY),
        ReadError::Slow => Refusal::Slow,
        ReadError::NoRoom => Refusal::NoRoom,
        ReadError::Gone => Refusal::Gone,
    })?;
    serde_json::from_slice(&held.bytes).map_err(|error| {
        invalid(&format!(
            "the body is not a merge request: {error}; send \
             {{\"title\": …, \"source\": …, \"target\": …, \"body\": …}}"
        ))
    })
}

fn check(git: &Git, draft: &Draft) -> Result<(), Refusal> {
    let Draft { title, source, target, .. } = draft;
    if title.trim().is_empty() || title.len() > MAX_TITLE || title.contains(char::is_control) {
        return Err(invalid(&format!("`title` is one line of 1 to {MAX_TITLE} bytes")));
    }
    if !is_branch(source) || target.as_deref().is_some_and(|target| !is_branch(target)) {
        return Err(invalid("`source` and `target` are names of branches"));
    }
    if !git.allows_branch(source) {
        let allowed = git.branches.join(", ");
        return Err(Refused::Branch { branch: source.clone(), allowed }.into());
    }
    Ok(())
}

fn invalid(why: &str) -> Refusal {
    Refused::MergeRequest(why.to_owned()).into()
}

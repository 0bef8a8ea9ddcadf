//! Pushes: the commands are judged before a byte goes out, the pack while it goes.

use std::sync::Arc;
use std::time::Duration;

use ::http::header::HeaderMap;
use ::http::{Method, Request};
use belljar_domain::approval::ApprovalAction;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;

use super::commands::{Commands, Reader, Update};
use super::pack::MAX_KEPT;
use super::pushed::{Pushed, Scan, Verdict};
use super::route::{Route, Service};
use super::source::Source;
use super::{Git, Refused, approve, default_branch, note, report, set_type, to_upstream, uri};
use crate::body::{Answer, Inner};
use crate::budget::Amount;
use crate::operations::http::{forward, reserve};
use crate::operations::read::Held;
use crate::operations::refuse::Refusal;
use crate::operations::serve::Asked;
use crate::room::TakenRoom;
use crate::wire::Tally;

/// Branches that count as default ones where the server does not say.
const USUAL_DEFAULTS: [&str; 2] = ["main", "master"];
/// Time for the rest of a refused push: a client reads the answer after it has sent all.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn ask(
    asked: &mut Asked,
    git: &Git,
    route: &Route,
    request: Request<Inner>,
) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    if let (Some(entry), Some(tally)) = (&mut asked.entry, head.extensions.get::<Arc<Tally>>()) {
        entry.count_by(tally);
    }
    let most = asked.operation.max_body;
    let mut source = Source::new(&head.headers, body, most)?;
    let within = Duration::from_secs(asked.operation.timeouts.body_seconds);
    let read = tokio::time::timeout(within, read_head(&mut source)).await;
    let (commands, ahead) = read.map_err(|_| Refusal::Slow)??;
    let is_too_large = source.length().is_some_and(|length| length > most);
    let judged = match is_too_large {
        true => Err(Refusal::TooLarge(most)),
        false => judge(asked, git, route, &commands).await,
    };
    let refusal = match judged {
        Ok(()) => match send(asked, git, route, &head.headers, &commands, (source, ahead)).await {
            Ok(answer) => return Ok(answer),
            Err(refusal) => refusal,
        },
        Err(refusal) => {
            if !is_too_large {
                let _ = tokio::time::timeout(DRAIN_TIMEOUT, source.drain()).await;
            }
            refusal
        }
    };
    let answer = report::of_push(&commands, &refusal);
    // Git must see that its token is no longer valid.
    let Some(answer) = answer.filter(|_| refusal != Refusal::Token) else { return Err(refusal) };
    note(asked, &refusal);
    Ok(answer)
}

/// Reads the commands. What came behind them is the beginning of the pack.
async fn read_head(source: &mut Source) -> Result<(Commands, Bytes), Refusal> {
    let (mut reader, mut buffer) = (Reader::default(), BytesMut::new());
    loop {
        let piece = source.next().await.ok_or(Refusal::Gone)?.map_err(Refusal::from)?;
        buffer.extend_from_slice(&piece);
        let read = reader.read(&mut buffer).map_err(|bad| Refusal::from(Refused::Head(bad)))?;
        if let Some(commands) = read {
            return Ok((commands, buffer.freeze()));
        }
    }
}

/// Everything that can be said before the pack is read.
async fn judge(
    asked: &mut Asked,
    git: &Git,
    route: &Route,
    commands: &Commands,
) -> Result<(), Refusal> {
    // Before a large push, git asks once without commands.
    if commands.updates.is_empty() {
        return Ok(());
    }
    for update in &commands.updates {
        judge_branch(git, update)?;
    }
    if !git.allows_default {
        let default = default_branch::find(asked, route).await?;
        let is_default = |branch: &str| match &default {
            // On some disks, names in another case are the same.
            Some(default) => default.eq_ignore_ascii_case(branch),
            None => USUAL_DEFAULTS.iter().any(|usual| usual.eq_ignore_ascii_case(branch)),
        };
        let mut branches = commands.updates.iter().filter_map(Update::branch);
        if let Some(branch) = branches.find(|branch| is_default(branch)) {
            return Err(Refused::DefaultBranch(branch.to_owned()).into());
        }
    }
    let changes = commands.updates.iter().map(told).collect();
    approve(asked, git, route, ApprovalAction::Push, changes).await
}

fn judge_branch(git: &Git, update: &Update) -> Result<(), Refused> {
    let branch = update.branch().ok_or_else(|| Refused::NoBranch(update.name.clone()))?;
    if !git.allows_branch(branch) {
        let allowed = git.branches.join(", ");
        return Err(Refused::Branch { branch: branch.to_owned(), allowed });
    }
    if update.is_deletion() && !git.allows_deletions {
        return Err(Refused::Deletion(branch.to_owned()));
    }
    Ok(())
}

/// A change, in words for the human who approves it.
fn told(update: &Update) -> String {
    let Update { old, new, name } = update;
    let branch = update.branch().unwrap_or(name);
    match (update.is_new(), update.is_deletion()) {
        (_, true) => format!("delete {branch} (was {old})"),
        (true, false) => format!("create {branch} at {new}"),
        (false, false) => format!("update {branch} from {old} to {new}"),
    }
}

/// Forwards the head as it was read, and the pack as it comes.
async fn send(
    asked: &mut Asked,
    git: &Git,
    route: &Route,
    client: &HeaderMap,
    commands: &Commands,
    (mut source, ahead): (Source, Bytes),
) -> Result<Answer, Refusal> {
    let moved = |update: &&Update| !update.is_new() && !update.is_deletion();
    let forward_only: Vec<Update> = match git.allows_force {
        true => Vec::new(),
        false => commands.updates.iter().filter(moved).cloned().collect(),
    };
    let room = room(asked, &forward_only)?;
    let reservation = reserve(asked, Amount { requests: 1, ..Amount::default() }).await?;
    let verdict = Verdict::default();
    let head = commands.written();
    let body = if commands.has_pack() {
        let scan =
            Scan::new(forward_only, commands.shallow.clone(), asked.operation.max_body, room);
        let pushed = Pushed::new(head, ahead, source, scan, verdict.clone());
        Inner::Streamed(pushed.boxed_unsync())
    } else {
        // Nothing may follow, so nothing does.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, source.drain()).await;
        Inner::from(Bytes::from(head))
    };
    let mut upstream = Request::new(body);
    *upstream.method_mut() = Method::POST;
    *upstream.uri_mut() = uri(asked, route, Service::Receive.name(), None)?;
    let mut headers = to_upstream(asked, client, Service::Receive);
    set_type(&mut headers, "application/x-git-receive-pack-request");
    *upstream.headers_mut() = headers;
    let held = Held { bytes: Bytes::new(), room: None };
    // The upstream's error is only that the pack was cut.
    let sent = forward(asked, upstream, held, reservation, None).await;
    sent.map_err(|refusal| verdict.refusal().unwrap_or(refusal))
}

/// Room for the commits that are kept of the pack.
fn room(asked: &Asked, updates: &[Update]) -> Result<Option<TakenRoom>, Refusal> {
    if updates.is_empty() {
        return Ok(None);
    }
    let kibibytes = u32::try_from(MAX_KEPT >> 10).map_err(|_| Refusal::NoRoom)?;
    asked.session.room.try_take(kibibytes).map(Some).ok_or(Refusal::NoRoom)
}

//! Pause, resume, cancel, tell: from outside, at any time.

use belljar_domain::Sequence;
use belljar_domain::approval::ToolCall;
use belljar_journal::event::{
    CallDecision, CallRef, Injected, Outcome, PausePoint, Paused, Request, Resumed, Verdict,
};
use belljar_journal::{ApprovalQuery, Body, NewEvent, RunView, State, Watch};
use tempfile::TempDir;
use time::OffsetDateTime;

use super::crash::Process;
use super::{LONG, all, leased, run};
use crate::agent::World;
use crate::build;
use crate::place::Place;

pub async fn a_paused_run_waits_until_somebody_wants_it(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let lease = leased(&journal).await?;
    let address = &lease.address;
    let pause = journal.request(address, build::want(Request::Pause), None).await?.seq();
    let paused = NewEvent::new(Paused { answers: Some(pause), at: None }).seen(pause);
    journal.append(&lease, paused).await?;
    journal.release(&lease).await?;
    assert_eq!(journal.find(address).await?.state, State::Paused);
    assert!(!journal.claimable(9).await?.contains(address));
    let tell = build::want(Request::Tell { text: "later".into() });
    journal.request(address, tell, None).await?;
    assert!(!journal.claimable(9).await?.contains(address));
    let resume = journal.request(address, build::want(Request::Resume), None).await?.seq();
    assert!(journal.claimable(9).await?.contains(address));
    let lease = journal.claim(address, "second", LONG).await?;
    assert_eq!(journal.find(address).await?.state, State::Paused);
    journal
        .append(
            &lease,
            NewEvent::new(Resumed { answers: resume, until: None, reply: None, decision: None }),
        )
        .await?;
    let view = RunView::of(&all(&journal, address).await?);
    assert_eq!((view.state(), view.pending.len()), (Some(State::Running), 1));
    Ok(())
}

pub async fn a_run_that_waits_for_an_approval_is_found(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let lease = leased(&journal).await?;
    let address = &lease.address;
    let until = OffsetDateTime::UNIX_EPOCH + time::Duration::days(365_000);
    let found = async |tenant: Option<&str>, due: Option<OffsetDateTime>| {
        let query = ApprovalQuery { tenant, due, most: 1000 };
        let found = journal.awaiting_approval(query).await?;
        anyhow::Ok(found.contains(address))
    };
    let tenant = Some(address.tenant.as_str());
    assert!(!found(tenant, None).await?);
    let call = CallRef { turn: 1, id: "c1".into() };
    let tool = ToolCall::new("shell", Some("c1"), "{}", "00".to_owned());
    let at = Some(PausePoint::Approval { call: call.clone(), tool, until });
    let head = journal.find(address).await?.head;
    let paused = NewEvent::new(Paused { answers: None, at }).seen(head);
    journal.append_all(&lease, vec![paused].into(), None).await?;
    journal.release(&lease).await?;
    let tell = build::want(Request::Tell { text: "later".into() });
    journal.request(address, tell, None).await?;
    assert!(found(tenant, None).await? && found(None, None).await?);
    assert!(!found(Some("another tenant"), None).await?);
    assert!(found(tenant, Some(until)).await?);
    assert!(!found(tenant, Some(until - time::Duration::seconds(1))).await?);
    assert!(!journal.claimable(9).await?.contains(address));

    let decision = CallDecision { call, verdict: Verdict::Approved, message: None };
    let decide = build::want(Request::Decide { decision: decision.clone() });
    let answers = journal.request(address, decide, None).await?.seq();
    assert!(journal.claimable(9).await?.contains(address));
    let lease = journal.claim(address, "second", LONG).await?;
    let resumed = Resumed { answers, until: None, reply: None, decision: Some(decision) };
    journal.append(&lease, NewEvent::new(resumed)).await?;
    assert!(!found(tenant, None).await? && !found(None, None).await?);
    let view = RunView::of(&all(&journal, address).await?);
    assert!(view.decision.is_some() && view.approval.is_none());
    Ok(())
}

pub async fn a_run_that_nobody_has_can_be_cancelled(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let address = run(&journal).await?;
    journal.request(&address, build::want(Request::Cancel), None).await?;
    let world = TempDir::new()?;
    Process::work(place, &address, world.path(), 5, None)?.done()?;
    let view = RunView::of(&all(&journal, &address).await?);
    assert_eq!(view.finished.map(|end| end.outcome), Some(Outcome::Cancelled));
    assert_eq!((view.turns, World::new(world.path())?.executions().len()), (0, 0));
    Ok(())
}

/// One process works; this one watches, tells it something, pauses it, lets it go
/// on, and ends it.
pub async fn another_process_is_controlled(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let address = run(&journal).await?;
    let world = TempDir::new()?;
    let endless = 1_000_000;
    let worker = Process::work(place, &address, world.path(), endless, None)?;
    let mut watch = Watch::new(journal.clone(), address.clone(), Sequence(1));
    let raise = belljar_journal::event::Budget { turns: Some(u32::MAX), ..Default::default() };
    let change = belljar_journal::event::BudgetPatch(raise);
    let mut asked = 0;
    while let Some(event) = watch.next().await? {
        match event.body {
            Body::LlmResponded(answer) if answer.turn == 1 => {
                for request in [Request::Budget { change }, Request::Tell { text: "hm".into() }] {
                    journal.request(&address, build::want(request), None).await?;
                }
            }
            Body::InjectedMessage(message) if message.kind == Injected::Operator => {
                journal.request(&address, build::want(Request::Pause), None).await?;
            }
            Body::Paused(_) => break,
            Body::LlmRequested(_) => asked += 1,
            _ => {}
        }
    }
    // It lets go of the run, and nothing happens until somebody wants it.
    worker.done()?;
    let before = all(&journal, &address).await?;
    assert!(asked >= 1 && matches!(before.last().map(|e| &e.body), Some(Body::Paused(_))));
    journal.request(&address, build::want(Request::Resume), None).await?;
    let worker = Process::work(place, &address, world.path(), endless, None)?;
    while let Some(event) = watch.next().await? {
        if matches!(event.body, Body::LlmRequested(_)) {
            journal.request(&address, build::want(Request::Cancel), None).await?;
            break;
        }
    }
    worker.done()?;
    while watch.next().await?.is_some() {}
    let view = RunView::of(&all(&journal, &address).await?);
    assert_eq!(view.finished.map(|end| end.outcome), Some(Outcome::Cancelled));
    assert_eq!(view.budget.turns, Some(u32::MAX));
    Ok(())
}

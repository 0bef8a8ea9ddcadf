//! Budgets that a node claims which was taken over: control uses the limits that it knows.
//!
//! Requirements: G5, P3

use anyhow::ensure;
use belljar_domain::budget::{
    AskSlice, BudgetAmount, BudgetAnswer, BudgetKey, BudgetLimit, BudgetRequest,
};
use belljar_domain::{BudgetOwner, KnownBudgets, NodeNumber};
use belljar_peer_proto::member::{AskBudget, BUDGETS};

use super::stolen::Thief;
use crate::platform::{Options, Platform};
use crate::world::World;

const OPERATION: &str = "llm";
const LIMIT: u64 = 100;
const HOUR: u64 = 3600;

fn requests(requests: u64) -> BudgetLimit {
    BudgetLimit { requests: Some(requests), ..BudgetLimit::default() }
}

/// BUS-10/claims: a limit of its own, another window, and a budget that is not in control's file.
pub(crate) async fn claims_no_budget(_: &World) -> anyhow::Result<String> {
    let mut known = KnownBudgets::default();
    known.add(OPERATION.to_owned(), BudgetOwner::AllTenants, HOUR, requests(LIMIT));
    let known_budgets = Some(known);
    let platform = Platform::start_with(Options { known_budgets, ..Options::default() }).await?;
    let seen = Box::pin(claim(&platform)).await;
    platform.stop().await?;
    seen
}

async fn claim(platform: &Platform) -> anyhow::Result<String> {
    let thief = Thief::of(platform).await?;
    let me = thief.register("https://127.0.0.1:9").await?.number;
    // The control: what is in control's own file can be leased, up to its limit and no further.
    let mut leased = 0;
    while leased <= LIMIT {
        match ask(&thief, me, OPERATION, None, HOUR).await? {
            BudgetAnswer::Granted(slice) => leased += slice.amount.requests,
            BudgetAnswer::Exhausted { .. } => break,
            other => anyhow::bail!("{other:?}"),
        }
    }
    ensure!(leased == LIMIT, "{leased} requests of a budget of {LIMIT} were leased");
    let others = [
        (OPERATION, None, HOUR + 1),
        (OPERATION, None, 0),
        (OPERATION, Some("a"), HOUR),
        (OPERATION, Some(""), HOUR),
        ("another", None, HOUR),
    ];
    for (operation, tenant, every_seconds) in others {
        let answer = ask(&thief, me, operation, tenant, every_seconds).await?;
        let is_refused = matches!(answer, BudgetAnswer::Away { .. });
        ensure!(is_refused, "{operation} {tenant:?} {every_seconds}: {answer:?}");
    }
    Ok(format!("{leased} of {LIMIT} leased, {} other budgets refused", others.len()))
}

/// Asks for a slice, and claims that the budget is huge.
async fn ask(
    thief: &Thief,
    number: NodeNumber,
    operation: &str,
    tenant: Option<&str>,
    every_seconds: u64,
) -> anyhow::Result<BudgetAnswer> {
    let (operation, tenant) = (operation.to_owned(), tenant.map(str::to_owned));
    let request = BudgetRequest::Lease(AskSlice {
        gateway: "thief".to_owned(),
        key: BudgetKey { operation, tenant, every_seconds },
        limit: requests(1 << 40),
        at_least: BudgetAmount { requests: 1, ..BudgetAmount::default() },
    });
    let message = serde_json::to_value(AskBudget { number, request })?;
    let (status, answer) = thief.say(BUDGETS, &message).await?;
    ensure!(status == 200, "{status} {answer}");
    Ok(serde_json::from_value(answer)?)
}

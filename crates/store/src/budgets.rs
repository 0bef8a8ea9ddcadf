//! Budgets of operations: slices are handed out, and unused ones taken back.
//!
//! Each is one statement that locks the budget's row. So what is handed out, and what was spent of
//! it, never passes the limit, however many gateways ask at once.

use std::time::Duration;

use belljar_domain::NodeNumber;
use belljar_domain::budget::{
    AskSlice, BudgetAmount, BudgetAnswer, BudgetKey, BudgetLimit, BudgetRequest, MAX_SLICE,
    ReturnSlices, SLICE_DIVISOR, Slice, UnusedSlice,
};
use serde_json::{Value, json};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::QueryAs;
use sqlx::types::Json;
use sqlx::{FromRow, Postgres};
use tokio::sync::oneshot;

use crate::error::{StoreError, of};
use crate::{Store, read};

/// Hands out a slice if one fits: into a new row, or onto the row of this window. A row of an
/// earlier window begins anew. One that is further ahead than a window was made by a clock that was
/// wrong: the window of now begins, with all that is leased. A tenant's budget is leased to a node that has a sandbox of the
/// tenant.
const LEASE: &str = "
    with asked as (
      select budget_window($3) as start,
             budget_slice_size($4, 0, $7, $10, $13) as requests,
             budget_slice_size($5, 0, $8, $11, $13) as tokens,
             budget_slice_size($6, 0, $9, $12, $13) as nano_dollars
      where $15::smallint is null or $2 = '' or exists
        (select from sandbox where node = $15 and tenant = $2 and state <> 'ended')
    ), known as (
      select window_start from budget
      where operation = $1 and tenant = $2 and every_seconds = $3
    ), held as (
      insert into budget as b (operation, tenant, every_seconds, window_start,
                               leased_requests, leased_tokens, leased_nano_dollars,
                               slice_requests, slice_tokens, slice_nano_dollars)
      select $1, $2, $3, start, requests, tokens, nano_dollars, requests, tokens, nano_dollars
      from asked
      where requests is not null and tokens is not null and nano_dollars is not null
      on conflict (operation, tenant, every_seconds) do update set
        window_start = case when budget_window_is_ahead(b.window_start, $3)
          then excluded.window_start
          else greatest(b.window_start, excluded.window_start) end,
        leased_requests = case when b.window_start < excluded.window_start
          then excluded.leased_requests
          else b.leased_requests + budget_slice_size($4, b.leased_requests, $7, $10, $13) end,
        slice_requests = case when b.window_start < excluded.window_start
          then excluded.slice_requests
          else budget_slice_size($4, b.leased_requests, $7, $10, $13) end,
        leased_tokens = case when b.window_start < excluded.window_start
          then excluded.leased_tokens
          else b.leased_tokens + budget_slice_size($5, b.leased_tokens, $8, $11, $13) end,
        slice_tokens = case when b.window_start < excluded.window_start
          then excluded.slice_tokens
          else budget_slice_size($5, b.leased_tokens, $8, $11, $13) end,
        leased_nano_dollars = case when b.window_start < excluded.window_start
          then excluded.leased_nano_dollars
          else b.leased_nano_dollars + budget_slice_size($6, b.leased_nano_dollars, $9, $12, $13) end,
        slice_nano_dollars = case when b.window_start < excluded.window_start
          then excluded.slice_nano_dollars
          else budget_slice_size($6, b.leased_nano_dollars, $9, $12, $13) end
      where b.window_start < excluded.window_start
         or (budget_slice_size($4, b.leased_requests, $7, $10, $13) is not null
             and budget_slice_size($5, b.leased_tokens, $8, $11, $13) is not null
             and budget_slice_size($6, b.leased_nano_dollars, $9, $12, $13) is not null)
      returning b.*
    ), past as (
      delete from budget_slice s using held
      where s.operation = held.operation and s.tenant = held.tenant
        and s.every_seconds = held.every_seconds and s.window_start < held.window_start
    ), ahead as (
      update budget_slice s set window_start = held.window_start from held
      where s.operation = held.operation and s.tenant = held.tenant
        and s.every_seconds = held.every_seconds and s.window_start > held.window_start
    )
    insert into budget_slice (operation, tenant, every_seconds, window_start, gateway, node,
                              requests, tokens, nano_dollars)
    select operation, tenant, every_seconds, window_start, $14, $15,
           slice_requests, slice_tokens, slice_nano_dollars
    from held
    returning id, requests, tokens, nano_dollars,
      case when every_seconds > 0 then greatest(0, (extract(epoch from
        window_start + every_seconds * interval '1 second' - clock_timestamp()) * 1000)::bigint)
      end as left_ms,
      coalesce((select budget_window_is_ahead(known.window_start, $3) from known), false)
        as was_ahead";

/// Begins the window of now for a budget whose window the clock was ahead for. What is leased stays
/// leased until this window ends.
const PULL_BACK: &str = "
    with back as (
      update budget set window_start = budget_window($3)
      where operation = $1 and tenant = $2 and every_seconds = $3
        and budget_window_is_ahead(window_start, $3)
      returning *
    ), slices as (
      update budget_slice s set window_start = back.window_start from back
      where s.operation = back.operation and s.tenant = back.tenant
        and s.every_seconds = back.every_seconds and s.window_start > back.window_start
    )
    select exists (select from back)";

/// True if other gateways hold slices of this window, which may come back.
const IS_HELD: &str = "
    select exists (select from budget_slice where operation = $1 and tenant = $2
      and every_seconds = $3 and window_start = budget_window($3) and gateway <> $4
      and leased_at > now() - interval '10 minutes')";

// A slice is deleted when it comes back, so it comes back once. No more of it is accepted than was
// handed out, and nothing of an earlier window. The budget's row is locked first, as by a lease.
const RETURN: &str = "
    with locked as materialized (
      select * from budget where operation = $1 and tenant = $2 and every_seconds = $3 for update
    ), back as (
      delete from budget_slice s
      using locked b, jsonb_to_recordset($6) as r
        (id bigint, requests bigint, tokens bigint, nano_dollars bigint)
      where s.id = r.id and s.gateway = $4 and s.node is not distinct from $5::smallint
        and s.operation = b.operation and s.tenant = b.tenant
        and s.every_seconds = b.every_seconds
      returning s.window_start, least(r.requests, s.requests) as requests,
        least(r.tokens, s.tokens) as tokens,
        least(r.nano_dollars, s.nano_dollars) as nano_dollars
    ), freed as (
      update budget b set
        leased_requests = b.leased_requests - f.requests,
        leased_tokens = b.leased_tokens - f.tokens,
        leased_nano_dollars = b.leased_nano_dollars - f.nano_dollars
      from (select window_start, sum(requests)::bigint as requests, sum(tokens)::bigint as tokens,
                   sum(nano_dollars)::bigint as nano_dollars
            from back group by window_start) f
      where b.operation = $1 and b.tenant = $2 and b.every_seconds = $3
        and b.window_start = f.window_start
    )
    select count(*) from back";

/// Longest window. The end of a longer one may be no time that the database has.
const MAX_WINDOW_SECONDS: u64 = 100 * 366 * 86_400;
/// Attempts to take back a slice that was granted too late. After them, it stays spent.
const LATE_RETURN_ATTEMPTS: u32 = 5;
const LATE_RETURN_RETRY: Duration = Duration::from_secs(1);

impl Store {
    /// Answers a gateway as [`Self::answer_budget`] does; none if that takes longer than `patience`.
    /// A slice that is granted after the caller stopped waiting, or was dropped, is taken back.
    ///
    /// `place` is held for as long as the database is at it.
    pub async fn answer_budget_within(
        &self,
        patience: Duration,
        node: Option<NodeNumber>,
        request: BudgetRequest,
        place: impl Send + 'static,
    ) -> Option<Result<BudgetAnswer, StoreError>> {
        // On a task of its own: a statement that is dropped on its way costs its connection.
        let (sender, mut receiver) = oneshot::channel();
        let store = self.clone();
        tokio::spawn(async move {
            let answer = store.answer_budget(node, &request).await;
            if let Err(Ok(answer)) = sender.send(answer)
                && let Some(back) = request.return_of(&answer)
            {
                store.take_back_late(node, &BudgetRequest::Return(back)).await;
            }
            drop(place);
        });
        match tokio::time::timeout(patience, &mut receiver).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                // An answer that was sent just now counts; a later one finds the channel closed.
                receiver.close();
                receiver.try_recv().ok()
            }
        }
    }

    async fn take_back_late(&self, node: Option<NodeNumber>, back: &BudgetRequest) {
        for _ in 0..LATE_RETURN_ATTEMPTS {
            if self.answer_budget(node, back).await.is_ok() {
                return;
            }
            tokio::time::sleep(LATE_RETURN_RETRY).await;
        }
    }

    /// Answers a gateway: one of this node, or of a replica of control.
    pub async fn answer_budget(
        &self,
        node: Option<NodeNumber>,
        request: &BudgetRequest,
    ) -> Result<BudgetAnswer, StoreError> {
        // A number that no node can have is still no word of control.
        let node = node.map(|node| i16::try_from(node.get()).unwrap_or(-1));
        match request {
            BudgetRequest::Lease(asked) => self.lease_slice(node, asked).await,
            BudgetRequest::Return(slices) => {
                let accepted = self.take_back(node, slices).await?;
                Ok(BudgetAnswer::Returned { accepted })
            }
        }
    }

    async fn lease_slice(
        &self,
        node: Option<i16>,
        asked: &AskSlice,
    ) -> Result<BudgetAnswer, StoreError> {
        let AskSlice { gateway, key, limit, at_least } = asked;
        // All of this is the word of a node.
        if key.every_seconds > MAX_WINDOW_SECONDS || !is_storable(*at_least) {
            let why = "the budget's numbers are too large".to_owned();
            return Ok(BudgetAnswer::Away { why });
        }
        if !has_room(limit, *at_least) {
            return Ok(BudgetAnswer::Exhausted { is_held: false });
        }
        let limits = [limit.requests, limit.tokens, limit.nano_dollars];
        let mut query = of_key::<SliceRow>(LEASE, key);
        for limit in limits {
            query = query.bind(limit.map(read::signed));
        }
        for amount in [*at_least, MAX_SLICE] {
            for value in [amount.requests, amount.tokens, amount.nano_dollars] {
                query = query.bind(read::signed(value));
            }
        }
        let query = query.bind(read::signed(SLICE_DIVISOR)).bind(gateway.clone()).bind(node);
        if let Some(row) = query.fetch_optional(&self.pool).await.map_err(of)? {
            if row.5 {
                log_window_ahead(key);
            }
            return Ok(BudgetAnswer::Granted(slice(row)));
        }
        // Else it would stay used up until the time that the clock once showed.
        let (was_ahead,) = of_key::<(bool,)>(PULL_BACK, key).fetch_one(&self.pool).await?;
        if was_ahead {
            log_window_ahead(key);
        }
        let held = of_key::<(bool,)>(IS_HELD, key).bind(gateway.clone());
        let (is_held,) = held.fetch_one(&self.pool).await?;
        Ok(BudgetAnswer::Exhausted { is_held })
    }

    async fn take_back(
        &self,
        node: Option<i16>,
        returned: &ReturnSlices,
    ) -> Result<u64, StoreError> {
        let ReturnSlices { gateway, key, slices } = returned;
        let slices: Vec<Value> = slices.iter().map(document).collect();
        let query = of_key::<(i64,)>(RETURN, key);
        let query = query.bind(gateway.clone()).bind(node).bind(Json(slices));
        let (accepted,) = query.fetch_one(&self.pool).await.map_err(of)?;
        Ok(accepted.unsigned_abs())
    }
}

/// Returns true if the columns of a budget have room for these quantities.
fn is_storable(amount: BudgetAmount) -> bool {
    let values = [amount.requests, amount.tokens, amount.nano_dollars];
    values.into_iter().all(|value| i64::try_from(value).is_ok())
}

/// Returns true if a budget of which nothing is leased could hand out this much.
fn has_room(limit: &BudgetLimit, at_least: BudgetAmount) -> bool {
    limit.slice(BudgetAmount::default(), at_least).is_some()
}

/// A query with the first three values of every statement here.
fn of_key<T>(sql: &'static str, key: &BudgetKey) -> QueryAs<'static, Postgres, T, PgArguments>
where
    T: for<'r> FromRow<'r, PgRow>,
{
    sqlx::query_as(sql)
        .bind(key.operation.clone())
        .bind(key.tenant.clone().unwrap_or_default())
        .bind(read::signed(key.every_seconds))
}

fn document(slice: &UnusedSlice) -> Value {
    let BudgetAmount { requests, tokens, nano_dollars } = slice.unused;
    json!({
        "id": slice.id,
        "requests": read::signed(requests),
        "tokens": read::signed(tokens),
        "nano_dollars": read::signed(nano_dollars),
    })
}

fn log_window_ahead(key: &BudgetKey) {
    let BudgetKey { operation, tenant, every_seconds } = key;
    tracing::warn!(operation, tenant, every_seconds, "budget window was ahead of the clock");
}

/// Id, requests, tokens, nano-dollars, the rest of the window, and whether the window was ahead.
type SliceRow = (i64, i64, i64, i64, Option<i64>, bool);

fn slice((id, requests, tokens, nano_dollars, left_ms, _): SliceRow) -> Slice {
    Slice {
        id,
        amount: BudgetAmount {
            requests: requests.unsigned_abs(),
            tokens: tokens.unsigned_abs(),
            nano_dollars: nano_dollars.unsigned_abs(),
        },
        ends_in_ms: left_ms.map(i64::unsigned_abs),
    }
}

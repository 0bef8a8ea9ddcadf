//! What nodes say of their sandboxes, written down many at a time.

use std::time::Duration;

use belljar_domain::{EndReason, NodeNumber, SandboxId, Tier};
use sqlx::{PgConnection, Row as _};

use crate::error::{StoreError, of};
use crate::{Store, nodes, read};

/// A sandbox that a node has.
#[derive(Debug, Clone)]
pub struct Present<'a> {
    pub id: &'a SandboxId,
    pub tier: Tier,
    pub is_paused: bool,
    /// Until it ends.
    pub left: Duration,
    /// How long it has run so far, in all.
    pub ran: Duration,
}

/// A sandbox that a node has no more.
#[derive(Debug, Clone)]
pub struct Gone<'a> {
    pub id: &'a SandboxId,
    pub reason: EndReason,
    /// How long it ran, in all.
    pub ran: Duration,
}

/// What a node says.
#[derive(Debug, Clone)]
pub struct Word<'a> {
    pub number: NodeNumber,
    /// The key that the node has shown: what another says in its name changes nothing.
    pub public_key: &'a [u8; 32],
    pub epoch: u64,
    pub sequence: u64,
    pub lease: Duration,
    /// Whether `present` is all that it has.
    pub is_whole: bool,
    pub present: &'a [Present<'a>],
    pub ended: &'a [Gone<'a>],
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The lease is renewed.
    Renewed {
        is_draining: bool,
        /// Of what it has, what is on no book.
        unknown: Vec<SandboxId>,
        /// What it should have, and has not: ended as lost.
        missing: Vec<SandboxId>,
    },
    /// Something that was said later has been heard already.
    Late,
    /// This node was given up, or its key was revoked or replaced.
    Stale,
}

/// How long a sandbox may be on its way before a node that says nothing of it is
/// taken at its word.
const ON_ITS_WAY: &str = "60 seconds";

/// A node says how long a sandbox ran, and its owner is charged for that. It is believed
/// for as long as the row has been there, and 5 s for the node's own clock.
const RAN_AT_MOST: &str = "least(said.ran_ms, \
     (1000 * (5 + extract(epoch from now() - s.made_at)))::bigint)";

/// The longest life that a node is believed about, in seconds: a year.
const LONGEST_LEFT: f64 = 366.0 * 24.0 * 3600.0;

impl Store {
    /// Renews a node's lease and writes down what it says, or nothing of it.
    pub async fn hear(&self, word: &Word<'_>) -> Result<Heard, StoreError> {
        let mut change = self.pool.begin().await?;
        let renewed = sqlx::query(
            "with before as (
               select state, sequence from node
               where number = $1 and epoch = $2 and public_key = $5 and revoked_at is null
               for no key update)
             update node set sequence = greatest(node.sequence, $3),
                    lease_until = greatest(lease_until, now() + $4 * interval '1 second')
             from before where number = $1 and epoch = $2 and before.state <> 'lost'
             returning before.state, before.sequence < $3 as is_new",
        )
        .bind(nodes::signed(word.number.get()))
        .bind(read::signed(word.epoch))
        .bind(read::signed(word.sequence))
        .bind(word.lease.as_secs_f64())
        .bind(&word.public_key[..])
        .fetch_optional(&mut *change)
        .await
        .map_err(of)?;
        let Some(renewed) = renewed else { return Ok(Heard::Stale) };
        let state: String = renewed.try_get("state")?;
        let is_new: bool = renewed.try_get("is_new")?;
        if !is_new {
            change.commit().await.map_err(of)?;
            return Ok(Heard::Late);
        }
        // Sandboxes are locked before places in the quota, here as everywhere: who
        // ends one locks it first, and its tenant's places then.
        let unknown = write_present(&mut change, word).await?;
        let missing = end_all(&mut change, word).await?;
        change.commit().await.map_err(of)?;
        Ok(Heard::Renewed { is_draining: state == "draining", unknown, missing })
    }
}

async fn write_present(
    change: &mut PgConnection,
    word: &Word<'_>,
) -> Result<Vec<SandboxId>, StoreError> {
    if word.present.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<_> = word.present.iter().map(|one| one.id.as_str()).collect();
    let tiers: Vec<_> = word.present.iter().map(|one| one.tier.as_str()).collect();
    let states: Vec<_> =
        word.present.iter().map(|one| if one.is_paused { "paused" } else { "running" }).collect();
    let left: Vec<_> =
        word.present.iter().map(|one| one.left.as_secs_f64().min(LONGEST_LEFT)).collect();
    let ran: Vec<_> = word.present.iter().map(|one| millis(one.ran)).collect();
    // A row that says the same is not written again.
    let sql = format!(
        "with said as (
           select * from unnest($3::text[], $4::text[], $5::text[], $6::float8[], $7::bigint[])
             as said (id, tier, state, remaining, ran_ms)),
         known as (
           select s.id from sandbox s join said on said.id = s.id
           where s.node = $1 and s.node_epoch = $2 and s.state <> 'ended'),
         written as (
           update sandbox s set state = said.state, tier = said.tier,
                  started_at = coalesce(s.started_at, now()),
                  deadline_at = now() + said.remaining * interval '1 second',
                  ran_ms = greatest(s.ran_ms, {RAN_AT_MOST}), ran_at = now()
           from said where s.id = said.id and s.node = $1 and s.node_epoch = $2
             and s.state <> 'ended'
             and (s.state <> said.state or s.deadline_at is null
                  or (said.state = 'running'
                      and abs(extract(epoch from s.deadline_at - now())::float8
                              - said.remaining) > 1)))
         select said.id from said where not exists (select from known where known.id = said.id)"
    );
    let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
        .bind(nodes::signed(word.number.get()))
        .bind(read::signed(word.epoch))
        .bind(ids)
        .bind(tiers)
        .bind(states)
        .bind(left)
        .bind(ran)
        .fetch_all(change)
        .await
        .map_err(of)?;
    rows.iter().map(|row| read::id(row, "id")).collect()
}

/// Ends what the node says has ended, and what it should have and has not; answers
/// the latter.
async fn end_all(change: &mut PgConnection, word: &Word<'_>) -> Result<Vec<SandboxId>, StoreError> {
    if word.ended.is_empty() && !word.is_whole {
        return Ok(Vec::new());
    }
    let ids: Vec<_> = word.ended.iter().map(|gone| gone.id.as_str()).collect();
    let reasons: Vec<_> = word.ended.iter().map(|gone| gone.reason.as_str()).collect();
    let ran: Vec<_> = word.ended.iter().map(|gone| millis(gone.ran)).collect();
    let present: Vec<_> = word.present.iter().map(|one| one.id.as_str()).collect();
    let sql = format!(
        "with said as (
           select id, reason, ran_ms, false as is_missing
           from unnest($2::text[], $3::text[], $6::bigint[]) as said (id, reason, ran_ms)
           union all
           select id, 'lost', ran(sandbox), true from sandbox
           where $4 and node = $1 and state <> 'ended'
             and id <> all($2::text[]) and id <> all($5::text[])
             and (state <> 'starting' or made_at < now() - interval '{ON_ITS_WAY}')),
         ended as (
           update sandbox s set state = 'ended', ended_at = now(), reason = said.reason,
                  ran_ms = greatest(s.ran_ms, {RAN_AT_MOST})
           from said where s.id = said.id and s.node = $1 and s.state <> 'ended'
           returning s.id, s.tenant, said.reason, said.is_missing),
         freed as (
           update quota set used = used - gone.count
           from (select tenant, count(*)::integer as count from ended group by tenant) gone
           where quota.tenant = gone.tenant),
         told as (
           insert into outbox (subject, body)
           select 'sandbox.ended', jsonb_build_object('sandbox', id, 'reason', reason) from ended)
         select id from ended where is_missing"
    );
    let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
        .bind(nodes::signed(word.number.get()))
        .bind(ids)
        .bind(reasons)
        .bind(word.is_whole)
        .bind(present)
        .bind(ran)
        .fetch_all(change)
        .await
        .map_err(of)?;
    rows.iter().map(|row| read::id(row, "id")).collect()
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

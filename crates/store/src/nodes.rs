//! Nodes: they come, hold a lease, drain, and are lost.

use std::time::Duration;

use belljar_model::{SandboxId, Tier};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::change::Change;
use crate::error::{StoreError, of};
use crate::{Store, read};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    Up,
    /// Goes on with what it has and takes nothing new.
    Draining,
    /// Its lease ran out. It must register again before it serves.
    Lost,
}

impl NodeState {
    const ALL: [Self; 3] = [Self::Up, Self::Draining, Self::Lost];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Lost => "lost",
        }
    }
}

/// What a node says of itself when it comes.
#[derive(Debug, Clone)]
pub struct Registration<'a> {
    pub name: &'a str,
    /// Where its data plane is reached.
    pub address: &'a str,
    pub tiers: &'a [Tier],
    /// Sandboxes that it can have at once.
    pub slots: u32,
    pub lease: Duration,
}

/// Who a node is from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    pub number: u16,
    pub epoch: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub number: u16,
    pub epoch: u64,
    pub name: String,
    pub address: String,
    pub state: NodeState,
    pub tiers: Vec<Tier>,
    pub slots: u32,
    /// Rows of sandboxes on it that have not ended.
    pub taken: u32,
    /// Until its lease runs out, on the database's clock; less than nothing once it did.
    pub lease_left: time::Duration,
}

impl Store {
    /// A node comes, or comes again. Whatever still acts under its earlier epoch
    /// is a ghost from now on. What it had before is in [`Self::left_on`]: it takes
    /// each over or ends it, and only then serves.
    pub async fn register(&self, new: &Registration<'_>) -> Result<Registered, StoreError> {
        let tiers: Vec<_> = new.tiers.iter().map(|tier| tier.as_str()).collect();
        // Numbers are few, and an insert takes one also when the name is known.
        let known = sqlx::query(
            "update node set epoch = epoch + 1, sequence = 0, address = $2, state = 'up',
                    tiers = $3, slots = $4, lease_until = now() + $5 * interval '1 second'
             where name = $1
             returning number, epoch",
        );
        let made = sqlx::query(
            "insert into node (name, address, state, tiers, slots, lease_until)
             values ($1, $2, 'up', $3, $4, now() + $5 * interval '1 second')
             on conflict (name) do update
               set epoch = node.epoch + 1, sequence = 0, address = $2, state = 'up', tiers = $3,
                   slots = $4, lease_until = now() + $5 * interval '1 second'
             returning number, epoch",
        );
        let mut found = None;
        for query in [known, made] {
            let row = query
                .bind(new.name)
                .bind(new.address)
                .bind(&tiers)
                .bind(i32::try_from(new.slots).unwrap_or(i32::MAX))
                .bind(new.lease.as_secs_f64())
                .fetch_optional(&self.pool)
                .await
                .map_err(of)?;
            if row.is_some() {
                found = row;
                break;
            }
        }
        let row = found.ok_or(StoreError::Unreadable { what: "a node", value: new.name.into() })?;
        Ok(Registered { number: number(&row)?, epoch: read::number(&row, "epoch")? })
    }

    /// Keeps the lease for so long from now. [`Change::Stale`]: it was lost; the
    /// node must end what it has and register again.
    pub async fn renew(&self, node: Registered, lease: Duration) -> Result<Change, StoreError> {
        let done = sqlx::query(
            "update node set lease_until = now() + $3 * interval '1 second'
             where number = $1 and epoch = $2 and state <> 'lost'",
        )
        .bind(signed(node.number))
        .bind(read::signed(node.epoch))
        .bind(lease.as_secs_f64())
        .execute(&self.pool)
        .await
        .map_err(of)?;
        Ok(if done.rows_affected() == 0 { Change::Stale } else { Change::Done })
    }

    /// The node takes nothing new.
    pub async fn drain(&self, node: Registered) -> Result<Change, StoreError> {
        let was: Option<String> = sqlx::query_scalar(
            "with before as (select state from node where number = $1 and epoch = $2 for update)
             update node set state = 'draining' from before
             where number = $1 and epoch = $2 and before.state <> 'lost'
             returning before.state",
        )
        .bind(signed(node.number))
        .bind(read::signed(node.epoch))
        .fetch_optional(&self.pool)
        .await
        .map_err(of)?;
        Ok(match was.as_deref() {
            Some("up") => Change::Done,
            Some(_) => Change::Already,
            None => Change::Stale,
        })
    }

    /// The same for a node by its name, whoever it is now. None: there is no such
    /// node. [`Change::Stale`]: it is lost, so it takes nothing anyway.
    pub async fn drain_named(&self, name: &str) -> Result<Option<Change>, StoreError> {
        let found = sqlx::query("select number, epoch from node where name = $1")
            .bind(name)
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = found else { return Ok(None) };
        let node = Registered { number: number(&row)?, epoch: read::number(&row, "epoch")? };
        self.drain(node).await.map(Some)
    }

    pub async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        let rows = sqlx::query(
            "select number, epoch, name, address, state, tiers, slots,
                    (extract(epoch from lease_until - now()) * 1000)::bigint as lease_left,
                    (select count(*)::integer from sandbox s
                     where s.node = n.number and s.state <> 'ended') as taken
             from node n order by number",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(node).collect()
    }

    /// Gives up nodes whose lease ran out longer ago than this, and ends what was
    /// on them as lost. Answers the sandboxes. Any number of processes may do so at
    /// the same time. Nobody could renew while the database was not there, so that
    /// one that has just started gives up nobody.
    pub async fn give_up(&self, grace: Duration) -> Result<Vec<SandboxId>, StoreError> {
        let rows = sqlx::query(
            "with late as (
               select number from node where state <> 'lost'
                 and lease_until < now() - $1 * interval '1 second'
                 and pg_postmaster_start_time() < now() - $1 * interval '1 second'
               order by number for no key update skip locked),
             lost as (
               update node set state = 'lost' from late
               where node.number = late.number returning node.number),
             ended as (
               update sandbox set state = 'ended', ended_at = now(), reason = 'lost',
                      ran_ms = ran(sandbox)
               where node in (select number from lost) and state <> 'ended'
               returning id, tenant),
             freed as (
               update quota set used = used - gone.count
               from (select tenant, count(*)::integer as count from ended group by tenant) gone
               where quota.tenant = gone.tenant),
             told as (
               insert into outbox (subject, body)
               select 'sandbox.ended', jsonb_build_object('sandbox', id, 'reason', 'lost')
               from ended)
             select id from ended",
        )
        .bind(grace.as_secs_f64())
        .fetch_all(&self.pool)
        .await
        .map_err(of)?;
        rows.iter().map(|row| read::id(row, "id")).collect()
    }
}

pub(crate) fn signed(number: u16) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}

pub(crate) fn number(row: &PgRow) -> Result<u16, StoreError> {
    let number: i16 = row.try_get("number")?;
    Ok(number.unsigned_abs())
}

fn node(row: &PgRow) -> Result<Node, StoreError> {
    let state: String = row.try_get("state")?;
    let known = NodeState::ALL.into_iter().find(|known| known.as_str() == state);
    let tiers: Vec<String> = row.try_get("tiers")?;
    Ok(Node {
        number: number(row)?,
        epoch: read::number(row, "epoch")?,
        name: row.try_get("name")?,
        address: row.try_get("address")?,
        state: known.ok_or(StoreError::Unreadable { what: "a node's state", value: state })?,
        // A tier that this version does not know is none that it can choose.
        tiers: tiers.iter().filter_map(|tier| tier.parse().ok()).collect(),
        slots: read::count(row, "slots")?,
        taken: read::count(row, "taken")?,
        lease_left: time::Duration::milliseconds(row.try_get("lease_left")?),
    })
}

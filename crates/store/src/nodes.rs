//! Nodes: they come, hold a lease, drain, and are lost.

use std::time::Duration;

use belljar_domain::{MaxLimits, NodeNumber, SandboxId, Tier};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

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

/// A node's registration: who it is by its certificate, and what it says of itself.
#[derive(Debug, Clone)]
pub struct Registration<'a> {
    pub number: NodeNumber,
    pub public_key: &'a [u8; 32],
    pub name: &'a str,
    /// Where its data plane is reached.
    pub address: &'a str,
    pub tiers: &'a [Tier],
    /// Sandboxes that it can have at once.
    pub slots: u32,
    /// The largest limits that a client may choose there. `None`: it knows no such choice.
    pub max_limits: Option<MaxLimits>,
    pub lease: Duration,
}

/// Who a node is from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    pub number: u16,
    pub epoch: u64,
}

/// A node's enrolment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEnrolment {
    /// An operator added it; no key has been enrolled yet.
    Awaited,
    Enrolled {
        public_key: [u8; 32],
        /// Until its certificate expires, on the database's clock.
        certificate_left: time::Duration,
    },
    Revoked,
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
    /// As in [`Registration`].
    pub max_limits: Option<MaxLimits>,
    /// Rows of sandboxes on it that have not ended.
    pub taken: u32,
    /// Until its lease runs out, on the database's clock; less than nothing once it did.
    pub lease_left: time::Duration,
    pub enrolment: NodeEnrolment,
}

/// A node that was given up, and the sandboxes that ended with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostNode {
    pub number: u16,
    pub name: String,
    pub sandboxes: Vec<SandboxId>,
}

impl Store {
    /// Registers a node, or registers it again. Whatever still acts under its earlier
    /// epoch is a ghost from now on. What it had before is in [`Self::left_on`]: it takes
    /// each over or ends it, and only then serves. None: no such node has enrolled this
    /// key, or it was revoked.
    pub async fn register(&self, new: &Registration<'_>) -> Result<Option<Registered>, StoreError> {
        let tiers: Vec<_> = new.tiers.iter().map(|tier| tier.as_str()).collect();
        let row = sqlx::query(
            "update node set epoch = epoch + 1, sequence = 0, address = $4, state = 'up',
                    tiers = $5, slots = $6, lease_until = now() + $7 * interval '1 second',
                    max_limits = $8
             where number = $1 and public_key = $2 and name = $3 and revoked_at is null
             returning number, epoch",
        )
        .bind(signed(new.number.get()))
        .bind(&new.public_key[..])
        .bind(new.name)
        .bind(new.address)
        .bind(&tiers)
        .bind(i32::try_from(new.slots).unwrap_or(i32::MAX))
        .bind(new.lease.as_secs_f64())
        .bind(new.max_limits.map(Json))
        .fetch_optional(&self.pool)
        .await
        .map_err(of)?;
        let read = |row: PgRow| {
            Ok(Registered { number: number(&row)?, epoch: read::number(&row, "epoch")? })
        };
        row.map(read).transpose()
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
            "select number, epoch, name, address, state, tiers, slots, max_limits, public_key,
                    revoked_at is not null as is_revoked,
                    coalesce((extract(epoch from certificate_until - now()) * 1000)::bigint, 0)
                      as certificate_left,
                    (extract(epoch from lease_until - now()) * 1000)::bigint as lease_left,
                    (select count(*)::integer from sandbox s
                     where s.node = n.number and s.state <> 'ended') as taken
             from node n where forgotten_at is null order by number",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(node).collect()
    }

    /// Gives up nodes whose lease ran out longer ago than this, and ends what was
    /// on them as lost. Returns both. Any number of processes may do so at
    /// the same time. Nobody could renew while the database was not there, so that
    /// one that has just started gives up nobody.
    pub async fn give_up(&self, grace: Duration) -> Result<Vec<LostNode>, StoreError> {
        let rows = sqlx::query(
            "with late as (
               select number from node where state <> 'lost'
                 and lease_until < now() - $1 * interval '1 second'
                 and pg_postmaster_start_time() < now() - $1 * interval '1 second'
               order by number for no key update skip locked),
             lost as (
               update node set state = 'lost' from late
               where node.number = late.number returning node.number, node.name),
             ended as (
               update sandbox set state = 'ended', ended_at = now(), reason = 'lost',
                      ran_ms = ran(sandbox)
               where node in (select number from lost) and state <> 'ended'
               returning id, tenant, node),
             freed as (
               update quota set used = used - gone.count
               from (select tenant, count(*)::integer as count from ended group by tenant) gone
               where quota.tenant = gone.tenant),
             told as (
               insert into outbox (subject, body)
               select 'sandbox.ended', jsonb_build_object('sandbox', id, 'reason', 'lost')
               from ended)
             select lost.number, lost.name, ended.id
             from lost left join ended on ended.node = lost.number order by lost.number",
        )
        .bind(grace.as_secs_f64())
        .fetch_all(&self.pool)
        .await
        .map_err(of)?;
        let mut lost: Vec<LostNode> = Vec::new();
        for row in &rows {
            let number = number(row)?;
            if lost.last().is_none_or(|last| last.number != number) {
                lost.push(LostNode { number, name: row.try_get("name")?, sandboxes: Vec::new() });
            }
            let has_sandbox = row.try_get::<Option<String>, _>("id")?.is_some();
            if let Some(last) = lost.last_mut().filter(|_| has_sandbox) {
                last.sandboxes.push(read::id(row, "id")?);
            }
        }
        Ok(lost)
    }

    /// The node takes new sandboxes again. None: there is no such node. [`Change::Already`]: it
    /// was not draining. [`Change::Stale`]: it is lost.
    pub async fn undrain_named(&self, name: &str) -> Result<Option<Change>, StoreError> {
        let was: Option<String> = sqlx::query_scalar(
            "with before as (select number, state from node where name = $1 for update)
             update node set state = case before.state when 'draining' then 'up'
                                                       else before.state end
             from before where node.number = before.number
             returning before.state",
        )
        .bind(name)
        .fetch_optional(&self.pool)
        .await
        .map_err(of)?;
        Ok(was.map(|was| match was.as_str() {
            "draining" => Change::Done,
            "up" => Change::Already,
            _ => Change::Stale,
        }))
    }

    /// Takes a node out of every list, and its key out of use. Its number is in ids of
    /// sandboxes, so its row stays, and the same name gets the same number again. None: there
    /// is no such node. False: it is connected.
    pub async fn forget_node(&self, name: &str) -> Result<Option<bool>, StoreError> {
        let mut change = self.pool.begin().await?;
        let state: Option<String> =
            sqlx::query_scalar("select state from node where name = $1 for update")
                .bind(name)
                .fetch_optional(&mut *change)
                .await
                .map_err(of)?;
        let Some(state) = state else { return Ok(None) };
        if state != "lost" {
            return Ok(Some(false));
        }
        for sql in [
            "update node set forgotten_at = coalesce(forgotten_at, now()),
                    revoked_at = coalesce(revoked_at, now()) where name = $1",
            "delete from enrolment using node
             where enrolment.node = node.number and node.name = $1 and used_at is null",
        ] {
            sqlx::query(sql).bind(name).execute(&mut *change).await.map_err(of)?;
        }
        change.commit().await.map_err(of)?;
        Ok(Some(true))
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
    let max_limits: Option<Json<Value>> = row.try_get("max_limits")?;
    Ok(Node {
        number: number(row)?,
        epoch: read::number(row, "epoch")?,
        name: row.try_get("name")?,
        address: row.try_get("address")?,
        state: known.ok_or(StoreError::Unreadable { what: "a node's state", value: state })?,
        // A tier that this version does not know is none that it can choose.
        tiers: tiers.iter().filter_map(|tier| tier.parse().ok()).collect(),
        slots: read::count(row, "slots")?,
        // Those of another version are none that this one can compare with.
        max_limits: max_limits.and_then(|Json(max)| serde_json::from_value(max).ok()),
        taken: read::count(row, "taken")?,
        lease_left: time::Duration::milliseconds(row.try_get("lease_left")?),
        enrolment: enrolment(row)?,
    })
}

fn enrolment(row: &PgRow) -> Result<NodeEnrolment, StoreError> {
    if row.try_get("is_revoked")? {
        return Ok(NodeEnrolment::Revoked);
    }
    let key: Option<Vec<u8>> = row.try_get("public_key")?;
    let Some(key) = key else { return Ok(NodeEnrolment::Awaited) };
    let public_key = key.try_into().map_err(|_| StoreError::Unreadable {
        what: "a node's key",
        value: "other than 32 bytes".to_owned(),
    })?;
    let certificate_left = time::Duration::milliseconds(row.try_get("certificate_left")?);
    Ok(NodeEnrolment::Enrolled { public_key, certificate_left })
}

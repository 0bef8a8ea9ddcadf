//! Enrolment: a node's name gets a number when an operator adds it, and a key when the
//! node redeems its one-time token.

use std::time::Duration;

use belljar_domain::{NodeNumber, SandboxId};
use sqlx::Row as _;
use time::OffsetDateTime;

use crate::error::{StoreError, of};
use crate::{Store, nodes, read};

/// A node that an operator added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddedNode {
    pub number: NodeNumber,
    /// Whether a key is enrolled under this name already, and not revoked.
    pub is_enrolled: bool,
}

/// The outcome of an enrolment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnrolOutcome {
    Enrolled(NodeNumber),
    /// No such token.
    UnknownToken,
    ExpiredToken,
    /// Another key was enrolled with it.
    UsedToken,
    /// It is for a node of another name.
    OtherName,
}

/// How long tokens that cannot be used any more are kept, for people who look.
const TOKEN_HISTORY: &str = "7 days";

impl Store {
    /// Gives a name its number, or finds it.
    pub async fn add_node(&self, name: &str) -> Result<AddedNode, StoreError> {
        // Numbers are few, and an insert takes one also when the name is known.
        let known = "update node set forgotten_at = null where name = $1
                     returning number,
                               public_key is not null and revoked_at is null as is_enrolled";
        let made = "insert into node (name, address, state, tiers, slots, lease_until)
                    values ($1, '', 'lost', '{}', 0, now())
                    on conflict (name) do update set forgotten_at = null
                    returning number, public_key is not null and revoked_at is null as is_enrolled";
        let mut found = None;
        for sql in [known, made] {
            found = sqlx::query(sql).bind(name).fetch_optional(&self.pool).await.map_err(of)?;
            if found.is_some() {
                break;
            }
        }
        let unreadable = || StoreError::Unreadable { what: "a node", value: name.to_owned() };
        let row = found.ok_or_else(unreadable)?;
        let number = NodeNumber::new(nodes::number(&row)?).ok_or_else(unreadable)?;
        Ok(AddedNode { number, is_enrolled: row.try_get("is_enrolled")? })
    }

    /// Lets whoever shows the secret with this SHA-256 enrol as `node`, once, within
    /// `life`. Tokens of the same node that were not used are worth nothing from now on.
    pub async fn add_enrolment_token(
        &self,
        node: NodeNumber,
        digest: &[u8; 32],
        life: Duration,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "with old as (
               delete from enrolment
               where (node = $2 and used_at is null)
                  or expires_at < now() - interval '{TOKEN_HISTORY}')
             insert into enrolment (digest, node, expires_at)
             values ($1, $2, now() + $3 * interval '1 second')"
        );
        sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(&digest[..])
            .bind(nodes::signed(node.get()))
            .bind(life.as_secs_f64())
            .execute(&self.pool)
            .await
            .map_err(of)?;
        Ok(())
    }

    /// Redeems a token: from now on `name` is whoever has the private half of this key.
    pub async fn enrol(
        &self,
        digest: &[u8; 32],
        name: &str,
        public_key: &[u8; 32],
    ) -> Result<EnrolOutcome, StoreError> {
        let mut change = self.pool.begin().await?;
        let found = sqlx::query(
            "select n.number, n.name, n.public_key, n.revoked_at is not null as is_revoked,
                    e.used_by, e.expires_at <= now() as is_expired
             from enrolment e join node n on n.number = e.node
             where e.digest = $1 for update",
        )
        .bind(&digest[..])
        .fetch_optional(&mut *change)
        .await
        .map_err(of)?;
        let Some(row) = found else { return Ok(EnrolOutcome::UnknownToken) };
        let number = NodeNumber::new(nodes::number(&row)?)
            .ok_or(StoreError::Unreadable { what: "a node", value: name.to_owned() })?;
        if row.try_get::<bool, _>("is_expired")? {
            return Ok(EnrolOutcome::ExpiredToken);
        }
        if row.try_get::<String, _>("name")? != name {
            return Ok(EnrolOutcome::OtherName);
        }
        if let Some(used_by) = row.try_get::<Option<Vec<u8>>, _>("used_by")? {
            let enrolled: Option<Vec<u8>> = row.try_get("public_key")?;
            let is_repeated = used_by == public_key
                && enrolled.is_some_and(|key| key == public_key)
                && !row.try_get::<bool, _>("is_revoked")?;
            let used = EnrolOutcome::UsedToken;
            return Ok(if is_repeated { EnrolOutcome::Enrolled(number) } else { used });
        }
        sqlx::query("update enrolment set used_at = now(), used_by = $2 where digest = $1")
            .bind(&digest[..])
            .bind(&public_key[..])
            .execute(&mut *change)
            .await
            .map_err(of)?;
        sqlx::query("update node set public_key = $2, revoked_at = null where number = $1")
            .bind(nodes::signed(number.get()))
            .bind(&public_key[..])
            .execute(&mut *change)
            .await
            .map_err(of)?;
        change.commit().await.map_err(of)?;
        Ok(EnrolOutcome::Enrolled(number))
    }

    /// Notes until when a node's certificate is valid. False: this key is not the node's,
    /// or was revoked, and must get none.
    pub async fn certify(
        &self,
        node: NodeNumber,
        public_key: &[u8; 32],
        until: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "update node set certificate_until = $3
             where number = $1 and public_key = $2 and revoked_at is null",
        )
        .bind(nodes::signed(node.get()))
        .bind(&public_key[..])
        .bind(until)
        .execute(&self.pool)
        .await
        .map_err(of)?;
        Ok(done.rows_affected() > 0)
    }

    /// Believes nothing of a node any more, and ends what is on it as lost. Answers the
    /// sandboxes; none: there is no such node.
    pub async fn revoke_node(&self, name: &str) -> Result<Option<Vec<SandboxId>>, StoreError> {
        let mut change = self.pool.begin().await?;
        let number: Option<i16> = sqlx::query_scalar(
            "update node set revoked_at = coalesce(revoked_at, now()), state = 'lost'
             where name = $1 returning number",
        )
        .bind(name)
        .fetch_optional(&mut *change)
        .await
        .map_err(of)?;
        let Some(number) = number else { return Ok(None) };
        sqlx::query("delete from enrolment where node = $1 and used_at is null")
            .bind(number)
            .execute(&mut *change)
            .await
            .map_err(of)?;
        let rows = sqlx::query(
            "with ended as (
               update sandbox set state = 'ended', ended_at = now(), reason = 'lost',
                      ran_ms = ran(sandbox)
               where node = $1 and state <> 'ended' returning id, tenant),
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
        .bind(number)
        .fetch_all(&mut *change)
        .await
        .map_err(of)?;
        change.commit().await.map_err(of)?;
        rows.iter().map(|row| read::id(row, "id")).collect::<Result<_, _>>().map(Some)
    }
}

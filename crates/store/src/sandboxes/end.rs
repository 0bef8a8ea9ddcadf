//! The end of a sandbox: by its owner, or by the node that it was on.

use belljar_domain::{EndReason, SandboxId};

use crate::change::Change;
use crate::error::{StoreError, of};
use crate::nodes::{self, Registered};
use crate::{Store, read};

/// Whose a sandbox must be for it to be ended.
enum Whose<'a> {
    /// A tenant's, in this placement or in any.
    Tenant(&'a str, Option<u64>),
    /// A node's, of an epoch before this one.
    Node(Registered),
}

impl Store {
    /// Ends a tenant's sandbox for good and frees its place. The first reason stays.
    ///
    /// `epoch` is none where the owner ends it, whichever placement it is in. The sandbox of
    /// another tenant stays as it is: whoever asks may have been told a wrong id.
    pub async fn end(
        &self,
        tenant: &str,
        id: &SandboxId,
        epoch: Option<u64>,
        reason: EndReason,
    ) -> Result<Change, StoreError> {
        self.end_where(id, &Whose::Tenant(tenant, epoch), reason).await
    }

    /// Ends a sandbox that a node had in an earlier life, and has no more. [`Change::Stale`]:
    /// it is on another node, or the node has taken it over.
    pub async fn end_left(&self, id: &SandboxId, node: Registered) -> Result<Change, StoreError> {
        self.end_where(id, &Whose::Node(node), EndReason::Lost).await
    }

    async fn end_where(
        &self,
        id: &SandboxId,
        whose: &Whose<'_>,
        reason: EndReason,
    ) -> Result<Change, StoreError> {
        let (tenant, epoch, node) = match *whose {
            Whose::Tenant(tenant, epoch) => (Some(tenant), epoch, None),
            Whose::Node(node) => (None, None, Some(node)),
        };
        let (done, already): (bool, bool) = sqlx::query_as(
            "with before as (
               select id, state from sandbox
               where id = $1 and ($2::bigint is null or epoch = $2)
                 and (tenant = $4 or (node = $5 and node_epoch < $6)) for update),
             done as (
               update sandbox set state = 'ended', ended_at = now(), reason = $3,
                      ran_ms = ran(sandbox) + case
                        -- It was made and ended before its node spoke of it.
                        when before.state = 'starting' and $3 = 'killed'
                        then (1000 * extract(epoch from now() - made_at))::bigint else 0 end
               from before where sandbox.id = before.id and before.state <> 'ended'
               returning sandbox.id, sandbox.tenant),
             freed as (
               update quota set used = used - 1 from done where quota.tenant = done.tenant),
             told as (
               insert into outbox (subject, body)
               select 'sandbox.ended', jsonb_build_object('sandbox', id, 'reason', $3::text)
               from done)
             select exists (select from done),
                    exists (select from before where state = 'ended')",
        )
        .bind(id.as_str())
        .bind(epoch.map(read::signed))
        .bind(reason.as_str())
        .bind(tenant)
        .bind(node.map(|node| nodes::signed(node.number)))
        .bind(node.map(|node| read::signed(node.epoch)))
        .fetch_one(&self.pool)
        .await
        .map_err(of)?;
        Ok(Change::seen(done, already))
    }
}

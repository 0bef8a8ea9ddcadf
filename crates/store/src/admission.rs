//! Sandboxes that are placed as they are asked for, in one step.

use belljar_domain::{NodeNumber, SandboxId};
use sqlx::Row as _;
use sqlx::types::Json;

use crate::error::{StoreError, of};
use crate::sandboxes::{NewSandbox, Requested, is_repetition};
use crate::{Store, nodes, read};

/// What became of a request that was placed at once.
#[derive(Debug, Clone, PartialEq)]
pub enum Admitted {
    /// The epoch of the placement.
    Placed(u64),
    /// [`Requested::Repeated`], [`Requested::Mismatch`] or [`Requested::OverQuota`].
    Not(Requested),
    /// The node takes nothing now; another may.
    NodeGone,
}

impl Store {
    /// Takes a place in the tenant's quota and puts the sandbox on a node, under
    /// an id that says so. Nothing is written if either cannot be.
    pub async fn admit(
        &self,
        new: &NewSandbox<'_>,
        node: NodeNumber,
    ) -> Result<Admitted, StoreError> {
        if let Some(known) = self.repeated(new).await? {
            return Ok(Admitted::Not(known));
        }
        let placed = sqlx::query(
            "with place as (
               update quota set used = used + 1
               where tenant = (select name from tenant where name = $2 and closed_at is null)
                 and used < sandboxes
                 and exists (select from node
                             where number = $8 and state = 'up' and lease_until > now())
               returning tenant)
             insert into sandbox (id, tenant, state, epoch, node, node_epoch, template, tier, facts,
                                  request_key, request_digest)
             select $1, place.tenant, 'starting', 1, n.number, n.epoch, $3, $4, $5, $6, $7
             from place, node n where n.number = $8
             returning epoch",
        )
        .bind(new.id.as_str())
        .bind(new.tenant)
        .bind(new.template)
        .bind(new.tier.map(belljar_domain::Tier::as_str))
        .bind(Json(new.facts))
        .bind(new.request.map(|(key, _)| key))
        .bind(new.request.as_ref().map(|(_, digest)| digest.as_slice()))
        .bind(nodes::signed(node.get()))
        .fetch_optional(&self.pool)
        .await;
        match placed {
            Ok(Some(row)) => Ok(Admitted::Placed(read::number(&row, "epoch")?)),
            Ok(None) => {
                let tenant = self.tenant(new.tenant).await?;
                let is_full = tenant.used >= tenant.quota.sandboxes;
                Ok(if is_full { Admitted::Not(Requested::OverQuota) } else { Admitted::NodeGone })
            }
            Err(error) if is_repetition(&error) => {
                let known = self.repeated(new).await?;
                known.map(Admitted::Not).ok_or(StoreError::Contended(error))
            }
            Err(error) => Err(of(error)),
        }
    }

    /// As [`Self::admit`], for copies: all of them, or none. Answers whether.
    pub async fn admit_copies(
        &self,
        tenant: &str,
        template: &str,
        ids: &[SandboxId],
        node: NodeNumber,
    ) -> Result<bool, StoreError> {
        let ids: Vec<_> = ids.iter().map(SandboxId::as_str).collect();
        let made = sqlx::query(
            "with place as (
               update quota set used = used + cardinality($1::text[])
               where tenant = (select name from tenant where name = $2 and closed_at is null)
                 and used + cardinality($1::text[]) <= sandboxes
                 and exists (select from node
                             where number = $4 and state <> 'lost' and lease_until > now())
               returning tenant)
             insert into sandbox (id, tenant, state, epoch, node, node_epoch, template)
             select id, place.tenant, 'starting', 1, n.number, n.epoch, $3
             from place, node n, unnest($1::text[]) id where n.number = $4",
        )
        .bind(&ids)
        .bind(tenant)
        .bind(template)
        .bind(nodes::signed(node.get()))
        .execute(&self.pool)
        .await
        .map_err(of)?;
        Ok(made.rows_affected() > 0)
    }

    /// A tenant's sandbox that was placed was never made: there is no trace of it.
    pub async fn withdraw(&self, tenant: &str, id: &SandboxId) -> Result<(), StoreError> {
        sqlx::query(
            "with gone as (
               delete from sandbox
               where id = $1 and tenant = $2 and state in ('waiting', 'starting')
               returning tenant)
             update quota set used = used - 1 from gone where quota.tenant = gone.tenant",
        )
        .bind(id.as_str())
        .bind(tenant)
        .execute(&self.pool)
        .await
        .map_err(of)?;
        Ok(())
    }

    /// Where what has this name is.
    pub async fn whereabouts(
        &self,
        tenant: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<NodeNumber>, StoreError> {
        let found = sqlx::query(
            "select node as number from whereabouts
             where tenant = $1 and kind = $2 and name = $3",
        )
        .bind(tenant)
        .bind(kind)
        .bind(name)
        .fetch_optional(&self.pool)
        .await?;
        let number = found.as_ref().map(nodes::number).transpose()?;
        Ok(number.and_then(NodeNumber::new))
    }

    /// What has this name is there from now on.
    pub async fn is_at(
        &self,
        tenant: &str,
        kind: &str,
        name: &str,
        node: NodeNumber,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "insert into whereabouts (tenant, kind, name, node) values ($1, $2, $3, $4)
             on conflict (tenant, kind, name) do update set node = $4, made_at = now()",
        )
        .bind(tenant)
        .bind(kind)
        .bind(name)
        .bind(nodes::signed(node.get()))
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The tenant's home: `candidate`, if it has none yet.
    pub async fn home(
        &self,
        tenant: &str,
        candidate: Option<NodeNumber>,
    ) -> Result<Option<NodeNumber>, StoreError> {
        let row = sqlx::query("select home from tenant where name = $1")
            .bind(tenant)
            .fetch_optional(&self.pool)
            .await?;
        let row = row.ok_or_else(|| StoreError::UnknownTenant(tenant.to_owned()))?;
        let home: Option<i16> = row.try_get("home")?;
        if let Some(home) = home {
            return Ok(NodeNumber::new(home.unsigned_abs()));
        }
        let Some(candidate) = candidate else { return Ok(None) };
        let home: i16 = sqlx::query_scalar(
            "update tenant set home = coalesce(home, $2) where name = $1 returning home",
        )
        .bind(tenant)
        .bind(nodes::signed(candidate.get()))
        .fetch_one(&self.pool)
        .await?;
        Ok(NodeNumber::new(home.unsigned_abs()))
    }
}

//! Keys: hashes only, with scopes and an end.

use std::time::Duration;

use belljar_domain::OperationCap;
use sqlx::Row as _;
use time::OffsetDateTime;

use crate::error::StoreError;
use crate::{Store, read};

/// What a key opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Looks, and changes nothing.
    Read,
    /// Makes sandboxes, and does everything to them.
    Sandboxes,
    /// Builds and removes templates.
    Templates,
    /// Keys, quotas and other tenants.
    Admin,
}

impl Scope {
    pub const ALL: [Self; 4] = [Self::Read, Self::Sandboxes, Self::Templates, Self::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Sandboxes => "sandboxes",
            Self::Templates => "templates",
            Self::Admin => "admin",
        }
    }
}

/// A key to be made.
#[derive(Debug, Clone)]
pub struct NewKey<'a> {
    /// SHA-256.
    pub hash: [u8; 32],
    pub tenant: &'a str,
    pub label: &'a str,
    pub scopes: &'a [Scope],
    /// None: until it is revoked.
    pub lives: Option<Duration>,
    /// The gateway operations that it may name.
    pub operations: OperationCap,
}

/// A key, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub id: String,
    pub label: String,
    pub scopes: Vec<Scope>,
    pub made_at: OffsetDateTime,
    pub expires_at: Option<OffsetDateTime>,
    pub is_alive: bool,
    pub operations: OperationCap,
}

/// Whoever showed a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    pub tenant: String,
    pub key: String,
    pub scopes: Vec<Scope>,
    /// The gateway operations that the key may name.
    pub operations: OperationCap,
}

impl Store {
    /// Answers the key's id, which is no secret.
    pub async fn add_key(&self, new: &NewKey<'_>) -> Result<String, StoreError> {
        let scopes: Vec<_> = new.scopes.iter().map(|scope| scope.as_str()).collect();
        let made = sqlx::query(
            "insert into key (hash, tenant, label, scopes, expires_at, operations)
             select $1, name, $3, $4, now() + $5 * interval '1 second', $6
             from tenant where name = $2 and closed_at is null
             returning id::text",
        )
        .bind(new.hash.as_slice())
        .bind(new.tenant)
        .bind(new.label)
        .bind(scopes)
        .bind(new.lives.map(|lives| lives.as_secs_f64()))
        .bind(new.operations.names())
        .fetch_optional(&self.pool)
        .await?;
        let made = made.ok_or_else(|| StoreError::UnknownTenant(new.tenant.to_owned()))?;
        Ok(made.try_get(0)?)
    }

    /// Whose key has this hash, if it opens anything now.
    pub async fn prove(&self, hash: &[u8; 32]) -> Result<Option<Proven>, StoreError> {
        let found = sqlx::query(
            "select k.id::text as id, k.tenant, k.scopes, k.operations
             from key k join tenant t on t.name = k.tenant
             where k.hash = $1 and k.revoked_at is null and t.closed_at is null
               and (k.expires_at is null or k.expires_at > now())",
        )
        .bind(hash.as_slice())
        .fetch_optional(&self.pool)
        .await?;
        let Some(row) = found else { return Ok(None) };
        let scopes = scopes(row.try_get("scopes")?);
        let operations = read::operations(&row, "operations")?;
        let (tenant, key) = (row.try_get("tenant")?, row.try_get("id")?);
        Ok(Some(Proven { tenant, key, scopes, operations }))
    }

    pub async fn keys(&self, tenant: &str) -> Result<Vec<Key>, StoreError> {
        let rows = sqlx::query(
            "select id::text as id, label, scopes, made_at, expires_at, operations,
                    revoked_at is null and (expires_at is null or expires_at > now()) as is_alive
             from key where tenant = $1 order by made_at, id",
        )
        .bind(tenant)
        .fetch_all(&self.pool)
        .await?;
        let key = |row: sqlx::postgres::PgRow| {
            Ok(Key {
                id: row.try_get("id")?,
                label: row.try_get("label")?,
                scopes: scopes(row.try_get("scopes")?),
                made_at: row.try_get("made_at")?,
                expires_at: row.try_get("expires_at")?,
                is_alive: row.try_get("is_alive")?,
                operations: read::operations(&row, "operations")?,
            })
        };
        rows.into_iter().map(key).collect()
    }

    /// Sets the cap on operations of a key. Returns true if the tenant has such a key, alive.
    pub async fn cap_key(
        &self,
        tenant: &str,
        id: &str,
        cap: &OperationCap,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "update key set operations = $3
             where tenant = $1 and id::text = $2 and revoked_at is null",
        )
        .bind(tenant)
        .bind(id)
        .bind(cap.names())
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Whether there was such a key of the tenant's, alive.
    pub async fn revoke_key(&self, tenant: &str, id: &str) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "update key set revoked_at = now()
             where tenant = $1 and id::text = $2 and revoked_at is null",
        )
        .bind(tenant)
        .bind(id)
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }
}

/// A scope that this version does not know opens nothing.
fn scopes(names: Vec<String>) -> Vec<Scope> {
    let known = |name: &String| Scope::ALL.into_iter().find(|scope| scope.as_str() == name);
    names.iter().filter_map(known).collect()
}

//! What was done to the platform, and by whom.

use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::Store;
use crate::error::StoreError;

/// One deed.
#[derive(Debug, Clone, PartialEq)]
pub struct Audited {
    pub at: OffsetDateTime,
    /// Whom it is about; none: the platform.
    pub tenant: Option<String>,
    pub actor: String,
    pub action: String,
    pub subject: String,
    pub detail: Value,
}

impl Store {
    pub async fn audit(
        &self,
        tenant: Option<&str>,
        actor: &str,
        action: &str,
        subject: &str,
        detail: &Value,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "insert into audit (tenant, actor, action, subject, detail)
             values ($1, $2, $3, $4, $5)",
        )
        .bind(tenant)
        .bind(actor)
        .bind(action)
        .bind(subject)
        .bind(Json(detail))
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The last deeds, newest first.
    pub async fn audited(&self, tenant: &str, most: u32) -> Result<Vec<Audited>, StoreError> {
        let rows = sqlx::query(
            "select tenant, at, actor, action, subject, detail from audit
             where tenant = $1 order by number desc limit $2",
        )
        .bind(tenant)
        .bind(i64::from(most))
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(deed).collect()
    }

    /// The last deeds of everybody, and those that are about no tenant, newest first.
    pub async fn audited_anywhere(&self, most: u32) -> Result<Vec<Audited>, StoreError> {
        let rows = sqlx::query(
            "select tenant, at, actor, action, subject, detail from audit
             order by number desc limit $1",
        )
        .bind(i64::from(most))
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(deed).collect()
    }
}

fn deed(row: &PgRow) -> Result<Audited, StoreError> {
    let Json(detail) = row.try_get("detail")?;
    Ok(Audited {
        at: row.try_get("at")?,
        tenant: row.try_get("tenant")?,
        actor: row.try_get("actor")?,
        action: row.try_get("action")?,
        subject: row.try_get("subject")?,
        detail,
    })
}

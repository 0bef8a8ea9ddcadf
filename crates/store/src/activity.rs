//! What the database did, by its own count.

use crate::error::StoreError;
use crate::{Store, nodes, read};

/// Since its statistics were last reset; what was done within the last second may
/// be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Those of transactions that only read included.
    pub commits: u64,
    /// Transactions that wrote, whether they were committed or not; of all databases.
    pub writes: u64,
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    /// Of the write-ahead log.
    pub wal_bytes: u64,
}

/// How many sandboxes a node has, or had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnNode {
    pub number: u16,
    /// Running, or paused.
    pub alive: u64,
    /// On their way.
    pub starting: u64,
    pub lost: u64,
    /// For any other reason.
    pub ended: u64,
}

impl Store {
    pub async fn activity(&self) -> Result<Activity, StoreError> {
        let row = sqlx::query(
            "select d.xact_commit, d.tup_inserted, d.tup_updated, d.tup_deleted,
                    w.wal_bytes::bigint as wal_bytes,
                    pg_snapshot_xmax(pg_current_snapshot())::text::bigint as writes
             from pg_stat_database d, pg_stat_wal w where d.datname = current_database()",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Activity {
            commits: read::number(&row, "xact_commit")?,
            writes: read::number(&row, "writes")?,
            inserted: read::number(&row, "tup_inserted")?,
            updated: read::number(&row, "tup_updated")?,
            deleted: read::number(&row, "tup_deleted")?,
            wal_bytes: read::number(&row, "wal_bytes")?,
        })
    }

    /// Where all sandboxes of all tenants are.
    pub async fn on_nodes(&self) -> Result<Vec<OnNode>, StoreError> {
        let rows = sqlx::query(
            "select node as number,
                    count(*) filter (where state in ('running', 'paused')) as alive,
                    count(*) filter (where state = 'starting') as starting,
                    count(*) filter (where state = 'ended' and reason = 'lost') as lost,
                    count(*) filter (where state = 'ended' and reason <> 'lost') as ended
             from sandbox where node is not null group by node order by node",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(OnNode {
                    number: nodes::number(row)?,
                    alive: read::number(row, "alive")?,
                    starting: read::number(row, "starting")?,
                    lost: read::number(row, "lost")?,
                    ended: read::number(row, "ended")?,
                })
            })
            .collect()
    }
}

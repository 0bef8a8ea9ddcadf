//! What is too long for an event, in rows of the run's own.

use belljar_journal::{Address, BlobError, BlobRef, MOST_BLOB_BYTES};

use super::{Runs, failed};

/// Whether the content has this digest.
pub(super) fn is(content: &[u8], sha256: &[u8]) -> bool {
    BlobRef::of(content).sha256.as_bytes() == sha256
}

impl Runs {
    pub(super) async fn put(&self, run: &Address, content: Vec<u8>) -> Result<BlobRef, BlobError> {
        if content.len() > MOST_BLOB_BYTES {
            return Err(BlobError::TooLarge);
        }
        let blob = BlobRef::of(&content);
        let is_there: bool = sqlx::query_scalar(
            "with own as (select id from run where tenant = $1 and id = $2),
             kept as (
               insert into run_blob (run_id, sha256, content) select id, $3, $4 from own
               on conflict do nothing)
             select exists (select from own)",
        )
        .bind(&run.tenant)
        .bind(run.run.as_str())
        .bind(blob.sha256.as_bytes().as_slice())
        .bind(content)
        .fetch_one(&self.store.pool)
        .await
        .map_err(failed)?;
        if is_there { Ok(blob) } else { Err(BlobError::NoRun) }
    }

    pub(super) async fn get(&self, run: &Address, blob: &BlobRef) -> Result<Vec<u8>, BlobError> {
        let found = sqlx::query_scalar::<_, Option<Vec<u8>>>(
            "with recursive line as (
               select id, parent_run from run where tenant = $1 and id = $2
               union all
               select p.id, p.parent_run from line
               join run p on p.tenant = $1 and p.id = line.parent_run)
             select content from line left join run_blob b on b.run_id = id and b.sha256 = $3
             order by content is null limit 1",
        )
        .bind(&run.tenant)
        .bind(run.run.as_str())
        .bind(blob.sha256.as_bytes().as_slice())
        .fetch_optional(&self.store.pool)
        .await
        .map_err(failed)?;
        let content = found.ok_or(BlobError::NoRun)?.ok_or(BlobError::NoBlob(blob.sha256))?;
        if is(&content, blob.sha256.as_bytes()) {
            Ok(content)
        } else {
            Err(BlobError::Damaged(blob.sha256))
        }
    }
}

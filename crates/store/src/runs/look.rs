//! Runs and their events, as they are.

use belljar_domain::{Generation, RunId, Sequence};
use belljar_journal::{
    Address, Body, Event, Key, ListQuery, Listed, Page, Parent, ReadError, RunRow, State,
};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::{Runs, failed, unreadable};
use crate::error::StoreError;
use crate::read;

const COLUMNS: &str = "id, tenant, state, head_seq, lease_gen, lease_owner, lease_until, \
                       parent_run, parent_seq, title, made_at";

impl Runs {
    pub(super) async fn row(&self, run: &Address) -> Result<RunRow, ReadError> {
        let sql = format!("select {COLUMNS} from run where tenant = $1 and id = $2");
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(&run.tenant)
            .bind(run.run.as_str())
            .fetch_optional(&self.store.pool)
            .await
            .map_err(failed)?;
        let row = row.ok_or(ReadError::NoRun)?;
        run_row(&row).map_err(|error| unreadable(error).into())
    }

    pub(super) async fn rows(&self, query: ListQuery<'_>) -> Result<Listed, ReadError> {
        let sql = format!(
            "select {COLUMNS} from run
             where tenant = $1 and ($2::text is null or state = $2)
               and ($3::timestamptz is null or (made_at, id) < ($3, $4))
             order by made_at desc, id desc limit $5"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(query.tenant)
            .bind(query.state.map(State::as_str))
            .bind(query.after.map(|page| page.made_at))
            .bind(query.after.map(|page| page.run.as_str()))
            .bind(read::signed(query.most as u64) + 1)
            .fetch_all(&self.store.pool)
            .await
            .map_err(failed)?;
        let rows: Result<Vec<_>, _> = rows.iter().map(run_row).collect();
        let mut rows = rows.map_err(unreadable)?;
        let is_more = rows.len() > query.most;
        rows.truncate(query.most);
        let last = rows.last().filter(|_| is_more);
        let next = last.map(|row| Page { made_at: row.made_at, run: row.address.run.clone() });
        Ok(Listed { rows, next })
    }

    pub(super) async fn number_of(&self, tenant: &str, state: State) -> Result<u64, ReadError> {
        let number = sqlx::query_scalar::<_, i64>(
            "select count(*) from run where tenant = $1 and state = $2",
        )
        .bind(tenant)
        .bind(state.as_str())
        .fetch_one(&self.store.pool)
        .await
        .map_err(failed)?;
        Ok(number.unsigned_abs())
    }

    pub(super) async fn number_unfinished(&self, tenant: &str) -> Result<u64, ReadError> {
        let number = sqlx::query_scalar::<_, i64>(
            "select count(*) from run where tenant = $1 and state <> 'finished'",
        )
        .bind(tenant)
        .fetch_one(&self.store.pool)
        .await
        .map_err(failed)?;
        Ok(number.unsigned_abs())
    }

    /// Its own, and before them those of the runs that it was forked from.
    pub(super) async fn events(
        &self,
        run: &Address,
        from: Sequence,
        most: usize,
    ) -> Result<Vec<Event>, ReadError> {
        let rows = sqlx::query(
            "with recursive line as (
               select id, parent_run, parent_seq, 9223372036854775807 as upto
               from run where tenant = $1 and id = $2
               union all
               select p.id, p.parent_run, p.parent_seq, least(line.upto, line.parent_seq)
               from line join run p on p.tenant = $1 and p.id = line.parent_run),
             found as (
               select e.* from line join run_event e
                 on e.run_id = line.id and e.seq <= line.upto
               where e.seq >= $3 order by e.seq limit $4)
             select e.seq, e.gen, e.idem_key, e.at, e.body::text as body, e.blob_ref, b.content
             from run left join found e on true
             left join run_blob b on b.run_id = e.run_id and b.sha256 = e.blob_ref
             where run.tenant = $1 and run.id = $2
             order by e.seq",
        )
        .bind(&run.tenant)
        .bind(run.run.as_str())
        .bind(read::signed(from.0))
        .bind(read::signed(most as u64))
        .fetch_all(&self.store.pool)
        .await
        .map_err(failed)?;
        if rows.is_empty() {
            return Err(ReadError::NoRun);
        }
        // A row without an event says that there is the run.
        let events = rows.iter().filter_map(|row| event(row).transpose());
        events.collect()
    }
}

fn event(row: &PgRow) -> Result<Option<Event>, ReadError> {
    let seq: Option<i64> = row.try_get("seq").map_err(failed)?;
    let Some(seq) = seq.map(|seq| Sequence(seq.unsigned_abs())) else { return Ok(None) };
    let lease: Option<i64> = row.try_get("gen").map_err(failed)?;
    let key: Option<String> = row.try_get("idem_key").map_err(failed)?;
    Ok(Some(Event {
        seq,
        at: row.try_get("at").map_err(failed)?,
        lease: lease.map(|lease| Generation(lease.unsigned_abs())),
        key: key.map(Key::from),
        body: body(row, seq)?,
    }))
}

fn body(row: &PgRow, seq: Sequence) -> Result<Body, ReadError> {
    let inline: Option<&str> = row.try_get("body").map_err(failed)?;
    let blob: Option<&[u8]> = row.try_get("blob_ref").map_err(failed)?;
    let content: Option<&[u8]> = row.try_get("content").map_err(failed)?;
    let json = match (inline, blob, content) {
        (Some(json), ..) => json.as_bytes(),
        (None, Some(blob), Some(content)) if super::blobs::is(content, blob) => content,
        _ => return Err(ReadError::Damaged(seq)),
    };
    serde_json::from_slice(json).map_err(|_| ReadError::Damaged(seq))
}

pub(super) fn id(row: &PgRow, column: &str) -> Result<RunId, StoreError> {
    let text: String = row.try_get(column)?;
    text.parse().map_err(|_| StoreError::Unreadable { what: "a run's id", value: text })
}

fn run_row(row: &PgRow) -> Result<RunRow, StoreError> {
    let state: String = row.try_get("state")?;
    let known = State::ALL.into_iter().find(|known| known.as_str() == state);
    let parent: Option<i64> = row.try_get("parent_seq")?;
    let parent = match parent {
        Some(after) => {
            Some(Parent { run: id(row, "parent_run")?, after: Sequence(after.unsigned_abs()) })
        }
        None => None,
    };
    Ok(RunRow {
        address: Address { tenant: row.try_get("tenant")?, run: id(row, "id")? },
        state: known.ok_or(StoreError::Unreadable { what: "a run's state", value: state })?,
        head: Sequence(read::number(row, "head_seq")?),
        generation: Generation(read::number(row, "lease_gen")?),
        owner: row.try_get("lease_owner")?,
        lease_until: row.try_get("lease_until")?,
        made_at: row.try_get("made_at")?,
        parent,
        title: row.try_get("title")?,
    })
}

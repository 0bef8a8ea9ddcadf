//! Rows of calls and connections, of all nodes and replicas of a platform, and their charges.
//!
//! Rows go to the database as JSON documents and come back as such: one statement a batch,
//! whatever columns there are.

use belljar_domain::network::Bytes;
use belljar_domain::rows::{AttributedRow, CallRow, ConnectionRow, RowBody};
use belljar_domain::{Attribution, NodeNumber};
use belljar_journal::{
    Address, Charged, Failure, FoundRow, FoundRows, MostRows, RowStore, StoredRows,
};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::error::{StoreError, of};
use crate::{Store, read};

/// Rows that one statement deletes.
const DELETE_BATCH: i64 = 5000;
/// The latest beginning that is believed, in microseconds since 1970: the year 2200.
const MAX_BEGAN: u64 = 7_258_118_400_000_000;

/// Rows in PostgreSQL; cheap to clone.
#[derive(Debug, Clone)]
pub struct Rows {
    store: Store,
}

/// Columns that both tables have.
#[derive(Serialize, Deserialize)]
struct Record<T> {
    id: String,
    tenant: String,
    sandbox: String,
    run: Option<String>,
    turn: Option<u32>,
    call: Option<String>,
    began: u64,
    micros: u64,
    #[serde(flatten)]
    body: T,
}

/// Columns of `connection` that are not named as in [`ConnectionRow`].
#[derive(Serialize, Deserialize)]
struct Connection {
    bytes_out: u64,
    bytes_in: u64,
    #[serde(flatten)]
    row: Value,
}

// A node's word that a row is a run's counts if its tenant has that run. Control's own rows come
// from its workers, and need no such check.
const CALLS: &str = "
    insert into call (id, tenant, sandbox, run, turn, call, began_at, micros, number, kind, is_ok,
                      reason, exit_code, cpu_micros, peak_bytes, output_bytes, files, is_cut,
                      of_node)
    select r.id, t.name, r.sandbox,
           case when $2::smallint is null or u.id is not null then r.run end,
           case when $2::smallint is null or u.id is not null then r.turn end,
           case when $2::smallint is null or u.id is not null then r.call end,
           timestamptz 'epoch' + r.began * interval '1 microsecond', r.micros, r.number, r.kind,
           r.is_ok, r.reason, r.exit_code, r.cpu_micros, r.peak_bytes, r.output_bytes,
           coalesce(r.files, '[]'), coalesce(r.is_cut, false), $2::smallint is not null
    from jsonb_to_recordset($1) as r
      (id text, tenant text, sandbox text, run text, turn bigint, call text, began bigint,
       micros bigint, number bigint, kind text, is_ok boolean, reason text, exit_code integer,
       cpu_micros bigint, peak_bytes bigint, output_bytes bigint, files jsonb, is_cut boolean)
    join tenant t on t.name = r.tenant
    left join sandbox s on s.id = r.sandbox
    left join run u on u.id = r.run and u.tenant = r.tenant
    where $2::smallint is null or (s.tenant = r.tenant and s.node = $2)
    on conflict (id) do nothing";

// Charges are made of the rows that are new, in the same statement: one for each answer of a model,
// and one for the bytes that a call sent out in one day. The first row of those names their source.
// The clock of a node is believed within a day: its charges count in no other period.
// A row that is forgotten after its time is not sent again: its sender had gone on long before.
const CONNECTIONS: &str = "
    with fresh as (
    insert into connection (id, tenant, sandbox, run, turn, call, began_at, micros, sequence, kind,
                            decision, reason, host, port, operation, method, path, status,
                            bytes_out, bytes_in, charge, is_late, of_node)
    select r.id, t.name, r.sandbox,
           case when $2::smallint is null or u.id is not null then r.run end,
           case when $2::smallint is null or u.id is not null then r.turn end,
           case when $2::smallint is null or u.id is not null then r.call end,
           timestamptz 'epoch' + r.began * interval '1 microsecond', r.micros, r.sequence, r.kind,
           r.decision, r.reason, r.host, r.port, r.operation, r.method, r.path, r.status,
           r.bytes_out, r.bytes_in, r.charge, coalesce(r.is_late, false), $2::smallint is not null
    from jsonb_to_recordset($1) as r
      (id text, tenant text, sandbox text, run text, turn bigint, call text, began bigint,
       micros bigint, sequence bigint, kind text, decision text, reason text, host text,
       port integer, operation text, method text, path text, status integer, bytes_out bigint,
       bytes_in bigint, charge jsonb, is_late boolean)
    join tenant t on t.name = r.tenant
    left join sandbox s on s.id = r.sandbox
    left join run u on u.id = r.run and u.tenant = r.tenant
    where $2::smallint is null or (s.tenant = r.tenant and s.node = $2)
    on conflict (id) do nothing
    returning id, tenant, sandbox, run, turn, call, began_at, kind, decision, operation, bytes_out,
              charge, of_node,
              case when decision = 'allowed' and kind <> 'lookup' then bytes_out else 0 end as sent,
              case when of_node then
                least(greatest(began_at, now() - interval '1 day'), now() + interval '1 day')
              else began_at end as charged_for),
    charged as (
    insert into ledger (tenant, debit, credit, nano_dollars, source, sandbox, run, turn, call,
                        operation, model, began_at, input_tokens, cache_read_tokens,
                        cache_write_tokens, output_tokens, egress_bytes, is_estimated)
    select tenant, 'usage', 'models', coalesce((charge ->> 'nano_dollars')::bigint, 0),
           'row:' || id, case when of_node then sandbox end, run, turn, call, operation,
           charge ->> 'model', charged_for, coalesce((charge ->> 'input')::bigint, 0),
           coalesce((charge ->> 'cache_read')::bigint, 0),
           coalesce((charge ->> 'cache_write')::bigint, 0),
           coalesce((charge ->> 'output')::bigint, 0), sent,
           coalesce((charge ->> 'estimated')::boolean, false)
             or coalesce((charge ->> 'assumed')::boolean, false)
    from fresh where charge is not null
    union all
    select tenant, 'usage', 'egress',
           least(div(sum(sent) * (select nano_dollars from price where what = 'egress_gigabyte'),
                     1000000000), 9223372036854775807)::bigint,
           'row:' || min(id), case when of_node then sandbox end, run, turn, call, operation, null,
           min(charged_for), 0, 0, 0, 0, least(sum(sent), 9223372036854775807)::bigint, false
    from fresh where charge is null and sent > 0
    group by tenant, sandbox, of_node, run, turn, call, operation,
             (charged_for at time zone 'utc')::date
    on conflict (tenant, source) do nothing
    returning credit, nano_dollars)
    select (select count(*) from fresh),
           least(coalesce(sum(nano_dollars) filter (where credit = 'models'), 0),
                 9223372036854775807)::bigint,
           least(coalesce(sum(nano_dollars) filter (where credit = 'egress'), 0),
                 9223372036854775807)::bigint
    from charged";

/// Rows whose forerunners are below a number of bytes, and how many there are with the others.
macro_rules! rows_of_turn {
    ($table:literal) => {
        concat!(
            "
    select doc, total from (
      select doc, total, began_at, id, sum(size) over (order by began_at, id) - size as before
      from (
        select doc, began_at, id, octet_length(doc::text) as size, count(*) over () as total
        from (
          select jsonb_strip_nulls(to_jsonb(c)) || jsonb_build_object(
                   'began', (extract(epoch from began_at) * 1000000)::bigint) as doc, began_at, id
          from ",
            $table,
            " c where tenant = $1 and run = $2 and turn = $3
          order by began_at, id limit $4) c) c) c
    where before < $5 order by began_at, id"
        )
    };
}

const CALLS_OF_TURN: &str = rows_of_turn!("call");
const CONNECTIONS_OF_TURN: &str = rows_of_turn!("connection");

impl Store {
    pub fn rows(&self) -> Rows {
        Rows { store: self.clone() }
    }
}

impl Rows {
    /// Stores rows that a node has sent. Those of sandboxes that were not placed on it, and those
    /// that name another tenant than their sandbox has, are ignored. A run that the tenant does not
    /// have is taken out of a row.
    pub async fn put_of_node(
        &self,
        node: NodeNumber,
        rows: &[AttributedRow],
    ) -> Result<StoredRows, StoreError> {
        self.write(rows, Some(node)).await
    }

    async fn write(
        &self,
        rows: &[AttributedRow],
        node: Option<NodeNumber>,
    ) -> Result<StoredRows, StoreError> {
        let (mut calls, mut connections) = (Vec::new(), Vec::new());
        for row in rows {
            match &row.body {
                RowBody::Call(call) => calls.push(document(row, call)?),
                RowBody::Connection(connection) => {
                    let Bytes { out, into } = connection.bytes;
                    let (bytes_out, bytes_in) = (bounded(out), bounded(into));
                    let row_of = serde_json::to_value(connection).map_err(unwritable)?;
                    let body = Connection { bytes_out, bytes_in, row: row_of };
                    connections.push(document(row, &body)?);
                }
                // A trigger charges the sandboxes of a platform.
                RowBody::Sandbox(_) => {}
            }
        }
        // A number that no node can have is still no word of control.
        let node = node.map(|node| i16::try_from(node.get()).unwrap_or(-1));
        let calls = self.insert_calls(calls, node).await?;
        let (connections, charged) = self.insert_connections(connections, node).await?;
        Ok(StoredRows { calls, connections, charged })
    }

    async fn insert_calls(&self, rows: Vec<Value>, node: Option<i16>) -> Result<u64, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        let done = sqlx::query(CALLS).bind(Json(rows)).bind(node).execute(&self.store.pool).await;
        Ok(done.map_err(of)?.rows_affected())
    }

    async fn insert_connections(
        &self,
        rows: Vec<Value>,
        node: Option<i16>,
    ) -> Result<(u64, Charged), StoreError> {
        if rows.is_empty() {
            return Ok((0, Charged::default()));
        }
        let done = sqlx::query_as::<_, (i64, i64, i64)>(CONNECTIONS)
            .bind(Json(rows))
            .bind(node)
            .fetch_one(&self.store.pool)
            .await;
        let (new, models, egress) = done.map_err(of)?;
        let charged = Charged { models: models.unsigned_abs(), egress: egress.unsigned_abs() };
        Ok((new.unsigned_abs(), charged))
    }

    async fn find(
        &self,
        run: &Address,
        turn: u32,
        most: MostRows,
    ) -> Result<FoundRows, StoreError> {
        // Half of the bytes for each kind: neither hides the other.
        let most_of_kind = MostRows { bytes: most.bytes / 2, ..most };
        let (calls, are_calls_cut) = self.documents(CALLS_OF_TURN, run, turn, most_of_kind).await?;
        let (connections, are_connections_cut) =
            self.documents(CONNECTIONS_OF_TURN, run, turn, most_of_kind).await?;
        let calls = calls.into_iter().map(|row| found(row, call));
        let rows = calls.chain(connections.into_iter().map(|row| found(row, connection)));
        let mut rows = rows.collect::<serde_json::Result<Vec<_>>>().map_err(unreadable)?;
        let is_cut = are_calls_cut || are_connections_cut || rows.len() > most.rows;
        rows.sort_by_key(|found| found.row.began);
        rows.truncate(most.rows);
        Ok(FoundRows { rows, is_cut })
    }

    /// Rows of one kind, and whether they are cut.
    async fn documents(
        &self,
        sql: &'static str,
        run: &Address,
        turn: u32,
        most: MostRows,
    ) -> Result<(Vec<Value>, bool), StoreError> {
        let found = sqlx::query_as::<_, (Json<Value>, i64)>(sql)
            .bind(&run.tenant)
            .bind(run.run.as_str())
            .bind(i64::from(turn))
            // One more shows that there are more.
            .bind(read::signed(most.rows.saturating_add(1) as u64))
            .bind(read::signed(most.bytes as u64))
            .fetch_all(&self.store.pool)
            .await?;
        let total = found.first().map_or(0, |(_, total)| *total);
        let is_cut = read::signed(found.len() as u64) < total;
        Ok((found.into_iter().map(|(Json(row), _)| row).collect(), is_cut))
    }

    async fn delete(&self, sql: &'static str, before: OffsetDateTime) -> Result<(), StoreError> {
        loop {
            let done = sqlx::query(sql).bind(before).bind(DELETE_BATCH).execute(&self.store.pool);
            if done.await?.rows_affected() < DELETE_BATCH.unsigned_abs() {
                return Ok(());
            }
        }
    }
}

impl RowStore for Rows {
    fn put<'a>(&'a self, rows: &'a [AttributedRow]) -> BoxFuture<'a, Result<StoredRows, Failure>> {
        Box::pin(async move { self.write(rows, None).await.map_err(Failure::new) })
    }

    fn of_turn<'a>(
        &'a self,
        run: &'a Address,
        turn: u32,
        most: MostRows,
    ) -> BoxFuture<'a, Result<FoundRows, Failure>> {
        Box::pin(async move { self.find(run, turn, most).await.map_err(Failure::new) })
    }

    fn forget(&self, before: OffsetDateTime) -> BoxFuture<'_, Result<(), Failure>> {
        const CALLS: &str = "delete from call where id in
            (select id from call where stored_at < $1 limit $2)";
        const CONNECTIONS: &str = "delete from connection where id in
            (select id from connection where stored_at < $1 limit $2)";
        Box::pin(async move {
            self.delete(CALLS, before).await.map_err(Failure::new)?;
            self.delete(CONNECTIONS, before).await.map_err(Failure::new)
        })
    }
}

/// A row as the database reads it.
fn document(row: &AttributedRow, body: &impl Serialize) -> Result<Value, StoreError> {
    let known = row.attribution.as_ref();
    let record = Record {
        id: row.id.clone(),
        tenant: row.tenant.clone(),
        sandbox: row.sandbox.to_string(),
        run: known.map(|it| it.run.to_string()),
        turn: known.map(|it| it.turn),
        call: known.and_then(|it| it.call.as_ref()).map(ToString::to_string),
        began: row.began.min(MAX_BEGAN),
        micros: row.micros,
        body,
    };
    let mut document = serde_json::to_value(record).map_err(unwritable)?;
    fit(&mut document);
    Ok(document)
}

/// Makes a document one that PostgreSQL can store: without U+0000, and with numbers that fit. A
/// row that it refused would hold up all that come after it.
fn fit(value: &mut Value) {
    match value {
        Value::String(text) if text.contains('\0') => *text = text.replace('\0', "\u{fffd}"),
        Value::Number(number) => {
            if let Some(large) = number.as_u64().filter(|large| i64::try_from(*large).is_err()) {
                *value = json!(bounded(large));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(fit),
        Value::Object(fields) => fields.values_mut().for_each(fit),
        _ => {}
    }
}

fn bounded(value: u64) -> u64 {
    read::signed(value).unsigned_abs()
}

/// A row with its writer.
fn found(
    document: Value,
    read: impl FnOnce(Value) -> serde_json::Result<AttributedRow>,
) -> serde_json::Result<FoundRow> {
    let is_of_node = document.get("of_node").and_then(Value::as_bool).unwrap_or(true);
    Ok(FoundRow { row: read(document)?, is_of_node })
}

fn call(document: Value) -> serde_json::Result<AttributedRow> {
    let record: Record<CallRow> = serde_json::from_value(document)?;
    attributed(record, RowBody::Call)
}

fn connection(document: Value) -> serde_json::Result<AttributedRow> {
    let mut record: Record<Connection> = serde_json::from_value(document)?;
    let Connection { bytes_out, bytes_in, row } = &mut record.body;
    if let Value::Object(fields) = row {
        fields.insert("bytes".to_owned(), json!({ "out": bytes_out, "in": bytes_in }));
    }
    let row: ConnectionRow = serde_json::from_value(row.take())?;
    attributed(record, |_| RowBody::Connection(row))
}

fn attributed<T>(
    record: Record<T>,
    body: impl FnOnce(T) -> RowBody,
) -> serde_json::Result<AttributedRow> {
    let wrong = <serde_json::Error as serde::de::Error>::custom::<&str>;
    let attribution = match (record.run, record.turn) {
        (Some(run), Some(turn)) => Some(Attribution {
            run: run.parse().map_err(|_| wrong("not the id of a run"))?,
            turn,
            call: record.call.map(|call| call.parse()).transpose().map_err(|_| wrong("no call"))?,
        }),
        _ => None,
    };
    Ok(AttributedRow {
        id: record.id,
        tenant: record.tenant,
        sandbox: record.sandbox.parse().map_err(|_| wrong("not the id of a sandbox"))?,
        attribution,
        began: record.began,
        micros: record.micros,
        body: body(record.body),
    })
}

fn unwritable(error: serde_json::Error) -> StoreError {
    StoreError::Database(sqlx::Error::Encode(Box::new(error)))
}

fn unreadable(error: serde_json::Error) -> StoreError {
    StoreError::Database(sqlx::Error::Decode(Box::new(error)))
}

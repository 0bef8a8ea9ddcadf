//! The database, read as a whole.

use serde_json::Value;

use crate::evidence::{Books, Charge, NodeRow, Row};
use crate::rig::postgres::Postgres;

pub(crate) fn read(postgres: &Postgres) -> anyhow::Result<Books> {
    let mut books = Books::default();
    for row in postgres.rows("sandbox")? {
        books.rows.push(Row {
            id: text(&row, "id").unwrap_or_default(),
            tenant: text(&row, "tenant").unwrap_or_default(),
            state: text(&row, "state").unwrap_or_default(),
            reason: text(&row, "reason"),
            key: text(&row, "request_key"),
            node: row["node"].as_i64(),
            ran_ms: row["ran_ms"].as_i64(),
        });
    }
    for row in postgres.rows("quota")? {
        let tenant = text(&row, "tenant").unwrap_or_default();
        books.used.insert(tenant, row["used"].as_i64().unwrap_or_default());
    }
    for row in postgres.rows("ledger")? {
        books.ledger.push(Charge {
            tenant: text(&row, "tenant").unwrap_or_default(),
            source: text(&row, "source").unwrap_or_default(),
            debit: text(&row, "debit").unwrap_or_default(),
            credit: text(&row, "credit").unwrap_or_default(),
            nano_dollars: row["nano_dollars"].as_i64().unwrap_or_default(),
            sandbox: text(&row, "sandbox"),
            ran_ms: row["detail"]["ran_ms"].as_i64(),
            second: row["detail"]["second"].as_i64(),
        });
    }
    for row in postgres.rows("node")? {
        books.nodes.push(NodeRow {
            number: row["number"].as_i64().unwrap_or_default(),
            name: text(&row, "name").unwrap_or_default(),
            epoch: row["epoch"].as_i64().unwrap_or_default(),
            state: text(&row, "state").unwrap_or_default(),
        });
    }
    let unsent = postgres.sql("select count(*) from outbox where published_at is null")?;
    books.unsent = unsent.trim().parse()?;
    Ok(books)
}

fn text(row: &Value, column: &str) -> Option<String> {
    row[column].as_str().map(str::to_owned)
}

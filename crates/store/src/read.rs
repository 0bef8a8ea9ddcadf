//! Columns, as the types that they stand for.

use belljar_domain::{EndReason, OperationCap, SandboxId, Tier};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::error::StoreError;

/// Of what the database holds to be at least 0.
pub(crate) fn count(row: &PgRow, column: &str) -> Result<u32, StoreError> {
    let value: i32 = row.try_get(column)?;
    Ok(value.unsigned_abs())
}

pub(crate) fn number(row: &PgRow, column: &str) -> Result<u64, StoreError> {
    let value: i64 = row.try_get(column)?;
    Ok(value.unsigned_abs())
}

pub(crate) fn id(row: &PgRow, column: &str) -> Result<SandboxId, StoreError> {
    let text: String = row.try_get(column)?;
    text.parse().map_err(|_| StoreError::Unreadable { what: "a sandbox id", value: text })
}

pub(crate) fn tier(row: &PgRow, column: &str) -> Result<Option<Tier>, StoreError> {
    let text: Option<String> = row.try_get(column)?;
    let parse = |text: String| {
        text.parse().map_err(|_| StoreError::Unreadable { what: "a tier", value: text })
    };
    text.map(parse).transpose()
}

pub(crate) fn reason(row: &PgRow, column: &str) -> Result<Option<EndReason>, StoreError> {
    let text: Option<String> = row.try_get(column)?;
    let parse = |text: String| {
        let found = EndReason::ALL.into_iter().find(|reason| reason.as_str() == text);
        found.ok_or(StoreError::Unreadable { what: "an end reason", value: text })
    };
    text.map(parse).transpose()
}

pub(crate) fn operations(row: &PgRow, column: &str) -> Result<OperationCap, StoreError> {
    let names: Option<Vec<String>> = row.try_get(column)?;
    Ok(names.map_or(OperationCap::ALL, OperationCap::of))
}

/// Numbers are `u64` with us and `bigint` with the database, which has no other.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

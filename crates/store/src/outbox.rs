//! What must be told, written with the change that it tells of.
//!
//! A publisher takes some, sends them, and says so. One that dies in between has
//! perhaps sent them; the next sends them again, under the same message id.

use std::time::Duration;

use serde_json::Value;
use sqlx::types::Json;
use sqlx::{Postgres, Row as _, Transaction};

use crate::error::{StoreError, of};
use crate::{Store, read};

/// A message that waits to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The same each time that it is sent, unless it is meant to be seen anew.
    pub id: String,
    pub subject: String,
    pub body: Value,
    number: i64,
}

/// Messages that nobody else sends meanwhile. Dropped: they wait again.
#[derive(Debug)]
pub struct Outgoing {
    pub messages: Vec<Message>,
    held: Transaction<'static, Postgres>,
}

impl Outgoing {
    /// All of them have been sent.
    pub async fn sent(mut self) -> Result<(), StoreError> {
        let numbers: Vec<_> = self.messages.iter().map(|message| message.number).collect();
        sqlx::query("update outbox set published_at = now() where number = any($1)")
            .bind(numbers)
            .execute(&mut *self.held)
            .await
            .map_err(of)?;
        self.held.commit().await.map_err(of)
    }
}

impl Store {
    pub async fn tell(&self, subject: &str, body: &Value) -> Result<(), StoreError> {
        sqlx::query("insert into outbox (subject, body) values ($1, $2)")
            .bind(subject)
            .bind(Json(body))
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// The oldest messages that wait, and that no other publisher holds.
    pub async fn outgoing(&self, most: u32) -> Result<Outgoing, StoreError> {
        let mut held = self.pool.begin().await?;
        let rows = sqlx::query(
            "select number, subject, generation, body from outbox
             where published_at is null order by number limit $1 for update skip locked",
        )
        .bind(i64::from(most))
        .fetch_all(&mut *held)
        .await
        .map_err(of)?;
        let message = |row: sqlx::postgres::PgRow| {
            let number: i64 = row.try_get("number")?;
            let generation: i32 = row.try_get("generation")?;
            let Json(body) = row.try_get("body")?;
            let id = format!("{number}:{generation}");
            Ok(Message { id, subject: row.try_get("subject")?, body, number })
        };
        let messages = rows.into_iter().map(message).collect::<Result<_, StoreError>>()?;
        Ok(Outgoing { messages, held })
    }

    /// Sends what was published before and may have been lost since then once
    /// more, under new ids: a stream that was deleted is filled again.
    pub async fn send_again(&self, published_within: Duration) -> Result<u64, StoreError> {
        let done = sqlx::query(
            "update outbox set published_at = null, generation = generation + 1
             where published_at > now() - $1 * interval '1 second'",
        )
        .bind(published_within.as_secs_f64())
        .execute(&self.pool)
        .await
        .map_err(of)?;
        Ok(done.rows_affected())
    }

    /// Forgets what was published longer ago than this.
    pub async fn forget_sent(&self, longer_ago: Duration) -> Result<u64, StoreError> {
        let done =
            sqlx::query("delete from outbox where published_at < now() - $1 * interval '1 second'")
                .bind(longer_ago.as_secs_f64())
                .execute(&self.pool)
                .await
                .map_err(of)?;
        Ok(done.rows_affected())
    }

    /// How many wait, and for how long the oldest has.
    pub async fn waiting(&self) -> Result<(u64, Duration), StoreError> {
        let row = sqlx::query(
            "select count(*) as count,
                    coalesce(extract(epoch from now() - min(made_at)), 0)::float8 as age
             from outbox where published_at is null",
        )
        .fetch_one(&self.pool)
        .await?;
        let age: f64 = row.try_get("age")?;
        Ok((read::number(&row, "count")?, Duration::from_secs_f64(age.max(0.0))))
    }
}

//! Secrets of webhooks, sealed: a dump of the database opens none of them.
//!
//! A sealed secret begins with [`MARK`]. One without it was written by an older version, or without
//! a key, and is sealed by [`WebhookRows::seal_secrets`].

use std::fmt;

use belljar_webhooks::Secret;
use sqlx::Row as _;

use super::WebhookRows;
use crate::error::{StoreError, of};

/// Plain secrets are random: none begins with this by chance.
const MARK: &[u8] = b"\0sealed\x01";

/// The key that seals secrets, which is not in the database.
pub trait SecretSeal: Send + Sync + fmt::Debug {
    /// Encrypts `plain`, bound to `context`. None: the system has no random numbers.
    fn seal(&self, context: &[u8], plain: &[u8]) -> Option<Vec<u8>>;

    /// Decrypts what this key, or one that it replaced, sealed for `context`.
    fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>>;

    /// Returns true if the newest key sealed it.
    fn is_current(&self, context: &[u8], sealed: &[u8]) -> bool;
}

fn context(webhook: &str) -> Vec<u8> {
    format!("belljar webhook secret {webhook}").into_bytes()
}

/// The bytes of a row for a secret.
pub(super) fn stored(
    seal: Option<&dyn SecretSeal>,
    webhook: &str,
    secret: &Secret,
) -> Result<Vec<u8>, StoreError> {
    let Some(seal) = seal else { return Ok(secret.as_bytes().to_vec()) };
    let sealed = seal.seal(&context(webhook), secret.as_bytes()).ok_or(StoreError::NotSealed)?;
    Ok([MARK, &sealed].concat())
}

/// The secret in a row; none if it is sealed with a key that is not here.
pub(super) fn opened(
    seal: Option<&dyn SecretSeal>,
    webhook: &str,
    stored: Vec<u8>,
) -> Option<Secret> {
    match stored.strip_prefix(MARK) {
        None => Some(Secret::from_bytes(stored)),
        Some(sealed) => seal?.open(&context(webhook), sealed).map(Secret::from_bytes),
    }
}

/// The bytes to store in place of these; none if they may stay.
fn resealed(
    seal: &dyn SecretSeal,
    webhook: &str,
    before: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    let sealed = before.strip_prefix(MARK);
    if sealed.is_some_and(|sealed| seal.is_current(&context(webhook), sealed)) {
        return Ok(None);
    }
    // One that cannot be opened may have been sealed by a replica with a newer key.
    let Some(secret) = opened(Some(seal), webhook, before.to_vec()) else { return Ok(None) };
    stored(Some(seal), webhook, &secret).map(Some)
}

impl WebhookRows {
    /// Seals secrets that an older version wrote, or that a key sealed which was replaced.
    pub(super) async fn seal_secrets(&self) -> Result<(), StoreError> {
        let Some(seal) = self.seal.as_deref() else { return Ok(()) };
        let rows = sqlx::query("select id, secret, previous_secret from webhook");
        for row in rows.fetch_all(&self.store.pool).await.map_err(of)? {
            let id: String = row.try_get("id")?;
            let secret: Vec<u8> = row.try_get("secret")?;
            let previous: Option<Vec<u8>> = row.try_get("previous_secret")?;
            let new = resealed(seal, &id, &secret)?;
            let new_previous = match &previous {
                Some(previous) => resealed(seal, &id, previous)?,
                None => None,
            };
            if new.is_none() && new_previous.is_none() {
                continue;
            }
            // A secret that was rotated meanwhile is sealed already.
            sqlx::query(
                "update webhook set secret = $2, previous_secret = $3
                 where id = $1 and secret = $4 and previous_secret is not distinct from $5",
            )
            .bind(&id)
            .bind(new.as_ref().unwrap_or(&secret))
            .bind(new_previous.as_ref().or(previous.as_ref()))
            .bind(&secret)
            .bind(previous.as_ref())
            .execute(&self.store.pool)
            .await
            .map_err(of)?;
        }
        Ok(())
    }
}

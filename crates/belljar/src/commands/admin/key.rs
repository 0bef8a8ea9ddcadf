//! `belljar admin key`.

use std::time::Duration;

use anyhow::Context as _;
use belljar_domain::OperationCap;
use belljar_sandboxes::{Keys, Secret};
use belljar_store::{NewKey, Scope, Store};
use serde_json::json;

use super::table::Table;
use super::{Office, explained, stamp};
use crate::cli::KeyAction;
use crate::output::hinted;

/// Everything that a program of the tenant's needs, and nothing about others.
const USUAL: &[Scope] = &[Scope::Read, Scope::Sandboxes, Scope::Templates];

pub(super) async fn run(office: &Office, action: &KeyAction) -> anyhow::Result<()> {
    match action {
        KeyAction::Add { tenant, scope, label, lives, operations } => {
            let scopes = if scope.is_empty() { USUAL } else { scope };
            add(office, tenant, scopes, label, *lives, operations).await
        }
        KeyAction::Set { tenant, id, operations } => cap(office, tenant, id, operations).await,
        KeyAction::List { tenant } => list(office, tenant).await,
        KeyAction::Revoke { tenant, id } => revoke(office, tenant, id).await,
    }
}

/// A new key and its id. The key itself is nowhere else.
pub(crate) async fn make(
    store: &Store,
    tenant: &str,
    scopes: &[Scope],
    label: &str,
    lives: Option<Duration>,
    operations: &OperationCap,
) -> anyhow::Result<(Secret, String)> {
    let (key, hash) = Keys::make().context("cannot create a key")?;
    let new = NewKey { hash, tenant, label, scopes, lives, operations: operations.clone() };
    let id = store.add_key(&new).await.map_err(explained)?;
    Ok((key, id))
}

async fn add(
    office: &Office,
    tenant: &str,
    scopes: &[Scope],
    label: &str,
    lives: Option<Duration>,
    operations: &OperationCap,
) -> anyhow::Result<()> {
    let (key, id) = make(&office.store, tenant, scopes, label, lives, operations).await?;
    let names: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
    let seconds = lives.map(|lives| lives.as_secs());
    let detail = json!({
        "scopes": names, "label": label, "lives_seconds": seconds, "operations": operations,
    });
    office.wrote(Some(tenant), "key.add", &id, &detail).await?;
    if office.printer.is_json() {
        return office.printer.document(&json!({
            "id": id, "key": key.expose(), "tenant": tenant, "scopes": names, "label": label,
            "lives_seconds": seconds, "operations": operations,
        }));
    }
    office.printer.note(format_args!(
        "created key {id} for tenant {tenant} ({}), shown only once:",
        names.join(", ")
    ));
    Ok(office.printer.data(key.expose())?)
}

async fn list(office: &Office, tenant: &str) -> anyhow::Result<()> {
    let keys = office.store.keys(tenant).await.map_err(explained)?;
    let names = |scopes: &[Scope]| scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>();
    if office.printer.is_json() {
        let document = keys.iter().map(|key| {
            json!({
                "id": key.id, "label": key.label, "scopes": names(&key.scopes),
                "made_at": stamp(key.made_at), "expires_at": key.expires_at.map(stamp),
                "alive": key.is_alive, "operations": key.operations,
            })
        });
        return office.printer.document(&document.collect::<Vec<_>>());
    }
    if keys.is_empty() {
        // Says whether there is such a tenant.
        office.store.tenant(tenant).await.map_err(explained)?;
        office.printer.note(format_args!("tenant {tenant} has no keys"));
        office.printer.note(format_args!("hint: `belljar admin key add {tenant}` creates one"));
        return Ok(());
    }
    let mut table =
        Table::new(["ID", "ACTIVE", "SCOPES", "OPERATIONS", "CREATED", "EXPIRES", "LABEL"]);
    for key in keys {
        table.row([
            key.id,
            if key.is_alive { "yes" } else { "no" }.to_owned(),
            names(&key.scopes).join(","),
            key.operations.to_string(),
            stamp(key.made_at),
            key.expires_at.map_or_else(|| "-".to_owned(), stamp),
            key.label,
        ]);
    }
    Ok(office.printer.data(table)?)
}

async fn cap(
    office: &Office,
    tenant: &str,
    id: &str,
    operations: &OperationCap,
) -> anyhow::Result<()> {
    if !office.store.cap_key(tenant, id, operations).await.map_err(explained)? {
        return Err(no_key(tenant, id));
    }
    office.wrote(Some(tenant), "key.set", id, &json!({ "operations": operations })).await?;
    let document = json!({ "id": id, "tenant": tenant, "operations": operations });
    office.say(
        format_args!("changed key {id}: operations {operations}; it holds within two seconds"),
        &document,
    )
}

fn no_key(tenant: &str, id: &str) -> anyhow::Error {
    let error = anyhow::anyhow!("tenant {tenant} has no active key `{id}`");
    hinted(error, format!("`belljar admin key list {tenant}` shows its keys"))
}

async fn revoke(office: &Office, tenant: &str, id: &str) -> anyhow::Result<()> {
    if !office.store.revoke_key(tenant, id).await.map_err(explained)? {
        return Err(no_key(tenant, id));
    }
    office.wrote(Some(tenant), "key.revoke", id, &json!({})).await?;
    let document = json!({ "id": id, "tenant": tenant, "revoked": true });
    office.say(format_args!("revoked key {id}; it stops working within two seconds"), &document)
}

//! `belljar admin`: the platform's database, without a server in between.
//!
//! Whoever holds the database's password may do all of this anyway; so there is no
//! key to show, and each act is written to the audit.

mod authority;
mod control_key;
mod key;
mod money;
mod node;
mod sandbox;
pub(super) mod table;
mod tenant;
mod usage;

use std::path::Path;

use anyhow::{Context as _, bail};
use belljar_store::{Store, StoreError};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::cli::{Admin, AdminAction};
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted};
use table::Table;

pub(crate) use control_key::make as make_control_key;
pub(crate) use key::make as make_key;
pub(crate) use node::make_token as make_node_token;
pub(crate) use tenant::open as open_tenant;

pub(crate) async fn run(options: &Admin, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    if let AdminAction::ControlKey { file } = &options.action {
        return control_key::run(file, printer);
    }
    let store = connect(&address(options, config)?).await?;
    let office = Office { store, actor: actor(config), printer: *printer };
    match &options.action {
        AdminAction::Migrate => office.migrate().await?,
        AdminAction::ControlKey { .. } => {}
        AdminAction::Authority(action) => authority::run(&office, action).await?,
        AdminAction::Tenant(action) => tenant::run(&office, action).await?,
        AdminAction::Key(action) => key::run(&office, action).await?,
        AdminAction::Node(action) => return node::run(&office, action).await,
        AdminAction::Sandbox(action) => sandbox::run(&office, action).await?,
        AdminAction::Price(action) => money::price(&office, action).await?,
        AdminAction::Bill { tenant, within } => money::bill(&office, tenant, *within).await?,
        AdminAction::Usage { tenant, sums } => {
            usage::show(&office, tenant.as_deref(), sums).await?;
        }
        AdminAction::Audit { tenant, most } => office.audited(tenant.as_deref(), *most).await?,
    }
    Ok(0)
}

/// What every act needs.
struct Office {
    store: Store,
    actor: String,
    printer: Printer,
}

impl Office {
    async fn migrate(&self) -> anyhow::Result<()> {
        self.store
            .migrate()
            .await
            .hint("see PostgreSQL's log; a newer database needs a newer belljar")?;
        self.wrote(None, "migrate", "database", &json!({})).await?;
        self.say("the database is up to date", &json!({ "migrated": true }))
    }

    async fn audited(&self, tenant: Option<&str>, most: u32) -> anyhow::Result<()> {
        let deeds = match tenant {
            Some(tenant) => self.store.audited(tenant, most).await,
            None => self.store.audited_anywhere(most).await,
        };
        let deeds = deeds.map_err(explained)?;
        if self.printer.is_json() {
            let document = deeds.iter().map(|deed| {
                json!({
                    "at": stamp(deed.at), "tenant": deed.tenant, "actor": deed.actor,
                    "action": deed.action, "subject": deed.subject, "detail": deed.detail,
                })
            });
            return self.printer.document(&document.collect::<Vec<_>>());
        }
        let mut table = Table::new(["TIME", "TENANT", "ACTOR", "ACTION", "SUBJECT", "DETAIL"]);
        for deed in deeds {
            table.row([
                stamp(deed.at),
                deed.tenant.unwrap_or_else(|| "-".to_owned()),
                deed.actor,
                deed.action,
                deed.subject,
                deed.detail.to_string(),
            ]);
        }
        Ok(self.printer.data(table)?)
    }

    /// Writes down what was done. It is done by now, so whoever hears that this
    /// failed must not take it for undone.
    async fn wrote(
        &self,
        tenant: Option<&str>,
        action: &str,
        subject: &str,
        detail: &Value,
    ) -> anyhow::Result<()> {
        let written = self.store.audit(tenant, &self.actor, action, subject, detail).await;
        written
            .with_context(|| format!("{action} succeeded, but cannot be written to the audit log"))
    }

    /// The outcome: a sentence for people, a document for programs.
    fn say(&self, sentence: impl std::fmt::Display, document: &Value) -> anyhow::Result<()> {
        if self.printer.is_json() {
            return self.printer.document(document);
        }
        self.printer.note(sentence);
        Ok(())
    }
}

/// Connects, and says what to look at if that does not work.
pub(crate) async fn connect(url: &str) -> anyhow::Result<Store> {
    connect_with(url, 2).await
}

/// As [`connect`], by at most so many connections.
pub(crate) async fn connect_with(url: &str, connections: u32) -> anyhow::Result<Store> {
    let write = "use a URL like postgres://user@host/database";
    // What reads addresses takes any scheme for its own.
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        bail!(hinted(anyhow::anyhow!("the database URL is not a PostgreSQL URL"), write));
    }
    let store = Store::connect(url, connections).await.map_err(|error| match error {
        StoreError::Url(_) => hinted(error, write),
        other => hinted(
            anyhow::Error::new(other).context("cannot reach the database"),
            "check that PostgreSQL is running, and that the user, password and database exist",
        ),
    })?;
    Ok(store)
}

/// Errors of the store that have a way out of their own.
fn explained(error: StoreError) -> anyhow::Error {
    if error.wants_migration() {
        return hinted(error, "create the tables first with `belljar admin migrate`");
    }
    match error {
        StoreError::UnknownTenant(_) => {
            hinted(error, "`belljar admin tenant list` shows tenants; `tenant put` creates one")
        }
        other => other.into(),
    }
}

fn address(options: &Admin, config: &Config) -> anyhow::Result<String> {
    database_address(options.database.as_deref(), options.database_file.as_deref(), config)
}

/// Where the database is, as somebody said it.
pub(crate) fn database_address(
    url: Option<&str>,
    file: Option<&Path>,
    config: &Config,
) -> anyhow::Result<String> {
    if let Some(url) = url {
        return Ok(url.to_owned());
    }
    if let Some(file) = file {
        return read_address(file);
    }
    let Some(url) = &config.database else {
        let error = anyhow::anyhow!("no database is configured");
        bail!(hinted(error, "set --database-file, --database or BELLJAR_DATABASE"));
    };
    Ok(url.clone())
}

fn read_address(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the database URL from `{}`", file.display()));
    let text = text.hint("the file holds one line like postgres://user:password@host/database")?;
    Ok(text.trim().to_owned())
}

/// Who is at the keyboard, as far as that can be told.
fn actor(config: &Config) -> String {
    let variable = |wanted: &str| {
        config.environment.texts().find(|(name, _)| name == wanted).map(|(_, value)| value)
    };
    let user = variable("SUDO_USER").or_else(|| variable("USER"));
    let user = user.filter(|user| !user.is_empty());
    let user = user.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("cli:{user}@{host}")
}

fn stamp(at: OffsetDateTime) -> String {
    let whole = at.replace_nanosecond(0).unwrap_or(at);
    whole.format(&Rfc3339).unwrap_or_else(|_| at.unix_timestamp().to_string())
}

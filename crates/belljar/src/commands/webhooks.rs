//! `belljar webhooks`: webhooks of a server or a platform.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use belljar_api::webhook::{
    CreateWebhook, ListWebhookDeliveries, Webhook, WebhookDelivery, WebhookKind,
};
use belljar_client::Client;

use super::server;
use crate::cli::{Webhooks, WebhooksAction};
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted, printable};
use crate::page::{Align, Grid, Page};

/// The time that `test` waits for the first attempt.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
const LIST: &str = "`belljar webhooks list --server URL` shows webhooks and their ids";

pub(crate) async fn run(
    options: &Webhooks,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let client = server::client(&options.server, options.server_key.as_deref(), config)?;
    let command = Command { client, page: Page::of_terminal(config), printer };
    match &options.action {
        WebhooksAction::Add { url, kinds } => command.add(url, kinds).await?,
        WebhooksAction::List => command.list().await?,
        WebhooksAction::Remove { webhook } => {
            command.client.delete_webhook(webhook).await.hint(LIST)?;
            printer.note(format_args!("deleted {webhook}"));
        }
        WebhooksAction::Test { webhook } => return command.test(webhook).await,
        WebhooksAction::Rotate { webhook } => {
            let rotated = command.client.rotate_webhook(webhook).await.hint(LIST)?;
            command.show_secret(&rotated)?;
        }
        WebhooksAction::Enable { webhook } => {
            command.client.enable_webhook(webhook).await.hint(LIST)?;
            printer.note(format_args!("enabled {webhook}"));
        }
        WebhooksAction::Deliveries { webhook, limit } => {
            command.deliveries(webhook, *limit).await?;
        }
    }
    Ok(0)
}

struct Command<'a> {
    client: Client,
    page: Option<Page>,
    printer: &'a Printer,
}

fn kind(text: &str) -> anyhow::Result<WebhookKind> {
    let read = serde_json::from_value(serde_json::Value::from(text));
    read.map_err(|_| {
        hinted(anyhow!("there is no event kind `{text}`"), "docs/webhooks.md lists the kinds")
    })
}

impl Command<'_> {
    fn print(&self, columns: &[&str], rows: Vec<Vec<String>>) -> anyhow::Result<()> {
        let columns: Vec<_> = columns.iter().map(|name| (*name, Align::Left)).collect();
        let mut grid = Grid::new(&columns);
        rows.into_iter().for_each(|row| grid.row(row));
        let (width, has_colour) =
            self.page.map_or((None, false), |page| (Some(page.width), page.has_colour));
        Ok(self.printer.data(grid.to_text(width, has_colour).trim_end())?)
    }

    async fn add(&self, url: &str, kinds: &[String]) -> anyhow::Result<()> {
        let kinds = kinds.iter().map(|text| kind(text)).collect::<anyhow::Result<_>>()?;
        let url = url.to_owned().try_into().map_err(|error| anyhow!("URL: {error}"))?;
        let made = self.client.create_webhook(&CreateWebhook { url, kinds }).await;
        let made = made.context("cannot add the webhook");
        self.show_secret(&made.hint("use an https URL with a public address")?)
    }

    fn show_secret(&self, webhook: &Webhook) -> anyhow::Result<()> {
        if self.printer.is_json() {
            return self.printer.document(webhook);
        }
        self.printer.note(format_args!("{}: its secret, shown only once:", webhook.id));
        Ok(self.printer.data(webhook.secret.as_deref().unwrap_or_default())?)
    }

    async fn list(&self) -> anyhow::Result<()> {
        let found = self.client.webhooks().await.context("cannot list webhooks")?;
        if self.printer.is_json() {
            return self.printer.document(&found.items);
        }
        if found.items.is_empty() {
            self.printer.note("there are no webhooks\nhint: `belljar webhooks add URL --kinds …`");
            return Ok(());
        }
        let rows = found.items.into_iter().map(|webhook| {
            let state = match (&webhook.disabled, &webhook.failing_since) {
                (Some(reason), _) => format!("disabled: {reason}"),
                (None, Some(since)) => format!("failing since {}", since.0),
                (None, None) => "enabled".to_owned(),
            };
            vec![webhook.id, state, webhook.kinds.join(","), printable(&webhook.url)]
        });
        self.print(&["WEBHOOK", "STATE", "KINDS", "URL"], rows.collect())
    }

    /// Queues a test message and waits for its first attempt.
    async fn test(&self, webhook: &str) -> anyhow::Result<u8> {
        let queued = self.client.test_webhook(webhook).await.hint(LIST)?;
        let begin = Instant::now();
        let sent = loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let found = self.messages(webhook, 100).await?;
            let found = found.into_iter().find(|it| it.message == queued.message);
            match found {
                Some(it) if it.status.is_some() || it.error.is_some() => break it,
                Some(_) if begin.elapsed() < TEST_TIMEOUT => {}
                _ => return Err(hinted(anyhow!("no attempt in time"), LIST)),
            }
        };
        if self.printer.is_json() {
            self.printer.document(&sent)?;
        } else {
            let error = sent.error.as_deref().unwrap_or("delivered");
            self.printer.data(format_args!("{} {}", sent.message, printable(error)))?;
        }
        Ok(u8::from(sent.state != "delivered"))
    }

    async fn messages(&self, webhook: &str, limit: u64) -> anyhow::Result<Vec<WebhookDelivery>> {
        let limit = limit.try_into().map_err(|error| anyhow!("--limit: {error}"))?;
        let query = ListWebhookDeliveries { limit: Some(limit) };
        Ok(self.client.webhook_deliveries(webhook, &query).await.hint(LIST)?.items)
    }

    async fn deliveries(&self, webhook: &str, limit: u64) -> anyhow::Result<()> {
        let found = self.messages(webhook, limit).await?;
        if self.printer.is_json() {
            return self.printer.document(&found);
        }
        let rows = found.into_iter().map(|it| {
            let last = it.error.or(it.status.map(|status| status.to_string()));
            let last = printable(&last.unwrap_or_default());
            vec![it.message, it.kind, it.state, it.attempts.to_string(), it.made_at.0, last]
        });
        let columns = ["MESSAGE", "KIND", "STATE", "ATTEMPTS", "MADE", "LAST"];
        self.print(&columns, rows.collect())
    }
}

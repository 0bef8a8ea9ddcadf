//! `belljar usage`: sums of charges.

use anyhow::{Context as _, anyhow};
use belljar_api::bounds::DateTime;
use belljar_api::usage as api;
use belljar_client::Client;
use belljar_journal::event::Tokens;
use belljar_journal::{
    Amounts, LedgerStore, UsageGroup, UsageKey, UsageName, UsagePage, UsageQuery,
};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{runs, server};
use crate::cli::{Usage, UsageSums};
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted, printable};
use crate::page::{Align, Grid, Page, separated};

/// Groups of one page of a server, as it bounds them.
const MAX_GROUPS: usize = 100;

pub(crate) async fn run(options: &Usage, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    if options.sums.by.contains(&UsageKey::Tenant) {
        let error = anyhow!("charges of one tenant cannot be grouped by tenant");
        return Err(hinted(error, "`belljar admin usage --by tenant` does, for operators"));
    }
    let mut query = query(&options.sums)?;
    let page = match &options.server {
        Some(url) => {
            let client = server::client(url, options.server_key.as_deref(), config)?;
            let run = options.run.as_ref().map(|run| run.as_str().to_owned());
            of_server(&client, &query, run).await?
        }
        None => {
            if let Some(run) = &options.run {
                query.run = Some(runs::named(&runs::open(config)?, run).await?.run);
            }
            query.tenant = Some(runs::TENANT.to_owned());
            let page = runs::ledger(config).usage(&query).await;
            page.context("cannot read the ledger").hint("set BELLJAR_DATA to its directory")?
        }
    };
    print(&query, &page, Page::of_terminal(config), printer)?;
    Ok(0)
}

/// The charges that options name, of all tenants.
pub(super) fn query(sums: &UsageSums) -> anyhow::Result<UsageQuery> {
    let to = OffsetDateTime::now_utc();
    let from = to.checked_sub(time::Duration::try_from(sums.within)?);
    Ok(UsageQuery {
        tenant: None,
        from: from.context("the period of --within is too long")?,
        to,
        run: None,
        by: sums.by.clone(),
        limit: sums.limit,
        after: 0,
    })
}

async fn of_server(
    client: &Client,
    query: &UsageQuery,
    run: Option<String>,
) -> anyhow::Result<UsagePage> {
    let by: Vec<_> = query.by.iter().map(|key| key.as_str()).collect();
    let mut page = UsagePage::default();
    let mut after = None;
    loop {
        let left = query.limit.saturating_sub(page.groups.len()).clamp(1, MAX_GROUPS) as u64;
        let wanted = api::GetUsage {
            from: Some(DateTime(query.from.format(&Rfc3339)?)),
            to: Some(DateTime(query.to.format(&Rfc3339)?)),
            by: Some(by.join(",")),
            run: run.clone(),
            limit: Some(left.try_into().map_err(|error| anyhow!("--limit: {error}"))?),
            after,
        };
        let found = client.usage(&wanted).await;
        let found = found.context("cannot read the usage").hint("--within has at most 366 days")?;
        page.total = UsageGroup { name: UsageName::default(), ..group(found.total) };
        page.groups.extend(found.items.into_iter().map(|item| {
            let api::UsageGroup { run, model, operation, day, account, used } = item;
            let name = UsageName { tenant: None, run, model, operation, day, account };
            UsageGroup { name, ..group(used) }
        }));
        after = found.next;
        page.is_cut = after.is_some();
        if !page.is_cut || page.groups.len() >= query.limit {
            return Ok(page);
        }
    }
}

fn group(used: api::UsageAmounts) -> UsageGroup {
    let api::UsageTokens { input, cache_read, cache_write, output } = used.tokens;
    UsageGroup {
        name: UsageName::default(),
        charges: used.charges,
        amounts: Amounts {
            tokens: Tokens { input, cache_read, cache_write, output },
            egress_bytes: used.egress_bytes,
            sandbox_ms: used.sandbox_ms,
            stored_byte_hours: used.stored_byte_hours,
            nano_dollars: used.nano_dollars,
            estimated_nano_dollars: used.estimated_nano_dollars,
        },
    }
}

/// Prints groups and their total.
pub(super) fn print(
    query: &UsageQuery,
    page: &UsagePage,
    paper: Option<Page>,
    printer: &Printer,
) -> anyhow::Result<()> {
    if printer.is_json() {
        return printer.document(&document(query, page)?);
    }
    let names = query.by.iter().map(|key| key.as_str().to_uppercase()).collect::<Vec<_>>();
    let mut columns: Vec<_> = names.iter().map(|name| (name.as_str(), Align::Left)).collect();
    let amounts = [
        "COST",
        "ESTIMATED",
        "INPUT",
        "CACHED",
        "OUTPUT",
        "EGRESS BYTES",
        "SANDBOX TIME",
        "BYTE-HOURS",
    ];
    columns.extend(amounts.map(|name| (name, Align::Right)));
    let mut grid = Grid::new(&columns);
    for group in &page.groups {
        let mut cells: Vec<_> = query.by.iter().map(|key| cell(*key, &group.name)).collect();
        cells.extend(amount_cells(&group.amounts));
        grid.row(cells);
    }
    let (width, has_colour) =
        paper.map_or((None, false), |paper| (Some(paper.width), paper.has_colour));
    if !page.groups.is_empty() {
        printer.data(grid.to_text(width, has_colour).trim_end())?;
    }
    if page.is_cut {
        printer.note("there are more groups\nhint: a larger --limit shows them");
    }
    let total = &page.total.amounts;
    printer.data(format_args!("total {}", runs::dollars(total.nano_dollars)))?;
    if total.estimated_nano_dollars > 0 {
        let part = runs::dollars(total.estimated_nano_dollars);
        printer.note(format_args!("{part} of this is estimated: no usage was heard of"));
    }
    Ok(())
}

fn cell(key: UsageKey, name: &UsageName) -> String {
    let value = match key {
        UsageKey::Tenant => &name.tenant,
        UsageKey::Run => &name.run,
        UsageKey::Model => &name.model,
        UsageKey::Operation => &name.operation,
        UsageKey::Day => &name.day,
        UsageKey::Account => &name.account,
    };
    value.as_deref().map_or_else(|| "–".to_owned(), printable)
}

fn amount_cells(amounts: &Amounts) -> [String; 8] {
    let Tokens { input, cache_read, cache_write, output } = amounts.tokens;
    [
        runs::dollars(amounts.nano_dollars),
        match amounts.estimated_nano_dollars {
            0 => "–".to_owned(),
            estimated => runs::dollars(estimated),
        },
        separated(input.saturating_add(cache_write)),
        separated(cache_read),
        separated(output),
        separated(amounts.egress_bytes),
        format!("{}.{:03} s", amounts.sandbox_ms / 1000, amounts.sandbox_ms % 1000),
        separated(amounts.stored_byte_hours),
    ]
}

/// The same document as of `GET /v1/usage`, with all groups on one page.
fn document(query: &UsageQuery, page: &UsagePage) -> anyhow::Result<Value> {
    let items = page.groups.iter().map(|group| {
        let mut item = serde_json::to_value(&group.name)?;
        item["used"] = used(group)?;
        Ok(item)
    });
    Ok(json!({
        "since_at": query.from.format(&Rfc3339)?,
        "until_at": query.to.format(&Rfc3339)?,
        "total": used(&page.total)?,
        "items": items.collect::<anyhow::Result<Vec<_>>>()?,
        "is_cut": page.is_cut,
    }))
}

fn used(group: &UsageGroup) -> serde_json::Result<Value> {
    let mut used = serde_json::to_value(group.amounts)?;
    used["charges"] = group.charges.into();
    Ok(used)
}

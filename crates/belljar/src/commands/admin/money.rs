//! `belljar admin price` and `belljar admin bill`.

use std::time::Duration;

use anyhow::Context as _;
use belljar_store::{Bill, Price, StoreError};
use serde_json::json;
use time::OffsetDateTime;

use super::table::Table;
use super::{Office, explained};
use crate::cli::{Dollars, PriceAction};
use crate::output::hinted;

pub(super) async fn price(office: &Office, action: &PriceAction) -> anyhow::Result<()> {
    match action {
        PriceAction::List => list(office).await,
        PriceAction::Set { what, dollars } => set(office, what, *dollars).await,
    }
}

async fn list(office: &Office) -> anyhow::Result<()> {
    let prices = office.store.prices().await.map_err(explained)?;
    if office.printer.is_json() {
        let document = prices.iter().map(
            |Price { what, nano_dollars }| json!({ "what": what, "nano_dollars": nano_dollars }),
        );
        return office.printer.document(&document.collect::<Vec<_>>());
    }
    let mut table = Table::new(["PRICE", "DOLLARS"]);
    for Price { what, nano_dollars } in prices {
        table.row([what, dollars(nano_dollars.into())]);
    }
    Ok(office.printer.data(table)?)
}

async fn set(office: &Office, what: &str, Dollars(nano): Dollars) -> anyhow::Result<()> {
    if !office.store.set_price(what, nano).await.map_err(explained)? {
        let error = anyhow::anyhow!("there is no price `{what}`");
        return Err(hinted(error, "`belljar admin price list` shows prices"));
    }
    let document = json!({ "what": what, "nano_dollars": nano });
    office.wrote(None, "price.set", what, &document).await?;
    office.say(
        format_args!("one {what} costs {} dollars from now on", dollars(nano.into())),
        &document,
    )
}

pub(super) async fn bill(office: &Office, tenant: &str, within: Duration) -> anyhow::Result<()> {
    // Closed ones too: the last bill comes after.
    let all = office.store.tenants().await.map_err(explained)?;
    if !all.iter().any(|entry| entry.tenant.name == tenant) {
        return Err(explained(StoreError::UnknownTenant(tenant.to_owned())));
    }
    let since = OffsetDateTime::now_utc().checked_sub(time::Duration::try_from(within)?);
    let since = since.context("the period of --within is too long")?;
    let bills = office.store.bill(tenant, since).await.map_err(explained)?;
    if office.printer.is_json() {
        let document = bills.iter().map(|Bill { account, charges, nano_dollars }| {
            json!({ "account": account, "charges": charges, "nano_dollars": nano_dollars.to_string() })
        });
        return office.printer.document(&document.collect::<Vec<_>>());
    }
    if bills.is_empty() {
        office.printer.note(format_args!("tenant {tenant} has no charges in this period"));
        return Ok(());
    }
    let mut table = Table::new(["ACCOUNT", "CHARGES", "DOLLARS"]);
    let sum = bills.iter().map(|bill| bill.nano_dollars).sum();
    let charges: u64 = bills.iter().map(|bill| bill.charges).sum();
    for bill in bills {
        table.row([bill.account, bill.charges.to_string(), dollars(bill.nano_dollars)]);
    }
    table.row(["total".to_owned(), charges.to_string(), dollars(sum)]);
    Ok(office.printer.data(table)?)
}

/// All of it, without zeros that say nothing.
fn dollars(nano: i128) -> String {
    let text = format!("{}.{:09}", nano / 1_000_000_000, (nano % 1_000_000_000).abs());
    let short = text.trim_end_matches('0');
    short.strip_suffix('.').unwrap_or(short).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_shown_exactly() {
        for (nano, text) in
            [(14_000, "0.000014"), (0, "0"), (2_500_000_000, "2.5"), (1, "0.000000001")]
        {
            assert_eq!(dollars(nano), text);
        }
    }
}

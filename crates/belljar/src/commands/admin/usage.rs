//! `belljar admin usage`: sums of the charges of all tenants.

use belljar_journal::LedgerStore as _;
use belljar_store::StoreError;

use super::{Office, explained};
use crate::cli::UsageSums;
use crate::commands::usage;
use crate::output::Hint as _;

pub(super) async fn show(
    office: &Office,
    tenant: Option<&str>,
    sums: &UsageSums,
) -> anyhow::Result<()> {
    if let Some(tenant) = tenant {
        // Closed ones too: the last charges come after.
        let all = office.store.tenants().await.map_err(explained)?;
        if !all.iter().any(|entry| entry.tenant.name == tenant) {
            return Err(explained(StoreError::UnknownTenant(tenant.to_owned())));
        }
    }
    let mut query = usage::query(sums)?;
    query.tenant = tenant.map(str::to_owned);
    let page = office.store.ledger().usage(&query).await;
    let page = page.hint("create the tables first with `belljar admin migrate`")?;
    usage::print(&query, &page, None, &office.printer)
}

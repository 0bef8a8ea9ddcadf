//! `belljar admin tenant`.

use std::time::Duration;

use belljar_domain::{OperationCap, Tier};
use belljar_store::{Quota, Store, StoreError, Tenant, TenantEntry, TenantRunQuota};
use serde_json::{Value, json};

use super::table::Table;
use super::{Office, explained, stamp};
use crate::cli::{Floor, TenantAction};
use crate::output::hinted;

/// What a new tenant may have when nobody says: what one of `belljar serve` may.
const NEW: Quota = Quota { sandboxes: 1000, longest_life: Duration::from_secs(24 * 3600) };

pub(super) async fn run(office: &Office, action: &TenantAction) -> anyhow::Result<()> {
    match action {
        TenantAction::Put {
            name,
            sandboxes,
            longest_life,
            floor,
            operations,
            max_runs,
            max_run_dollars_per_day,
        } => {
            let runs =
                TenantRunQuota { runs: *max_runs, nano_dollars_per_day: *max_run_dollars_per_day };
            let wanted = Wanted {
                sandboxes: *sandboxes,
                life: *longest_life,
                floor: *floor,
                operations: operations.clone(),
                runs,
            };
            put(office, name, wanted).await
        }
        TenantAction::Close { name } => close(office, name).await,
        TenantAction::List => list(office).await,
    }
}

/// What was said; the rest stays.
struct Wanted {
    sandboxes: Option<u32>,
    life: Option<Duration>,
    floor: Option<Floor>,
    operations: Option<OperationCap>,
    runs: TenantRunQuota,
}

async fn put(office: &Office, name: &str, wanted: Wanted) -> anyhow::Result<()> {
    // A closed tenant is opened again with the floor and the quota that it had.
    let before = office.store.tenant_entry(name).await.map_err(explained)?;
    let what = match &before {
        None => "created",
        Some(TenantEntry { closed_at: Some(_), .. }) => "reopened",
        Some(_) => "changed",
    };
    let is_new = before.is_none();
    let before = before.map(|TenantEntry { tenant, .. }| tenant);
    let before = before.map(|tenant| (tenant.quota, tenant.floor, tenant.operations));
    let (quota, floor, operations) = before.unwrap_or((NEW, None, OperationCap::ALL));
    let quota = Quota {
        sandboxes: wanted.sandboxes.unwrap_or(quota.sandboxes),
        longest_life: wanted.life.unwrap_or(quota.longest_life),
    };
    if quota.longest_life < Duration::from_secs(1) {
        let error = anyhow::anyhow!("the maximum lifetime must be at least one second");
        return Err(hinted(error, "use a time such as 90s, 30m or 24h for --max-lifetime"));
    }
    let floor = wanted.floor.map_or(floor, |Floor(floor)| floor);
    office.store.put_tenant(name, floor, quota).await.map_err(|error| {
        if error.breaks_a_rule() {
            let error = anyhow::anyhow!("`{name}` is not a valid tenant name");
            return hinted(
                error,
                "use up to 63 letters, digits, `.`, `_` and `-`, starting with a letter",
            );
        }
        explained(error)
    })?;
    if wanted.runs != TenantRunQuota::default() {
        office.store.put_run_quota(name, wanted.runs).await.map_err(explained)?;
    }
    let runs = office.store.run_quota(name).await.map_err(explained)?;
    if let Some(cap) = &wanted.operations {
        office.store.cap_tenant(name, cap).await.map_err(explained)?;
    }
    let operations = wanted.operations.unwrap_or(operations);
    let capped = match operations.is_all() {
        true => String::new(),
        false => format!(", operations {operations}"),
    };
    let mut document = shown(&Tenant { name: name.to_owned(), floor, operations, quota, used: 0 });
    document["max_runs"] = runs.runs.into();
    document["max_run_nano_dollars_per_day"] = runs.nano_dollars_per_day.into();
    let mut detail = document.clone();
    // It stands in the audit's own columns.
    if let Some(detail) = detail.as_object_mut() {
        detail.remove("name");
    }
    office.wrote(Some(name), "tenant.put", name, &detail).await?;
    let walls = floor.map_or_else(String::new, |floor| format!(", {floor} or stronger"));
    office.say(
        format_args!(
            "{what} tenant {name}: up to {} sandboxes for up to {}{walls}{capped}",
            quota.sandboxes,
            time(quota.longest_life)
        ),
        &document,
    )?;
    if is_new {
        office.printer.note(format_args!("next: belljar admin key add {name}"));
    }
    Ok(())
}

/// A tenant with what is usual, unless it is there.
pub(crate) async fn open(store: &Store, name: &str) -> anyhow::Result<()> {
    match store.tenant(name).await {
        Err(StoreError::UnknownTenant(_)) => Ok(store.put_tenant(name, None, NEW).await?),
        other => Ok(other.map(drop)?),
    }
}

async fn close(office: &Office, name: &str) -> anyhow::Result<()> {
    if office.store.tenant_entry(name).await.map_err(explained)?.is_none() {
        return Err(explained(StoreError::UnknownTenant(name.to_owned())));
    }
    let ended = office.store.close_tenant(name).await.map_err(explained)?.len();
    office.wrote(Some(name), "tenant.close", name, &json!({ "ended": ended })).await?;
    let left = match ended {
        0 => String::new(),
        count => format!("; {count} sandboxes are ending"),
    };
    let document = json!({ "name": name, "closed": true, "ended": ended });
    office.say(format_args!("closed tenant {name}: its keys no longer work{left}"), &document)
}

async fn list(office: &Office) -> anyhow::Result<()> {
    let all = office.store.tenants().await.map_err(explained)?;
    if office.printer.is_json() {
        let document = all.iter().map(|TenantEntry { tenant, closed_at }| {
            let mut document = shown(tenant);
            document["used"] = tenant.used.into();
            document["closed_at"] = closed_at.map(stamp).into();
            document
        });
        return office.printer.document(&document.collect::<Vec<_>>());
    }
    if all.is_empty() {
        office.printer.note("there are no tenants yet");
        office.printer.note("hint: `belljar admin tenant put NAME` creates one");
        return Ok(());
    }
    let mut table = Table::new([
        "TENANT",
        "SANDBOXES",
        "QUOTA",
        "MAX LIFETIME",
        "FLOOR",
        "OPERATIONS",
        "CLOSED",
    ]);
    for TenantEntry { tenant, closed_at } in all {
        table.row([
            tenant.name,
            tenant.used.to_string(),
            tenant.quota.sandboxes.to_string(),
            time(tenant.quota.longest_life),
            tenant.floor.map_or_else(|| "-".to_owned(), |floor| floor.to_string()),
            tenant.operations.to_string(),
            closed_at.map_or_else(|| "-".to_owned(), stamp),
        ]);
    }
    Ok(office.printer.data(table)?)
}

fn shown(tenant: &Tenant) -> Value {
    json!({
        "name": tenant.name,
        "sandboxes": tenant.quota.sandboxes,
        "longest_life_seconds": tenant.quota.longest_life.as_secs(),
        "floor": tenant.floor.map(Tier::as_str),
        "operations": tenant.operations,
    })
}

/// As it would be typed.
fn time(life: Duration) -> String {
    let seconds = life.as_secs();
    match seconds {
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_they_are_typed() {
        for (seconds, text) in [(86_400, "24h"), (5400, "90m"), (61, "61s")] {
            assert_eq!(time(Duration::from_secs(seconds)), text);
        }
    }
}

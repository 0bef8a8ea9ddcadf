//! `GET /v1/usage`

use axum::Json;
use belljar_api::bounds::{DateTime, PageSize};
use belljar_api::usage as api;
use belljar_domain::RunId;
use belljar_journal::{UsageGroup, UsageKey, UsagePage, UsageQuery};
use http::StatusCode;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use super::{Offering, failed, moment};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::Query;

/// Groups of a page that names no limit.
const DEFAULT_GROUPS: u64 = 100;
/// Length of a period that names no start, and of the longest one.
const DEFAULT_PERIOD: Duration = Duration::days(30);
const MAX_PERIOD: Duration = Duration::days(366);

pub(in crate::v1) async fn usage(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Query(asked): Query<api::GetUsage>,
) -> Result<Json<api::Usage>, Failure> {
    let query = query(tenant.as_str(), &asked, OffsetDateTime::now_utc()).map_err(|message| {
        let message = format!("invalid query: {message}");
        Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_query", message)
    })?;
    let page = runs.ledger().usage(&query).await.map_err(|error| failed(&error))?;
    Ok(Json(view(&query, page)))
}

fn query(
    tenant: &str,
    asked: &api::GetUsage,
    now: OffsetDateTime,
) -> Result<UsageQuery, &'static str> {
    let to = asked.to.as_ref().map_or(Ok(now), |at| time(at))?;
    let from = match &asked.from {
        Some(at) => time(at)?,
        None => to.checked_sub(DEFAULT_PERIOD).ok_or(NO_TIME)?,
    };
    if from > to || to - from > MAX_PERIOD {
        return Err("`from` must be before `to`, by at most 366 days");
    }
    let by = asked.by.as_deref().unwrap_or_default();
    let mut keys = Vec::new();
    for word in by.split(',').filter(|word| !word.is_empty()) {
        match word.parse() {
            Ok(UsageKey::Tenant) | Err(_) => {
                return Err("`by` takes run, model, operation, day and account");
            }
            Ok(key) => keys.push(key),
        }
    }
    let run = asked.run.as_deref().map(str::parse::<RunId>).transpose();
    let limit = asked.limit.map_or(DEFAULT_GROUPS, PageSize::get);
    let after = asked.after.as_deref().map_or(Ok(0), str::parse::<usize>);
    Ok(UsageQuery {
        tenant: Some(tenant.to_owned()),
        from,
        to,
        run: run.map_err(|_| "`run` is not the id of a run")?,
        by: keys,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        after: after.map_err(|_| "`after` is not the `next` of a page")?,
    })
}

const NO_TIME: &str = "`from` and `to` are times like 2026-01-31T00:00:00Z";

fn time(at: &DateTime) -> Result<OffsetDateTime, &'static str> {
    OffsetDateTime::parse(&at.0, &Rfc3339).map_err(|_| NO_TIME)
}

fn view(query: &UsageQuery, page: UsagePage) -> api::Usage {
    let next = query.after.saturating_add(page.groups.len());
    api::Usage {
        since_at: moment(query.from),
        until_at: moment(query.to),
        total: amounts(&page.total),
        items: page.groups.into_iter().map(group).collect(),
        next: page.is_cut.then(|| next.to_string()),
    }
}

fn group(group: UsageGroup) -> api::UsageGroup {
    let used = amounts(&group);
    let name = group.name;
    api::UsageGroup {
        run: name.run,
        model: name.model,
        operation: name.operation,
        day: name.day,
        account: name.account,
        used,
    }
}

fn amounts(group: &UsageGroup) -> api::UsageAmounts {
    let (tokens, amounts) = (group.amounts.tokens, group.amounts);
    api::UsageAmounts {
        charges: group.charges,
        tokens: api::UsageTokens {
            input: tokens.input,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
            output: tokens.output,
        },
        egress_bytes: amounts.egress_bytes,
        sandbox_ms: amounts.sandbox_ms,
        stored_byte_hours: amounts.stored_byte_hours,
        nano_dollars: amounts.nano_dollars,
        estimated_nano_dollars: amounts.estimated_nano_dollars,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<UsageQuery, &'static str> {
        let asked = serde_json::from_str(text).unwrap();
        query("ann", &asked, OffsetDateTime::UNIX_EPOCH + Duration::days(1000))
    }

    #[test]
    fn a_query_is_of_the_caller_and_bounded() {
        let plain = asked("{}").unwrap();
        assert_eq!(plain.tenant.as_deref(), Some("ann"));
        assert_eq!((plain.to - plain.from, plain.limit), (DEFAULT_PERIOD, 100));
        let by = asked(r#"{"by": "run,day", "limit": 7, "after": "3"}"#).unwrap();
        assert_eq!((by.by, by.limit, by.after), (vec![UsageKey::Run, UsageKey::Day], 7, 3));
        for bad in [
            r#"{"by": "tenant"}"#,
            r#"{"by": "colour"}"#,
            r#"{"run": "../x"}"#,
            r#"{"after": "-1"}"#,
            r#"{"from": "yesterday"}"#,
            r#"{"from": "1970-01-01T00:00:00Z"}"#,
            r#"{"from": "2000-01-02T00:00:00Z", "to": "2000-01-01T00:00:00Z"}"#,
        ] {
            assert!(asked(bad).is_err(), "{bad}");
        }
    }
}

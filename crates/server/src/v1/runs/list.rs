//! `GET /v1/runs`

use axum::Json;
use belljar_api::run as api;
use belljar_journal::{ListQuery, Page, RunRow, State};
use http::StatusCode;
use time::OffsetDateTime;

use super::show::state;
use super::{Offering, moment, unread};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::Query;

/// Runs of one page when nobody says.
const PAGE: usize = 20;

pub(in crate::v1) async fn list(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Query(asked): Query<api::ListRuns>,
) -> Result<Json<api::RunPage>, Failure> {
    let after = asked.after.as_deref().map(|text| {
        page(text).ok_or_else(|| {
            let message = "invalid query: `after` is not the `next` of a page";
            Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_query", message)
        })
    });
    let after = after.transpose()?;
    let only = asked.state.map(|only| match only {
        api::RunState::Waiting => State::Waiting,
        api::RunState::Running => State::Running,
        api::RunState::Paused => State::Paused,
        api::RunState::Finished => State::Finished,
    });
    let most = asked.limit.and_then(|limit| usize::try_from(limit.get()).ok()).unwrap_or(PAGE);
    let query = ListQuery { tenant: tenant.as_str(), state: only, after: after.as_ref(), most };
    let listed = runs.journal().list(query).await.map_err(|error| unread(&error))?;
    let items = listed.rows.iter().map(line).collect();
    Ok(Json(api::RunPage { items, next: listed.next.as_ref().map(written) }))
}

fn line(row: &RunRow) -> api::RunLine {
    api::RunLine {
        id: row.address.run.to_string(),
        state: state(row.state),
        title: row.title.clone(),
        made_at: moment(row.made_at),
        events: row.head.0,
    }
}

/// A place in the list, as clients hand it back.
fn written(page: &Page) -> String {
    format!("{}.{}", page.made_at.unix_timestamp_nanos(), page.run)
}

fn page(text: &str) -> Option<Page> {
    let (nanos, run) = text.split_once('.')?;
    let made_at = OffsetDateTime::from_unix_timestamp_nanos(nanos.parse().ok()?).ok()?;
    Some(Page { made_at, run: run.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use belljar_domain::RunId;

    use super::*;

    #[test]
    fn a_place_in_the_list_survives_its_text_form() {
        let made_at = OffsetDateTime::from_unix_timestamp_nanos(1_773_997_500_123_456_789).unwrap();
        let place = Page { made_at, run: RunId::from_bits([7; 16]) };
        assert_eq!(page(&written(&place)), Some(place));
        for bad in ["", ".", "1", "1.x", "x.aaaaaaaaaaaaaaaaaaaaaaaaaa"] {
            assert_eq!(page(bad), None, "{bad}");
        }
    }
}

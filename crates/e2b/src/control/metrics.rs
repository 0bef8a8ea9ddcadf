//! What sandboxes use.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use belljar_sandboxes::{Actions, Figures, LONGEST_PAGE, Moment, Problem};
use serde::Serialize;

use super::auth::Caller;
use super::query::Query;
use crate::error::RestError;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metric {
    timestamp: Moment,
    timestamp_unix: i64,
    cpu_count: u32,
    cpu_used_pct: f64,
    mem_used: u64,
    mem_total: u64,
    mem_cache: u64,
    disk_used: u64,
    disk_total: u64,
}

impl From<&Figures> for Metric {
    fn from(figures: &Figures) -> Self {
        Self {
            timestamp: figures.at,
            timestamp_unix: figures.at.unix(),
            cpu_count: whole(figures.cpu_count),
            cpu_used_pct: figures.cpu_percent,
            mem_used: figures.memory_used,
            mem_total: figures.memory_total,
            mem_cache: figures.memory_cache,
            disk_used: figures.disk_used,
            disk_total: figures.disk_total,
        }
    }
}

/// Part of a core counts as one: the wire knows whole ones only.
fn whole(cores: f64) -> u32 {
    (1..=u32::from(u16::MAX)).find(|&whole| f64::from(whole) >= cores).unwrap_or(1)
}

pub(crate) async fn of_one(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Vec<Metric>>, RestError> {
    let second = |name: &str| -> Result<Option<Moment>, Problem> {
        let wrong = || Problem::invalid(format!("{name} is not a time in seconds"));
        let seconds = query.parsed::<i64>(name)?;
        seconds.map(|seconds| Moment::from_unix(seconds).ok_or_else(wrong)).transpose()
    };
    // Whole seconds arrive here; the last one belongs to the range.
    let end = second("end")?.map(|end| end.plus(Duration::from_secs(1)));
    let figures = actions.figures(&tenant, &id, second("start")?, end).await?;
    Ok(Json(figures.iter().map(Metric::from).collect()))
}

#[derive(Debug, Serialize)]
pub(crate) struct Several {
    sandboxes: BTreeMap<String, Metric>,
}

pub(crate) async fn of_several(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    query: Query,
) -> Result<Json<Several>, RestError> {
    let ids: Vec<_> = query.get("sandbox_ids").unwrap_or_default().split(',').collect();
    if ids.len() > LONGEST_PAGE {
        let message = format!("Too many sandboxes requested, maximum is {LONGEST_PAGE}");
        return Err(Problem::invalid(message).into());
    }
    let newest = actions.newest_figures(&tenant, &ids).await;
    let sandboxes = newest.iter().map(|(id, figures)| (id.clone(), figures.into())).collect();
    Ok(Json(Several { sandboxes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_core_are_rounded_up() {
        assert_eq!([0.1, 1.0, 1.5, 4.0].map(whole), [1, 1, 2, 4]);
    }
}

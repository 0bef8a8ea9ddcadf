//! Figures of a server that is alone: in memory, and in a file that outlives the server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use time::OffsetDateTime;

use super::{FigureStore, SpanSums, Sums};
use crate::error::Failure;

/// Figures in a file; cheap to clone.
#[derive(Debug, Clone)]
pub struct FigureFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    rows: Mutex<Rows>,
}

/// By tenant, span and writer.
type Rows = BTreeMap<(String, OffsetDateTime, String), Sums>;

/// A row of the file.
#[derive(Serialize, Deserialize)]
struct Row {
    tenant: String,
    #[serde(with = "time::serde::rfc3339")]
    from: OffsetDateTime,
    writer: String,
    sums: Sums,
}

impl FigureFile {
    /// A file that cannot be read is as good as none: figures are for those who watch now.
    pub fn open(path: &Path) -> Self {
        let rows = read(path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "cannot read the figures of runs");
            Rows::new()
        });
        Self(Arc::new(Inner { path: path.to_owned(), rows: Mutex::new(rows) }))
    }

    /// Changes the rows, and writes them on a thread for that.
    fn change(&self, change: impl FnOnce(&mut Rows)) -> BoxFuture<'static, Result<(), Failure>> {
        change(&mut self.0.rows());
        let inner = self.0.clone();
        let written = tokio::task::spawn_blocking(move || inner.write());
        Box::pin(async move { written.await.map_err(Failure::new)?.map_err(Failure::new) })
    }
}

impl Inner {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> io::Result<()> {
        let row = |((tenant, from, writer), sums): (&(String, OffsetDateTime, String), &Sums)| {
            let (tenant, writer, sums) = (tenant.clone(), writer.clone(), sums.clone());
            Row { tenant, from: *from, writer, sums }
        };
        let rows: Vec<Row> = self.rows().iter().map(row).collect();
        let text = serde_json::to_vec(&rows)?;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut fresh = NamedTempFile::new_in(folder)?;
        fresh.write_all(&text)?;
        fresh.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<Rows> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Rows::new()),
        text => text?,
    };
    let rows: Vec<Row> = serde_json::from_slice(&text)?;
    let row = |row: Row| ((row.tenant, row.from, row.writer), row.sums);
    Ok(rows.into_iter().map(row).collect())
}

impl FigureStore for FigureFile {
    fn put<'a>(
        &'a self,
        writer: &'a str,
        spans: &'a [SpanSums],
    ) -> BoxFuture<'a, Result<(), Failure>> {
        self.change(|rows| {
            for span in spans {
                let key = (span.tenant.clone(), span.from, writer.to_owned());
                rows.insert(key, span.sums.clone());
            }
        })
    }

    fn sums<'a>(
        &'a self,
        tenant: &'a str,
        from: OffsetDateTime,
    ) -> BoxFuture<'a, Result<Sums, Failure>> {
        let mut all = Sums::new();
        let rows = self.0.rows();
        let later = rows.range((tenant.to_owned(), from, String::new())..);
        for (_, sums) in later.take_while(|((of, ..), _)| of == tenant) {
            for (name, value) in sums {
                let sum = all.entry(name.clone()).or_default();
                *sum = sum.saturating_add(*value);
            }
        }
        Box::pin(std::future::ready(Ok(all)))
    }

    fn forget(&self, before: OffsetDateTime) -> BoxFuture<'_, Result<(), Failure>> {
        self.change(|rows| rows.retain(|(_, from, _), _| *from >= before))
    }
}

#[cfg(test)]
mod tests {
    use super::super::span_of;
    use super::*;

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000 + seconds).unwrap()
    }

    fn span(tenant: &str, seconds: i64, turns: u64) -> SpanSums {
        let sums = Sums::from([("turns".to_owned(), turns)]);
        SpanSums { tenant: tenant.to_owned(), from: at(seconds), sums }
    }

    async fn turns(figures: &FigureFile, tenant: &str, from: i64) -> Option<u64> {
        figures.sums(tenant, at(from)).await.unwrap().get("turns").copied()
    }

    #[tokio::test]
    async fn sums_are_their_tenants_and_outlive_the_server() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("served/figures.json");
        let figures = FigureFile::open(&path);
        figures.put("a", &[span("ann", 0, 1), span("ann", 10, 2)]).await.unwrap();
        // Another writer's are added, and one's own are replaced.
        figures.put("b", &[span("ann", 10, 4), span("bob", 10, 8)]).await.unwrap();
        figures.put("a", &[span("ann", 10, 3)]).await.unwrap();
        for figures in [figures, FigureFile::open(&path)] {
            assert_eq!(turns(&figures, "ann", 0).await, Some(8));
            assert_eq!(turns(&figures, "ann", 10).await, Some(7));
            assert_eq!(turns(&figures, "ann", 20).await, None);
            assert_eq!(turns(&figures, "bob", 0).await, Some(8));
            assert_eq!(turns(&figures, "an", 0).await, None);
        }
        FigureFile::open(&path).forget(at(10)).await.unwrap();
        assert_eq!(turns(&FigureFile::open(&path), "ann", 0).await, Some(7));
        fs::write(&path, "[{").unwrap();
        assert_eq!(turns(&FigureFile::open(&path), "ann", 0).await, None);
    }

    #[test]
    fn a_span_begins_at_a_full_ten_seconds() {
        assert_eq!(span_of(at(7)), at(0));
        assert_eq!(span_of(at(10)), at(10));
        assert_eq!(span_of(at(19) + std::time::Duration::from_millis(999)), at(10));
    }
}

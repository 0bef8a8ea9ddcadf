use belljar_journal::{FigureStore as _, SpanSums, Sums};
use belljar_store::RunFigures;
use time::OffsetDateTime;

use super::store;

fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_800_000_000 + seconds).unwrap()
}

fn span(tenant: &str, seconds: i64, sums: &[(&str, u64)]) -> SpanSums {
    let sums = sums.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    SpanSums { tenant: tenant.to_owned(), from: at(seconds), sums }
}

async fn sums(figures: &RunFigures, tenant: &str, from: i64) -> Sums {
    figures.sums(tenant, at(from)).await.unwrap()
}

fn of(sums: &[(&str, u64)]) -> Sums {
    sums.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

/// O4: figures of all replicas are one tenant's, however often each says them.
#[tokio::test]
async fn figures_of_all_replicas_are_summed_and_repetitions_change_nothing() {
    let figures = store().await.figures();
    let first = [
        span("ann", 0, &[("turns", 1), ("failed.model", 1)]),
        span("ann", 10, &[("turns", 2)]),
        span("bob", 10, &[("turns", 64)]),
        span("nobody", 10, &[("turns", 128)]),
    ];
    for _ in 0..2 {
        figures.put("one", &first).await.unwrap();
    }
    // A later sum of the same span replaces the one before.
    figures.put("one", &[span("ann", 10, &[("turns", 4)])]).await.unwrap();
    figures.put("two", &[span("ann", 10, &[("turns", 8)])]).await.unwrap();
    assert_eq!(sums(&figures, "ann", 0).await, of(&[("failed.model", 1), ("turns", 13)]));
    assert_eq!(sums(&figures, "ann", 10).await, of(&[("turns", 12)]));
    assert_eq!(sums(&figures, "ann", 20).await, Sums::new());
    assert_eq!(sums(&figures, "bob", 0).await, of(&[("turns", 64)]));
    assert_eq!(sums(&figures, "nobody", 0).await, Sums::new());
    figures.put("one", &[]).await.unwrap();
    figures.forget(at(10)).await.unwrap();
    assert_eq!(sums(&figures, "ann", 0).await, of(&[("turns", 12)]));
}

#[tokio::test]
async fn sums_that_no_number_can_hold_are_shown_as_the_largest() {
    let figures = store().await.figures();
    for writer in ["one", "two"] {
        figures.put(writer, &[span("ann", 0, &[("nano_dollars", u64::MAX)])]).await.unwrap();
    }
    let most = i64::MAX.unsigned_abs();
    assert_eq!(sums(&figures, "ann", 0).await, of(&[("nano_dollars", most)]));
}

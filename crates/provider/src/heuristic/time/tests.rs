use super::*;

fn days(from: &str, to: &str) -> Period {
    let day = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Period::Days { from: day(from), to: day(to) }
}

#[test]
fn periods_are_told_by_their_words() {
    for (text, want) in [
        ("revenue in March 2026", days("2026-03-01", "2026-04-01")),
        ("revenue in december of 2025", days("2025-12-01", "2026-01-01")),
        ("revenue in May", days("2025-05-01", "2025-06-01")),
        ("revenue in Q4", days("2025-10-01", "2026-01-01")),
        ("revenue in the first quarter of 2026", days("2026-01-01", "2026-04-01")),
        ("revenue in 2025", days("2025-01-01", "2026-01-01")),
        ("revenue since January 2026", days("2026-01-01", "")),
        ("revenue after 2025", days("2026-01-01", "")),
        ("revenue before 2026", days("", "2026-01-01")),
        ("revenue until May 2025", days("", "2025-06-01")),
        ("revenue from March to May 2025", days("2025-03-01", "2025-06-01")),
        ("revenue between March and May 2025", days("2025-03-01", "2025-06-01")),
        ("revenue on 3 May 2025", days("2025-05-03", "2025-05-04")),
        ("revenue on the 3rd of May", days("2025-05-03", "2025-05-04")),
        ("revenue on May 3, 2025", days("2025-05-03", "2025-05-04")),
        ("revenue on 31.12.2025", days("2025-12-31", "2026-01-01")),
        ("revenue since 2026-01-05", days("2026-01-05", "")),
        ("revenue between Jan 10 and Jan 20 2026", days("2026-01-10", "2026-01-21")),
        ("revenue between 01.03.2026 and 31.03.2026", days("2026-03-01", "2026-04-01")),
        ("revenue of the last 30 days", Period::Last { count: 30, unit: Unit::Day }),
    ] {
        let time = Time::read(&lexer::tokens(text));
        let [span] = time.spans[..] else { panic!("{text}: {time:?}") };
        assert_eq!(span.resolve("2025-03-20", "2026-04-02"), Ok(want), "{text}");
    }
}

#[test]
fn a_month_of_several_years_is_not_guessed() {
    let time = Time::read(&lexer::tokens("revenue in March"));
    let years = vec!["2025-03".to_owned(), "2026-03".to_owned()];
    assert_eq!(time.spans[0].resolve("2025-03-20", "2026-04-02"), Err(years));
}

#[test]
fn units_make_groups_only_where_groups_are_named() {
    for (text, want) in [
        ("revenue by month", Some(Unit::Month)),
        ("monthly revenue", Some(Unit::Month)),
        ("revenue by region and month", Some(Unit::Month)),
        ("revenue by day of the week", Some(Unit::Weekday)),
        ("which quarter had the most revenue", Some(Unit::Quarter)),
        ("revenue per calendar week", None),
        ("revenue of the month", None),
        ("what may march mean", None),
    ] {
        let time = Time::read(&lexer::tokens(text));
        assert_eq!((time.unit, time.spans.len()), (want, 0), "{text}");
    }
}

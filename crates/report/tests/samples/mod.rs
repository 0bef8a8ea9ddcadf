//! A report as runs have them.

use belljar_report::{Body, Chart, DataFile, Provenance, Report, Verdict};

/// A picture of a chart.
pub(crate) const PNG: &[u8] = include_bytes!("weeks.png");

pub(crate) fn provenance() -> Provenance {
    Provenance {
        run: "ecor4ryo5xj3k2d7v6m4q2n7ba".to_owned(),
        question: "Which region sold most in the third quarter, and why?".to_owned(),
        verdict: Verdict { is_answered: true, outcome: "answered".to_owned(), message: None },
        models: vec!["analyst-large".to_owned()],
        data: vec![DataFile {
            name: "sales.csv".to_owned(),
            bytes: 184_233,
            sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
        }],
        turns: 5,
        tokens: 48_210,
        nano_dollars: 84_120_000,
        created: "2026-11-19 14:02:11 UTC".to_owned(),
        finished: "2026-11-19 14:03:27 UTC".to_owned(),
    }
}

pub(crate) fn report() -> Report {
    let chart = |name: &str, media_type: &str, content: &[u8]| Chart {
        name: name.to_owned(),
        media_type: media_type.to_owned(),
        content: Some(content.to_vec()),
    };
    let charts = vec![
        chart("weeks.png", "image/png", PNG),
        chart("regions.svg", "image/svg+xml", include_bytes!("regions.svg")),
    ];
    let body = Body::Markdown(include_str!("report.md").to_owned());
    Report { body, charts, provenance: provenance() }
}

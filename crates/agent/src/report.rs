//! Collects the report of a run from its transcript and its files. No clock is read.

use belljar_journal::event::{Artifact, Body as Fact, Event, Finished, Outcome};
use belljar_journal::{Address, BlobError, Journal, ReadError, RunView, read_all};
use belljar_provider::{Heuristic, Provider as _};
use belljar_report::{
    Body, Chart, DataFile, MAX_CHART_BYTES, MAX_CHARTS, MAX_CHARTS_BYTES, Provenance, Report,
    Verdict,
};
use time::{OffsetDateTime, UtcOffset};

use crate::data::MANIFEST;

type BodyOfText = fn(String) -> Body;

/// Files that are the text of a report instead of the answer, the best first.
const TEXTS: [(&str, BodyOfText); 2] = [("report.html", Body::Html), ("report.md", Body::Markdown)];
/// The largest file that is read for a text; the report shows less of it.
const MAX_TEXT_FILE: u64 = 8 << 20;
/// Pictures that a report can show.
const PICTURES: [&str; 3] = ["image/png", "image/jpeg", "image/svg+xml"];

/// The reason that a run has no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("cannot read the run")]
    Read(#[from] ReadError),
    #[error("the run has not ended")]
    Unfinished,
    #[error("cannot read a file of the run")]
    Blob(#[from] BlobError),
}

/// Collects all that the report of an ended run is made of.
pub async fn report(journal: &dyn Journal, run: &Address) -> Result<Report, ReportError> {
    let events = read_all(journal, run).await?;
    let mut view = RunView::of(&events);
    let finished = view.finished.take().ok_or(ReportError::Unfinished)?;
    let files = newest(std::mem::take(&mut view.artifacts));
    let body = match text_file(&files) {
        Some((file, of_text)) => {
            let content = journal.get_blob(run, &file.content).await?;
            of_text(String::from_utf8_lossy(&content).into_owned())
        }
        None => Body::Markdown(finished.result.clone().unwrap_or_default()),
    };
    let mut charts = Vec::new();
    let mut left = MAX_CHARTS_BYTES as u64;
    let pictures = files.iter().filter(|file| PICTURES.contains(&file.media_type.as_str()));
    for file in pictures.take(MAX_CHARTS) {
        let bytes = file.content.bytes;
        let content = if bytes <= left.min(MAX_CHART_BYTES as u64) {
            left -= bytes;
            Some(journal.get_blob(run, &file.content).await?)
        } else {
            None
        };
        let (name, media_type) = (file.name.clone(), file.media_type.clone());
        charts.push(Chart { name, media_type, content });
    }
    let provenance = provenance(run, &events, &view, finished);
    Ok(Report { body, charts, provenance })
}

/// The last file of each name, in the order in which the names came.
fn newest(files: Vec<Artifact>) -> Vec<Artifact> {
    let mut newest: Vec<Artifact> = Vec::new();
    for file in files {
        match newest.iter_mut().find(|known| known.name == file.name) {
            Some(known) => *known = file,
            None => newest.push(file),
        }
    }
    newest
}

fn text_file(files: &[Artifact]) -> Option<(&Artifact, BodyOfText)> {
    TEXTS.iter().find_map(|(name, of_text)| {
        let is_it = |file: &&Artifact| file.name == *name && file.content.bytes <= MAX_TEXT_FILE;
        Some((files.iter().find(is_it)?, *of_text))
    })
}

fn provenance(run: &Address, events: &[Event], view: &RunView, finished: Finished) -> Provenance {
    let mut models: Vec<String> = Vec::new();
    for event in events {
        if let Fact::LlmRequested(asked) = &event.body
            && asked.model != Heuristic.name()
            && !models.contains(&asked.model)
        {
            models.push(asked.model.clone());
        }
    }
    let created = view.created.as_ref();
    let datasets = created.map(|created| created.datasets.as_slice()).unwrap_or_default();
    let data = datasets.iter().filter(|data| data.name != MANIFEST).map(|data| {
        // As its owner brought it, whatever was made of it to fit.
        let (name, bytes, fingerprint) = match &data.origin {
            Some(origin) => (&origin.name, origin.bytes, &origin.fingerprint),
            None => (&data.name, data.bytes, &data.fingerprint),
        };
        DataFile { name: name.clone(), bytes, sha256: fingerprint.to_string() }
    });
    let begin = |event: &&Event| matches!(event.body, Fact::RunCreated(_) | Fact::ForkedFrom(_));
    let end = |event: &&Event| matches!(event.body, Fact::Finished(_));
    let at = |event: Option<&Event>| event.map(|event| moment(event.at)).unwrap_or_default();
    Provenance {
        run: run.run.to_string(),
        question: created.map(|created| created.question.clone()).unwrap_or_default(),
        verdict: Verdict {
            is_answered: finished.outcome == Outcome::Answered,
            outcome: finished.outcome.as_str().to_owned(),
            message: finished.message,
        },
        models,
        data: data.collect(),
        turns: view.turns,
        tokens: view.spent.tokens.total(),
        nano_dollars: view.spent.nano_dollars,
        created: at(events.iter().rev().find(begin)),
        finished: at(events.iter().rev().find(end)),
    }
}

fn moment(at: OffsetDateTime) -> String {
    let at = at.to_offset(UtcOffset::UTC);
    let (hour, minute, second) = at.to_hms();
    format!("{} {hour:02}:{minute:02}:{second:02} UTC", at.date())
}

#[cfg(test)]
mod tests {
    use belljar_journal::BlobRef;

    use super::*;

    fn file(name: &str, content: &[u8]) -> Artifact {
        let media_type = "text/plain".to_owned();
        Artifact { name: name.to_owned(), media_type, content: BlobRef::of(content) }
    }

    #[test]
    fn a_report_file_wins_over_the_answer() {
        let mut files = vec![file("result.md", b"r"), file("x.png", b"x")];
        let name = |files: &[Artifact]| text_file(files).map(|(file, _)| file.name.clone());
        assert_eq!(name(&files), None);
        files.push(file("report.md", b"m"));
        assert_eq!(name(&files).as_deref(), Some("report.md"));
        files.push(file("report.html", b"h"));
        assert_eq!(name(&files).as_deref(), Some("report.html"));
        files[3].content.bytes = MAX_TEXT_FILE + 1;
        assert_eq!(name(&files).as_deref(), Some("report.md"));
    }

    #[test]
    fn the_last_file_of_a_name_counts() {
        let files = newest(vec![file("a", b"1"), file("b", b"2"), file("a", b"3")]);
        assert_eq!(files, [file("a", b"3"), file("b", b"2")]);
    }

    #[test]
    fn moments_are_in_utc() {
        let at = OffsetDateTime::UNIX_EPOCH.to_offset(UtcOffset::from_hms(2, 0, 0).unwrap());
        assert_eq!(moment(at), "1970-01-01 00:00:00 UTC");
    }
}

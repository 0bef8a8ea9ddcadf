//! The inputs of a report.

/// All that a report is made of, except for the brand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The text of the model.
    pub body: Body,
    /// Pictures that the text may name. Those that it does not name stand at its end.
    pub charts: Vec<Chart>,
    pub provenance: Provenance,
}

/// The text of a model. It is never trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Markdown(String),
    Html(String),
}

/// A picture among the files of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chart {
    pub name: String,
    pub media_type: String,
    /// None: the picture is larger than a report may have.
    pub content: Option<Vec<u8>>,
}

/// The origin of a report, from the transcript of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    pub run: String,
    pub question: String,
    pub verdict: Verdict,
    /// None: fixed rules answered.
    pub models: Vec<String>,
    pub data: Vec<DataFile>,
    pub turns: u32,
    pub tokens: u64,
    pub nano_dollars: u64,
    /// Moments of the run, as `2026-11-19 18:02:11 UTC`.
    pub created: String,
    pub finished: String,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// True if the model gave an answer.
    pub is_answered: bool,
    /// `answered`, `exhausted`, `cancelled` or `failed`.
    pub outcome: String,
    /// The reason, if there is one.
    pub message: Option<String>,
}

/// A file that the run worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    pub name: String,
    pub bytes: u64,
    /// In hexadecimal digits.
    pub sha256: String,
}

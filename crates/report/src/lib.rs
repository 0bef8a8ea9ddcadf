//! Reports of runs: one HTML file that a browser shows without the network.
//!
//! ```text
//!   text of the model ──► markdown ──► bound ──► sanitise ──► arrange ─┐
//!   charts ──► svg, data URIs ────────────────────────────────┘        ├──► page
//!   brand, provenance ─────────────────────────────────────────────────┘
//! ```
//!
//! The page is ours: brand, styles, table of contents and footer. Only the text between them is
//! the model's, and nothing in it runs, loads or leaves its place:
//!
//! - `bound` makes the text small and balanced, so that no parser works for long.
//! - `sanitise` keeps an allowlist of tags and attributes (`ammonia`).
//! - `arrange` gives headings their ids and puts charts where the text names them.
//! - The policy of the page forbids scripts and every request (`policy`).
//!
//! There is no clock and no randomness: equal inputs are equal bytes.

mod arrange;
mod bound;
mod brand;
mod chart;
mod colour;
mod columns;
mod digest;
mod escape;
mod input;
mod markdown;
mod markup;
mod page;
mod policy;
mod sanitise;
mod svg;

pub use brand::{Brand, BrandError, Logo, MAX_LOGO_BYTES};
pub use chart::{MAX_CHART_BYTES, MAX_CHARTS, MAX_CHARTS_BYTES};
pub use colour::{Colour, ColourError};
pub use escape::escape;
pub use input::{Body, Chart, DataFile, Provenance, Report, Verdict};

/// The longest text of a model that is shown. The rest is cut, visibly.
pub const MAX_TEXT_BYTES: usize = 2 << 20;

/// A rendered report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedReport {
    pub html: String,
    /// SHA-256 of the page, in hexadecimal digits.
    pub sha256: String,
    /// The Content-Security-Policy of the page, for the header of a response. It is stricter than
    /// the one inside of the page, which cannot forbid frames.
    pub policy: String,
}

/// Renders a report.
pub fn render(report: &Report, brand: &Brand) -> RenderedReport {
    let (Body::Html(whole) | Body::Markdown(whole)) = &report.body;
    let text = bound::cut(whole, MAX_TEXT_BYTES);
    let clean = match &report.body {
        Body::Html(_) => sanitise::sanitise(&bound::bound(text)),
        Body::Markdown(_) => sanitise::sanitise(&bound::bound(&markdown::to_html(text))),
    };
    let mut arranged = arrange::arrange(&clean, &report.charts);
    if text.len() < whole.len() {
        arranged.body.push_str(
            "<p class=\"note\">The text is longer than a report may be. Its end is left out.</p>\n",
        );
    }
    let html = page::page(report, brand, &arranged);
    let sha256 = digest::hex(html.as_bytes());
    RenderedReport { sha256, policy: policy::of_response(&page::styles(brand)), html }
}

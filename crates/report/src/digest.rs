//! Digests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::brand::Brand;
use crate::input::{Body, Report};

/// SHA-256 in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// SHA-256 as policies write it.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(Sha256::digest(bytes))
}

/// The digest of everything that a report is made of.
pub(crate) fn of_inputs(report: &Report, brand: &Brand) -> String {
    let Report { body, charts, provenance } = report;
    let mut sum = Fields(Sha256::new());
    match body {
        Body::Markdown(text) => sum.texts(["markdown", text]),
        Body::Html(text) => sum.texts(["html", text]),
    }
    sum.number(charts.len() as u64);
    for chart in charts {
        sum.texts([&chart.name, &chart.media_type]);
        sum.option(chart.content.as_deref());
    }
    let it = provenance;
    sum.texts([&it.run, &it.question, &it.verdict.outcome, &it.created, &it.finished]);
    sum.option(it.verdict.message.as_deref().map(str::as_bytes));
    sum.number(it.verdict.is_answered.into());
    sum.number(it.models.len() as u64);
    it.models.iter().for_each(|model| sum.bytes(model.as_bytes()));
    sum.number(it.data.len() as u64);
    for file in &it.data {
        sum.texts([&file.name, &file.sha256]);
        sum.number(file.bytes);
    }
    [it.turns.into(), it.tokens, it.nano_dollars].into_iter().for_each(|n| sum.number(n));
    sum.bytes(brand.name().as_bytes());
    sum.option(brand.logo().map(|logo| logo.uri().as_bytes()));
    sum.texts([&brand.light().to_string(), &brand.dark().to_string()]);
    hex::encode(sum.0.finalize())
}

/// Fields with their lengths, so that no two lists of fields are the same bytes.
struct Fields(Sha256);

impl Fields {
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn texts<const N: usize>(&mut self, texts: [&str; N]) {
        texts.into_iter().for_each(|text| self.bytes(text.as_bytes()));
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_be_bytes());
    }

    fn option(&mut self, bytes: Option<&[u8]>) {
        self.number(bytes.is_some().into());
        self.bytes(bytes.unwrap_or_default());
    }
}

//! When two requests are the same.

use std::collections::BTreeMap;

use crate::Digest;
use crate::blob::{BlobError, Blobs};
use crate::index::Asked;
use crate::json::Json;
use crate::request::Question;

/// What of a request counts. Method, scheme, host, port, path, every parameter
/// and the body always do; parameters of different names may change places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matching {
    /// Headers that must be equal, in lower case; no others count. A part of a
    /// file must not be answered with the whole of it, nor a first visit with
    /// "not modified", nor a request for JSON with a page.
    pub headers: Vec<String>,
    /// Parameters of the query that do not count.
    pub ignored_parameters: Vec<String>,
    /// JSON pointers into bodies of requests; `*` for every item. What they name
    /// does not count: ids, dates.
    pub ignored_fields: Vec<String>,
}

impl Default for Matching {
    fn default() -> Self {
        let headers = ["accept", "range", "if-range", "if-none-match", "if-modified-since"];
        Self {
            headers: headers.map(str::to_owned).to_vec(),
            ignored_parameters: vec![],
            ignored_fields: vec![],
        }
    }
}

/// Equal for requests that are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(Digest);

impl Matching {
    pub(crate) fn of_question(&self, question: &Question) -> Key {
        let Question { asked, json, .. } = question;
        self.key(asked, self.body(asked, || json.clone()))
    }

    /// Reads the body only where something in it does not count.
    pub(crate) fn of_entry(&self, asked: &Asked, blobs: &Blobs) -> Result<Key, BlobError> {
        let json = match (asked.body, self.ignored_fields.is_empty()) {
            (Some(blob), false) if asked.json.is_some() => {
                Json::parse(&blobs.get(&blob, u64::MAX)?)
            }
            _ => None,
        };
        Ok(self.key(asked, self.body(asked, || json)))
    }

    fn body(&self, asked: &Asked, json: impl FnOnce() -> Option<Json>) -> Option<Digest> {
        if self.ignored_fields.is_empty() || asked.json.is_none() {
            return asked.json.or(asked.body.map(|blob| blob.sha256));
        }
        json().map(|mut json| {
            self.forget(&mut json);
            Digest::of(json.canonical().as_bytes())
        })
    }

    /// Removes what does not count.
    pub(crate) fn forget(&self, json: &mut Json) {
        self.ignored_fields.iter().for_each(|pointer| json.remove(pointer));
    }

    fn key(&self, asked: &Asked, body: Option<Digest>) -> Key {
        let url = &asked.url;
        let text = serde_json::json!([
            asked.method,
            url.scheme.as_str(),
            url.host.to_string(),
            url.port,
            url.path,
            self.parameters(asked),
            self.headers(asked),
            // The two kinds of digests must not be taken for each other.
            asked.json.is_some(),
            body.map(|digest| digest.to_string()),
        ]);
        Key(Digest::of(text.to_string().as_bytes()))
    }

    /// By name; those of one name in their order.
    pub(crate) fn parameters<'a>(
        &self,
        asked: &'a Asked,
    ) -> BTreeMap<&'a str, Vec<Option<&'a str>>> {
        let mut sorted = BTreeMap::<_, Vec<_>>::new();
        for (name, value) in asked.url.parameters() {
            if !self.ignored_parameters.iter().any(|ignored| ignored == name) {
                sorted.entry(name).or_default().push(value);
            }
        }
        sorted
    }

    pub(crate) fn headers<'a>(&'a self, asked: &'a Asked) -> BTreeMap<&'a str, Vec<&'a str>> {
        let mut sorted = BTreeMap::<_, Vec<_>>::new();
        for (name, value) in &asked.headers {
            if self.headers.contains(name) {
                sorted.entry(name.as_str()).or_default().push(value.as_str());
            }
        }
        sorted
    }
}

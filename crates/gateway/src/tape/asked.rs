//! A request as a cassette sees it.

use belljar_cassette::Request;
use belljar_domain::network::Host;
use belljar_domain::network::Scheme;
use bytes::Bytes;
use http::request::Parts;

use crate::upstream::Place;

/// Everything that counts, on its own, so that it can be taken to a thread that
/// may wait for the disk.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    method: String,
    scheme: Scheme,
    host: Host,
    port: u16,
    path: String,
    query: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    body: Bytes,
}

impl Asked {
    pub(crate) fn new(parts: &Parts, place: &Place, body: Bytes) -> Self {
        let headers = parts.headers.iter();
        Self {
            method: parts.method.as_str().to_owned(),
            scheme: place.scheme(),
            host: place.destination.host.clone(),
            port: place.destination.port,
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().map(str::to_owned),
            headers: headers
                .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
                .collect(),
            body,
        }
    }

    /// Hands it over in the cassette's own form.
    pub(super) fn with<T>(&self, then: impl FnOnce(&Request<'_>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        then(&Request {
            method: &self.method,
            scheme: self.scheme,
            host: &self.host,
            port: self.port,
            path: &self.path,
            query: self.query.as_deref(),
            headers: &headers,
            body: &self.body,
        })
    }
}

//! Headers and certificates of the collector, as OpenTelemetry's variables name them.

use std::fmt;
use std::path::PathBuf;

use http::header::{self, HeaderName, HeaderValue};

use super::endpoint::EndpointError;

/// Headers that frame a request; they are ours.
const RESERVED: [HeaderName; 5] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
];

/// Options of the exporter beside its endpoint.
#[derive(Clone, Default)]
pub struct ExportOptions {
    /// `OTEL_EXPORTER_OTLP_HEADERS`: `name=value,…`, with values escaped as in URLs. Secret.
    pub headers: Option<String>,
    /// `OTEL_EXPORTER_OTLP_CERTIFICATE`: authorities instead of the system's, in PEM.
    pub authorities: Option<PathBuf>,
    /// `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE` and `OTEL_EXPORTER_OTLP_CLIENT_KEY`, in PEM.
    pub client_certificate: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
}

impl fmt::Debug for ExportOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportOptions")
            .field("has_headers", &self.headers.is_some())
            .field("authorities", &self.authorities)
            .field("client_certificate", &self.client_certificate)
            .finish_non_exhaustive()
    }
}

/// Reads headers in the format of W3C's baggage, without its properties.
pub(super) fn headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, EndpointError> {
    let mut headers = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(EndpointError::Headers)?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| EndpointError::Headers)?;
        let value = unescape(value.trim()).ok_or(EndpointError::Headers)?;
        let mut value = HeaderValue::from_bytes(&value).map_err(|_| EndpointError::Headers)?;
        if RESERVED.contains(&name) {
            return Err(EndpointError::Headers);
        }
        value.set_sensitive(true);
        headers.push((name, value));
    }
    Ok(headers)
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high << 4 | low).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_pairs_with_escaped_values() {
        let read = headers("Authorization=Bearer%20a%2Cb, x-team = blue,").unwrap();
        let shown: Vec<_> =
            read.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(shown, [("authorization", "Bearer a,b"), ("x-team", "blue")]);
        assert!(read.iter().all(|(_, value)| value.is_sensitive()));
        for wrong in ["a", "a b=c", "a=%0a", "a=%zz", "a=%2", "host=x", "content-length=3"] {
            assert!(headers(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn headers_are_not_printed() {
        let options =
            ExportOptions { headers: Some("a=secret".to_owned()), ..ExportOptions::default() };
        assert!(!format!("{options:?}").contains("secret"));
    }
}

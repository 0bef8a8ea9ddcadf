//! A request as it comes, and as it is kept and compared.

use std::io::{self, Read as _};

use belljar_domain::network::{Host, Scheme};

use crate::index::{Asked, header, is_between_neighbours};
use crate::json::Json;
use crate::redact::Form;
use crate::{Digest, InvalidUrl, Redactor, Url};

/// What a client asks for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a str,
    pub scheme: Scheme,
    pub host: &'a Host,
    pub port: u16,
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The whole body, without transfer encoding.
    pub body: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("the request's target cannot be recorded")]
    Url(#[from] InvalidUrl),
    #[error("the body's encoding cannot be looked into")]
    Encoding,
    #[error("the body is larger than is held")]
    TooLarge,
}

/// A request without its secrets.
#[derive(Debug)]
pub(crate) struct Question {
    /// Its body's digest is known, but the body itself not yet stored.
    pub(crate) asked: Asked,
    pub(crate) body: Vec<u8>,
    /// The body, if it is JSON.
    pub(crate) json: Option<Json>,
}

impl Question {
    pub(crate) fn new(
        request: &Request<'_>,
        redactor: &Redactor,
        most: usize,
    ) -> Result<Self, RequestError> {
        if request.body.len() > most {
            return Err(RequestError::TooLarge);
        }
        let host = request.host.to_string();
        let host = redactor.text(&host).parse().map_err(|_| InvalidUrl)?;
        let path = redactor.text(request.path);
        let query = request.query.map(|query| redactor.query(query));
        let url = Url::new(request.scheme, host, request.port, &path, query.as_deref())?;

        let mut headers = kept_headers(request.headers, redactor);
        let mut body = request.body.to_vec();
        if let Some(encoding) = encoding(&headers).filter(|_| !body.is_empty()) {
            let (decoded, end) = decode(encoding, &body, most).ok_or(RequestError::Encoding)?;
            match end {
                DecodeEnd::Whole => body = decoded,
                DecodeEnd::Broken => return Err(RequestError::Encoding),
                DecodeEnd::TooLarge => return Err(RequestError::TooLarge),
            }
            headers.retain(|(name, _)| name != "content-encoding");
        }
        let form = Form::of(header(&headers, "content-type"));
        // Names are looked for in every text: unlike an answer, nobody checks a
        // request against a hash, and what it is called is up to the program.
        let searched = match form {
            Form::Opaque if str::from_utf8(&body).is_ok() => Form::Lines,
            form => form,
        };
        let body = redactor.body(searched, body, &mut []);
        // Of the body as it is kept.
        headers.retain(|(name, _)| name != "content-length");
        let json = (form == Form::Json).then(|| Json::parse(&body)).flatten();
        let blob = (!body.is_empty())
            .then(|| crate::Blob { sha256: Digest::of(&body), bytes: body.len() as u64 });
        let json_digest = json.as_ref().map(|json| Digest::of(json.canonical().as_bytes()));
        let method = redactor.text(request.method).into_owned();
        let asked = Asked { method, url, headers, body: blob, json: json_digest };
        Ok(Self { asked, body, json })
    }
}

/// Headers without secrets, and without those that are between two neighbours
/// only.
pub(crate) fn kept_headers(
    headers: &[(&str, &[u8])],
    redactor: &Redactor,
) -> Vec<(String, String)> {
    let named: Vec<String> = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
        .flat_map(|(_, value)| value.split(|b| *b == b','))
        .map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase())
        .collect();
    let is_kept =
        |name: &str| !is_between_neighbours(name) && !named.iter().any(|other| other == name);
    headers
        .iter()
        .filter_map(|(name, value)| redactor.header(name, value))
        .filter(|(name, _)| is_kept(name))
        .collect()
}

/// The content's encoding, if it has one that is more than a word.
pub(crate) fn encoding(headers: &[(String, String)]) -> Option<&str> {
    let value = header(headers, "content-encoding")?.trim();
    (!value.is_empty() && !value.eq_ignore_ascii_case("identity")).then_some(value)
}

pub(crate) enum DecodeEnd {
    Whole,
    Broken,
    TooLarge,
}

/// Encoded content, plain: secrets can only be found there. None for encodings
/// that are not known. At most `most` bytes, whatever they grow to.
pub(crate) fn decode(encoding: &str, content: &[u8], most: usize) -> Option<(Vec<u8>, DecodeEnd)> {
    let mut reader: Box<dyn io::Read + '_> = match encoding.to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => Box::new(flate2::read::MultiGzDecoder::new(content)),
        // Named after one format and often sent as the other: this is the named one.
        "deflate" => Box::new(flate2::read::ZlibDecoder::new(content)),
        "zstd" => Box::new(zstd::stream::read::Decoder::new(content).ok()?),
        _ => return None,
    };
    let mut out = Vec::new();
    let end = match (&mut reader).take(most as u64 + 1).read_to_end(&mut out) {
        Ok(_) if out.len() > most => DecodeEnd::TooLarge,
        Ok(_) => DecodeEnd::Whole,
        Err(_) => DecodeEnd::Broken,
    };
    Some((out, end))
}

//! `POST /files`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_node::Attribute;
use belljar_sandboxes::{Files, METADATA, Problem, name_of};
use futures_util::TryStreamExt as _;
use http::{HeaderMap, Uri, header};
use serde_json::{Value, json};
use tokio::io::AsyncRead;

use super::body::{Content, Paced, Reader};
use super::{Query, encoding, form, invalid, refusal};
use crate::envd::Visit;
use crate::json;

pub(in crate::envd) async fn upload(visit: &Visit, uri: &Uri, body: Body) -> Response {
    let encoding = match encoding::of_body(&visit.headers) {
        Ok(encoding) => encoding,
        Err(message) => {
            return refusal(&invalid(format!("error decompressing request body: {message}")));
        }
    };
    let mut content = Content::new(body, encoding);
    let query = Query::of(uri);
    let done = tokio::select! {
        done = take(visit, &query, &mut content) => done,
        () = visit.sandbox.interrupted() => Err(Problem::gone()),
    };
    match done {
        Ok(written) => Json(written).into_response(),
        Err(problem) => {
            content.drain().await;
            refusal(&problem)
        }
    }
}

async fn take(visit: &Visit, query: &Query, content: &mut Content) -> Result<Vec<Value>, Problem> {
    let files = visit.live.files(visit.user_named(query.user())?);
    let attributes = metadata(&visit.headers)?;
    let kind = visit.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or_default();
    let media = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media == "application/octet-stream" {
        let missing = || invalid("path query parameter is required for raw body upload");
        let path = files.resolve(query.path.as_deref().ok_or_else(missing)?)?;
        return Ok(vec![write(files, path, &attributes, &mut Reader::new(content)).await?]);
    }
    if !media.starts_with("multipart/") {
        return Err(invalid(format!(
            "unsupported content type: {kind}, expected multipart/form-data or \
             application/octet-stream"
        )));
    }
    let wrong = |error: multer::Error| invalid(format!("error parsing multipart form: {error}"));
    let boundary = multer::parse_boundary(kind).map_err(wrong)?;
    let unclaimed = Arc::<AtomicUsize>::default();
    let mut parts = multer::Multipart::new(Paced::new(content, unclaimed.clone()), boundary);
    let mut written: Vec<Value> = Vec::new();
    while let Some(part) = parts.next_field().await.map_err(wrong)? {
        if part.name() != Some("file") {
            continue;
        }
        let disposition = part.headers().get(header::CONTENT_DISPOSITION);
        let disposition =
            String::from_utf8_lossy(disposition.map_or(b"", |value| value.as_bytes()));
        let named = query.path.clone().or_else(|| form::file_name(&disposition));
        let path = named.filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| invalid("a file of the form has no name"))?;
        let path = files.resolve(&path)?;
        if written.iter().any(|other| other["path"] == path.as_str()) {
            return Err(invalid(format!(
                "you cannot upload multiple files to the same path '{path}' in one upload \
                 request, only the first specified file was uploaded"
            )));
        }
        let pieces = part.map_err(std::io::Error::other);
        let pieces = pieces.inspect_ok(|_| unclaimed.store(0, Ordering::Relaxed));
        written.push(write(files, path, &attributes, &mut Reader::new(pieces)).await?);
    }
    Ok(written)
}

async fn write(
    files: Files<'_>,
    path: String,
    attributes: &[Attribute],
    source: &mut (dyn AsyncRead + Unpin + Send),
) -> Result<Value, Problem> {
    files.write(&path, attributes, source).await?;
    let mut value = json!({ "name": name_of(&path), "type": "file", "path": path });
    if !attributes.is_empty() {
        let texts = attributes.iter().map(|(name, text)| {
            let name = name.get(METADATA.len()..).unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            (name, String::from_utf8_lossy(text).into_owned().into())
        });
        json::set(&mut value, "metadata", Value::Object(texts.collect()));
    }
    Ok(value)
}

/// What all metadata of a file may have together, with the names of attributes.
const MOST_METADATA: usize = 4096;

/// The longest name that Linux lets an attribute have.
const LONGEST_NAME: usize = 255;

/// Metadata, from headers like `X-Metadata-<key>: <value>`.
fn metadata(headers: &HeaderMap) -> Result<Vec<Attribute>, Problem> {
    let mut attributes: Vec<Attribute> = Vec::new();
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix("x-metadata-") else { continue };
        let value = headers.get(name).map_or(&b""[..], |value| value.as_bytes());
        if key.is_empty() {
            continue;
        }
        if let Some(&byte) = value.iter().find(|byte| !(0x20..=0x7e).contains(*byte)) {
            return Err(invalid(format!(
                "invalid metadata: value for key {key:?} contains non-printable-ASCII byte \
                 {byte:#04x}"
            )));
        }
        if METADATA.len() + key.len() > LONGEST_NAME {
            let most = LONGEST_NAME - METADATA.len();
            return Err(invalid(format!("invalid metadata: key {key:?} exceeds {most} bytes")));
        }
        attributes.push((format!("{METADATA}{key}").into_bytes(), value.to_vec()));
    }
    let total: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    if total > MOST_METADATA {
        return Err(invalid(format!(
            "invalid metadata: total metadata size {total} exceeds {MOST_METADATA} bytes"
        )));
    }
    attributes.sort();
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(all: &[(&str, &[u8])]) -> HeaderMap {
        let pair = |(name, value): &(&str, &[u8])| {
            let name: http::HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_bytes(value).unwrap())
        };
        all.iter().map(pair).collect()
    }

    #[test]
    fn metadata_becomes_attributes() {
        let found = metadata(&headers(&[("X-Metadata-Author", b"me"), ("x-other", b"x")])).unwrap();
        assert_eq!(found, [(b"user.e2b.author".to_vec(), b"me".to_vec())]);
    }

    /// A form whose first header never ends must not fill our memory.
    #[tokio::test]
    async fn a_form_that_is_no_file_is_given_up() {
        let endless = futures_util::stream::repeat_with(|| {
            Ok::<_, std::convert::Infallible>(bytes::Bytes::from_static(&[b'x'; 65536]))
        });
        let mut content = Content::new(Body::from_stream(endless), encoding::Encoding::Identity);
        let paced = Paced::new(&mut content, Arc::default());
        let mut parts = multer::Multipart::new(paced, "b");
        assert!(parts.next_field().await.is_err());
    }

    #[test]
    fn metadata_that_no_file_could_have_is_refused() {
        assert!(metadata(&headers(&[("X-Metadata-a", "ä".as_bytes())])).is_err());
        assert!(metadata(&headers(&[("X-Metadata-a", &[b'x'; 4096])])).is_err());
        let long = format!("x-metadata-{}", "k".repeat(247));
        assert!(metadata(&headers(&[(&long, b"x")])).is_err());
        assert!(metadata(&headers(&[(&long[..long.len() - 1], b"x")])).is_ok());
    }
}

//! `GET /files`.

use axum::body::Body;
use axum::response::Response;
use belljar_node::{FileError, Reading};
use belljar_sandboxes::{Problem, name_of};
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};

use super::encoding::{Encoding, Packing, accepted};
use super::{Query, refusal};
use crate::envd::Visit;

pub(in crate::envd) async fn download(visit: &Visit, uri: &Uri) -> Response {
    match open(visit, uri).await {
        Ok((path, reading)) => respond(visit, &path, reading),
        Err(problem) => refusal(&problem),
    }
}

async fn open(visit: &Visit, uri: &Uri) -> Result<(String, Reading), Problem> {
    let query = Query::of(uri);
    let files = visit.live.files(visit.user_named(query.user())?);
    let path = files.resolve(query.path.as_deref().unwrap_or_default())?;
    let reading = files.read(&path).await?;
    Ok((path, reading))
}

fn respond(visit: &Visit, path: &str, reading: Reading) -> Response {
    let Some(encoding) = accepted(&visit.headers) else {
        let message = "no acceptable encoding found, supported: [gzip]";
        let body = serde_json::json!({ "code": 406, "message": message });
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        return response;
    };
    let size = reading.size();
    let body = match encoding {
        Encoding::Identity => Body::from_stream(plain(reading)),
        Encoding::Gzip => Body::from_stream(packed(reading)),
    };
    let mut response = Response::new(body);
    describe(response.headers_mut(), path, size, encoding);
    response
}

fn describe(headers: &mut HeaderMap, path: &str, size: u64, encoding: Encoding) {
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(path)));
    // What code wrote must never run as a page of this server.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(value) = HeaderValue::from_str(&disposition(name_of(path))) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    match encoding {
        Encoding::Identity => drop(headers.insert(header::CONTENT_LENGTH, size.into())),
        Encoding::Gzip => {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
}

/// The name in the form that every client reads (RFC 6266).
fn disposition(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.bytes().all(plain) {
        return format!("inline; filename={name}");
    }
    let mut coded = String::new();
    for byte in name.bytes() {
        if plain(byte) {
            coded.push(char::from(byte));
        } else {
            coded.push_str(&format!("%{byte:02X}"));
        }
    }
    format!("inline; filename*=utf-8''{coded}")
}

/// Only types that a browser shows without running anything.
fn content_type(path: &str) -> &'static str {
    let name = name_of(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "txt" | "md" | "log" | "py" | "js" | "ts" | "rs" | "sh" | "toml" | "yaml" | "yml" => {
            "text/plain; charset=utf-8"
        }
        "csv" => "text/csv; charset=utf-8",
        "json" => "application/json",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}

fn plain(reading: Reading) -> impl Stream<Item = Result<Bytes, FileError>> + Send {
    stream::try_unfold(reading, |mut reading| async {
        let piece = reading.next().await?;
        Ok(piece.map(|bytes| (Bytes::from(bytes), reading)))
    })
}

fn packed(reading: Reading) -> impl Stream<Item = Result<Bytes, FileError>> + Send {
    let state = Some((reading, Packing::new()));
    stream::try_unfold(state, |state| async {
        let Some((mut reading, mut packing)) = state else { return Ok(None) };
        loop {
            let Some(bytes) = reading.next().await? else {
                let rest = packing.finish().map_err(FileError::Target)?;
                return Ok(Some((Bytes::from(rest), None)));
            };
            let packed = packing.push(&bytes).map_err(FileError::Target)?;
            if !packed.is_empty() {
                return Ok(Some((Bytes::from(packed), Some((reading, packing)))));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_their_header() {
        assert_eq!(disposition("a.txt"), "inline; filename=a.txt");
        assert_eq!(disposition("a\"\r\nb"), "inline; filename*=utf-8''a%22%0D%0Ab");
        assert_eq!(disposition("ä"), "inline; filename*=utf-8''%C3%A4");
    }

    #[test]
    fn pages_and_scripts_are_not_served_as_such() {
        assert_eq!(content_type("/a/b.PNG"), "image/png");
        for path in ["/a.html", "/a.svg", "/a.xml", "/png", "/a.png/x"] {
            assert_eq!(content_type(path), "application/octet-stream", "{path}");
        }
    }
}

//! The web console: static files that are part of the executable, and responses with them.
//!
//! ```text
//!   console/ ── just console ──► console/dist ── build.rs ──► a table in here ──► /console
//! ```
//!
//! The files are public and the same for every client. Data comes from `/v1` only, with the key
//! of the page's user. The caller decides by host and headers which requests are for the console:
//! one that names a sandbox never is.
//!
//! Invariant: every response has the policy of [`POLICY`], whatever its status.

// One panic here is the end of more than one request.
#![warn(clippy::indexing_slicing, clippy::string_slice)]

use std::fmt;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;

/// The path of the console. Its pages and files are below.
pub const ROOT: &str = "/console";

/// Nothing is loaded from another host, no script stands in a page, and no page frames this one.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                          connect-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
                          base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The page of the application, also for all of its own paths.
const INDEX: &str = "index.html";
/// Names below it contain a hash of their content.
const HASHED: &str = "assets/";
const KEEP_FOREVER: &str = "public, max-age=31536000, immutable";
const ASK_AGAIN: &str = "no-cache";

const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// One file of the console.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its path below [`ROOT`], without a slash at the beginning.
    pub path: &'static str,
    pub content_type: &'static str,
    pub plain: &'static [u8],
    /// The same as gzip, where that is smaller.
    pub gzip: Option<&'static [u8]>,
    /// The first half of its SHA-256, in hex.
    pub digest: &'static str,
}

/// The files of a console; cheap to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Console {
    files: &'static [File],
}

impl Console {
    /// Returns the console of this executable. It has no files if `console/dist` was missing when
    /// the executable was built.
    pub const fn embedded() -> Self {
        Self { files: FILES }
    }

    /// Returns a console with other files, for tests.
    pub const fn of(files: &'static [File]) -> Self {
        Self { files }
    }

    pub const fn is_empty(self) -> bool {
        self.files.is_empty()
    }

    /// Returns the bytes that it adds to the executable.
    pub fn size(self) -> usize {
        self.files.iter().map(|file| file.plain.len() + file.gzip.map_or(0, <[u8]>::len)).sum()
    }

    /// Answers a request for a path below [`ROOT`].
    pub fn answer<B>(self, request: &Request<B>) -> Response<Full<Bytes>> {
        let mut response = if ![Method::GET, Method::HEAD].contains(request.method()) {
            let message = "the console answers GET and HEAD only\n";
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, message);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            response
        } else if self.is_empty() {
            let message = "this executable was built without the console; run `just console` and \
                           build again\n";
            refuse(StatusCode::NOT_FOUND, message)
        } else {
            match self.find(request.uri().path()) {
                Some(file) => file.respond(request.headers()),
                None => refuse(StatusCode::NOT_FOUND, "the console has no such file\n"),
            }
        };
        protect(response.headers_mut());
        if request.method() == Method::HEAD {
            *response.body_mut() = Full::default();
        }
        response
    }

    /// Returns the file at a path. Paths of the application have no dot in their last part, and
    /// lead to its page.
    fn find(self, path: &str) -> Option<&'static File> {
        let name = path.strip_prefix(ROOT)?.trim_start_matches('/');
        let by_path = |path: &str| self.files.iter().find(|file| file.path == path);
        let last = name.rsplit('/').next().unwrap_or_default();
        let is_page = !last.contains('.') && !name.starts_with(HASHED);
        by_path(name).or_else(|| by_path(INDEX).filter(|_| is_page))
    }
}

/// Returns true if a path is that of the console or below.
pub fn is_console(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl File {
    fn respond(&self, asked: &HeaderMap) -> Response<Full<Bytes>> {
        // Weak: it is the same for both encodings.
        let tag = format!("W/\"{}\"", self.digest);
        let is_known = is_listed(asked, &tag);
        let packed = self.gzip.filter(|_| accepts_gzip(asked));
        let body = packed.unwrap_or(self.plain);
        let cache = if self.path.starts_with(HASHED) { KEEP_FOREVER } else { ASK_AGAIN };
        let mut response = Response::new(Full::default());
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(header::ETAG, tag);
        }
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        if packed.is_some() {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        *response.body_mut() = Full::new(Bytes::from_static(body));
        response
    }
}

/// A name instead of a megabyte of numbers.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.path).finish_non_exhaustive()
    }
}

fn refuse(status: StatusCode, message: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(message.as_bytes())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(message.len()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Adds what keeps pages of other origins out. Those of sandboxes are on the same site, as
/// `8080-<id>.<domain>`, so the console also asks for a process of its own.
fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("origin-agent-cluster"), "?1"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Returns true if the client has the version with this tag.
fn is_listed(asked: &HeaderMap, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let known = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known.flat_map(|list| list.split(',')).any(|known| opaque(known) == opaque(tag))
}

/// Returns true if the client reads gzip (RFC 9110, 12.5.3).
fn accepts_gzip(asked: &HeaderMap) -> bool {
    let lists = asked.get_all(header::ACCEPT_ENCODING).iter();
    let mut any = false;
    for part in lists.filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(',')) {
        let (coding, parameters) = part.split_once(';').unwrap_or((part, ""));
        let weight = parameters.trim().strip_prefix("q=").and_then(|weight| weight.parse().ok());
        let is_wanted = weight.unwrap_or(1.0_f32) > 0.0;
        match coding.trim() {
            name if name.eq_ignore_ascii_case("gzip") => return is_wanted,
            "*" => any = is_wanted,
            _ => {}
        }
    }
    any
}

#[cfg(test)]
mod tests;

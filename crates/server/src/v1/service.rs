//! The server itself.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse};
use axum::{Extension, Json};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_api::service::{Health, Status};
use belljar_domain::network::Scheme;
use belljar_sandboxes::Actions;
use http::header;
use sha2::{Digest as _, Sha256};

use super::failure::Failure;

/// What does not change while the server runs.
#[derive(Debug, Clone)]
pub(super) struct Texts {
    document: Arc<str>,
    page: Arc<str>,
    /// The content security policy of the page.
    policy: Arc<str>,
}

impl Texts {
    pub(super) fn make() -> Self {
        let document = belljar_api::document().to_string();
        let hash = BASE64.encode(Sha256::digest(belljar_api::SCRIPT));
        // Nothing is loaded from anywhere, and no script runs but the page's own.
        let policy = format!(
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Self { document: document.into(), page: belljar_api::page().into(), policy: policy.into() }
    }
}

fn well() -> Json<Health> {
    Json(Health { status: Status::Ok, version: env!("CARGO_PKG_VERSION").to_owned() })
}

pub(super) async fn health() -> Json<Health> {
    well()
}

pub(super) async fn ready(State(actions): State<Actions>) -> Result<Json<Health>, Failure> {
    actions.refuse_unless_ready()?;
    Ok(well())
}

pub(super) async fn document(Extension(texts): Extension<Texts>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], texts.document.to_string())
}

pub(super) async fn reference(
    Extension(texts): Extension<Texts>,
    request: Request,
) -> impl IntoResponse {
    let page = belljar_api::page_at(&texts.page, &origin(&request));
    ([(header::CONTENT_SECURITY_POLICY, texts.policy.to_string())], Html(page))
}

/// The address that the client used, as far as it said so.
fn origin(request: &Request) -> String {
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let forwarded = text("x-forwarded-proto");
    let is_tls = request.extensions().get::<Scheme>() == Some(&Scheme::Https);
    let scheme = match forwarded {
        Some("https") => "https",
        Some("http") => "http",
        _ if is_tls => "https",
        _ => "http",
    };
    format!("{scheme}://{}", text(header::HOST.as_str()).unwrap_or("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_the_address_that_was_asked() {
        let request = |headers: &[(&str, &str)]| {
            let mut request = Request::default();
            for (name, value) in headers {
                let name: http::HeaderName = name.parse().unwrap();
                request.headers_mut().insert(name, value.parse().unwrap());
            }
            request
        };
        let host = ("host", "jar.example.com:3000");
        assert_eq!(origin(&request(&[host])), "http://jar.example.com:3000");
        let forwarded = request(&[host, ("x-forwarded-proto", "https")]);
        assert_eq!(origin(&forwarded), "https://jar.example.com:3000");
        let mut tls = request(&[host]);
        tls.extensions_mut().insert(Scheme::Https);
        assert_eq!(origin(&tls), "https://jar.example.com:3000");
        assert_eq!(origin(&request(&[])), "http://localhost");
    }
}

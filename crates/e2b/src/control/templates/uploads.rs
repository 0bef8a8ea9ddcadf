//! Files that a build copies: where to send them, and taking them.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use belljar_domain::network::Scheme;
use belljar_sandboxes::{Actions, Problem};
use futures_util::StreamExt as _;
use http::{HeaderMap, StatusCode, Uri, header};
use serde::Serialize;

use crate::control::auth::Caller;
use crate::error::RestError;

#[derive(Debug, Serialize)]
pub(crate) struct Slot {
    present: bool,
    url: String,
}

/// Where these files go. The address itself is the proof of who sends them.
pub(crate) async fn slot(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path((template, hash)): Path<(String, String)>,
    request: http::Request<Body>,
) -> Result<Response, RestError> {
    let (parts, _) = request.into_parts();
    let scheme = parts.extensions.get::<Scheme>().copied();
    let origin = origin(&parts.uri, &parts.headers, scheme)?;
    let slot = actions.upload_slot(&tenant, &template, &hash)?;
    let url = format!("{origin}/template-files/{}", slot.address.expose());
    Ok((StatusCode::CREATED, Json(Slot { present: slot.present, url })).into_response())
}

/// How whoever asked has reached this server.
fn origin(uri: &Uri, headers: &HeaderMap, scheme: Option<Scheme>) -> Result<String, Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = uri.authority().map(http::uri::Authority::as_str);
    let host = host.or_else(|| text(header::HOST.as_str()));
    let host = host.ok_or_else(|| Problem::invalid("the request has no Host"))?;
    // A proxy before this server speaks for its clients.
    let scheme = match (text("x-forwarded-proto"), scheme) {
        (Some("https"), _) | (None, Some(Scheme::Https)) => "https",
        _ => "http",
    };
    Ok(format!("{scheme}://{host}"))
}

pub(crate) async fn receive(
    State(actions): State<Actions>,
    Path(token): Path<String>,
    request: http::Request<Body>,
) -> Result<StatusCode, RestError> {
    let mut upload = actions.receive_upload(&token).await?;
    let mut pieces = request.into_body().into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Problem::invalid("the upload broke off"))?;
        upload.write(&piece).await?;
    }
    upload.finish().await?;
    Ok(StatusCode::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sent_the_way_the_request_came() {
        let mut headers = HeaderMap::new();
        headers.insert("host", "localhost:3000".parse().unwrap());
        let uri = Uri::from_static("/templates/a/files/b");
        let at = |headers: &HeaderMap, scheme| origin(&uri, headers, scheme).unwrap();
        assert_eq!(at(&headers, None), "http://localhost:3000");
        assert_eq!(at(&headers, Some(Scheme::Https)), "https://localhost:3000");
        headers.insert("x-forwarded-proto", "https".parse().unwrap());
        assert_eq!(at(&headers, Some(Scheme::Http)), "https://localhost:3000");
        let second = Uri::from_static("https://api.example.com/x");
        let https = Some(Scheme::Https);
        let found = origin(&second, &HeaderMap::new(), https).unwrap();
        assert_eq!(found, "https://api.example.com");
        assert!(origin(&uri, &HeaderMap::new(), None).is_err());
    }
}

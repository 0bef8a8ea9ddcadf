//! What a caller may see of an answer, and for how long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use http::{StatusCode, header};
use serde_json::Value;

use crate::control::Control;
use crate::keyed::whole;
use crate::keys::{Caller, Hash, Proof};
use crate::scope;

/// How often a key is looked at while something of its lasts.
const LOOK: Duration = Duration::from_millis(500);

/// Lets a stream last no longer than the key that it was asked for with.
pub(crate) fn as_long_as_the_key(
    control: &Control,
    hash: Hash,
    caller: Arc<Caller>,
    response: Response,
) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let revoked = Box::pin(revoked(control.clone(), hash, caller));
    response.map(|body| cut_off(body, revoked))
}

/// Takes tokens from what whoever may only look sees.
pub(crate) async fn cleared(caller: &Caller, response: Response) -> Response {
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.starts_with("application/json")));
    if !is_json || !scope::only_looks(&caller.proven.scopes) {
        return response;
    }
    let Some((mut parts, body)) = whole(response).await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let Ok(mut value) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    scope::clear(&mut value);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(value.to_string()))
}

/// Resolves when the key is not this tenant's any more.
async fn revoked(control: Control, hash: Hash, caller: Arc<Caller>) {
    loop {
        tokio::time::sleep(LOOK).await;
        // While nobody can say, nothing is cut off.
        match control.proofs().prove(control.store(), &hash, None).await {
            Ok(Proof::Unknown) => return,
            Ok(Proof::Of(known)) if known.proven.tenant != caller.proven.tenant => return,
            _ => {}
        }
    }
}

/// Breaks the stream off, so that nobody takes what came for the whole.
fn cut_off(body: Body, revoked: Pin<Box<dyn Future<Output = ()> + Send>>) -> Body {
    let start = Some((body.into_data_stream(), revoked));
    Body::from_stream(stream::unfold(start, async |state| {
        let (mut body, mut revoked) = state?;
        tokio::select! {
            piece = body.next() => {
                let piece = piece?.map_err(io::Error::other);
                Some((piece, Some((body, revoked))))
            }
            () = &mut revoked => Some((Err(io::Error::other("the key was revoked")), None)),
        }
    }))
}

//! Links to files that work without a token in a header.
//!
//! A link carries a hash over path, operation, user, the sandbox's token and,
//! if it expires, when. Only who has the token can make one.

use std::sync::Arc;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use belljar_domain::target::is_link_signature;
use belljar_sandboxes::{Actions, Sandbox, now};
use http::{Method, Request};
use sha2::{Digest as _, Sha256};

use super::files::Query;

/// The sandbox whose token made the signature of this request. Such links name
/// no sandbox when all of them share one address.
pub(crate) fn find(actions: &Actions, request: &Request<Body>) -> Option<Arc<Sandbox>> {
    let query = Query::of(request.uri());
    // It is compared with one of each sandbox, so what can be none is not compared at all.
    query.signature.as_deref().filter(|given| is_link_signature(given))?;
    let operation = operation(request.method());
    let made =
        |sandbox: &Arc<Sandbox>| query.is_signed_with(operation, sandbox.facts().token.expose());
    actions.registry().all().into_iter().find(made)
}

/// Whether a request for a file may be served: by its token or its signature.
pub(super) fn admits(sandbox: &Sandbox, request: &Request<Body>) -> Result<(), &'static str> {
    let token = &sandbox.facts().token;
    if let Some(given) = request.headers().get("x-access-token") {
        let fits = given.to_str().is_ok_and(|given| token.is(given));
        return if fits {
            Ok(())
        } else {
            Err("access token present in header but does not match")
        };
    }
    let query = Query::of(request.uri());
    if query.signature.is_none() {
        return Err("missing signature query parameter");
    }
    if !query.is_signed_with(operation(request.method()), token.expose()) {
        return Err("invalid signature");
    }
    let expired = match query.expiration.as_deref().map(str::parse::<i64>) {
        None => false,
        Some(Ok(expiration)) => expiration < now().unix(),
        Some(Err(_)) => return Err("invalid signature"),
    };
    if expired { Err("signature is already expired") } else { Ok(()) }
}

fn operation(method: &Method) -> &'static str {
    if method == Method::GET { "read" } else { "write" }
}

impl Query {
    fn is_signed_with(&self, operation: &str, token: &str) -> bool {
        let given = self.signature.as_deref().unwrap_or_default();
        let (path, user) = (self.path.as_deref(), self.username.as_deref());
        let made = sign(
            path.unwrap_or_default(),
            operation,
            user.unwrap_or_default(),
            token,
            self.expiration.as_deref(),
        );
        same(made.as_bytes(), given.as_bytes())
    }
}

fn sign(path: &str, operation: &str, user: &str, token: &str, expiration: Option<&str>) -> String {
    let mut text = format!("{path}:{operation}:{user}:{token}");
    if let Some(expiration) = expiration {
        text.push(':');
        text.push_str(expiration);
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)))
}

/// Compares in a time that does not tell how much of it fits.
fn same(made: &[u8], given: &[u8]) -> bool {
    let differing = made.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differing) == 0 && made.len() == given.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with `hashlib` and `base64` of Python, as the SDK makes them.
    #[test]
    fn signatures_are_those_of_the_sdk() {
        assert_eq!(
            sign("/home/user/a.txt", "read", "", "secret", None),
            "v1_HEW7fDvq8wDd0bCgcYpP4vKMGjo6waU8ir2ibcmhKGY"
        );
        assert_eq!(
            sign("a b", "write", "root", "secret", Some("1700000000")),
            "v1_96zVQOyyMQE95YQLWNrXVsAghDYQwawtvd4YKZUf8eQ"
        );
    }

    #[test]
    fn a_signature_is_good_for_what_it_was_made_for_only() {
        let signature = sign("a", "read", "", "secret", Some("5"));
        let query = |path: &str, expiration: Option<&str>| Query {
            path: Some(path.to_owned()),
            username: None,
            signature: Some(signature.clone()),
            expiration: expiration.map(str::to_owned),
        };
        assert!(query("a", Some("5")).is_signed_with("read", "secret"));
        assert!(!query("a", Some("5")).is_signed_with("write", "secret"));
        assert!(!query("a", Some("5")).is_signed_with("read", "other"));
        assert!(!query("b", Some("5")).is_signed_with("read", "secret"));
        assert!(!query("a", Some("6")).is_signed_with("read", "secret"));
        assert!(!query("a", None).is_signed_with("read", "secret"));
        let unsigned = Query { signature: Some(String::new()), ..query("a", Some("5")) };
        assert!(!unsigned.is_signed_with("read", "secret"));
    }
}

//! The Content-Security-Policy of a page.

use crate::digest;

/// The policy inside of the page: no script, no request, no style but ours.
pub(crate) fn of_page(styles: &str) -> String {
    let hash = digest::base64(styles.as_bytes());
    format!(
        "default-src 'none'; img-src data:; style-src 'sha256-{hash}'; base-uri 'none'; \
         form-action 'none'"
    )
}

/// The policy of a response: also no frame around it, and an origin of its own, so that the page
/// has nothing of the server that it came from.
pub(crate) fn of_response(styles: &str) -> String {
    format!("{}; frame-ancestors 'none'; sandbox", of_page(styles))
}

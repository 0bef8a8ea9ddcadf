//! Packages: indexes that may be read, the files that they promise, and a cache.
//!
//! ```text
//!   a promised file ─► cache ─┬─ there: answered, nothing goes out
//!                             └─ not there: fetched once, checked, kept
//!   below an index ──► the world ─► pages are read; what they name is promised
//!   anything else ───► the world, if the rest of the policy allows it
//! ```
//!
//! A tape runs around all of it: what is recorded is what the sandbox received,
//! from wherever it came.

mod access;
mod file;
mod keeper;
mod page;

use std::sync::Arc;

use belljar_packages::{Digest, Index, Manager, Trust, Url};
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LOCATION, RANGE,
};
use http::{Method, Request, Response};

use crate::body::Inner;
use crate::forward::{Outcome, Sending, pass_back};
use crate::upstream::Place;
pub(crate) use access::Access;
pub(crate) use keeper::Keeper;

/// What a request is about, as far as packages are concerned.
#[derive(Debug)]
enum About {
    /// A promised file whose digest is known, wanted as a whole.
    File(Url, Digest),
    /// A promised file that the cache can do nothing about.
    Unkept(Url),
    Page(Url, Index),
    Other,
}

impl Access {
    /// Answers a request that may leave.
    pub(crate) async fn serve(self: &Arc<Self>, mut sending: Sending<'_>) -> Outcome {
        let about = self.about(&sending.place, &sending.request);
        match about {
            About::File(url, digest) => {
                as_it_is(&mut sending.request);
                file::fetch(self, sending, &url, digest).await
            }
            About::Page(url, index) => {
                as_it_is(&mut sending.request);
                page::fetch(self, sending, url, index).await
            }
            About::Unkept(_) | About::Other => match sending.send().await {
                Ok((answer, passing)) => {
                    if let About::Unkept(url) = about {
                        self.follow(&url, &answer);
                    }
                    Outcome::Answered(pass_back(answer, passing))
                }
                Err(answer) => Outcome::Refused(answer),
            },
        }
    }

    fn about(&self, place: &Place, request: &Request<Inner>) -> About {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let Some(url) = url(place, target) else { return About::Other };
        let is_whole = *request.method() == Method::GET && !request.headers().contains_key(RANGE);
        match self.trust(&url) {
            Some(Trust::Digest(digest)) if is_whole => About::File(url, digest),
            Some(_) => About::Unkept(url),
            None if is_whole => match self.index_above(&url) {
                // Others have no pages that promise anything.
                Some(index) if !matches!(index.manager, Manager::Apt | Manager::Go) => {
                    About::Page(url, index.clone())
                }
                _ => About::Other,
            },
            None => About::Other,
        }
    }

    /// Where a promised file was moved to, it is promised too.
    fn follow<B>(&self, url: &Url, answer: &Response<B>) {
        let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        if let (true, Some(location)) = (answer.status().is_redirection(), location) {
            self.redirect(url, location);
        }
    }
}

/// The URL of a request. None where what is sent could mean another one.
fn url(place: &Place, target: &str) -> Option<Url> {
    let scheme = place.scheme();
    let (host, port) = (place.destination.host.clone(), place.destination.port);
    let url = Url::of_request(scheme, host, port, target).ok()?;
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    (url.path() == path).then_some(url)
}

/// Has the whole answer sent, as it is: one that says "as before" promises
/// nothing, and one that is packed cannot be read or checked.
fn as_it_is(request: &mut Request<Inner>) {
    const CONDITIONS: [HeaderName; 5] =
        [IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE];
    // What is only read takes nothing along.
    *request.body_mut() = Inner::Empty;
    for name in CONDITIONS {
        request.headers_mut().remove(name);
    }
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

fn is_packed(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().any(|value| value != "identity")
}

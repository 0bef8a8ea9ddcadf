//! Pages of an index: read as a whole before they are passed on, so that what
//! they promise may be asked for as soon as the client knows of it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use belljar_domain::network::Reason;
use belljar_packages::promise::MOST_BYTES;
use belljar_packages::{Index, Manager, Url};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::sync::OwnedSemaphorePermit;

use super::{Access, is_packed};
use crate::answer::Refusal;
use crate::body::AnswerBody;
use crate::forward::{Outcome, Sending, pass_back};

/// Pages up to this size do not wait for others to leave memory.
const SMALL: usize = 1 << 20;

pub(super) async fn fetch(
    access: &Arc<Access>,
    sending: Sending<'_>,
    url: Url,
    index: Index,
) -> Outcome {
    let host = sending.place.destination.host.clone();
    let (answer, passing) = match sending.send().await {
        Ok(answered) => answered,
        Err(answer) => return Outcome::Refused(answer),
    };
    let is_page = answer.status() == StatusCode::OK
        && !is_packed(answer.headers())
        && may_promise(index.manager, answer.headers())
        && answer.body().size_hint().lower() <= MOST_BYTES as u64;
    let answer = pass_back(answer, passing);
    if !is_page {
        return Outcome::Answered(answer);
    }
    let (parts, body) = answer.into_parts();
    let Ok(page) = whole(access, body).await else {
        // Nothing of it was passed on yet.
        return Outcome::Refused(Refusal::new(Reason::Upstream, Some(host)).answer());
    };
    if page.rest.is_none() {
        let content_type = text(&parts.headers).map(str::to_owned);
        let (access, bytes) = (Arc::clone(access), page.read.clone());
        let learning = tokio::task::spawn_blocking(move || {
            access.learn(&index, &url, content_type.as_deref(), &bytes)
        });
        if let Ok(Err(error)) = learning.await {
            tracing::warn!(%error, "cannot parse index page");
        }
    }
    Outcome::Answered(Response::from_parts(parts, page.boxed_unsync()))
}

fn text(headers: &HeaderMap) -> Option<&str> {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok())
}

/// Whether an answer can be a page, by its type: files lie below indexes too,
/// and are not to be waited for.
fn may_promise(manager: Manager, headers: &HeaderMap) -> bool {
    let text = text(headers).unwrap_or_default().to_ascii_lowercase();
    match manager {
        Manager::Pip => text.contains("html") || text.contains("json"),
        Manager::Npm => text.contains("json"),
        Manager::Cargo => true,
        Manager::Apt | Manager::Go => false,
    }
}

/// Reads until the end, or until it is more than any page has.
async fn whole(access: &Access, mut body: AnswerBody) -> io::Result<Read> {
    let mut read = BytesMut::new();
    let mut permit = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        read.extend_from_slice(&data);
        if read.len() > SMALL && permit.is_none() {
            permit = Arc::clone(&access.large_pages).acquire_owned().await.ok();
        }
        if read.len() > MOST_BYTES {
            return Ok(Read { read: read.freeze(), rest: Some(body), _permit: permit });
        }
    }
    Ok(Read { read: read.freeze(), rest: None, _permit: permit })
}

/// A page that was read, and what it takes up until it is passed on.
struct Read {
    read: Bytes,
    rest: Option<AnswerBody>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Body for Read {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if !this.read.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.read)))));
        }
        match &mut this.rest {
            Some(rest) => Poll::Ready(ready!(Pin::new(rest).poll_frame(context))),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.len() as u64;
        match self.rest.as_ref().map(|rest| rest.size_hint().exact()) {
            None => SizeHint::with_exact(read),
            Some(Some(rest)) => SizeHint::with_exact(read + rest),
            Some(None) => SizeHint::default(),
        }
    }
}

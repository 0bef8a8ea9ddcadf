//! `PUT /v1/sandboxes/{sandbox}/files/content`

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Json;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::State;
use belljar_api::file as api;
use belljar_sandboxes::Actions;
use futures_util::Stream as _;
use tokio::io::{AsyncRead, ReadBuf};

use super::files_of;
use crate::v1::authenticate::Caller;
use crate::v1::calls::reach;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Query};

pub(in crate::v1) async fn write(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Query(query): Query<api::FileQuery>,
    body: Body,
) -> Result<Json<api::Written>, Failure> {
    let (sandbox, live) = reach(&actions, &tenant, &id).await?;
    let files = files_of(&live, &sandbox, query.user);
    let path = files.resolve(query.path.as_str())?;
    let mut source = Source::new(body);
    files.write(&path, &[], &mut source).await?;
    Ok(Json(api::Written { path, bytes: source.total }))
}

/// A body, read piece by piece. One that breaks off is an error, so that half
/// a file never takes the place of a whole one.
pub(in crate::v1) struct Source {
    body: BodyDataStream,
    piece: Bytes,
    total: u64,
}

impl Source {
    pub(in crate::v1) fn new(body: Body) -> Self {
        Self { body: body.into_data_stream(), piece: Bytes::new(), total: 0 }
    }
}

impl AsyncRead for Source {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.piece.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_next(cx)) {
                Some(piece) => this.piece = piece.map_err(io::Error::other)?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = this.piece.len().min(buffer.remaining());
        buffer.put_slice(&this.piece.split_to(count));
        this.total += count as u64;
        Poll::Ready(Ok(()))
    }
}

//! `GET` and `PUT /v1/sandboxes/{sandbox}/cassette`

use std::fs::File;
use std::io::{self, Seek as _};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::IntoResponse;
use belljar_sandboxes::{Actions, Problem};
use futures_util::stream;
use http::{StatusCode, header};
use tokio::io::AsyncReadExt as _;
use tokio::sync::oneshot;

use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::files::Source;
use crate::v1::read::At;

/// The longest archive that is taken.
const MAX_ARCHIVE_BYTES: u64 = 1 << 30;
/// An archive comes, or is taken, within this time.
const MAX_BODY_TIME: Duration = Duration::from_secs(600);
/// Bytes of an archive that are sent at once.
const PIECE_BYTES: usize = 256 << 10;

pub(in crate::v1) async fn read_cassette(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<impl IntoResponse, Failure> {
    let transfer = actions.begin_cassette_read(&tenant, &id).await?;
    let archive = actions.new_archive()?;
    actions.read_cassette(&tenant, &id, same(&archive)?).await?;
    let size = rewound(&archive)?;
    let until_sent = hold(transfer, same(&archive)?, MAX_BODY_TIME);
    let from = (tokio::fs::File::from_std(archive), until_sent);
    let body = Body::from_stream(stream::try_unfold(from, async |(mut file, until_sent)| {
        let mut piece = vec![0; PIECE_BYTES];
        let count = file.read(&mut piece).await?;
        piece.truncate(count);
        Ok::<_, io::Error>((count > 0).then(|| (Bytes::from(piece), (file, until_sent))))
    }));
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_DISPOSITION, "attachment".to_owned()),
    ];
    Ok((headers, body))
}

pub(in crate::v1) async fn write_cassette(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    body: Body,
) -> Result<StatusCode, Failure> {
    let _transfer = actions.begin_cassette_write(&tenant, &id).await?;
    let archive = actions.new_archive()?;
    let mut file = tokio::fs::File::from_std(same(&archive)?);
    let mut source = Source::new(body).take(MAX_ARCHIVE_BYTES + 1);
    let taken = tokio::time::timeout(MAX_BODY_TIME, tokio::io::copy(&mut source, &mut file));
    let taken = taken.await.unwrap_or_else(|late| Err(late.into()));
    let flushed = match taken {
        Ok(bytes) if bytes > MAX_ARCHIVE_BYTES => {
            let message = "the archive is too large";
            return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message));
        }
        Ok(_) => tokio::io::AsyncWriteExt::flush(&mut file).await,
        Err(error) => Err(error),
    };
    flushed.map_err(|_| {
        let message = "the body is incomplete, or took too long";
        Failure::new(StatusCode::BAD_REQUEST, "unreadable_body", message)
    })?;
    rewound(&archive)?;
    actions.write_cassette(&tenant, &id, archive).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Holds `transfer` until what is returned is dropped. A client that reads no further keeps neither
/// it nor the disk: after `most`, the archive is cut.
fn hold<T: Send + 'static>(transfer: T, archive: File, most: Duration) -> oneshot::Sender<()> {
    let (until_sent, sent) = oneshot::channel();
    tokio::spawn(async move {
        if tokio::time::timeout(most, sent).await.is_err() {
            // The response ends before its length, which tells the client.
            let _ = archive.set_len(0);
        }
        drop(transfer);
    });
    until_sent
}

fn same(archive: &File) -> Result<File, Problem> {
    archive.try_clone().map_err(|error| Problem::internal("use the archive", &error))
}

/// Its length, and the file at its beginning.
fn rewound(mut archive: &File) -> Result<u64, Problem> {
    let length = archive.rewind().and_then(|()| archive.metadata());
    Ok(length.map_err(|error| Problem::internal("use the archive", &error))?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_reads_no_further_keeps_nothing() {
        for (is_read, most) in [(false, Duration::from_millis(10)), (true, MAX_BODY_TIME)] {
            let archive = tempfile::tempfile().unwrap();
            archive.set_len(100).unwrap();
            let (transfer, mut ended) = tokio::sync::mpsc::channel::<()>(1);
            let until_sent = hold(transfer, same(&archive).unwrap(), most);
            if is_read {
                drop(until_sent);
                assert_eq!(ended.recv().await, None);
                assert_eq!(archive.metadata().unwrap().len(), 100);
            } else {
                assert_eq!(ended.recv().await, None);
                assert_eq!(archive.metadata().unwrap().len(), 0);
                drop(until_sent);
            }
        }
    }
}

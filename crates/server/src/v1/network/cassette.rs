//! `GET` and `PUT /v1/sandboxes/{sandbox}/cassette`

use std::fs::File;
use std::io::{self, Seek as _};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::IntoResponse;
use belljar_actions::{Actions, Problem};
use futures_util::stream;
use http::{StatusCode, header};
use tokio::io::AsyncReadExt as _;

use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::files::Source;
use crate::v1::read::At;

/// The longest archive that is taken.
const MAX_ARCHIVE_BYTES: u64 = 1 << 30;
/// Bytes of an archive that are sent at once.
const PIECE_BYTES: usize = 256 << 10;

pub(in crate::v1) async fn read_cassette(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<impl IntoResponse, Failure> {
    actions.registry().find(&tenant, &id)?;
    let archive = actions.new_archive()?;
    actions.read_cassette(&tenant, &id, same(&archive)?).await?;
    let size = rewound(&archive)?;
    let file = tokio::fs::File::from_std(archive);
    let body = Body::from_stream(stream::try_unfold(file, async |mut file| {
        let mut piece = vec![0; PIECE_BYTES];
        let count = file.read(&mut piece).await?;
        piece.truncate(count);
        Ok::<_, io::Error>((count > 0).then(|| (Bytes::from(piece), file)))
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
    actions.registry().find(&tenant, &id)?;
    let archive = actions.new_archive()?;
    let mut file = tokio::fs::File::from_std(same(&archive)?);
    let mut source = Source::new(body).take(MAX_ARCHIVE_BYTES + 1);
    let taken = tokio::io::copy(&mut source, &mut file).await;
    let flushed = match taken {
        Ok(bytes) if bytes > MAX_ARCHIVE_BYTES => {
            let message = "the archive is too large";
            return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message));
        }
        Ok(_) => tokio::io::AsyncWriteExt::flush(&mut file).await,
        Err(error) => Err(error),
    };
    flushed.map_err(|_| {
        Failure::new(StatusCode::BAD_REQUEST, "unreadable_body", "the body is incomplete")
    })?;
    rewound(&archive)?;
    actions.write_cassette(&tenant, &id, archive).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn same(archive: &File) -> Result<File, Problem> {
    archive.try_clone().map_err(|error| Problem::internal("use the archive", &error))
}

/// Its length, and the file at its beginning.
fn rewound(mut archive: &File) -> Result<u64, Problem> {
    let length = archive.rewind().and_then(|()| archive.metadata());
    Ok(length.map_err(|error| Problem::internal("use the archive", &error))?.len())
}

//! Files of a sandbox, as streams.

use std::io;

use belljar_api::Operation;
use belljar_api::file::{Entry, EntryList, FileQuery, ListQuery, MakeDirectory, MoveFile, Written};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use http::{HeaderValue, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};

use crate::error::{Error, Protocol, Transport};
use crate::sandbox::Sandbox;
use crate::server::Body;

/// A file on its way.
#[derive(Debug)]
pub struct FileBody {
    body: Body,
    size: Option<u64>,
    read: u64,
}

impl Sandbox {
    pub async fn read_file(&self, path: &str) -> Result<FileBody, Error> {
        let asking = self.ask(Operation::ReadFile).query(&self.named(path)?)?;
        Ok(FileBody::of(self.client.open(asking).await?))
    }

    /// Writes a file; it appears under its name only when it is complete.
    pub async fn write_file(&self, path: &str, bytes: impl Into<Bytes>) -> Result<Written, Error> {
        let body = Full::new(bytes.into()).map_err(|never| match never {});
        self.send_file(path, body.boxed_unsync()).await
    }

    /// The same, from pieces that come. One that is an error breaks the upload off, and
    /// nothing is written.
    pub async fn stream_file(
        &self,
        path: &str,
        pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Result<Written, Error> {
        let frames = pieces.map(|piece| piece.map(Frame::data).map_err(Into::into));
        self.send_file(path, StreamBody::new(frames).boxed_unsync()).await
    }

    async fn send_file(&self, path: &str, body: Body) -> Result<Written, Error> {
        let kind = HeaderValue::from_static("application/octet-stream");
        let asking = self.ask(Operation::WriteFile).query(&self.named(path)?)?.body(body);
        self.client.value(asking.header(header::CONTENT_TYPE, kind)).await
    }

    /// One file, directory or link.
    pub async fn stat_file(&self, path: &str) -> Result<Entry, Error> {
        self.client.value(self.ask(Operation::StatFile).query(&self.named(path)?)?).await
    }

    /// What is in a directory, so many levels deep.
    pub async fn list_files(&self, path: &str, depth: u64) -> Result<Vec<Entry>, Error> {
        let query = ListQuery {
            path: Some(path.to_owned().try_into()?),
            user: self.user,
            depth: Some(depth.try_into()?),
        };
        let list = self.client.value::<EntryList>(self.ask(Operation::ListFiles).query(&query)?);
        Ok(list.await?.items)
    }

    /// Removes a file or a whole tree; what is not there need not be removed.
    pub async fn delete_file(&self, path: &str) -> Result<(), Error> {
        self.client.nothing(self.ask(Operation::DeleteFile).query(&self.named(path)?)?).await
    }

    /// Makes a directory and its parents.
    pub async fn make_directory(&self, path: &str) -> Result<Entry, Error> {
        let wish = MakeDirectory { path: path.to_owned().try_into()?, user: self.user };
        self.client.value(self.ask(Operation::MakeDirectory).json(&wish)?).await
    }

    pub async fn move_file(&self, from: &str, to: &str) -> Result<Entry, Error> {
        let (from, to) = (from.to_owned().try_into()?, to.to_owned().try_into()?);
        let wish = MoveFile { from, to, user: self.user };
        self.client.value(self.ask(Operation::MoveFile).json(&wish)?).await
    }

    fn named(&self, path: &str) -> Result<FileQuery, Error> {
        Ok(FileQuery { path: path.to_owned().try_into()?, user: self.user })
    }
}

impl FileBody {
    pub(crate) fn of(answer: http::Response<Body>) -> Self {
        let size = answer.headers().get(header::CONTENT_LENGTH);
        let size = size.and_then(|size| size.to_str().ok()?.parse().ok());
        Self { body: answer.into_body(), size, read: 0 }
    }

    /// How long the file is, if the server said so.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The next piece; none at the end of the file. A file that changes meanwhile is
    /// an error, and so is one that does not come as a whole.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(bytes) = frame.map_err(Transport::BrokeOff)?.into_data()
                && !bytes.is_empty()
            {
                self.read += bytes.len() as u64;
                return Ok(Some(bytes));
            }
        }
        match self.size {
            Some(size) if self.read != size => {
                Err(Transport::BrokeOff("the file is incomplete".into()).into())
            }
            _ => Ok(None),
        }
    }

    /// All of it, if that is no more than this.
    pub async fn bytes(mut self, most: usize) -> Result<Bytes, Error> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.next().await? {
            if all.len() + piece.len() > most {
                return Err(Protocol::LongBody(most).into());
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }
}

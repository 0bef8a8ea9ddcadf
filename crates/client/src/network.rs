//! What a sandbox reaches, and what became of it.

use std::io;

use belljar_api::Operation;
use belljar_api::network::{
    Connection, ConnectionPage, CreateToken, ListConnections, Network, NetworkShown, Token,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderValue, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};

use crate::error::Error;
use crate::events::Events;
use crate::file::FileBody;
use crate::sandbox::Sandbox;

/// Rows, also those that are made from now on.
#[derive(Debug)]
pub struct Connections(Events<Connection>);

impl Sandbox {
    pub async fn network(&self) -> Result<NetworkShown, Error> {
        self.client.value(self.ask(Operation::GetNetwork)).await
    }

    /// Changes what it may reach; what it may not any more is cut.
    pub async fn set_network(&self, network: &Network) -> Result<NetworkShown, Error> {
        self.client.value(self.ask(Operation::SetNetwork).json(network)?).await
    }

    /// The cassette that is named after the sandbox, as an archive.
    pub async fn read_cassette(&self) -> Result<FileBody, Error> {
        let answer = self.client.open(self.ask(Operation::ReadCassette)).await?;
        Ok(FileBody::of(answer))
    }

    /// Writes the cassette that is named after the sandbox, from pieces of an archive.
    pub async fn write_cassette(
        &self,
        pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Result<(), Error> {
        let frames = pieces.map(|piece| piece.map(Frame::data).map_err(Into::into));
        let kind = HeaderValue::from_static("application/octet-stream");
        let asking = self.ask(Operation::WriteCassette).header(header::CONTENT_TYPE, kind);
        self.client.nothing(asking.body(StreamBody::new(frames).boxed_unsync())).await
    }

    /// One page of what it asked for, also after its end.
    pub async fn connections(&self, query: &ListConnections) -> Result<ConnectionPage, Error> {
        self.client.value(self.ask(Operation::ListConnections).query(query)?).await
    }

    /// The same as a stream, which ends with the sandbox.
    pub async fn follow_connections(&self, query: &ListConnections) -> Result<Connections, Error> {
        let asking = self.ask(Operation::ListConnections).query(query)?.streamed();
        Ok(Connections(Events::new(self.client.open(asking).await?.into_body())))
    }

    /// Makes a token for operations of the gateway; it is shown only now.
    pub async fn create_token(&self, wish: &CreateToken) -> Result<Token, Error> {
        self.client.value(self.ask(Operation::CreateToken).json(wish)?).await
    }
}

impl Connections {
    /// The next row; none when there will be no more.
    pub async fn next(&mut self) -> Result<Option<Connection>, Error> {
        self.0.next().await
    }
}

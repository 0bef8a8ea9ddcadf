//! A tenant's way to a server.

use std::sync::Arc;

use belljar_api::{Envelope, Operation, checkpoint, sandbox, service, template, turn};
use bytes::{Bytes, BytesMut};
use http::Response;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;

use crate::error::{Error, Problem, Protocol, Transport};
use crate::key::Key;
use crate::request::Asking;
use crate::sandbox::Sandbox;
use crate::server::{Body, Server};

/// The longest answer that is read as a whole. Files and events are streams.
const LONGEST: usize = 64 << 20;

/// What can be asked of a server; cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    server: Arc<dyn Server>,
}

impl Client {
    pub fn new(server: impl Server + 'static) -> Self {
        Self { server: Arc::new(server) }
    }

    /// A sandbox that there is.
    pub fn sandbox(&self, id: &str) -> Sandbox {
        Sandbox::new(self.clone(), id)
    }

    /// Makes a sandbox; it takes calls when this answers. With a key it is made once,
    /// however often it is asked for within ten minutes.
    pub async fn create(
        &self,
        wish: &sandbox::CreateSandbox,
        key: Option<&Key>,
    ) -> Result<sandbox::Sandbox, Error> {
        self.value(Asking::new(Operation::CreateSandbox, &[]).json(wish)?.once(key)).await
    }

    /// One page of the tenant's sandboxes.
    pub async fn sandboxes(
        &self,
        query: &sandbox::ListSandboxes,
    ) -> Result<sandbox::SandboxPage, Error> {
        self.value(Asking::new(Operation::ListSandboxes, &[]).query(query)?).await
    }

    /// How the last sandboxes ended, the newest first.
    pub async fn ended(&self, query: &sandbox::ListEnded) -> Result<sandbox::EndedList, Error> {
        self.value(Asking::new(Operation::ListEnded, &[]).query(query)?).await
    }

    /// One page of the tenant's checkpoints, the newest first.
    pub async fn checkpoints(
        &self,
        query: &checkpoint::ListCheckpoints,
    ) -> Result<checkpoint::CheckpointPage, Error> {
        self.value(Asking::new(Operation::ListCheckpoints, &[]).query(query)?).await
    }

    /// Makes a sandbox that is what another was at a checkpoint.
    pub async fn fork_checkpoint(
        &self,
        checkpoint: &str,
        wish: &checkpoint::ForkCheckpoint,
    ) -> Result<sandbox::Sandbox, Error> {
        self.value(Asking::new(Operation::ForkCheckpoint, &[checkpoint]).json(wish)?).await
    }

    pub async fn delete_checkpoint(&self, checkpoint: &str) -> Result<(), Error> {
        self.nothing(Asking::new(Operation::DeleteCheckpoint, &[checkpoint])).await
    }

    pub async fn templates(&self) -> Result<template::TemplateList, Error> {
        self.value(Asking::new(Operation::ListTemplates, &[])).await
    }

    /// One template, by any of its names.
    pub async fn template(&self, name: &str) -> Result<template::Template, Error> {
        self.value(Asking::new(Operation::GetTemplate, &[name])).await
    }

    /// Returns one turn of a run of the caller's.
    pub async fn turn(&self, run: &str, number: u32) -> Result<turn::Turn, Error> {
        self.value(Asking::new(Operation::GetTurn, &[run, &number.to_string()])).await
    }

    /// Whether sandboxes can be made.
    pub async fn ready(&self) -> Result<service::Health, Error> {
        self.value(Asking::new(Operation::Ready, &[])).await
    }

    /// An answer that is JSON.
    pub(crate) async fn value<T: DeserializeOwned>(&self, asking: Asking) -> Result<T, Error> {
        let body = self.open(asking).await?.into_body();
        Ok(serde_json::from_slice(&whole(body).await?).map_err(Protocol::Json)?)
    }

    /// An answer that is a file.
    pub(crate) async fn bytes(&self, asking: Asking) -> Result<Bytes, Error> {
        whole(self.open(asking).await?.into_body()).await
    }

    /// An answer without anything in it.
    pub(crate) async fn nothing(&self, asking: Asking) -> Result<(), Error> {
        whole(self.open(asking).await?.into_body()).await.map(drop)
    }

    /// An answer that means that it was done, or is being done.
    pub(crate) async fn open(&self, asking: Asking) -> Result<Response<Body>, Error> {
        let answer = self.server.send(asking.request()?).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let said: Result<Envelope, _> = serde_json::from_slice(&whole(body).await?);
        match said {
            Ok(said) => Err(Problem::new(head.status, &head.headers, said).into()),
            // Whoever answers this is no server of ours, or something before it.
            Err(_) => Err(Protocol::Status(head.status).into()),
        }
    }
}

/// Frame by frame: `Limited` asks for a conversion of errors of any lifetime, which the
/// compiler cannot see to be there in a future that changes threads.
async fn whole(mut body: Body) -> Result<Bytes, Error> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(Transport::BrokeOff)?;
        let Ok(piece) = frame.into_data() else { continue };
        if read.len() + piece.len() > LONGEST {
            return Err(Protocol::LongBody(LONGEST).into());
        }
        read.extend_from_slice(&piece);
    }
    Ok(read.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever asks may do so on any thread.
    #[test]
    fn what_is_asked_can_change_threads() {
        fn changes_threads(_: impl Send) {}
        let ask = |client: &Client, sandbox: &Sandbox| {
            changes_threads(client.templates());
            changes_threads(sandbox.read_file("x"));
            changes_threads(sandbox.write_file("x", "y"));
        };
        let _ = ask;
    }
}

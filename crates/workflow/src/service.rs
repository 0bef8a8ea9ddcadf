//! The operations on workflows that surfaces offer.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::Duration;

use belljar_client::Client;
use belljar_domain::OperationCaps;
use belljar_journal::{
    Failure, NewWorkflow, WorkflowAddress, WorkflowCreated, WorkflowRecord, WorkflowRow,
    WorkflowStore,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::task::JoinError;

use crate::definition::InputKind;
use crate::memory;
use crate::record::{Event, FileRef, StepValue};
use crate::resolve::{MAX_VALUE_BYTES, check_depth};
use crate::state::{State, StateError};
use crate::validate::{DefinitionError, check};

/// The longest file that steps pass on.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// Workflows that are read at the same time to be shown: each may have many megabytes of events.
const READ_AT_ONCE: usize = 4;

/// A file could not be kept or read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FileError(pub String);

/// The files of tenants, by digest.
pub trait FileStore: fmt::Debug + Send + Sync {
    /// Keeps a file and returns its digest, in hexadecimal digits.
    fn put<'a>(
        &'a self,
        tenant: &'a str,
        content: Bytes,
    ) -> BoxFuture<'a, Result<String, FileError>>;

    /// Reads a file of at most [`MAX_FILE_BYTES`].
    fn get<'a>(
        &'a self,
        tenant: &'a str,
        sha256: &'a str,
    ) -> BoxFuture<'a, Result<Bytes, FileError>>;
}

/// News for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Workflow { outcome: &'static str },
    Step { kind: &'static str, outcome: &'static str },
}

type Clients = dyn Fn(&str, &OperationCaps) -> Client + Send + Sync;

/// The parts that a process has for workflows.
pub struct Parts {
    pub store: Arc<dyn WorkflowStore>,
    pub files: Arc<dyn FileStore>,
    /// The API as a tenant has it, under these caps.
    pub clients: Box<Clients>,
    pub signal: Box<dyn Fn(Signal) + Send + Sync>,
}

#[derive(Debug, Clone)]
pub struct Settings {
    /// The name of the worker, for the record.
    pub owner: String,
    pub lease: Duration,
    /// Workflows that are worked on here at the same time; none, if 0.
    pub at_once: usize,
    /// Unfinished workflows of one tenant.
    pub most_unfinished: u64,
}

impl Default for Settings {
    fn default() -> Self {
        let lease = Duration::from_secs(15);
        Self { owner: "worker".to_owned(), lease, at_once: 8, most_unfinished: 100 }
    }
}

/// Workflows of all tenants; cheap to clone.
#[derive(Clone)]
pub struct Workflows(Arc<Inner>);

struct Inner {
    parts: Parts,
    settings: Settings,
    bell: Notify,
    reading: Semaphore,
}

/// A workflow to create.
#[derive(Debug, Clone)]
pub struct WantedWorkflow {
    /// The file, in TOML or JSON.
    pub definition: String,
    /// A file's digest, or a value, for each input.
    pub inputs: BTreeMap<String, WantedInput>,
    pub caps: OperationCaps,
    pub key: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum WantedInput {
    File(String),
    Value(Value),
}

/// The reason that a workflow was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateWorkflowError {
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error("{0}")]
    Input(String),
    #[error("this idempotency key was used for another workflow")]
    Mismatch,
    #[error("you have {0} unfinished workflows, the maximum")]
    TooMany(u64),
    #[error("cannot check the workflow's file")]
    Check(#[source] JoinError),
    #[error("there are no random numbers")]
    Random(#[source] io::Error),
    #[error("cannot write the workflow")]
    Encode(#[source] serde_json::Error),
    #[error(transparent)]
    Store(#[from] Failure),
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Workflows {
    pub fn new(parts: Parts, settings: Settings) -> Self {
        let (bell, reading) = (Notify::new(), Semaphore::new(READ_AT_ONCE));
        Self(Arc::new(Inner { parts, settings, bell, reading }))
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn store(&self) -> &dyn WorkflowStore {
        &*self.0.parts.store
    }

    pub fn files(&self) -> &Arc<dyn FileStore> {
        &self.0.parts.files
    }

    pub(crate) fn client(&self, tenant: &str, caps: &OperationCaps) -> Client {
        (self.0.parts.clients)(tenant, caps)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        (self.0.parts.signal)(signal);
    }

    pub(crate) async fn rung(&self) {
        self.0.bell.notified().await;
    }

    /// Creates a workflow. Asked again under the same key, it is the same one: then `true`.
    pub async fn create(
        &self,
        tenant: &str,
        wanted: WantedWorkflow,
    ) -> Result<(String, bool), CreateWorkflowError> {
        let text = wanted.definition.clone();
        let checked = tokio::task::spawn_blocking(move || check(&text)).await;
        let definition = checked.map_err(CreateWorkflowError::Check)??;
        let inputs = self.inputs(tenant, &definition.inputs, wanted.inputs).await?;
        let asked = serde_json::to_string(&(&wanted.definition, &inputs));
        let request = digest(&asked.map_err(CreateWorkflowError::Encode)?);
        let id = match &wanted.key {
            Some(key) => digest(&format!("workflow\n{tenant}\n{key}"))[..32].to_owned(),
            None => random().map_err(CreateWorkflowError::Random)?,
        };
        let id = format!("wf_{id}");
        let (v, caps) = (1, wanted.caps);
        let first = Event::Created {
            v,
            definition: wanted.definition,
            inputs,
            caps,
            request: request.clone(),
        };
        let first = serde_json::to_string(&first).map_err(CreateWorkflowError::Encode)?;
        if first.len() > MAX_VALUE_BYTES {
            return Err(CreateWorkflowError::Input(format!(
                "the file and its inputs are longer than {MAX_VALUE_BYTES} bytes together; upload \
                 files and name their `sha256`"
            )));
        }
        let address = WorkflowAddress { tenant: tenant.to_owned(), id: id.clone() };
        let most_unfinished = self.settings().most_unfinished;
        let new = NewWorkflow { address, name: definition.name, first, most_unfinished };
        match self.store().create(&new).await? {
            WorkflowCreated::Made => {
                belljar_fault::point("workflow.created");
                self.0.bell.notify_one();
                Ok((id, false))
            }
            WorkflowCreated::Already(first) => match serde_json::from_str(&first) {
                Ok(Event::Created { request: before, .. }) if before == request => Ok((id, true)),
                _ => Err(CreateWorkflowError::Mismatch),
            },
            WorkflowCreated::TooMany => Err(CreateWorkflowError::TooMany(most_unfinished)),
        }
    }

    async fn inputs(
        &self,
        tenant: &str,
        known: &BTreeMap<String, InputKind>,
        wanted: BTreeMap<String, WantedInput>,
    ) -> Result<BTreeMap<String, StepValue>, CreateWorkflowError> {
        let refuse = |message: String| Err(CreateWorkflowError::Input(message));
        let mut inputs = BTreeMap::new();
        for (name, input) in wanted {
            let given = match (known.get(&name), input) {
                (None, _) => return refuse(format!("the workflow has no input `{name}`")),
                (Some(InputKind::Value), WantedInput::Value(value)) => {
                    if let Err(error) = check_depth(&value) {
                        return refuse(format!("input `{name}`: {error}"));
                    }
                    StepValue::Value(value)
                }
                (Some(InputKind::File), WantedInput::File(sha256)) => {
                    let _held = memory::hold(MAX_FILE_BYTES as u64).await;
                    let read = self.files().get(tenant, &sha256).await;
                    match read {
                        Ok(content) => {
                            StepValue::File(FileRef { sha256, bytes: content.len() as u64 })
                        }
                        Err(error) => return refuse(format!("input `{name}`: {error}")),
                    }
                }
                (Some(InputKind::File), _) => {
                    return refuse(format!("input `{name}` is a file: give `sha256` or `content`"));
                }
                (Some(InputKind::Value), _) => {
                    return refuse(format!("input `{name}` is a value: give `value`"));
                }
            };
            inputs.insert(name, given);
        }
        match known.keys().find(|name| !inputs.contains_key(*name)) {
            Some(missing) => refuse(format!("input `{missing}` is missing")),
            None => Ok(inputs),
        }
    }

    pub async fn list(&self, tenant: &str, most: usize) -> Result<Vec<WorkflowRow>, Failure> {
        self.store().list(tenant, most).await
    }

    /// Waits for a turn to read a workflow with its events, for as long as the permit lives.
    pub async fn reading(&self) -> Option<SemaphorePermit<'_>> {
        self.0.reading.acquire().await.ok()
    }

    pub async fn find(&self, tenant: &str, id: &str) -> Result<Option<WorkflowRecord>, Failure> {
        self.store().read(&WorkflowAddress { tenant: tenant.to_owned(), id: id.to_owned() }).await
    }

    /// The state that a record tells.
    pub fn state(record: &WorkflowRecord) -> Result<State, StateError> {
        State::of(&record.events)
    }

    /// Requests that a workflow be cancelled. False: there is no such unfinished one.
    pub async fn cancel(&self, tenant: &str, id: &str) -> Result<bool, Failure> {
        let address = WorkflowAddress { tenant: tenant.to_owned(), id: id.to_owned() };
        self.store().cancel(&address).await
    }
}

impl fmt::Debug for Workflows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workflows").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("store", &self.store).finish_non_exhaustive()
    }
}

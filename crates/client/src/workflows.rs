//! Workflows of a server or a platform.

use belljar_api::Operation;
use belljar_api::workflow::{CreateWorkflow, ListWorkflows, Workflow, WorkflowList};
use bytes::Bytes;

use crate::client::Client;
use crate::error::Error;
use crate::key::Key;
use crate::request::Asking;

impl Client {
    /// Creates a workflow. With a key it is created once.
    pub async fn create_workflow(
        &self,
        new: &CreateWorkflow,
        key: Option<&Key>,
    ) -> Result<Workflow, Error> {
        self.value(Asking::new(Operation::CreateWorkflow, &[]).json(new)?.once(key)).await
    }

    pub async fn workflows(&self, query: &ListWorkflows) -> Result<WorkflowList, Error> {
        self.value(Asking::new(Operation::ListWorkflows, &[]).query(query)?).await
    }

    pub async fn workflow(&self, id: &str) -> Result<Workflow, Error> {
        self.value(Asking::new(Operation::GetWorkflow, &[id])).await
    }

    pub async fn cancel_workflow(&self, id: &str) -> Result<Workflow, Error> {
        self.value(Asking::new(Operation::CancelWorkflow, &[id])).await
    }

    /// A file that is an output of a workflow.
    pub async fn workflow_file(&self, id: &str, output: &str) -> Result<Bytes, Error> {
        self.bytes(Asking::new(Operation::ReadWorkflowFile, &[id, output])).await
    }

    /// The drawing of a workflow, as SVG.
    pub async fn workflow_graph(&self, id: &str) -> Result<Bytes, Error> {
        self.bytes(Asking::new(Operation::GraphWorkflow, &[id])).await
    }
}

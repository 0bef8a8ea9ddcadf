//! Requests that wait for an approval.

use belljar_api::Operation;
use belljar_api::approval::{ApprovalList, DecideApproval};

use crate::client::Client;
use crate::error::Error;
use crate::request::Asking;

impl Client {
    /// The requests that wait.
    pub async fn approvals(&self) -> Result<ApprovalList, Error> {
        self.value(Asking::new(Operation::ListApprovals, &[])).await
    }

    pub async fn decide_approval(&self, id: &str, decided: &DecideApproval) -> Result<(), Error> {
        self.nothing(Asking::new(Operation::DecideApproval, &[id]).json(decided)?).await
    }
}

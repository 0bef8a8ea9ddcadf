//! Makes tokens for the node. Nothing inside a sandbox reaches this.

use std::sync::Arc;
use std::time::Duration;

use belljar_peer_proto::gateway::{Grant, Minted};

use crate::budget::{self, Limit};
use crate::session::Session;
use crate::tokens::{self, Scope};

/// Why no token was made.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    #[error("the operation `{0}` is not configured")]
    Unknown(String),
    #[error("this sandbox does not have the operation `{0}`")]
    NotTheirs(String),
    #[error("the token has no operations")]
    Nothing,
    #[error("cannot create a token: {0}")]
    Tokens(String),
}

pub(crate) fn mint(session: &Arc<Session>, grant: Grant) -> Result<Minted, MintError> {
    let live = session.shared.live();
    let desk = &session.shared.desk;
    if grant.operations.is_empty() {
        return Err(MintError::Nothing);
    }
    for name in &grant.operations {
        if live.operations.get(name).is_none() {
            return Err(MintError::Unknown(name.clone()));
        }
        if !session.operations.contains(name) {
            return Err(MintError::NotTheirs(name.clone()));
        }
    }
    tracing::info!(
        sandbox.id = %session.subject.sandbox,
        agent = grant.agent.as_deref().unwrap_or_default(),
        operations = ?grant.operations,
        "token created"
    );
    let path = |name: &String| (name.clone(), format!("{}{name}", super::PREFIX));
    let paths = grant.operations.iter().map(path).collect();
    let limit = grant.budget.map(Limit::from);
    let account = limit.map(|limit| desk.ledger.open(budget::Scope::Token, limit));
    let approvals = grant.approvals.filter(|approvals| !approvals.is_never()).map(Arc::new);
    if approvals.is_some() {
        session.hold_calls();
    }
    let scope = Scope { operations: grant.operations, account, approvals };
    let lifetime = Duration::from_secs(u64::from(grant.seconds));
    let fresh = desk
        .tokens
        .mint(session.owner.clone(), scope, lifetime)
        .map_err(|error: tokens::MintError| MintError::Tokens(error.to_string()))?;
    Ok(Minted { token: fresh.token, expires: fresh.expires, paths })
}

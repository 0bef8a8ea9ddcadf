//! What outlives a change of settings: tokens, accounts, and how much is in hand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_model::SandboxId;
use tokio::sync::Semaphore;

use super::config::Name;
use super::operation::Operation;
use crate::budget::{Account, Amount, Ledger, Lessee, Limit, Refused, Reservation};
use crate::tokens::{Owner, Token, Tokens};

/// Bodies of requests that are kept in memory at the same time, in KiB. Whoever
/// comes when there is no room is told to come back.
const ROOM: usize = 1 << 20;

/// Bodies that are taken apart at the same time. As values they take many times their bytes.
const REWRITES: usize = 4;

/// One for the whole gateway.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) tokens: Tokens,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) room: Arc<Semaphore>,
    pub(super) rewrites: Arc<Semaphore>,
    accounts: Mutex<HashMap<Whose, Arc<Account>>>,
    epochs: AtomicU64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Whose {
    Operation(String),
    Tenant { operation: String, tenant: String },
}

impl Desk {
    /// With a lessee, budgets of operations and tenants are shared with other gateways.
    pub(crate) fn new(lessee: Option<Lessee>) -> Self {
        Self {
            tokens: Tokens::default(),
            ledger: Ledger::with(lessee),
            room: Arc::new(Semaphore::new(ROOM)),
            rewrites: Arc::new(Semaphore::new(REWRITES)),
            accounts: Mutex::default(),
            epochs: AtomicU64::new(0),
        }
    }

    /// Who this sandbox is from now on. Tokens of an earlier time are not its.
    pub(crate) fn owner(&self, sandbox: SandboxId) -> Owner {
        Owner { sandbox, epoch: self.epochs.fetch_add(1, Ordering::Relaxed) }
    }

    /// The operation's account. It goes on when settings are read again, so that
    /// a reload is no way to a new budget.
    pub(super) fn operation_account(
        &self,
        name: &Name,
        limit: Option<Limit>,
    ) -> Option<Arc<Account>> {
        self.account(Whose::Operation(name.as_str().to_owned()), limit)
    }

    fn account(&self, whose: Whose, limit: Option<Limit>) -> Option<Arc<Account>> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        match (accounts.get(&whose), limit) {
            (Some(account), limit) => {
                account.change(limit.unwrap_or_default());
                Some(Arc::clone(account))
            }
            (None, Some(limit)) => {
                let (operation, tenant) = match &whose {
                    Whose::Operation(operation) => (operation, None),
                    Whose::Tenant { operation, tenant } => (operation, Some(tenant.as_str())),
                };
                let account = self.ledger.open_shared(limit, operation, tenant);
                accounts.insert(whose, Arc::clone(&account));
                Some(account)
            }
            (None, None) => None,
        }
    }

    /// Puts the most that a request can cost aside, in every account that it
    /// draws on.
    pub(super) async fn reserve(
        &self,
        operation: &Operation,
        token: &Token,
        tenant: &str,
        most: Amount,
    ) -> Result<Reservation, Refused> {
        let tenants = operation.tenant_limit.and_then(|limit| {
            let operation = operation.name.as_str().to_owned();
            let whose = Whose::Tenant { operation, tenant: tenant.to_owned() };
            self.account(whose, Some(limit))
        });
        let mut accounts = Vec::with_capacity(3);
        accounts.extend(token.scope().account.clone());
        accounts.extend(tenants);
        accounts.extend(operation.account.clone());
        self.ledger.obtain(accounts, most).await
    }
}

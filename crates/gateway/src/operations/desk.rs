//! What outlives a change of settings: tokens, accounts, and how much is in hand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_domain::SandboxId;
use tokio::sync::Semaphore;

use super::config::Name;
use super::operation::Operation;
use crate::budget::{Account, Amount, Ledger, Lessee, Limit, Refused, Reservation};
use crate::room;
use crate::tokens::{Owner, Token, Tokens};

/// Bodies that are taken apart at the same time. As values they take many times their bytes.
const REWRITES: usize = 4;

/// One for the whole gateway.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) tokens: Tokens,
    pub(crate) ledger: Arc<Ledger>,
    /// For bodies of requests. Sandboxes take it through their shares.
    pub(crate) room: Arc<Semaphore>,
    pub(super) rewrites: Arc<Semaphore>,
    accounts: Mutex<HashMap<Whose, Arc<Account>>>,
    epochs: AtomicU64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Whose {
    operation: String,
    tenant: Option<String>,
    /// It is an account of requests in a minute.
    is_rate: bool,
}

impl Whose {
    fn new(operation: &Name, tenant: Option<&str>) -> Self {
        let (operation, tenant) = (operation.as_str().to_owned(), tenant.map(str::to_owned));
        Self { operation, tenant, is_rate: false }
    }
}

impl Desk {
    /// With a lessee, budgets of operations and tenants are shared with other gateways.
    pub(crate) fn new(lessee: Option<Lessee>) -> Self {
        Self {
            tokens: Tokens::default(),
            ledger: Ledger::with(lessee),
            room: room::whole(),
            rewrites: Arc::new(Semaphore::new(REWRITES)),
            accounts: Mutex::default(),
            epochs: AtomicU64::new(0),
        }
    }

    /// Who this sandbox is from now on. Tokens of an earlier time are not its.
    pub(crate) fn owner(&self, sandbox: SandboxId) -> Owner {
        Owner { sandbox, epoch: self.epochs.fetch_add(1, Ordering::Relaxed) }
    }

    /// The operation's accounts. They go on when settings are read again, so that
    /// a reload is no way to a new budget.
    pub(super) fn operation_accounts(
        &self,
        name: &Name,
        limit: Option<Limit>,
    ) -> Vec<Arc<Account>> {
        self.accounts(Whose::new(name, None), limit)
    }

    /// The account of a budget, and that of its rate.
    fn accounts(&self, whose: Whose, limit: Option<Limit>) -> Vec<Arc<Account>> {
        let rate = Whose { is_rate: true, ..whose.clone() };
        let rate = self.account(rate, limit.and_then(Limit::rate));
        self.account(whose, limit).into_iter().chain(rate).collect()
    }

    fn account(&self, whose: Whose, limit: Option<Limit>) -> Option<Arc<Account>> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        match (accounts.get(&whose), limit) {
            (Some(account), limit) => {
                account.change(limit.unwrap_or_default());
                Some(Arc::clone(account))
            }
            (None, Some(limit)) => {
                let (operation, tenant) = (whose.operation.as_str(), whose.tenant.as_deref());
                let account = match whose.is_rate {
                    true => self.ledger.open_rate(limit, operation, tenant)?,
                    false => self.ledger.open_shared(limit, operation, tenant),
                };
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
        let mut accounts = Vec::with_capacity(5);
        accounts.extend(token.scope().account.clone());
        if let Some(limit) = operation.tenant_limit {
            let whose = Whose::new(&operation.name, Some(tenant));
            accounts.extend(self.accounts(whose, Some(limit)));
        }
        accounts.extend(operation.accounts.iter().cloned());
        self.ledger.obtain(accounts, most).await
    }
}

//! The platform's truth: tenants, nodes, sandboxes, calls, money.
//!
//! PostgreSQL holds intent and history; whatever else knows something (a node's
//! memory, a message on the bus) is a hint about it. So every decision is one
//! transaction here, and every change says what it expects to find:
//!
//! ```text
//!   waiting ──place──► starting ──started──► running ◄──resumed──┐
//!      │                  │                    │ └────paused──► paused
//!      └──────────────────┴────────end─────────┴──────────────────┘
//!                                   ▼
//!                                 ended   (for good, with one reason)
//! ```
//!
//! - A change that was made already answers [`Change::Already`], so whoever did
//!   not hear the answer asks again.
//! - A sandbox's epoch grows with each placement, a node's with each registration.
//!   A write under an older one changes nothing and answers [`Change::Stale`]: the
//!   writer is a ghost and must let go of what it holds.
//! - Whatever expires does so on the database's clock.
//! - What others must hear of is written to the outbox in the same transaction.

mod activity;
mod admission;
mod audit;
mod authorities;
mod budgets;
mod change;
mod enrolment;
mod error;
mod figures;
mod keys;
mod ledger;
mod members;
mod migrate;
mod nodes;
mod outbox;
mod prices;
mod read;
mod rows;
mod run_quotas;
mod runs;
mod sandboxes;
mod stored;
mod tenants;
mod webhooks;
mod words;
mod workflows;

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

pub use activity::{Activity, OnNode};
pub use admission::Admitted;
pub use audit::Audited;
pub use authorities::AuthorityRow;
pub use change::Change;
pub use enrolment::{AddedNode, EnrolOutcome};
pub use error::{MigrateError, StoreError};
pub use figures::RunFigures;
pub use keys::{Key, NewKey, Proven, Scope};
pub use ledger::{Charge, Entry, Ledger};
pub use members::{Gone, Heard, Present, Word};
pub use nodes::{LostNode, Node, NodeEnrolment, NodeState, Registered, Registration};
pub use outbox::{Message, Outgoing};
pub use prices::{Bill, Price};
pub use rows::Rows;
pub use run_quotas::TenantRunQuota;
pub use runs::Runs;
pub use sandboxes::{Listed, NewSandbox, Page, Requested, SandboxRow, SandboxState};
pub use stored::{ChargedStorage, MAX_STORED_BYTES, StoredHour, StoredPart};
pub use tenants::{Quota, Tenant, TenantEntry};
pub use webhooks::{SecretSeal, WebhookRows};
pub use words::WordNote;

/// What one statement may take. Longer means that something is wrong, and whoever
/// waits should hear so.
const STATEMENT: &str = "15s";
const LOCK: &str = "5s";
const IDLE_IN_TRANSACTION: &str = "15s";

/// Connections for leases, beside those for everything else. A renewal takes milliseconds.
const LEASE_CONNECTIONS: u32 = 8;

/// A handle on the database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
    /// Connections that only leases use: see [`Store::for_leases`].
    leases: PgPool,
}

impl Store {
    /// Connects with what `url` says, by at most `connections` at a time, and a few more for
    /// leases.
    pub async fn connect(url: &str, connections: u32) -> Result<Self, StoreError> {
        let options: PgConnectOptions = url.parse().map_err(StoreError::Url)?;
        let options = options.application_name("belljar").options([
            ("statement_timeout", STATEMENT),
            ("lock_timeout", LOCK),
            ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION),
            ("timezone", "UTC"),
        ]);
        let bounds = PgPoolOptions::new().acquire_timeout(Duration::from_secs(5));
        let leases = bounds.clone().max_connections(LEASE_CONNECTIONS).idle_timeout(None);
        let leases = leases.connect_lazy_with(options.clone());
        let pool = bounds.max_connections(connections).connect_with(options).await?;
        Ok(Self { pool, leases })
    }

    /// The same database by connections of their own, for leases and what looks after them:
    /// however many requests wait for the others, a node that renews its lease does not.
    pub fn for_leases(&self) -> Self {
        Self { pool: self.leases.clone(), leases: self.leases.clone() }
    }

    /// The most connections at a time, without those for leases.
    pub fn max_connections(&self) -> u32 {
        self.pool.options().get_max_connections()
    }

    /// Brings the tables to what this version needs. Any number of processes may
    /// do so at the same moment.
    pub async fn migrate(&self) -> Result<(), MigrateError> {
        migrate::all(&self.pool).await
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("select 1").execute(&self.pool).await?;
        Ok(())
    }
}

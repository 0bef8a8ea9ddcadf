//! What tests and suites share: real services, started for a test and gone with it; the
//! rule by which a case is run again; and the log of all cases.

mod attempt;
mod case_log;
mod nats;
mod postgres;
mod s3;
#[cfg(feature = "server")]
mod served;
mod starved;
mod templates;

pub use attempt::{Attempt, MAX_ATTEMPTS, Undecided, Verdict, print_retry, run_case};
pub use case_log::{CaseLog, CaseOutcome};
pub use nats::Nats;
pub use postgres::{Postgres, programs};
pub use s3::S3;
#[cfg(feature = "server")]
pub use served::{Served, hook};
pub use starved::Starved;
pub use templates::{lacking, store};

//! What tests and suites share: real services, started for a test and gone with it; the
//! rule by which a case is run again; the log of all cases; and the traces of this program's
//! own engines on the host.

mod attempt;
mod captured_log;
mod case_log;
#[cfg(feature = "flood")]
mod flood;
mod nats;
mod own_engines;
mod ports;
mod postgres;
mod processes;
mod resident;
mod s3;
#[cfg(feature = "server")]
mod served;
mod starved;
mod templates;

pub use attempt::{Attempt, CaseVerdict, MAX_ATTEMPTS, Undecided, print_retry, run_case};
pub use captured_log::CapturedLog;
pub use case_log::{CaseLog, CaseOutcome};
#[cfg(feature = "flood")]
pub use flood::{Flood, Flooded, Flooding};
pub use nats::Nats;
pub use own_engines::{OwnEngines, groups_of_engine, groups_of_sandbox, mounts_of_engines};
pub use ports::{free_port, free_ports};
pub use postgres::{Postgres, programs};
pub use processes::{Process, Processes};
pub use resident::{GROWTH_FLOOR, Resident};
pub use s3::S3;
#[cfg(feature = "server")]
pub use served::{Served, hook};
pub use starved::Starved;
pub use templates::{lacking, store};

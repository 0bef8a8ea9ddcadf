//! Real services, started for a test and gone with it; and whether the machine had
//! time for the test.

mod nats;
mod postgres;
mod s3;
#[cfg(feature = "server")]
mod served;
mod starved;
mod templates;

pub use nats::Nats;
pub use postgres::{Postgres, programs};
pub use s3::S3;
#[cfg(feature = "server")]
pub use served::{Served, hook};
pub use starved::Starved;
pub use templates::{lacking, store};

//! Real services, started for a test and gone with it; and whether the machine had
//! time for the test.

mod nats;
mod postgres;
mod s3;
mod starved;

pub use nats::Nats;
pub use postgres::{Postgres, programs};
pub use s3::S3;
pub use starved::Starved;

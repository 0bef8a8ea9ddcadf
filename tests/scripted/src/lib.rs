//! Stands in for what cannot be here: model providers, hostile servers and
//! name servers, all on loopback, all told by a script what to do.
//!
//! Nothing of Belljar is imitated. [`Model`] speaks the wire protocols of model
//! providers well enough for their own, unmodified clients; [`Hostile`] breaks
//! HTTP on purpose; [`Gullible`] is a cache that believes everybody; [`Names`] is
//! a DNS server that changes its mind. Servers keep what they were asked, so that
//! a test can prove what never left.

mod body;
mod dns;
mod gullible;
mod hostile;
mod io;
mod listen;
mod model;
mod record;
mod script;
mod tls;

pub use dns::{Names, Query, Reply, Transport, Zone};
pub use gullible::Gullible;
pub use hostile::Hostile;
pub use listen::Security;
pub use model::{Bench, Model, Options};
pub use record::{Asked, Record, digest};
pub use script::{Call, Fault, Pick, Scene, Script, Turn, Usage};
pub use tls::Authority;

//! HTTP connections: accepted, bounded, and let go in order.
//!
//! What answers is somebody else's: [`Doors`] hand each request to a function, with
//! the scheme that it came by among its extensions. Servers and control share
//! this, so that both have the same limits and stop in the same order.

mod activity;
mod budget;
mod doors;
pub mod host;
mod impatient;
mod listener;
mod placed;
pub mod tls;

pub use budget::PeerAddress;
pub use doors::{Doors, Settings};
pub use host::HostError;
pub use listener::{IdentifyError, ListenError, Listener};

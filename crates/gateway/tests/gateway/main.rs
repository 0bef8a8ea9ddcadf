//! The gateway with real sockets: clients, servers and a name server on loopback.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client;
mod content;
mod limits;
mod packages;
mod proxy;
mod tape;
mod tunnel;
mod world;

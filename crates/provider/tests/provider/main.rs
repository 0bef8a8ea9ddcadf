//! Clients of models against a server that speaks like their providers, over real
//! connections, and against whatever else could be at the other end.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod faults;
mod gateway;
mod golden;
mod hostile;
mod mutation;
mod prefix;
mod scripts;
mod talk;
mod world;

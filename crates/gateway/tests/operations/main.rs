//! Operations with real sockets: sandboxes' clients, the gateway, and upstreams
//! that follow a script.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod budgets;
mod echoes;
mod git;
mod holds;
mod models;
mod plain;
mod tapes;
mod telemetry;
mod tokens;
mod world;

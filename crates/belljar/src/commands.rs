//! One module for each command; `main::dispatch` lists them.

pub(crate) mod admin;
pub(crate) mod agent;
pub(crate) mod ask;
pub(crate) mod bench;
mod call;
pub(crate) mod cassette;
pub(crate) mod cells;
pub(crate) mod completions;
pub(crate) mod control;
pub(crate) mod dataset;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod env;
pub(crate) mod exec;
mod language;
mod models;
pub(crate) mod node;
mod progress;
pub(crate) mod run;
mod running;
pub(crate) mod runs;
pub(crate) mod serve;
mod server;
pub(crate) mod shell;
pub(crate) mod template;
pub(crate) mod tls;
pub(crate) mod usage;

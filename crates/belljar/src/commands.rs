//! One module for each command; `main::dispatch` lists them.

pub(crate) mod bench;
mod call;
pub(crate) mod cells;
pub(crate) mod doctor;
pub(crate) mod env;
pub(crate) mod exec;
mod language;
mod progress;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod template;
pub(crate) mod tls;

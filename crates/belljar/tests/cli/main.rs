//! The command line, from outside: the built executable and what it does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admin;
mod cells;
mod database;
mod dataset;
mod dev;
mod env;
mod files;
mod harness;
mod hints;
mod limits;
mod manners;
mod messages;
mod operators;
mod ordinary_user;
mod run;
mod serve;
mod shell;
mod units;
mod workflow;

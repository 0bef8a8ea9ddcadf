//! Copies of Python processes. Needs root; without it each test says so and
//! passes.

#![cfg(test)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says why it was skipped and what it measured"
)]

mod behaviour;
mod figures;
mod hostile;
mod refusals;
mod sameness;
mod zygote;

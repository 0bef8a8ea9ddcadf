//! Copies of Python processes. Needs root; without it each test says so and
//! passes.

mod behaviour;
mod figures;
mod refusals;
mod zygote;

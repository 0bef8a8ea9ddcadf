//! Plans, starts and stops sandboxes.
//!
//! `spec → plan → apply`: a [`belljar_domain::Spec`] becomes a [`plan::Plan`],
//! which is pure data, and the new process applies it to itself. A finished
//! sandbox is a [`Machine`]: a byte stream to its guest, its cgroups, its end.

mod archive;
mod build_disk;
pub mod cgroup;
mod clocks;
mod confinement;
mod defence;
mod door;
mod enforcement;
mod engine;
mod figures;
mod jail;
mod machine;
mod microvm;
mod oci;
pub mod plan;
mod runner;
pub mod seal;
pub mod seccomp;
mod spawner;
mod state;
mod stillness;
mod version;
mod wait;
mod watch;
mod wire;
mod zygote;

pub use belljar_sys::net::Door;
pub use belljar_sys::{diag, packet};
pub use build_disk::BuildDisk;
pub use confinement::Confinement;
pub use defence::{Defence, Weakened};
pub use door::{Holder, ListenError, Whereabouts};
pub use enforcement::{DELEGATED_SCOPE, Enforcement, LimitName, WeakLimit};
pub use engine::{Backend, Config, Engine, EngineError, StartError, Warm};
pub use machine::{DiskUse, Files, Machine, SandboxUsage, Then};
pub use microvm::{Accelerator, Chosen, Parts, Supplier};
pub use oci::runtime::{Judged, Runtimes};
pub use spawner::hook;
pub use state::State;
pub use wire::Ended;
pub use zygote::{Ends, Forking, Interpreter, Pending, Program, Zygote};

//! Builds and keeps templates: the immutable, versioned bases that sandboxes
//! stand on.
//!
//! ```text
//! recipe (TOML) ──► builder ──► store: layers/<digest>/, templates/<name>/<version>.json
//!                     │  ▲
//!                     ▼  │ writable layer of each step
//!                   Runner (a sandbox; supplied by the layer above)
//! ```
//!
//! The `host` template needs none of that: it shows the machine's own `/usr`
//! read-only over a small skeleton, so that a first run downloads nothing.
//!
//! Invariants: a layer is never changed after it has its name; no layer holds a
//! setuid file, a device or a security attribute; nothing that a package or an
//! image brought is executed outside a [`Runner`], except Debian's own signed
//! packages while a Debian base is made.

pub mod builder;
pub mod catalog;
mod confined;
pub mod digest;
pub mod file;
pub mod host;
pub mod lay;
pub mod machine;
pub mod measure;
pub mod oci;
pub mod pack;
mod packages;
pub mod progress;
pub mod recipe;
pub mod runner;
mod skeleton;
mod stage;
pub mod store;
mod template;
mod tool;
pub mod tree;

pub use builder::{BuildError, Builder, Built, Cache, Options, Tools};
pub use digest::Digest;
pub use progress::{Outcome, Progress, Silent, StepStart};
pub use recipe::{Base, Recipe};
pub use runner::{Job, Runner};
pub use store::{Manifest, Reference, Store};
pub use template::{Defaults, Lease, Template};

//! Everything between an attack and its result.
//!
//! [`stage`] gives acts their sandboxes, [`oracle`] looks at the host after
//! each of them, [`neighbour`] shows what a stranger felt meanwhile.

pub(crate) mod canary;
pub(crate) mod disk;
pub(crate) mod files;
pub(crate) mod findings;
pub(crate) mod golden;
pub(crate) mod host;
pub(crate) mod kernel_log;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod neighbour;
pub(crate) mod on_host;
pub(crate) mod oracle;
pub(crate) mod processes;
pub(crate) mod programs;
pub(crate) mod say;
pub(crate) mod smuggled;
pub(crate) mod stage;
pub(crate) mod warm;
pub(crate) mod world;

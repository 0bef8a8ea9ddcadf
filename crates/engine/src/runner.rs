//! Tiers in which a program of the host runs the sandbox.

use serde::{Deserialize, Serialize};

use crate::{microvm, oci};

/// Which program runs a sandbox, and what it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Runner {
    Oci(oci::Order),
    Microvm(microvm::Order),
}

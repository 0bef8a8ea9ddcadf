//! Node packages: installed by the host's npm into a layer, without scripts.
//!
//! With scripts off, npm only unpacks, so nothing of a package runs here. One
//! that needs its script can be rebuilt by a command of the recipe.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::tool::{self, Inherit, ToolError};

/// Installs into `prefix`: modules to `lib/node_modules`, links to `bin`.
pub(crate) fn install(
    program: &str,
    packages: &[String],
    prefix: &Path,
    timeout: Duration,
    output: &mut dyn FnMut(&[u8]),
) -> Result<(), ToolError> {
    let mut arguments: Vec<OsString> =
        ["install", "--global", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress"]
            .map(OsString::from)
            .into();
    arguments.push("--prefix".into());
    arguments.push(prefix.into());
    arguments.push("--".into());
    arguments.extend(packages.iter().map(OsString::from));
    tool::run(program, &arguments, Inherit::Settings, timeout, output)
}

//! Python packages: fetched on the host as wheels, installed offline in a
//! sandbox.
//!
//! The host's own pip fetches, so its mirror and certificates apply. Only wheels
//! are taken: fetching one runs no code of the package.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::tool::{self, Inherit, ToolError};

/// A CPython version, as the interpreter in the template says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    major: u32,
    minor: u32,
}

/// Prints the version alone, for [`Version::parse`].
pub(crate) const ASK_VERSION: &str = "import sys; print('%d.%d' % sys.version_info[:2])";

impl Version {
    pub(crate) fn parse(output: &str) -> Option<Self> {
        let (major, minor) = output.trim().split_once('.')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

/// Fetches wheels for that interpreter into `directory`.
pub(crate) fn download(
    program: &str,
    requirements: &[String],
    version: Version,
    directory: &Path,
    timeout: Duration,
    output: &mut dyn FnMut(&[u8]),
) -> Result<(), ToolError> {
    let Version { major, minor } = version;
    let mut arguments: Vec<OsString> = ["-m", "pip", "download", "--only-binary=:all:"]
        .into_iter()
        .chain(["--no-input", "--disable-pip-version-check", "--progress-bar=off"])
        .map(OsString::from)
        .collect();
    arguments.push(format!("--python-version={major}.{minor}").into());
    arguments.push("--implementation=cp".into());
    arguments.push(format!("--abi=cp{major}{minor}").into());
    // Newest first. A wheel is tagged with the oldest C library that it runs on,
    // so each of them runs on any current system.
    let arch = std::env::consts::ARCH;
    for tag in ["_2_28", "_2_27", "_2_24", "_2_17", "2014", "2010", "1"] {
        arguments.push(format!("--platform=manylinux{tag}_{arch}").into());
    }
    arguments.push("--dest".into());
    arguments.push(directory.into());
    arguments.extend(requirements.iter().map(OsString::from));
    tool::run(program, &arguments, Inherit::Settings, timeout, output)
}

/// The command that installs inside, from the wheels shown at `wheels`.
pub(crate) fn install(interpreter: &Path, wheels: &str, requirements: &[String]) -> Vec<String> {
    let mut command = vec![interpreter.display().to_string()];
    command.extend(
        ["-m", "pip", "install", "--no-index", "--find-links", wheels, "--no-cache-dir"]
            .map(str::to_owned),
    );
    command.extend(requirements.iter().cloned());
    command
}

/// Options that older versions of pip do not know; as variables they are
/// ignored there.
pub(crate) const INSTALL_ENV: [(&str, &str); 5] = [
    ("PIP_BREAK_SYSTEM_PACKAGES", "1"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_NO_WARN_SCRIPT_LOCATION", "1"),
    ("PIP_PROGRESS_BAR", "off"),
    ("PIP_ROOT_USER_ACTION", "ignore"),
];

/// The package that an offline install found missing.
///
/// pip fetches for another Python version, but evaluates the conditions on
/// dependencies (`; python_version >= "3.12"`) with its own. What it left out
/// that way shows only inside.
pub(crate) fn missing(output: &str) -> Option<String> {
    let (_, rest) = output.rsplit_once("No matching distribution found for ")?;
    let requirement = rest.lines().next()?.split(" (from").next()?;
    let requirement: String = requirement.chars().filter(|c| !c.is_whitespace()).collect();
    let requirement = requirement.split(';').next()?.to_owned();
    crate::recipe::is_pip_requirement(&requirement).then_some(requirement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_two_numbers() {
        assert_eq!(Version::parse("3.13\n"), Some(Version { major: 3, minor: 13 }));
        assert_eq!(Version::parse("3.13.5\n"), None);
        assert_eq!(Version::parse("sh: python3: not found"), None);
    }

    #[test]
    fn a_missing_dependency_is_read_from_the_output() {
        let output = "Looking in links: /mnt\nERROR: Could not find a version that satisfies the \
            requirement tzdata>=2024 (from pandas) (from versions: none)\n\
            ERROR: No matching distribution found for tzdata>=2024\n";
        assert_eq!(missing(output).as_deref(), Some("tzdata>=2024"));
        assert_eq!(missing("No matching distribution found for --evil\n"), None);
        assert_eq!(missing("all is well"), None);
    }
}

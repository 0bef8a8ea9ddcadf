//! Templates that were built before the tests.

use std::path::PathBuf;

/// Where those of this host are.
pub fn store() -> PathBuf {
    let named = std::env::var_os("BELLJAR_STORE").filter(|value| !value.is_empty());
    named.map_or_else(|| PathBuf::from("/var/lib/belljar/templates"), PathBuf::from)
}

/// What is lacking to make sandboxes of a template here; none if nothing is.
pub fn lacking(template: &str) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("root".to_owned());
    }
    let is_built = store().join("templates").join(template).exists();
    (!is_built).then(|| format!("the template: belljar template build {template}"))
}

//! What the environment says: the only module that reads it.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use belljar_node::Variables;

/// Where this user's belljar keeps things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Templates and their layers, and what the `host` template is made from.
    pub(crate) store: PathBuf,
    /// Where an ordinary user also finds templates: those that root built.
    pub(crate) shared_store: Option<PathBuf>,
    /// What running engines share; `None`: the engine's own choice.
    pub(crate) state: Option<PathBuf>,
    /// What a server keeps, unless its own flag says otherwise.
    pub(crate) data: PathBuf,
    /// The key that E2B's SDKs would use.
    pub(crate) api_key: Option<String>,
    /// The platform's database.
    pub(crate) database: Option<String>,
    /// Whether the user wants no colour (no-color.org).
    pub(crate) no_colour: bool,
    /// All of it: credentials and package indexes may be named by variables.
    pub(crate) environment: Variables,
}

/// Where root's belljar keeps things.
const ROOTS_HOME: &str = "/var/lib/belljar";

impl Config {
    /// A flag wins over the environment, the environment over the default.
    pub(crate) fn read(store: Option<PathBuf>, state: Option<PathBuf>) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let read = Self::from(store, state, is_root, &|name| env::var_os(name));
        Self { environment: Variables(env::vars_os().collect()), ..read }
    }

    fn from(
        store: Option<PathBuf>,
        state: Option<PathBuf>,
        is_root: bool,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Self {
        // An empty variable is one that somebody meant to unset.
        let path = |name| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = || {
            if is_root {
                return PathBuf::from(ROOTS_HOME);
            }
            let data = path("XDG_DATA_HOME").filter(|data| data.is_absolute());
            let data = data.or_else(|| path("HOME").map(|home| home.join(".local/share")));
            data.unwrap_or_else(env::temp_dir).join("belljar")
        };
        let state = state.or_else(|| path("BELLJAR_STATE"));
        let beside = state.as_ref().map(|state| state.join("server"));
        let data = path("BELLJAR_DATA").or(beside).unwrap_or_else(|| home().join("server"));
        let store = store.or_else(|| path("BELLJAR_STORE"));
        let has_shared = store.is_none() && !is_root;
        Self {
            shared_store: has_shared.then(|| PathBuf::from(ROOTS_HOME).join("templates")),
            store: store.unwrap_or_else(|| home().join("templates")),
            state,
            data,
            no_colour: variable("NO_COLOR").is_some_and(|value| !value.is_empty()),
            api_key: variable("E2B_API_KEY").and_then(|key| key.into_string().ok()),
            database: variable("BELLJAR_DATABASE")
                .and_then(|url| url.into_string().ok())
                .filter(|url| !url.is_empty()),
            environment: Variables::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(flag: Option<&str>, is_root: bool, variables: &[(&str, &str)], want: &str) {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, v)| OsString::from(v))
        };
        let config = Config::from(flag.map(PathBuf::from), None, is_root, &variable);
        assert_eq!(config.store, PathBuf::from(want));
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_default() {
        let set = [("BELLJAR_STORE", "/env"), ("HOME", "/home/me")];
        check(Some("/flag"), true, &set, "/flag");
        check(None, true, &set, "/env");
        check(None, true, &[("BELLJAR_STORE", "")], "/var/lib/belljar/templates");
        check(None, false, &set[1..], "/home/me/.local/share/belljar/templates");
        check(None, false, &[("XDG_DATA_HOME", "/data")], "/data/belljar/templates");
    }

    #[test]
    fn templates_of_root_are_shared_unless_a_store_is_named() {
        let shared = |flag: Option<&str>, is_root| {
            Config::from(flag.map(PathBuf::from), None, is_root, &|_| None).shared_store
        };
        assert_eq!(shared(None, false), Some("/var/lib/belljar/templates".into()));
        assert_eq!((shared(None, true), shared(Some("/mine"), false)), (None, None));
    }
}

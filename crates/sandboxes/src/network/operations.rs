//! The operations that requests may name: those of the gateway's configuration.

use std::path::Path;

use belljar_domain::{CapHolder, OperationCapped, OperationCaps, is_operation_name};

use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::start::Actions;

/// The operations that one sandbox can have.
const MAX_OPERATIONS: usize = 64;

impl Actions {
    /// The operations that the gateway has; none: they are not known. Then the gateway refuses
    /// what it does not have.
    pub fn configured_operations(&self) -> Option<Vec<String>> {
        match &self.config().networks.gateway {
            Some(path) => names(path),
            None => Some(Vec::new()),
        }
    }

    /// The operations that a request with these caps may name.
    pub fn offered_operations(&self, caps: &OperationCaps) -> Option<Vec<String>> {
        let mut names = self.configured_operations()?;
        names.retain(|name| caps.check([name.as_str()]).is_ok());
        Some(names)
    }

    /// Refuses operations that no sandbox here can have.
    pub(super) fn check_operations(&self, operations: &[String]) -> Result<(), Problem> {
        let are_names = operations.iter().all(|name| is_operation_name(name));
        if operations.len() > MAX_OPERATIONS || !are_names {
            let message = format!(
                "operations can be at most {MAX_OPERATIONS} names of letters, digits and - _ . :"
            );
            return Err(Problem::invalid(message));
        }
        if !operations.is_empty() && self.config().networks.gateway.is_none() {
            let message = "this server has no operations: its gateway is not configured";
            let problem = Problem::new(Kind::Unsupported, "network_not_offered", message);
            return Err(problem.hint("the operator configures them in the file of --gateway"));
        }
        Ok(())
    }

    /// Refuses operations of a new sandbox that are not configured, or that a cap does not have.
    pub fn allow_operations(
        &self,
        caps: &OperationCaps,
        operations: &[String],
    ) -> Result<(), Problem> {
        if operations.is_empty() {
            return Ok(());
        }
        self.check_operations(operations)?;
        caps.check(operations.iter().map(String::as_str)).map_err(capped)?;
        let Some(configured) = self.configured_operations() else { return Ok(()) };
        match operations.iter().find(|name| !configured.contains(name)) {
            Some(unknown) => Err(unknown_operation(unknown)),
            None => Ok(()),
        }
    }

    /// Refuses a token that a cap forbids. Without names, it is for all operations of its
    /// sandbox.
    pub fn allow_token(
        &self,
        tenant: &Tenant,
        sandbox: &str,
        caps: &OperationCaps,
        operations: &[String],
    ) -> Result<(), Problem> {
        if caps.is_all() {
            return Ok(());
        }
        let network = self.network(tenant, sandbox)?;
        let named = if operations.is_empty() { &network.operations[..] } else { operations };
        caps.check(named.iter().map(String::as_str)).map_err(capped)
    }
}

/// The problem of an operation that a cap does not have.
pub fn capped(error: OperationCapped) -> Problem {
    let hint = match error.holder {
        CapHolder::Tenant => {
            "the operator changes the cap with `belljar admin tenant put --operations`, or with \
             `tenant-operations=` in the key file of a server"
        }
        CapHolder::Key => {
            "use another key, or ask the operator: `belljar admin key set --operations`, or \
             `operations=` in the key file of a server, changes the cap"
        }
    };
    Problem::new(Kind::Unsupported, "operation_not_allowed", error.to_string()).hint(hint)
}

/// The problem of an operation that is not configured.
pub fn unknown_operation(name: &str) -> Problem {
    let message = format!("there is no operation `{name}`");
    Problem::new(Kind::Unsupported, "operation_not_offered", message)
        .hint("GET /v1/templates has the operations that you can name in `operations`")
}

/// The names in a gateway's configuration. A file that cannot be read names none: the gateway
/// keeps to an earlier one.
fn names(path: &Path) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(path).ok()?;
    let table: toml::Table = toml::from_str(&text).ok()?;
    match table.get("operations") {
        None => Some(Vec::new()),
        Some(operations) => Some(operations.as_table()?.keys().cloned().collect()),
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::OperationCap;

    use super::*;

    #[test]
    fn operations_are_read_from_the_gateways_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let said = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            names(file.path())
        };
        let two = "[operations.search]\nkind = \"http\"\n[operations.llm]\nkind = \"model\"\n";
        let mut found = said(two).unwrap();
        found.sort_unstable();
        assert_eq!(found, ["llm", "search"]);
        assert_eq!(said("[gateway]\n"), Some(vec![]));
        assert_eq!(said("operations = 3"), None);
        assert_eq!(said("[operations"), None);
        assert_eq!(names(Path::new("/nowhere")), None);
    }

    #[test]
    fn a_refusal_names_the_cap_and_its_keeper() {
        let key = OperationCap::of(["search".to_owned()]);
        let caps = OperationCaps { key, ..OperationCaps::default() };
        let problem = capped(caps.check(["search", "admin"]).unwrap_err());
        assert_eq!(problem.code, "operation_not_allowed");
        assert_eq!(
            problem.message,
            "the operations of your API key are capped to search; `admin` is not among them"
        );
        assert!(problem.hint.unwrap().contains("belljar admin key set --operations"));
    }
}

//! The network access that a run may have, checked before anything is paid for.

use belljar_domain::network::Ceiling;
use belljar_domain::{OperationCapped, OperationCaps, is_operation_name};
use belljar_journal::RunView;
use belljar_journal::event::NetworkAccess;

use crate::Runs;
use crate::create::{CreateRunError, Wanted};

/// The operations that one run can have.
const MAX_OPERATIONS: usize = 64;

/// The reason that no sandbox of a run would get its network access.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkRefused {
    #[error(transparent)]
    Capped(#[from] OperationCapped),
    #[error("there is no operation `{0}`")]
    Unknown(String),
    #[error("operations can be at most {MAX_OPERATIONS} names of letters, digits and - _ . :")]
    Names,
    #[error("this server has no operations: its gateway is not configured")]
    NoOperations,
    #[error("the network `{asked}` was requested; this server allows `{most}` at most")]
    TooMuch { asked: &'static str, most: &'static str },
}

/// The network access that sandboxes can have, as a list of templates says it. What is absent is
/// not known: the sandbox is refused then, not the run.
#[derive(Debug, Clone, Default)]
pub struct NetworkOffer {
    pub operations: Option<Vec<String>>,
    pub most: Option<Ceiling>,
}

impl Runs {
    /// `model`: the operation that reaches the model. Caps hold for it as well.
    pub(crate) async fn check_network(
        &self,
        tenant: &str,
        wanted: &Wanted,
        model: Option<&str>,
    ) -> Result<(), CreateRunError> {
        let access = &wanted.network;
        let names = access.operations.iter().map(String::as_str).chain(model);
        wanted.caps.check(names).map_err(NetworkRefused::from)?;
        if access.is_default() {
            return Ok(());
        }
        let offers = self.client(tenant).templates().await.map_err(CreateRunError::Templates)?;
        let most = offers.max_network.and_then(|most| most.parse().ok());
        Ok(NetworkOffer { operations: offers.operations, most }.check(access)?)
    }
}

/// Refuses more work of a run with an operation that a cap of the caller does not have. The
/// operation that reaches the model counts too.
pub(crate) fn check_caps(view: &RunView, caps: &OperationCaps) -> Result<(), OperationCapped> {
    let wish = view.created.as_ref().and_then(|created| created.wish.as_ref());
    let model = wish.and_then(|wish| wish.operation.as_deref());
    caps.check(view.network.operations.iter().map(String::as_str).chain(model))
}

impl NetworkOffer {
    /// Refuses what no sandbox would get.
    pub fn check(&self, access: &NetworkAccess) -> Result<(), NetworkRefused> {
        let NetworkAccess { policy, packages, operations } = access;
        let asked = Ceiling::over(policy, *packages);
        if let Some(most) = self.most.filter(|most| asked > *most) {
            let (asked, most) = (asked.as_str(), most.as_str());
            return Err(NetworkRefused::TooMuch { asked, most });
        }
        if operations.len() > MAX_OPERATIONS || !operations.iter().all(|n| is_operation_name(n)) {
            return Err(NetworkRefused::Names);
        }
        let Some(offered) = &self.operations else { return Ok(()) };
        match operations.iter().find(|name| !offered.contains(name)) {
            Some(_) if offered.is_empty() => Err(NetworkRefused::NoOperations),
            Some(name) => Err(NetworkRefused::Unknown(name.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::network::{Policy, Reach};
    use belljar_journal::event::{Budget, Environment, RunCreated, Wish};

    use super::*;

    fn access(reach: Reach, operations: &[&str]) -> NetworkAccess {
        NetworkAccess {
            policy: Policy { reach, ..Policy::default() },
            packages: false,
            operations: operations.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn offer(operations: Option<&[&str]>, most: Option<Ceiling>) -> NetworkOffer {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        NetworkOffer { operations: operations.map(names), most }
    }

    #[test]
    fn caps_hold_for_the_operations_of_a_run_that_exists_and_of_its_model() {
        let network = access(Reach::None, &["search"]);
        let wish = Wish {
            template: "t".into(),
            environment: Environment::default(),
            network: Box::new(network.clone()),
            brief: Box::default(),
            operation: Some("llm".into()),
            request: None,
            questions: false,
            traceparent: None,
        };
        let created = RunCreated {
            question: "q".into(),
            datasets: Vec::new(),
            model: "m".into(),
            prompt: belljar_agent::Texts::newest_for(&network).prompt(),
            budget: Budget::default(),
            now: time::OffsetDateTime::UNIX_EPOCH,
            wish: Some(wish),
        };
        let view = RunView { created: Some(created), network, ..RunView::default() };
        let caps =
            |key: &str| OperationCaps { key: key.parse().unwrap(), ..OperationCaps::default() };
        assert_eq!(check_caps(&view, &caps("llm,search")), Ok(()));
        let refused = |key| check_caps(&view, &caps(key)).unwrap_err().operation;
        assert_eq!((refused("llm"), refused("search")), ("search".to_owned(), "llm".to_owned()));
    }

    #[test]
    fn what_no_sandbox_would_get_is_refused() {
        let some = offer(Some(&["echo", "search"]), Some(Ceiling::Packages));
        assert_eq!(some.check(&access(Reach::None, &["search"])), Ok(()));
        let unknown = some.check(&access(Reach::None, &["search", "mail"]));
        assert_eq!(unknown, Err(NetworkRefused::Unknown("mail".into())));
        let open = some.check(&access(Reach::Open, &[]));
        assert_eq!(open, Err(NetworkRefused::TooMuch { asked: "open", most: "packages" }));
        assert_eq!(some.check(&access(Reach::None, &["a b"])), Err(NetworkRefused::Names));
        let none = offer(Some(&[]), Some(Ceiling::Open));
        let refused = none.check(&access(Reach::Open, &["search"]));
        assert_eq!(refused, Err(NetworkRefused::NoOperations));
        // An older server does not say what it offers: its sandboxes do.
        assert_eq!(offer(None, None).check(&access(Reach::Open, &["search"])), Ok(()));
    }
}

//! The preset `packages`: which indexes a template's package managers ask.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_domain::network::PackageIndex;
use belljar_packages::{Told, configured};

use crate::problem::Problem;
use crate::template::Known;
use belljar_domain::network::Ceiling;

type Found = (Vec<PackageIndex>, Told);

/// Whose word counts on what an index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The template's, and the host's for managers that it does not configure.
    Templates,
    /// The host's alone.
    Hosts,
}

impl Whose {
    /// Who builds a template writes what its managers are configured for. For one
    /// that may reach nothing but indexes, that would be the choice of any host.
    pub(super) fn of(template: &Known, most: Ceiling) -> Self {
        let is_everybodys = template.template.defaults.owner.is_none();
        if is_everybodys || most >= Ceiling::Allow { Self::Templates } else { Self::Hosts }
    }
}

/// The indexes, and what must be said inside for the host's to be found.
pub(super) async fn of(
    template: Arc<Known>,
    whose: Whose,
    host: BTreeMap<String, String>,
) -> Result<Found, Problem> {
    let read = move || -> Result<Found, belljar_packages::OpenError> {
        let template = &template.template;
        let read = match whose {
            Whose::Templates => configured::of_template,
            Whose::Hosts => configured::of_host,
        };
        let (indexes, told) = read(&template.root, &template.env, &host)?;
        Ok((indexes.to_policy(), told))
    };
    let found = tokio::task::spawn_blocking(read).await;
    let found = found.map_err(|error| Problem::internal("find package indexes", &error))?;
    found.map_err(|error| Problem::internal("find package indexes", &error))
}

//! The attacks, one file for each class.

pub(crate) mod applies;
pub(crate) mod table;

mod agt;
mod fs;
mod gw;
mod krn;
mod lng;
mod net;
mod oci;
mod out;
mod proc;
mod res;
mod sys;
mod vm;
mod zyg;

use anyhow::bail;

use crate::attack::Attack;

fn all() -> Vec<Attack> {
    let classes = [
        krn::attacks(),
        sys::attacks(),
        proc::attacks(),
        res::attacks(),
        fs::attacks(),
        out::attacks(),
        lng::attacks(),
        zyg::attacks(),
        oci::attacks(),
        vm::attacks(),
        net::attacks(),
        gw::attacks(),
        agt::attacks(),
    ];
    classes.into_iter().flatten().collect()
}

/// The attacks that any filter names by id or class; all without a filter.
pub(crate) fn select(filters: &[String]) -> anyhow::Result<Vec<Attack>> {
    let attacks = all();
    let missing = missing(&attacks);
    if !missing.is_empty() {
        bail!("these attacks of the table are not in the catalogue: {}", missing.join(" "));
    }
    let names = |filter: &str, attack: &Attack| {
        attack.id.eq_ignore_ascii_case(filter) || attack.class().eq_ignore_ascii_case(filter)
    };
    for filter in filters {
        if !attacks.iter().any(|attack| names(filter, attack)) {
            bail!("no attack or class is called {filter}");
        }
    }
    let wanted =
        |attack: &Attack| filters.is_empty() || filters.iter().any(|filter| names(filter, attack));
    Ok(attacks.into_iter().filter(wanted).collect())
}

/// Rows of the table that no attack stands for.
fn missing(attacks: &[Attack]) -> Vec<&'static str> {
    let ids = table::ALL.iter().map(|row| row.id);
    ids.filter(|id| !attacks.iter().any(|attack| attack.id == *id)).collect()
}

//! All cases, in the order they run.

mod attributes;
mod contexts;
mod copies;
mod data;
mod ending;
mod ends;
mod execute;
mod figures;
mod files;
mod isolation;
mod languages;
mod leftovers;
mod life;
mod limits;
mod ports;
mod profiles;
mod saved;
mod snapshots;
mod stalled;
mod streams;
mod terminal;
mod trees;
mod watching;

use crate::suite::Case;

pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    let groups = [
        execute::CASES,
        streams::CASES,
        terminal::CASES,
        ends::CASES,
        limits::CASES,
        files::CASES,
        attributes::CASES,
        trees::CASES,
        watching::CASES,
        life::CASES,
        ending::CASES,
        leftovers::CASES,
        snapshots::CASES,
        isolation::CASES,
        figures::CASES,
        ports::CASES,
        profiles::CASES,
        copies::CASES,
        data::CASES,
        saved::CASES,
        contexts::CASES,
        stalled::CASES,
        languages::CASES,
    ];
    groups.into_iter().flatten()
}

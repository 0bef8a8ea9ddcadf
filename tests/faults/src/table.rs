//! `docs/faults.md`: which faults are tried, and which are not.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::faults::{ABSENT, ALL};
use crate::invariants::Invariant;

const HEAD: &str = "\
# Faults

What breaks, what is done to break it, and what must hold afterwards. `just faults` tries all of them on one machine: real
PostgreSQL, three real NATS servers, control and nodes as processes in network namespaces of their own. `just faults F-37` tries
one, `just faults --control F-50` the same without its defence, which must fail; `just faults --random 1800 --seed 7` breaks things
at random under load. This page is written by the suite (`just faults --table`), and checked by its tests.

";

pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    page += "## What must hold\n\n| Invariant | In words |\n|---|---|\n";
    for invariant in Invariant::ALL {
        let (number, words) = invariant.name().split_once(' ').unwrap_or_default();
        let _ = writeln!(page, "| {number} | {words} |");
    }
    page += "\nEach is a function over what clients were told, the whole database, and what is on the hosts; each was shown a \
             planted violation\n(`tests/faults/src/invariants/planted.rs`).\n";
    let _ = writeln!(page, "\n## Tried: {}\n", ALL.len());
    page += "| Fault | | What is done | Must hold | Control |\n|---|---|---|---|---|\n";
    for fault in ALL {
        let invariants: Vec<_> = fault.invariants.iter().map(|it| it.number()).collect();
        let control = if fault.control.is_some() { "yes" } else { "" };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {control} |",
            fault.id,
            fault.title,
            fault.does,
            invariants.join(" ")
        );
    }
    let _ = writeln!(page, "\n## Not tried: {}\n", ABSENT.len());
    page += "| Fault | | Why |\n|---|---|---|\n";
    for (id, title, why) in ABSENT {
        let _ = writeln!(page, "| {id} | {title} | {why} |");
    }
    page
}

pub(crate) fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/faults.md")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_page_says_what_the_suite_does() {
        let written = std::fs::read_to_string(path()).unwrap_or_default();
        assert!(written == page(), "docs/faults.md says something else; `just faults --table`");
    }

    #[test]
    fn every_fault_of_the_catalogue_is_tried_or_has_a_reason() {
        let mut seen = BTreeSet::new();
        let tried = ALL.iter().map(|fault| fault.id);
        for id in tried.chain(ABSENT.iter().map(|(id, ..)| *id)) {
            assert!(seen.insert(id.split('/').next().unwrap()) || id.contains('/'), "{id} twice");
        }
        let all: BTreeSet<_> = (1..=67).map(|number| format!("F-{number:02}")).collect();
        let seen: BTreeSet<_> = seen.into_iter().map(str::to_owned).collect();
        assert_eq!(seen, all);
    }
}

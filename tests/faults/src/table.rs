//! `docs/faults.md`: which faults are tried, and which are not.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::faults::{ABSENT, ALL};
use crate::invariants::Invariant;

const HEAD: &str = "\
# Faults

This page lists the failures that the suite causes, and the invariants that must hold afterwards. You can repeat them on one
machine: real PostgreSQL, three real NATS servers, control and nodes as processes in their own network namespaces.

| Command | Does |
|---|---|
| `just faults` | tries all faults |
| `just faults F-37` | tries one |
| `just faults --control F-50` | tries one without its defence; this must fail |
| `just faults --random 1800 --seed 7` | breaks parts at random under load |

The suite writes this page (`just faults --table`), and a test compares it.

";

pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    page += "## Invariants\n\n| Invariant | Meaning |\n|---|---|\n";
    for invariant in Invariant::ALL {
        let (number, words) = invariant.name().split_once(' ').unwrap_or_default();
        let _ = writeln!(page, "| {number} | {words} |");
    }
    page += "\nEach invariant is a function over the responses to clients, the whole database and the state of the hosts. Each \
             detects a\nplanted violation (`tests/faults/src/invariants/planted.rs`).\n";
    let _ = writeln!(page, "\n## Tried: {}\n", ALL.len());
    page += "| Fault | | Action | Invariants | Control |\n|---|---|---|---|---|\n";
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
    page += "| Fault | | Reason |\n|---|---|---|\n";
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
        let all: BTreeSet<_> = (1..=84).map(|number| format!("F-{number:02}")).collect();
        let seen: BTreeSet<_> = seen.into_iter().map(str::to_owned).collect();
        assert_eq!(seen, all);
    }
}

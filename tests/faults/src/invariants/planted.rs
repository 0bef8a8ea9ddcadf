//! A violation of each invariant, planted: a check that has never failed proves
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::ensure;

use super::{Invariant, violations};
use crate::evidence::{
    Audit, Books, Charge, Evidence, Figure, Healed, Host, Inhabitant, NodeRow, Outcome, Probe, Row,
    Shown, Told, What,
};

type Change = fn(&mut Evidence);

/// How each is violated, and the word by which the check must say so.
const PLANTED: &[(Invariant, &str, Change)] = &[
    (Invariant::I1, "on no book", |e| books(e).rows.clear()),
    (Invariant::I1, "without a reason", |e| {
        let row = &mut books(e).rows[0];
        (row.state, row.reason) = ("ended".to_owned(), None);
    }),
    (Invariant::I1, "hangs", |e| "starting".clone_into(&mut books(e).rows[0].state)),
    (Invariant::I1, "never arrived", |e| e.effects = Some(BTreeMap::new())),
    (Invariant::I1, "by its cgroups", |e| e.hosts[0].live.clear()),
    (Invariant::I1, "outbox", |e| books(e).unsent = 3),
    (Invariant::I2, "happened 2 times", |e| e.effects = Some([("op-1".to_owned(), 2)].into())),
    (Invariant::I2, "the key", |e| {
        let mut again = e.history[0].clone();
        again.outcome = Outcome::Made("b".to_owned());
        e.history.push(again);
    }),
    (Invariant::I3, "sandboxes live", |e| {
        e.hosts[0].live.insert("x".to_owned());
    }),
    (Invariant::I3, "empty cgroup", |e| {
        e.hosts[0].empty.insert("x".to_owned());
    }),
    (Invariant::I3, "a mount", |e| e.hosts[0].rubbish.push("a mount".to_owned())),
    (Invariant::I4, "still opens", |e| e.tokens[0].opened = true),
    (Invariant::I5, "charged twice", |e| {
        let charge = books(e).ledger[0].clone();
        books(e).ledger.push(charge);
    }),
    (Invariant::I5, "is charged -1", |e| books(e).ledger[0].nano_dollars = -1),
    (Invariant::I5, "never was", |e| books(e).ledger[0].sandbox = Some("z".to_owned())),
    (Invariant::I5, "was not charged", |e| {
        books(e).ledger.retain(|charge| charge.source != "sandbox:d");
    }),
    (Invariant::I5, "and was charged", |e| books(e).rows[1].ran_ms = Some(3000)),
    (Invariant::I5, "places are taken", |e| {
        books(e).used.insert("t".to_owned(), 7);
    }),
    (Invariant::I6, "lives on", |e| {
        let mut other = e.hosts[0].clone();
        other.name = "n2".to_owned();
        e.hosts.push(other);
    }),
    (Invariant::I6, "has ended", |e| "ended".clone_into(&mut books(e).rows[0].state)),
    (Invariant::I6, "which is on", |e| books(e).rows[0].node = Some(2)),
    (Invariant::I6, "given up", |e| "lost".clone_into(&mut books(e).nodes[0].state)),
    (Invariant::I7, "got through", |e| e.probes[0].got_through = true),
    (Invariant::I8, "shares", |e| e.hosts[0].inhabitants[0].shared.push("net".to_owned())),
    (Invariant::I8, "seccomp", |e| e.hosts[0].inhabitants[0].has_filter = false),
    (Invariant::I8, "privileges", |e| e.hosts[0].inhabitants[0].has_no_new_privileges = false),
    (Invariant::I8, "root", |e| e.hosts[0].inhabitants[0].is_root = true),
    (Invariant::I9, "before", |e| e.figures[0].after = 99),
    (Invariant::I10, "no answer", |e| e.history[0].outcome = Outcome::Silence),
    (Invariant::I10, "broke", |e| e.history[0].outcome = Outcome::Broken("reset".to_owned())),
    (Invariant::I10, "answered 500", |e| {
        e.history[0].outcome = Outcome::Strange { status: 500, body: String::new() };
    }),
    (Invariant::I11, "worked again", |e| {
        e.healed = Some(Healed { after: Duration::from_secs(9), within: Duration::from_secs(1) });
    }),
    (Invariant::I12, "went out", |e| e.audits[0].written = 0),
];

fn books(evidence: &mut Evidence) -> &mut Books {
    evidence.books.get_or_insert_default()
}

/// Shows every check what it must find, and what it must leave alone. Answers how
/// many violations were planted.
pub(crate) fn check() -> anyhow::Result<usize> {
    let clean = clean();
    let found = violations(&Invariant::ALL, &clean);
    ensure!(found.is_empty(), "nothing is wrong, and was found: {found:?}");
    for (invariant, word, plant) in PLANTED {
        let mut evidence = clean.clone();
        plant(&mut evidence);
        let found = violations(&[*invariant], &evidence);
        let seen = found.all().any(|found| found.contains(word));
        ensure!(seen, "{} does not see a planted `{word}`: {found:?}", invariant.name());
    }
    for invariant in Invariant::ALL {
        let planted = PLANTED.iter().any(|(planted, ..)| *planted == invariant);
        ensure!(planted, "no violation of {} was planted", invariant.name());
        // What nobody looked at is no proof.
        let found = violations(&[invariant], &Evidence::default());
        ensure!(found.broken.len() == 1, "{} holds of nothing at all", invariant.name());
    }
    Ok(PLANTED.len())
}

/// One sandbox on one node, and all is well.
fn clean() -> Evidence {
    let told = |what: What, outcome: Outcome| Told {
        what,
        outcome,
        took: Duration::from_millis(20),
        deadline: Duration::from_secs(10),
        may_break: false,
    };
    let text = str::to_owned;
    let inhabitant = Inhabitant {
        pid: 7,
        sandbox: text("a"),
        has_filter: true,
        has_no_new_privileges: true,
        ..Inhabitant::default()
    };
    let live: BTreeSet<String> = [text("a")].into();
    Evidence {
        history: vec![
            told(What::Create { key: Some(text("k")) }, Outcome::Made(text("a"))),
            told(What::Effect { op: text("op-1") }, Outcome::Done),
        ],
        books: Some(Books {
            rows: vec![
                Row {
                    id: text("a"),
                    tenant: text("t"),
                    state: text("running"),
                    node: Some(1),
                    ..Row::default()
                },
                Row {
                    id: text("d"),
                    tenant: text("t"),
                    state: text("ended"),
                    reason: Some(text("killed")),
                    node: Some(1),
                    ran_ms: Some(2500),
                    ..Row::default()
                },
            ],
            used: [(text("t"), 1)].into(),
            ledger: vec![
                Charge {
                    tenant: text("t"),
                    source: text("s"),
                    debit: text("x"),
                    credit: text("y"),
                    nano_dollars: 5,
                    sandbox: Some(text("a")),
                    ran_ms: None,
                    second: None,
                },
                Charge {
                    tenant: text("t"),
                    source: text("sandbox:d"),
                    debit: text("x"),
                    credit: text("y"),
                    nano_dollars: 35_000,
                    sandbox: Some(text("d")),
                    ran_ms: Some(2500),
                    second: Some(14_000),
                },
            ],
            nodes: vec![NodeRow { number: 1, name: text("n1"), epoch: 1, state: text("up") }],
            unsent: 0,
        }),
        hosts: vec![Host {
            name: text("n1"),
            number: Some(1),
            is_served: true,
            roster: Some(live.clone()),
            live,
            inhabitants: vec![inhabitant],
            ..Host::default()
        }],
        effects: Some([(text("op-1"), 1)].into()),
        tokens: vec![Shown { sandbox: text("d"), what: "token", is_dead: true, opened: false }],
        probes: vec![Probe { what: text("a create"), got_through: false }],
        figures: vec![Figure { what: text("descriptors"), before: 10, after: 11, slack: 2 }],
        healed: Some(Healed { after: Duration::from_secs(1), within: Duration::from_secs(10) }),
        audits: vec![Audit { sandbox: text("a"), arrived: 1, written: 1, has_gap_marker: false }],
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_check_sees_what_is_planted() {
        assert!(super::check().unwrap() > 20);
    }
}

//! What clients were told, beside what is on the books.

use std::collections::{BTreeMap, BTreeSet};

use super::Found;
use crate::evidence::{Charge, Evidence, Outcome, What};

/// I1. Every sandbox that a client was told of is on the books, and every ended
/// one says why; nothing hangs between two states; what runs on the books runs on
/// its host; every effect that was answered with success has happened.
pub(super) fn nothing_lost(evidence: &Evidence) -> Found {
    let books = evidence.books.as_ref().ok_or("nobody read the books")?;
    let mut wrong = Vec::new();
    for told in &evidence.history {
        match (&told.what, &told.outcome) {
            (What::Create { .. }, Outcome::Made(id)) => match books.row(id) {
                None => wrong.push(format!("{id} was answered to a client and is on no book")),
                Some(row) if row.state == "ended" && row.reason.is_none() => {
                    wrong.push(format!("{id} has ended without a reason"));
                }
                Some(_) => {}
            },
            (What::Effect { op }, Outcome::Done) => {
                let effects = evidence.effects.as_ref().ok_or("nobody counted effects")?;
                if effects.get(op).is_none_or(|&count| count == 0) {
                    wrong.push(format!("{op} was answered as done, and never arrived"));
                }
            }
            _ => {}
        }
    }
    let mut seen = BTreeSet::new();
    for row in &books.rows {
        if !seen.insert(&row.id) {
            wrong.push(format!("{} is on the books twice", row.id));
        }
        if matches!(row.state.as_str(), "waiting" | "starting") {
            wrong.push(format!("{} hangs as {}", row.id, row.state));
        }
    }
    for host in evidence.hosts.iter().filter(|host| host.is_served) {
        let runs = books.rows.iter().filter(|row| row.state == "running");
        let runs = runs.filter(|row| host.number.is_none() || row.node == host.number).count();
        if runs > host.live.len() {
            wrong.push(format!(
                "{runs} run on {} by the books, and {} by its cgroups",
                host.name,
                host.live.len()
            ));
        }
    }
    if books.unsent > 0 && evidence.healed.is_some() {
        wrong.push(format!("{} messages wait in the outbox", books.unsent));
    }
    Ok(wrong)
}

/// I2. A request that is repeated under its key is one request, and an operation
/// arrives once.
pub(super) fn nothing_twice(evidence: &Evidence) -> Found {
    let mut wrong = Vec::new();
    let mut made: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut asked = BTreeSet::new();
    for told in &evidence.history {
        if let What::Create { key: Some(key) } = &told.what {
            asked.insert(key.as_str());
            if let Outcome::Made(id) = &told.outcome {
                made.entry(key).or_default().insert(id);
            }
        }
    }
    if let Some(books) = &evidence.books {
        for row in &books.rows {
            if let Some(key) = &row.key {
                made.entry(key).or_default().insert(&row.id);
            }
        }
    }
    for (key, ids) in &made {
        if ids.len() > 1 {
            wrong.push(format!("the key {key} made {}: {ids:?}", ids.len()));
        }
    }
    let effects = evidence.effects.as_ref();
    for (op, count) in effects.into_iter().flatten() {
        if *count > 1 {
            wrong.push(format!("{op} happened {count} times"));
        }
    }
    if asked.is_empty() && effects.is_none_or(BTreeMap::is_empty) {
        return Err("nothing was done that could happen twice");
    }
    Ok(wrong)
}

/// I5. Nothing is charged twice, nothing for nothing; what is taken of a quota is
/// what there is.
pub(super) fn bill_right(evidence: &Evidence) -> Found {
    let books = evidence.books.as_ref().ok_or("nobody read the books")?;
    if books.ledger.is_empty() && books.used.is_empty() {
        return Err("there is neither a ledger nor a quota");
    }
    let mut wrong = Vec::new();
    let mut charged = BTreeSet::new();
    for charge in &books.ledger {
        if !charged.insert((&charge.tenant, &charge.source)) {
            wrong.push(format!("{} was charged twice", charge.source));
        }
        if charge.nano_dollars < 0 || charge.debit == charge.credit {
            wrong.push(format!("{} is charged {}", charge.source, charge.nano_dollars));
        }
        let of = charge.sandbox.as_deref();
        if of.is_some_and(|id| books.row(id).is_none()) {
            wrong.push(format!("{} is charged for a sandbox that never was", charge.source));
        }
    }
    for row in books.rows.iter().filter(|row| !row.is_open()) {
        let source = format!("sandbox:{}", row.id);
        let charge = books.ledger.iter().find(|charge| charge.source == source);
        match (row.ran_ms.unwrap_or_default(), charge) {
            (1.., None) => wrong.push(format!("{} ran and was not charged", row.id)),
            (ran, Some(charge)) if !is_the_price(ran, charge) => {
                wrong.push(format!("{} ran {ran} ms, and was charged {charge:?}", row.id));
            }
            _ => {}
        }
    }
    for (tenant, used) in &books.used {
        let open = books.rows.iter().filter(|row| row.tenant == *tenant && row.is_open()).count();
        if i64::try_from(open) != Ok(*used) {
            wrong.push(format!("{tenant} has {open} sandboxes, and {used} places are taken"));
        }
    }
    Ok(wrong)
}

fn is_the_price(ran: i64, charge: &Charge) -> bool {
    charge.ran_ms == Some(ran)
        && charge.second.is_some_and(|second| charge.nano_dollars == ran * second / 1000)
}

//! What was promised to clients and operators.

use super::Found;
use crate::evidence::{Evidence, Outcome};

/// I4. What belonged to a sandbox that is no more opens nothing, and what belongs
/// to a living one does: else a refusal would prove nothing.
pub(super) fn tokens_dead(evidence: &Evidence) -> Found {
    if !evidence.tokens.iter().any(|token| token.is_dead) {
        return Err("no token of a dead sandbox was shown");
    }
    let wrong = evidence.tokens.iter().filter(|token| token.is_dead && token.opened);
    Ok(wrong.map(|token| format!("{} of {} still opens", token.what, token.sandbox)).collect())
}

/// I7. While a part was missing nothing got through that needed it.
pub(super) fn fails_closed(evidence: &Evidence) -> Found {
    if evidence.probes.is_empty() {
        return Err("nothing was tried while the part was missing");
    }
    let wrong = evidence.probes.iter().filter(|probe| probe.got_through);
    Ok(wrong.map(|probe| format!("{} got through", probe.what)).collect())
}

/// I9. What was used has come back.
pub(super) fn bounded(evidence: &Evidence) -> Found {
    if evidence.figures.is_empty() {
        return Err("nothing was measured");
    }
    let wrong =
        evidence.figures.iter().filter(|figure| figure.after > figure.before + figure.slack);
    let wrong = wrong.map(|figure| {
        format!(
            "{}: {} before, {} after, {} more may be",
            figure.what, figure.before, figure.after, figure.slack
        )
    });
    Ok(wrong.collect())
}

/// I10. Every request ended with an answer that says something; a connection broke only
/// where its other end may have died.
pub(super) fn honest(evidence: &Evidence) -> Found {
    if evidence.history.is_empty() {
        return Err("no client asked for anything");
    }
    let mut wrong = Vec::new();
    for told in &evidence.history {
        let what = &told.what;
        match &told.outcome {
            Outcome::Strange { status, body } => {
                wrong.push(format!("{what:?} was answered {status}: {body}"));
            }
            Outcome::Broken(how) if !told.may_break => {
                wrong.push(format!("{what:?} broke after {:?}: {how}", told.took));
            }
            _ => {}
        }
    }
    Ok(wrong)
}

/// I10. Every request ended by its deadline.
pub(super) fn late_answers(evidence: &Evidence) -> Vec<String> {
    let silent = evidence.history.iter().filter(|told| told.outcome == Outcome::Silence);
    silent.map(|told| format!("{:?} had no answer after {:?}", told.what, told.deadline)).collect()
}

/// I11. It was looked at whether it works again.
pub(super) fn heals_itself(evidence: &Evidence) -> Found {
    evidence.healed.as_ref().ok_or("nobody looked whether it works again")?;
    Ok(Vec::new())
}

/// I11. It worked again by itself, in time.
pub(super) fn late_healing(evidence: &Evidence) -> Vec<String> {
    let late = evidence.healed.iter().filter(|healed| healed.after > healed.within);
    late.map(|healed| format!("it worked again after {:?}", healed.after)).collect()
}

/// I12. What arrived at the other side is written down, or a gap is.
pub(super) fn all_on_record(evidence: &Evidence) -> Found {
    if evidence.audits.is_empty() {
        return Err("nobody compared what went out with the records");
    }
    let wrong = evidence.audits.iter();
    let wrong = wrong.filter(|audit| audit.arrived > audit.written && !audit.has_gap_marker);
    let wrong = wrong.map(|audit| {
        format!("{}: {} went out, {} are written", audit.sandbox, audit.arrived, audit.written)
    });
    Ok(wrong.collect())
}

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

/// I10. Every request ended by its deadline, with an answer that says something; a
/// connection broke only where its other end may have died.
pub(super) fn honest(evidence: &Evidence) -> Found {
    if evidence.history.is_empty() {
        return Err("no client asked for anything");
    }
    let mut wrong = Vec::new();
    for told in &evidence.history {
        let what = &told.what;
        match &told.outcome {
            Outcome::Silence => {
                wrong.push(format!("{what:?} had no answer after {:?}", told.deadline));
            }
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

/// I11. It worked again, by itself and in time.
pub(super) fn heals_itself(evidence: &Evidence) -> Found {
    let healed = evidence.healed.as_ref().ok_or("nobody looked whether it works again")?;
    if healed.after > healed.within {
        return Ok(vec![format!("it worked again after {:?}", healed.after)]);
    }
    Ok(Vec::new())
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

//! What is in force, applied: the policy, and what it says of packages.
//!
//! Package indexes are allowed beside everything else, so a request may be made
//! when either allows it. What the policy denies is denied for both.

use belljar_domain::network::Reason;
use belljar_egress::{Destination, Verdict};

use crate::session::State;
use crate::upstream::Place;

impl State {
    /// What may become of a connection; see [`belljar_egress::judge`].
    pub(crate) fn judge(&self, to: &Destination) -> Verdict {
        let verdict = belljar_egress::judge(&self.policy, to);
        let Some(packages) = &self.packages else { return verdict };
        match (verdict, packages.judge(to)) {
            // The pages that named the hosts of packages are played, and not learned from.
            (Verdict::Deny(reason), _) if is_lack(reason) && self.policy.tape.is_sealed() => {
                Verdict::Content
            }
            (Verdict::Deny(reason), _) if !is_lack(reason) => verdict,
            // Unread, packages could neither be learned of nor kept.
            (_, Verdict::Content) => Verdict::Content,
            (Verdict::Deny(Reason::NoNetwork), lack) => lack,
            _ => verdict,
        }
    }

    /// Whether a request may be made; see [`belljar_egress::judge_request`].
    pub(crate) fn judge_request(
        &self,
        place: &Place,
        method: &str,
        target: &str,
    ) -> Result<(), Reason> {
        let judged =
            belljar_egress::judge_request(&self.policy, &place.destination, method, target);
        match (judged, &self.packages) {
            (Err(reason), Some(packages)) if is_lack(reason) => {
                packages.judge_request(place, method, target).map_err(|lack| match reason {
                    Reason::NoNetwork | Reason::NotAllowed => lack,
                    reason => reason,
                })
            }
            _ => judged,
        }
    }

    /// The last question before anything goes out.
    pub(crate) fn may_leave(
        &self,
        place: &Place,
        method: &str,
        target: &str,
    ) -> Result<(), Reason> {
        // Of what rules do not say, a tape that forbids everything is told of.
        match belljar_egress::may_leave(&self.policy, &place.destination, method, target) {
            Err(Reason::NotRecorded) => Err(Reason::NotRecorded),
            _ => self.judge_request(place, method, target),
        }
    }
}

/// Whether only nobody allowed it, so that somebody else may.
fn is_lack(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NoNetwork | Reason::NotAllowed | Reason::Port | Reason::Method | Reason::Path
    )
}

//! Asks a human before a tool call that the run's policy names.
//!
//! The run pauses, as for a question: no worker has it meanwhile, and a worker that takes over finds
//! the same pause. The decision resumes it.

use belljar_domain::approval::{ApprovalPolicy, MAX_PENDING_APPROVALS, ToolApprovals, ToolCall};
use belljar_journal::event::{CallDecision, PausePoint, Verdict};
use belljar_journal::{ApprovalQuery, Call, RunView};
use belljar_objects::Digest;
use time::{Duration, OffsetDateTime};

use super::{Work, WorkError};
use crate::output::Heard;
use crate::tools::{FINISH, QUESTION};

/// The category of a call that was not approved.
const DENIED: &str = "denied";

/// The next step of a call, as far as its approval goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Permission {
    Granted,
    /// With the text for the model.
    Denied(String),
    /// The run pauses here.
    Ask(PausePoint),
}

impl Work<'_> {
    /// Returns true if a call may be made. If not, it is over, or the run waits for a human.
    pub(super) async fn may_make(&self, call: &Call) -> Result<bool, WorkError> {
        let Some(input) = self.shown_input(call) else { return Ok(true) };
        let approvals = &self.brief.approvals;
        match permission(&self.story.view, call, &input, approvals, OffsetDateTime::now_utc()) {
            Permission::Granted => Ok(true),
            Permission::Denied(text) => {
                self.finish(call, None, Heard::fault(DENIED, text)).await?;
                Ok(false)
            }
            Permission::Ask(point) => {
                if self.is_full().await? {
                    let text = format!(
                        "{MAX_PENDING_APPROVALS} tool calls wait for an approval already, so this \
                         call was not made."
                    );
                    self.finish(call, None, Heard::fault(DENIED, text)).await?;
                    return Ok(false);
                }
                self.hold(point).await?;
                Ok(false)
            }
        }
    }

    /// Returns true if as many calls of the tenant's runs wait as may.
    async fn is_full(&self) -> Result<bool, WorkError> {
        let most = MAX_PENDING_APPROVALS;
        let query = ApprovalQuery { tenant: Some(&self.lease.address.tenant), due: None, most };
        let waiting = self.worker.journal.awaiting_approval(query).await?;
        Ok(waiting.iter().filter(|run| **run != self.lease.address).count() >= most)
    }

    /// The input as a human sees it: of a pipeline, the command with the program that it runs. None:
    /// no approval is needed.
    fn shown_input(&self, call: &Call) -> Option<String> {
        if !needs_approval(&self.brief.approvals, &call.name) {
            return None;
        }
        let current = self.pipeline().and_then(|pipeline| pipeline.current.as_ref());
        let program = current.and_then(|current| serde_json::to_string(&current.artifact).ok());
        Some(program.unwrap_or_else(|| call.input.to_string()))
    }
}

/// Returns true if the policy names a call. An answer and a question are no acts: only a list can
/// name the first, and nothing the second.
fn needs_approval(approvals: &ToolApprovals, tool: &str) -> bool {
    let is_named = approvals.names(tool);
    match (&approvals.policy, tool) {
        (_, QUESTION) => false,
        (ApprovalPolicy::Always, FINISH) => false,
        _ => is_named,
    }
}

fn permission(
    view: &RunView,
    call: &Call,
    input: &str,
    approvals: &ToolApprovals,
    now: OffsetDateTime,
) -> Permission {
    if let Some(decision) = view.decision.as_ref().filter(|decision| decision.call == call.call) {
        return decided(decision, approvals.seconds);
    }
    let asked = view.approval.as_ref().filter(|approval| approval.call == call.call);
    if asked.is_some_and(|asked| asked.until <= now) {
        return Permission::Denied(expired(approvals.seconds));
    }
    // A run that was resumed without a decision waits on, and no longer than before.
    let seconds = i64::try_from(approvals.seconds).unwrap_or(i64::MAX);
    let until = asked.map_or_else(|| now.saturating_add(Duration::seconds(seconds)), |it| it.until);
    let sha256 = Digest::of(input.as_bytes()).to_string();
    let tool = ToolCall::new(&call.name, Some(&call.call.id), input, sha256);
    Permission::Ask(PausePoint::Approval { call: call.call.clone(), tool, until })
}

fn decided(decision: &CallDecision, seconds: u64) -> Permission {
    match (decision.verdict, &decision.message) {
        (Verdict::Approved, _) => Permission::Granted,
        (Verdict::Denied, Some(message)) => {
            Permission::Denied(format!("A human denied this call, and it was not made: {message}"))
        }
        (Verdict::Denied, None) => {
            Permission::Denied("A human denied this call, and it was not made.".to_owned())
        }
        (Verdict::Expired, _) => Permission::Denied(expired(seconds)),
    }
}

fn expired(seconds: u64) -> String {
    format!("No human approved this call within {seconds} seconds, and it was not made.")
}

#[cfg(test)]
mod tests {
    use belljar_domain::Sequence;
    use belljar_journal::event::{
        Body, CallRef, ControlRequested, Event, Paused, Request, Resumed,
    };
    use belljar_journal::{CallState, Next, Pending};
    use serde_json::json;

    use super::*;

    fn policy(text: &str) -> ToolApprovals {
        ToolApprovals { policy: text.parse().unwrap(), seconds: 60 }
    }

    fn call(id: &str) -> Call {
        let call = CallRef { turn: 1, id: id.into() };
        let input = json!({ "command": "rm -r data" });
        Call { call, name: "shell".into(), input, state: CallState::Intended }
    }

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds)
    }

    struct Log {
        view: RunView,
    }

    impl Log {
        fn add(&mut self, seconds: i64, body: impl Into<Body>) -> Sequence {
            let seq = self.view.head.next();
            let (lease, key) = (None, None);
            self.view.apply(&Event { seq, at: at(seconds), lease, key, body: body.into() });
            seq
        }

        fn next(&self, seconds: i64) -> Permission {
            permission(&self.view, &call("c1"), "rm -r data", &policy("shell"), at(seconds))
        }

        /// Has the worker pause, if that is what it does.
        fn pause(&mut self, seconds: i64) -> OffsetDateTime {
            let Permission::Ask(point) = self.next(seconds) else { panic!() };
            let PausePoint::Approval { until, .. } = point.clone() else { panic!() };
            self.add(seconds, Paused { answers: None, at: Some(point) });
            until
        }

        fn decide(&mut self, seconds: i64, id: &str, verdict: Verdict) {
            let message = (verdict == Verdict::Denied).then(|| "not that one".to_owned());
            let decision =
                CallDecision { call: CallRef { turn: 1, id: id.into() }, verdict, message };
            let request = Request::Decide { decision: decision.clone() };
            let asked = ControlRequested { request, by: "t".into() };
            let answers = self.add(seconds, asked);
            assert!(self.view.undecided().is_none());
            let decision = Some(decision);
            self.add(seconds, Resumed { answers, until: None, reply: None, decision });
        }
    }

    #[test]
    fn answers_and_questions_are_no_acts() {
        for (named, tool, needs) in [
            ("never", "shell", false),
            ("always", "shell", true),
            ("always", FINISH, false),
            ("always", QUESTION, false),
            ("finish,ask_human", FINISH, true),
            ("finish,ask_human", QUESTION, false),
            ("shell,run", "run", true),
            ("shell,run", "execute_python", false),
        ] {
            assert_eq!(needs_approval(&policy(named), tool), needs, "{named} {tool}");
        }
    }

    #[test]
    fn a_call_waits_until_it_is_decided() {
        for (verdict, text) in [
            (Verdict::Approved, None),
            (Verdict::Denied, Some("not that one")),
            (Verdict::Expired, Some("within 60 seconds")),
        ] {
            let mut log = Log { view: RunView::default() };
            assert_eq!(log.pause(5), at(65));
            assert_eq!(log.view.undecided().map(|asked| asked.asked_at), Some(at(5)));
            log.decide(20, "c1", verdict);
            match (log.next(21), text) {
                (Permission::Granted, None) => {}
                (Permission::Denied(told), Some(text)) => assert!(told.contains(text), "{told}"),
                (other, _) => panic!("{other:?}"),
            }
            assert_eq!(log.view.waited, std::time::Duration::from_secs(15));
        }
    }

    #[test]
    fn a_decision_about_another_call_is_none_about_this_one() {
        let mut log = Log { view: RunView::default() };
        log.pause(0);
        log.decide(1, "c2", Verdict::Approved);
        assert!(matches!(log.next(2), Permission::Ask(_)));
    }

    /// A run that was resumed by other means asks for the same call again, and not for longer.
    #[test]
    fn a_run_that_goes_on_without_a_decision_waits_on() {
        let mut log = Log { view: RunView::default() };
        log.pause(0);
        let (until, reply, decision) = (None, None, None);
        log.add(10, Resumed { answers: Sequence(1), until, reply, decision });
        assert_eq!(log.pause(30), at(60));
        assert_eq!(log.view.undecided().map(|asked| asked.asked_at), Some(at(0)));
        log.add(50, Resumed { answers: Sequence(1), until: None, reply: None, decision: None });
        assert_eq!(log.view.waited, std::time::Duration::from_secs(30));
        assert!(matches!(log.next(61), Permission::Denied(_)));
    }

    /// A worker that takes over finds the pause, and nothing to do but the decision.
    #[test]
    fn a_pause_is_found_again() {
        let mut log = Log { view: RunView::default() };
        let point = |log: &Log| match log.next(0) {
            Permission::Ask(point) => point,
            other => panic!("{other:?}"),
        };
        let at = Some(point(&log));
        log.add(0, Paused { answers: None, at });
        assert_eq!(log.view.next(), Next::Rest);
        let call = CallRef { turn: 1, id: "c1".into() };
        let decision = CallDecision { call, verdict: Verdict::Approved, message: None };
        let request = Request::Decide { decision };
        let asked = ControlRequested { request, by: "t".into() };
        let seq = log.add(1, asked.clone());
        assert_eq!(log.view.next(), Next::Obey(&Pending { seq, asked }));
    }
}

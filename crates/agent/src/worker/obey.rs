//! Does what people outside asked for.

use belljar_journal::event::{
    Body, BudgetChanged, Cancelled, Injected, InjectedMessage, Paused, Request, Resumed,
};
use belljar_journal::{NewEvent, Pending};

use super::{Work, WorkError};

impl Work<'_> {
    pub(super) async fn obey(&self, pending: &Pending) -> Result<(), WorkError> {
        let answers = pending.seq;
        let body: Body = match &pending.asked.request {
            Request::Pause => Paused { answers: Some(answers), at: None }.into(),
            Request::Resume => Resumed { answers, until: None, reply: None, decision: None }.into(),
            Request::Step => {
                let until = Some(self.story.view.step_end());
                Resumed { answers, until, reply: None, decision: None }.into()
            }
            Request::Answer { text } => {
                // A step that was interrupted by the question ends where it was to end.
                let (until, reply) = (self.story.view.until, Some(text.clone()));
                Resumed { answers, until, reply, decision: None }.into()
            }
            Request::Decide { decision } => {
                let (until, decision) = (self.story.view.until, Some(decision.clone()));
                Resumed { answers, until, reply: None, decision }.into()
            }
            // The view never has it pending: it holds from the request on.
            Request::Breakpoints { .. } => return Ok(()),
            Request::Cancel => Cancelled { answers }.into(),
            Request::Budget { change } => {
                BudgetChanged { answers, budget: change.onto(&self.story.view.budget) }.into()
            }
            Request::Tell { text } => InjectedMessage {
                kind: Injected::Operator,
                turn: self.story.view.turns + 1,
                text: text.clone(),
                answers: Some(answers),
            }
            .into(),
        };
        let event = NewEvent::new(body);
        let event = match event.body.wants_to_be_last() {
            true => event.seen(self.story.view.head),
            false => event,
        };
        self.append(event).await.map(drop)
    }
}

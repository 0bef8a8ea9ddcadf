//! The sandbox that a run's code is executed in.

use belljar_journal::NewEvent;
use belljar_journal::event::{
    Environment, ErrorCategory, Injected, InjectedMessage, SandboxAttached,
};

use super::tape::waiting;
use super::{Work, WorkError, chain};
use crate::decide::Closing;
use crate::room::{RoomError, Surroundings};

impl Work<'_> {
    /// Has a sandbox made, or ends the run and says why there is none.
    pub(super) async fn attach(&mut self) -> Result<(), WorkError> {
        // It may take long.
        self.flush().await?;
        let number = self.story.view.sandboxes + 1;
        let old = self.story.view.sandbox.clone();
        let environment = self.environment();
        let (run, template) = (&self.lease.address, self.template.clone());
        let view = &self.story.view;
        let is_taped = self.tape().is_some();
        let network = if is_taped { waiting(&view.network) } else { view.network.clone() };
        let surroundings = Surroundings { environment: &environment, network: &network };
        let made = self.worker.rooms.make(run, number, &template, surroundings, &self.data).await;
        let made = match made {
            Ok(made) => made,
            Err(error) if self.is_too_large(&error) => return self.refuse_memory(&error).await,
            Err(error) => {
                let closing = Closing::failed(category(&error), &chain(&error));
                return self.close(closing).await;
            }
        };
        let equipped = self.worker.rooms.equip(&made.id, &self.brief.skills).await;
        if let Err(error) = equipped {
            let closing = Closing::failed(category(&error), &chain(&error));
            return self.close(closing).await;
        }
        if let Err(error) = self.insert_tape(&made.id).await {
            let closing = Closing::failed(ErrorCategory::Sandbox, &chain(&error.lasting()?));
            return self.close(closing).await;
        }
        let attached = SandboxAttached {
            sandbox: made.id,
            number,
            template,
            restored: None,
            data: (!self.data.is_empty()).then_some(made.data),
            environment: Some(made.environment),
        };
        // Made again, it is the same one.
        self.append(NewEvent::new(attached).waiting()).await?;
        self.is_seen = true;
        self.drop_sandbox(old).await?;
        if number > 1 && self.pipeline().is_none() && self.program().is_none() {
            let (kind, text) = (Injected::Restored, self.facts.texts.restored());
            let turn = self.story.view.turns + 1;
            let message = InjectedMessage { kind, turn, text, answers: None };
            let key = format!("restored:{number}");
            self.append(NewEvent::new(message).keyed(&key).waiting()).await?;
        }
        Ok(())
    }
}

impl Work<'_> {
    /// The tier and the limits of the next sandbox: the run's, with the memory that a pipeline's
    /// program asks for.
    pub(super) fn environment(&self) -> Environment {
        let mut environment = self.story.view.environment;
        let current = self.pipeline().and_then(|pipeline| pipeline.current.as_ref());
        if let Some(bytes) = current.and_then(|current| current.artifact.memory_bytes) {
            environment.limits.memory_bytes = Some(bytes);
        }
        environment
    }
}

fn category(error: &RoomError) -> ErrorCategory {
    match error {
        RoomError::Data(_) | RoomError::Put { .. } | RoomError::Skill { .. } => ErrorCategory::Data,
        RoomError::Make { .. } | RoomError::Fork { .. } | RoomError::Tier(_) | RoomError::Id => {
            ErrorCategory::Sandbox
        }
    }
}

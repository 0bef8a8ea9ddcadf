//! One context: who it is, and the interpreter that it has now.

use std::sync::{Mutex, PoisonError};

use belljar_node::{Context, ContextError, Language};

use super::{ContextInfo, Contexts, HOME};

/// Why there is no interpreter to run code in.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Engine(#[from] ContextError),
    #[error("the template cannot run this language any more")]
    Unavailable,
    #[error("the context was deleted")]
    Deleted,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) info: ContextInfo,
    /// Held by whoever runs code in it.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Held by whoever gives it an interpreter or takes it away.
    renewing: tokio::sync::Mutex<()>,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    /// `None` until it is needed.
    context: Option<Context>,
    /// The number of the next execution.
    next: u64,
    /// How often it got another interpreter.
    restarts: u64,
    deleted: bool,
}

/// An interpreter to run code in.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) context: Context,
    pub(super) number: u64,
    restarts: u64,
}

/// What happened to a context while something ran in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meanwhile {
    Nothing,
    Restarted,
    Deleted,
}

impl Slot {
    pub(super) fn new(info: ContextInfo) -> Self {
        Self::with(info, None, 1)
    }

    /// The context that a language has under its own name.
    pub(super) fn default_of(language: Language) -> Self {
        let id = language.as_str().to_owned();
        Self::new(ContextInfo { id, language, cwd: HOME.to_owned() })
    }

    /// One that a copy of a sandbox was born with.
    pub(super) fn adopted(context: Context) -> Self {
        let note = context.note().unwrap_or_default();
        let (id, next) = note.split_once(' ').unwrap_or((&note, ""));
        let options = context.options();
        let language = options.language;
        let id = if id.is_empty() { language.as_str() } else { id }.to_owned();
        let cwd = options.cwd.clone().unwrap_or_else(|| HOME.to_owned());
        let next = next.parse().unwrap_or(1);
        Self::with(ContextInfo { id, language, cwd }, Some(context), next)
    }

    fn with(info: ContextInfo, context: Option<Context>, next: u64) -> Self {
        let now = Now { context, next, restarts: 0, deleted: false };
        Self {
            info,
            turn: tokio::sync::Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            now: Mutex::new(now),
        }
    }

    fn now<T>(&self, look: impl FnOnce(&mut Now) -> T) -> T {
        look(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes down what copies must know.
    fn note(&self, now: &Now) {
        if let Some(context) = &now.context {
            context.set_note(Some(format!("{} {}", self.info.id, now.next)));
        }
    }

    /// The interpreter; started if there is none yet.
    pub(super) async fn interpreter(&self, contexts: &Contexts) -> Result<Held, StartError> {
        let _renewing = self.renewing.lock().await;
        let (known, deleted) = self.now(|now| (now.context.clone(), now.deleted));
        if deleted {
            return Err(StartError::Deleted);
        }
        if known.is_none() {
            // At home already: an interpreter that waits need not be moved.
            let cwd = Some(self.info.cwd.clone()).filter(|cwd| cwd != HOME);
            let options = contexts.options(self.info.language, cwd);
            let options = options.map_err(|_| StartError::Unavailable)?;
            let context = contexts.live.machine.context(options).await?;
            self.now(|now| {
                now.context = Some(context);
                self.note(now);
            });
        }
        self.now(|now| {
            let context = now.context.clone().ok_or(StartError::Deleted)?;
            Ok(Held { context, number: now.next, restarts: now.restarts })
        })
    }

    /// Gives it another interpreter, unless it has none: that is as good as new.
    pub(super) async fn restart(&self, contexts: &Contexts) -> Result<(), ContextError> {
        let _renewing = self.renewing.lock().await;
        self.renew(contexts).await
    }

    /// Gives it another interpreter because that of `held` has died, unless
    /// somebody did so already.
    pub(super) async fn revive(
        &self,
        contexts: &Contexts,
        held: &Held,
    ) -> Result<(), ContextError> {
        let _renewing = self.renewing.lock().await;
        if self.meanwhile(held) != Meanwhile::Nothing {
            return Ok(());
        }
        self.renew(contexts).await
    }

    async fn renew(&self, contexts: &Contexts) -> Result<(), ContextError> {
        let known = self.now(|now| {
            // Before the end of the old one, so that whoever sees it knows why.
            now.restarts += 1;
            now.next = 1;
            self.note(now);
            now.context.clone()
        });
        if let Some(context) = known {
            contexts.live.machine.restart_context(context.id()).await?;
        }
        Ok(())
    }

    pub(super) fn interrupt(&self) {
        if let Some(context) = self.now(|now| now.context.clone()) {
            context.interrupt();
        }
    }

    pub(super) async fn delete(&self, contexts: &Contexts) {
        let _renewing = self.renewing.lock().await;
        let known = self.now(|now| {
            now.deleted = true;
            now.context.take()
        });
        if let Some(context) = known {
            // One that is not there has been deleted with its sandbox.
            let _ = contexts.live.machine.delete_context(context.id()).await;
        }
    }

    pub(super) fn meanwhile(&self, held: &Held) -> Meanwhile {
        self.now(|now| {
            if now.deleted {
                Meanwhile::Deleted
            } else if now.restarts == held.restarts {
                Meanwhile::Nothing
            } else {
                Meanwhile::Restarted
            }
        })
    }

    /// Counts an execution that came to its end.
    pub(super) fn count(&self, held: &Held, number: u64) {
        self.now(|now| {
            if now.restarts == held.restarts {
                now.next = number + 1;
                self.note(now);
            }
        });
    }
}

//! One sandbox.

use belljar_api::bounds::Path;
use belljar_api::call::User;
use belljar_api::{Operation, checkpoint, context, sandbox};
use belljar_domain::Attribution;

use crate::client::Client;
use crate::error::Error;
use crate::request::Asking;

/// A sandbox that there is; cheap to clone.
#[derive(Debug, Clone)]
pub struct Sandbox {
    pub(crate) client: Client,
    pub(crate) id: String,
    generation: Option<u64>,
    attribution: Option<Attribution>,
    traceparent: Option<String>,
    /// Whose rights count where files are concerned.
    pub(crate) user: Option<User>,
}

impl Sandbox {
    pub(crate) fn new(client: Client, id: &str) -> Self {
        let id = id.to_owned();
        Self { client, id, generation: None, attribution: None, traceparent: None, user: None }
    }

    /// As the one who drives it for a run in this generation of its lease. Once the
    /// sandbox has seen a higher one, everything that is asked of it in this way is
    /// refused (`stale_generation`).
    #[must_use]
    pub fn driven(self, generation: u64) -> Self {
        Self { generation: Some(generation), ..self }
    }

    /// The same sandbox, for one call of a run: rows of what it does bear this identity.
    #[must_use]
    pub fn attributed(self, attribution: Attribution) -> Self {
        Self { attribution: Some(attribution), ..self }
    }

    /// The same sandbox, whose requests belong to this span: a `traceparent` of W3C.
    #[must_use]
    pub fn traced(self, traceparent: String) -> Self {
        Self { traceparent: Some(traceparent), ..self }
    }

    /// The same sandbox, with files handled by the rights of this user instead of
    /// those of the template's own.
    #[must_use]
    pub fn by(self, user: User) -> Self {
        Self { user: Some(user), ..self }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// A request about this sandbox.
    pub(crate) fn ask(&self, operation: Operation) -> Asking {
        self.signed(Asking::new(operation, &[&self.id]))
    }

    /// A request about something in it.
    pub(crate) fn ask_of(&self, operation: Operation, what: &str) -> Asking {
        self.signed(Asking::new(operation, &[&self.id, what]))
    }

    fn signed(&self, asking: Asking) -> Asking {
        let asking = asking.driven(self.generation).attributed(self.attribution.as_ref());
        asking.traced(self.traceparent.as_deref())
    }

    pub async fn inspect(&self) -> Result<sandbox::Sandbox, Error> {
        self.client.value(self.ask(Operation::GetSandbox)).await
    }

    /// Changes when it ends.
    pub async fn change(&self, wish: &sandbox::ChangeSandbox) -> Result<sandbox::Sandbox, Error> {
        self.client.value(self.ask(Operation::ChangeSandbox).json(wish)?).await
    }

    /// Ends it; nothing of it is left.
    pub async fn end(&self) -> Result<(), Error> {
        self.client.nothing(self.ask(Operation::DeleteSandbox)).await
    }

    pub async fn pause(&self, keep: sandbox::Keep) -> Result<sandbox::Sandbox, Error> {
        let wish = sandbox::PauseSandbox { keep };
        self.client.value(self.ask(Operation::PauseSandbox).json(&wish)?).await
    }

    pub async fn resume(&self, wish: &sandbox::ResumeSandbox) -> Result<sandbox::Sandbox, Error> {
        self.client.value(self.ask(Operation::ResumeSandbox).json(wish)?).await
    }

    /// Makes copies of it as it is now; each succeeds or fails by itself.
    pub async fn fork(&self, wish: &sandbox::ForkSandbox) -> Result<sandbox::Forks, Error> {
        self.client.value(self.ask(Operation::ForkSandbox).json(wish)?).await
    }

    /// Keeps it as it is now; it goes on.
    pub async fn checkpoint(
        &self,
        wish: &checkpoint::CreateCheckpoint,
    ) -> Result<checkpoint::Checkpoint, Error> {
        self.client.value(self.ask(Operation::CreateCheckpoint).json(wish)?).await
    }

    /// Makes an interpreter that keeps its state from cell to cell.
    pub async fn create_context(
        &self,
        language: &str,
        cwd: Option<&str>,
    ) -> Result<context::Context, Error> {
        let language = Some(language.to_owned().try_into()?);
        let cwd: Option<Path> = cwd.map(|cwd| cwd.to_owned().try_into()).transpose()?;
        let wish = context::CreateContext { language, cwd };
        self.client.value(self.ask(Operation::CreateContext).json(&wish)?).await
    }

    pub async fn contexts(&self) -> Result<context::ContextList, Error> {
        self.client.value(self.ask(Operation::ListContexts)).await
    }

    /// Interrupts the cell that runs; the state stays.
    pub async fn interrupt(&self, context: &str) -> Result<(), Error> {
        self.client.nothing(self.ask_of(Operation::InterruptContext, context)).await
    }

    /// Gives a context a new interpreter; the state is gone.
    pub async fn restart(&self, context: &str) -> Result<(), Error> {
        self.client.nothing(self.ask_of(Operation::RestartContext, context)).await
    }

    pub async fn delete_context(&self, context: &str) -> Result<(), Error> {
        self.client.nothing(self.ask_of(Operation::DeleteContext, context)).await
    }
}

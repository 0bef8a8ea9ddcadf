//! How a run begins: its data is described and made to fit, and its first event written.

use anyhow::{Context as _, anyhow};
use belljar_agent::{MANIFEST, Plan, PlanError, Room, Texts, shelve_bytes, shelve_files};
use belljar_journal::event::{Brief, Budget, Dataset, RunCreated, Wish};
use belljar_journal::{BlobRef, Created, First, NewRun};
use time::OffsetDateTime;

use super::super::dataset;
use super::brief::take_name;
use super::model::Chosen;
use super::{Asking, Attempt};
use crate::output::{Hint as _, hinted};

/// What a run may use when nobody says otherwise.
const TURNS: u32 = 30;

impl Asking<'_> {
    /// Writes the first event: everything that the run needs later is in it or named by
    /// it.
    pub(super) async fn begin(
        &self,
        attempt: &Attempt,
        chosen: &Chosen,
        room: Room,
        brief: Brief,
    ) -> anyhow::Result<()> {
        let address = &attempt.address;
        let recorded = self.replayed.as_ref().map(|replayed| &replayed.recording);
        let plan = self.planned(room).await?.guarded_by(brief.guards);
        let text = plan.describe().into_bytes();
        let mut datasets = plan.datasets(BlobRef::of(&text));
        let has_data = !datasets.is_empty();
        if has_data {
            let manifest = shelve_bytes(&self.shelf, MANIFEST, plan.manifest().as_bytes())?;
            datasets.push(Dataset {
                name: manifest.name,
                fingerprint: manifest.fingerprint,
                bytes: manifest.bytes,
                description: None,
                origin: None,
            });
        }
        let options = self.options;
        let budget = match (options.budget.budget(), recorded) {
            (asked, Some(recorded)) if asked == Budget::default() => recorded.budget,
            (asked, _) => asked,
        };
        let turns = budget.turns.or(Some(TURNS));
        let texts = recorded.and_then(|recorded| Texts::of(&recorded.prompt));
        let now = options.now.or(recorded.map(|recorded| recorded.now));
        let mut network = attempt.network.clone();
        if options.agent.kind().is_program() {
            // Its requests come from the sandbox.
            let operation = chosen.operation.iter().filter(|it| !network.operations.contains(it));
            let operation: Vec<String> = operation.cloned().collect();
            network.operations.extend(operation);
        }
        let created = RunCreated {
            question: options.question.as_ref().map(ToString::to_string).unwrap_or_default(),
            datasets,
            model: chosen.model.clone(),
            prompt: texts
                .unwrap_or_else(|| Texts::newest_of(options.agent.kind(), &attempt.network))
                .prompt(),
            budget: Budget { turns, ..budget },
            now: now.unwrap_or_else(OffsetDateTime::now_utc),
            wish: Some(Wish {
                template: self.template.clone(),
                environment: attempt.environment,
                network: Box::new(network),
                brief: Box::new(brief),
                operation: chosen.operation.clone(),
                request: None,
                questions: self.options.questions,
                traceparent: None,
            }),
        };
        if let Some(name) = &options.brief.record {
            take_name(&self.config.data, name, &address.run)?;
        }
        let new = NewRun {
            address: address.clone(),
            first: First::Created(created),
            most_unfinished: None,
        };
        match self.journal.create(&new).await.context("cannot record the run")? {
            Created::Made => {}
            Created::Already(_) => return Err(anyhow!("a run with this id exists already")),
        }
        if has_data {
            let kept = self.journal.put_blob(address, text).await;
            kept.context("cannot store the dataset description")?;
        }
        Ok(())
    }

    /// Takes the files, has them described, and makes them fit.
    async fn planned(&self, room: Room) -> anyhow::Result<Plan> {
        let (shelf, printer) = (self.shelf.clone(), *self.printer);
        let paths = self.options.data.clone();
        let taken = tokio::task::spawn_blocking(move || {
            let items = shelve_files(&shelf, &paths);
            let items = items.hint("--data takes files; each needs a name of its own")?;
            let (profile, refused) = dataset::profile(&paths)?;
            for error in &refused {
                printer.report(error);
            }
            if !refused.is_empty() {
                printer.note("the model gets the file's name, but no description of its content");
            }
            anyhow::Ok((items, profile))
        });
        let (items, profile) = taken.await??;
        let plan = Plan::new(items, room, profile, &self.shelf).await;
        plan.map_err(|error| match error {
            PlanError::TooLarge { .. } => hinted(
                error,
                "raise the memory with --memory, or choose a template with a larger disk",
            ),
            error => error.into(),
        })
    }
}

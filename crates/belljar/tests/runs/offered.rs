//! Runs as a server offers them, and the models that it has for them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use belljar_agent::Prices;
use belljar_client::{Client, Within};
use belljar_journal::{Address, FigureStore, Journal, LedgerDirectory, RowDirectory};
use belljar_llm::Dialect;
use belljar_runs::{
    Choice, Data, DataLimits, FixedRules, Models, NoModel, NoProvider, Parts, Priced, RunQuota,
    Runs, Settings, WordHub,
};
use belljar_sandboxes::Tenant;
use belljar_scripted::{Model, Options, Script};
use belljar_server::Inside;
use futures_util::future::BoxFuture;

use crate::world::{MODEL, provider};

/// Runs of a server of this process, with data in a directory of their own.
pub(crate) fn runs(
    inside: &Inside,
    journal: Arc<dyn Journal>,
    figures: Arc<dyn FigureStore>,
    place: &Path,
    models: Scripts,
    settings: Settings,
) -> Runs {
    let quota = RunQuota { runs: 10_000, nano_dollars_per_day: None };
    runs_within(quota, inside, journal, figures, place, models, settings)
}

/// The same, within quotas.
pub(crate) fn runs_within(
    quota: RunQuota,
    inside: &Inside,
    journal: Arc<dyn Journal>,
    figures: Arc<dyn FigureStore>,
    place: &Path,
    models: Scripts,
    settings: Settings,
) -> Runs {
    let inside = inside.clone();
    let clients = move |tenant: &str| {
        let inside = inside.of(Tenant::new(tenant));
        Client::new(Within::new(move |request| {
            let inside = inside.clone();
            async move { inside.answer(request).await }
        }))
    };
    let limits = DataLimits { file_bytes: 1 << 20, ..DataLimits::default() };
    let data = Data::new(
        belljar_objects::Place::Directory(place.join("data")),
        place.join("scratch"),
        limits,
    );
    let parts = Parts {
        journal,
        figures,
        rows: Arc::new(RowDirectory::new(
            place.join("rows"),
            place.join("runs"),
            LedgerDirectory::new(place.join("ledger")),
        )),
        ledger: Arc::new(LedgerDirectory::new(place.join("ledger"))),
        data,
        clients: Box::new(clients),
        models: Box::new(models),
        describer: Some(env!("CARGO_BIN_EXE_belljar").into()),
        mounts: Box::new(|_, _| false),
        quotas: Box::new(move |_| Box::pin(async move { Ok(quota) })),
        words: WordHub::default(),
    };
    Runs::new(parts, settings)
}

/// Models that are told what to say, each as an operation; without one, fixed rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scripts(Arc<Mutex<HashMap<String, SocketAddr>>>);

impl Scripts {
    /// Whoever names this operation is answered by this script.
    pub(crate) async fn add(&self, operation: &str, script: &str) -> Model {
        let script = Script::parse(script).unwrap();
        let options = Options { script, keep_bodies: true, ..Options::default() };
        let model = Model::start(options).await.unwrap();
        self.0.lock().unwrap().insert(operation.to_owned(), model.address());
        model
    }
}

impl Models for Scripts {
    fn choose(&self, operation: Option<&str>, model: Option<&str>) -> Result<Choice, NoModel> {
        match operation {
            None => FixedRules.choose(None, model),
            Some(name) if self.0.lock().unwrap().contains_key(name) => {
                Ok(Choice { operation: Some(name.to_owned()), model: MODEL.to_owned() })
            }
            Some(name) => Err(NoModel(format!("there is no operation `{name}`"))),
        }
    }

    fn provider<'a>(
        &'a self,
        run: &'a Address,
        operation: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Priced, NoProvider>> {
        let Some(operation) = operation else { return FixedRules.provider(run, None) };
        let model = self.0.lock().unwrap()[operation];
        Box::pin(async move {
            Ok((provider(model, Dialect::AnthropicMessages), Prices::embedded().unwrap()))
        })
    }
}

//! Runs of a server or a platform: `POST /v1/runs`, followed to the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use belljar_api::run::{CreateRun, FollowRun};
use belljar_client::{Client, Error, Key, RunNews};
use belljar_domain::units::{parse_size, parse_time};
use belljar_eval::RunSettings;
use belljar_journal::Event;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use tokio::sync::Mutex;

use super::asked::{Began, NotRun, RunOver, Source, Stop, Wanted};
use crate::cli::{Eval, parse_dollars, parse_moment};
use crate::commands::{runs, server};
use crate::config::Config;
use crate::output::Hint as _;

/// The largest file that a checker gets.
const MAX_FILE_BYTES: usize = 64 << 20;
/// The pause before a broken stream is taken up again.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Remote {
    client: Client,
    url: String,
    place: PathBuf,
    /// Digests of files that were uploaded.
    uploaded: Mutex<BTreeMap<String, String>>,
}

impl Remote {
    pub(super) fn new(
        url: &str,
        options: &Eval,
        config: &Config,
        place: &Path,
    ) -> anyhow::Result<Self> {
        let client = server::client(url, options.server_key.as_deref(), config)?;
        let (url, place) = (url.trim_end_matches('/').to_owned(), place.to_owned());
        Ok(Self { client, url, place, uploaded: Mutex::default() })
    }

    pub(super) async fn ask(
        &self,
        wanted: &Wanted<'_>,
        mut stop: Stop,
        began: Began<'_>,
    ) -> Result<RunOver, NotRun> {
        let run = match &wanted.source {
            Source::Resumed { run } => run.clone(),
            source => {
                let (wish, key) = self.wish(wanted, source).await?;
                let made = self.client.create_run(&wish, key.as_ref()).await;
                made.context("cannot create the run")?.id
            }
        };
        began(&run)?;
        let events = tokio::select! {
            events = self.follow(&run) => events?,
            // The run goes on, and --resume follows it.
            _ = stop.wait_for(|is_stopped| *is_stopped) => return Err(NotRun::Interrupted),
        };
        let link = format!("{}/v1/runs/{run}", self.url);
        let over = RunOver::read(run, Some(link), &events);
        Ok(over.context("the run has no end")?)
    }

    /// All events of a run. A stream that breaks is taken up after the last event.
    async fn follow(&self, run: &str) -> anyhow::Result<Vec<Event>> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let next = events.len() as u64 + 1;
            let from = next.try_into().map_err(|error| anyhow!("{next}: {error}"))?;
            let query = FollowRun { from: Some(from), deltas: None };
            let mut news = self.client.follow_run(run, &query).await?;
            loop {
                match news.next().await {
                    Ok(Some(RunNews::Event(event))) => {
                        let is_last = event.kind == "finished";
                        events.push(runs::read_event(event)?);
                        if is_last {
                            return Ok(events);
                        }
                    }
                    Ok(Some(RunNews::Delta(_))) => {}
                    Ok(None) | Err(Error::Transport(_)) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(super) async fn files(&self, over: &RunOver) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let mut files = Vec::new();
        for artifact in &over.view.artifacts {
            let file = self.client.run_file(&over.run, &artifact.name).await?;
            files.push((artifact.name.clone(), file.bytes(MAX_FILE_BYTES).await?.to_vec()));
        }
        Ok(files)
    }

    /// The request for a run, and the key under which it is made once.
    async fn wish(
        &self,
        wanted: &Wanted<'_>,
        source: &Source,
    ) -> anyhow::Result<(CreateRun, Option<Key>)> {
        let mut wish = fields(wanted.settings)?;
        wish["question"] = wanted.question.into();
        let mut data = Vec::new();
        for name in wanted.data {
            data.push(self.data(name).await?);
        }
        wish["data"] = data.into();
        let mut key = None;
        match source {
            Source::New { name } => {
                wish["record"] = name.as_str().into();
                key = Some(name.parse().context("the run has no key")?);
                if let Some(model) = wanted.model {
                    wish["model"] = model.model.as_str().into();
                    wish["operation"] = model.operation.clone().into();
                }
            }
            Source::Replayed { run } | Source::Resumed { run } => {
                wish["replay"] = run.as_str().into();
            }
        }
        let wish = serde_json::from_value(wish).context("the settings cannot be those of a run")?;
        Ok((wish, key))
    }

    /// A file of a run: `NAME@SHA256` of one that the server has, or a path to upload.
    async fn data(&self, text: &str) -> anyhow::Result<Value> {
        let is_digest =
            |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if let Some((name, digest)) = text.rsplit_once('@').filter(|(_, digest)| is_digest(digest))
        {
            return Ok(json!({ "name": name, "sha256": digest }));
        }
        let path = self.place.join(text);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Under the lock, so that trials that begin together upload a file once.
        let mut uploaded = self.uploaded.lock().await;
        if let Some(digest) = uploaded.get(text) {
            return Ok(json!({ "name": name, "sha256": digest }));
        }
        let bytes = std::fs::read(&path);
        let bytes = bytes.with_context(|| format!("cannot read `{}`", path.display()));
        let bytes = bytes.hint("paths are relative to the file of tasks")?;
        let made = self.client.create_data(bytes).await;
        let made = made.with_context(|| format!("cannot upload `{}`", path.display()))?;
        let digest = made.sha256.to_string();
        let answer = json!({ "name": name, "sha256": digest });
        uploaded.insert(text.to_owned(), digest);
        Ok(answer)
    }
}

/// Settings as fields of `POST /v1/runs`.
fn fields(settings: &RunSettings) -> anyhow::Result<Value> {
    let mut fields = serde_json::Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        fields.extend(value.map(|value| (name.to_owned(), value)));
    };
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    add("template", text(&settings.template));
    add("tier", text(&settings.tier));
    add("instructions", text(&settings.instructions));
    add("operations", settings.operations.as_ref().map(|names| json!(names)));
    if let Some(memory) = &settings.memory {
        add("limits", Some(json!({ "memory_bytes": parse_size(memory)? })));
    }
    let mut budget = serde_json::Map::new();
    budget.extend(settings.turns.map(|turns| ("turns".to_owned(), turns.into())));
    budget.extend(settings.tokens.map(|tokens| ("tokens".to_owned(), tokens.into())));
    if let Some(dollars) = &settings.budget_usd {
        let nano = parse_dollars(dollars).map_err(|error| anyhow!("budget_usd: {error}"))?;
        budget.insert("nano_dollars".to_owned(), nano.into());
    }
    if let Some(time) = &settings.time {
        let millis = u64::try_from(parse_time(time)?.as_millis())?;
        budget.insert("wall_ms".to_owned(), millis.into());
    }
    add("budget", (!budget.is_empty()).then(|| budget.into()));
    let mut parameters = serde_json::Map::new();
    let temperature = settings.temperature.map(|number| ("temperature".to_owned(), json!(number)));
    parameters.extend(temperature);
    parameters.extend(text(&settings.effort).map(|effort| ("effort".to_owned(), effort)));
    let tokens = settings.output_tokens.map(|tokens| ("output_tokens".to_owned(), tokens.into()));
    parameters.extend(tokens);
    add("parameters", (!parameters.is_empty()).then(|| parameters.into()));
    if let Some(now) = &settings.now {
        let now = parse_moment(now).map_err(|error| anyhow!("now: {error}"))?;
        add("now", Some(now.format(&Rfc3339)?.into()));
    }
    add("guards", settings.guards.map(serde_json::to_value).transpose()?);
    Ok(fields.into())
}

#[cfg(test)]
mod tests {
    use super::super::asked::sample;
    use super::*;

    /// The API takes every setting.
    #[test]
    fn settings_become_fields_of_a_request() {
        let settings = sample::settings();
        let mut wish = fields(&settings).unwrap();
        wish["question"] = "How many?".into();
        let wish: CreateRun = serde_json::from_value(wish).unwrap();
        assert_eq!(wish.budget.wall_ms.map(|time| time.get()), Some(60_000));
        assert_eq!(wish.budget.nano_dollars.map(|nano| nano.get()), Some(500_000_000));
        assert_eq!(wish.limits.memory_bytes.map(|bytes| bytes.get()), Some(1 << 30));
        assert_eq!(wish.now.unwrap().0, "2026-03-20T00:00:00Z");
        assert!(!wish.guards.joins && wish.guards.dates && !wish.guards.turns);
        assert_eq!(fields(&RunSettings::default()).unwrap(), json!({}));
    }
}

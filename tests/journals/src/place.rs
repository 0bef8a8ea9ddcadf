//! Where journals are.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use belljar_journal::{Address, Directory, Event, Journal};
use belljar_objects::Digest;
use belljar_store::{Quota, Store};
use belljar_testkit::Postgres;
use tempfile::TempDir;

/// Somewhere that a journal can be opened any number of times. Each has the tenants
/// `ann` and `bob`.
pub trait Place: Sync {
    fn open(&self) -> impl Future<Output = anyhow::Result<Arc<dyn Journal>>>;

    /// How another process opens it.
    fn name(&self) -> String;

    /// Puts an event of a newer version behind those of a run.
    fn forge(&self, run: &Address, event: &Event) -> anyhow::Result<()>;
}

/// Opens what [`Place::name`] names.
pub async fn open(name: &str) -> anyhow::Result<Arc<dyn Journal>> {
    let (kind, rest) = name.split_once('=').context("a place is kind=address")?;
    Ok(match kind {
        "directory" => Arc::new(Directory::open(&PathBuf::from(rest))?),
        "postgres" => Arc::new(Store::connect(rest, 8).await?.runs()),
        _ => anyhow::bail!("there is no place `{kind}`"),
    })
}

#[derive(Debug)]
pub struct InDirectory {
    pub root: TempDir,
}

impl InDirectory {
    /// In memory, where the host has a place for that: what processes do to each other
    /// is the same there, and nobody waits for disks.
    pub fn new() -> anyhow::Result<Self> {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Ok(Self { root: root? })
    }

    pub fn on_disk() -> anyhow::Result<Self> {
        Ok(Self { root: TempDir::new()? })
    }

    /// A run's own directory.
    pub fn run(&self, run: &Address) -> PathBuf {
        let tenant = Digest::of(run.tenant.as_bytes()).to_string();
        self.root.path().join(tenant).join(run.run.as_str())
    }
}

impl Place for InDirectory {
    async fn open(&self) -> anyhow::Result<Arc<dyn Journal>> {
        open(&self.name()).await
    }

    fn name(&self) -> String {
        format!("directory={}", self.root.path().display())
    }

    fn forge(&self, run: &Address, event: &Event) -> anyhow::Result<()> {
        use std::io::Write as _;
        let at = event.at.format(&time::format_description::well_known::Rfc3339)?;
        let record = serde_json::json!({"seq": event.seq, "at": at, "body": event.body});
        let proof = Digest::of(record.to_string().as_bytes()).to_string();
        let log = self.run(run).join("log");
        let mut file = std::fs::File::options().append(true).open(log)?;
        writeln!(file, "{} {record}", &proof[..16])?;
        Ok(())
    }
}

#[derive(Debug)]
pub struct InPostgres {
    url: String,
}

impl InPostgres {
    pub async fn new() -> anyhow::Result<Self> {
        Self::on(Postgres::shared()).await
    }

    /// A schema of its own on a server.
    pub async fn on(server: &Postgres) -> anyhow::Result<Self> {
        let place = Self { url: server.schema() };
        let store = Store::connect(&place.url, 2).await?;
        store.migrate().await?;
        let quota = Quota { sandboxes: 1, longest_life: Duration::from_secs(60) };
        for tenant in ["ann", "bob"] {
            store.put_tenant(tenant, None, quota).await?;
        }
        Ok(place)
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Place for InPostgres {
    async fn open(&self) -> anyhow::Result<Arc<dyn Journal>> {
        open(&self.name()).await
    }

    fn name(&self) -> String {
        format!("postgres={}", self.url)
    }

    fn forge(&self, run: &Address, event: &Event) -> anyhow::Result<()> {
        let schema = self.url.rsplit('=').next().unwrap_or_default();
        let (id, seq) = (&run.run, event.seq);
        let (kind, v) = (event.body.kind(), event.body.version());
        let body = serde_json::to_string(&event.body)?;
        Postgres::shared().run(&format!(
            "insert into {schema}.run_event (run_id, seq, kind, v, body)
             values ('{id}', {seq}, '{kind}', {v}, '{body}');
             update {schema}.run set head_seq = {seq}, needs = {v} where id = '{id}'"
        ))
    }
}

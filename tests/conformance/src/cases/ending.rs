//! Ending never waits: not for a snapshot, not for code that swallows interrupts, and not
//! for a client that does not read. Through the API of a real server.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::Tier;
use belljar_testkit::Process;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::cases;
use crate::fixture::Fixture;
use crate::served::{Answer, Served, Unread};
use crate::verbs::{patience, until};

cases!["ending":
    a_delete_does_not_wait_for_a_snapshot needs [Contexts],
    a_delete_does_not_wait_for_a_stalled_reader needs [Contexts],
    a_deadline_does_not_wait_for_a_snapshot needs [Contexts],
    a_shutdown_does_not_wait_for_a_snapshot needs [Contexts],
    a_delete_does_not_wait_for_a_runtime_that_hangs needs [Contexts, Saves],
    a_restart_does_not_wait_for_a_stalled_reader needs [Contexts],
];

/// An end answers within this, whatever the sandbox does.
const PROMPT: Duration = Duration::from_secs(2);

/// Runs for ever, whoever interrupts it.
const ENDLESS: &str = "\
print('begun', flush=True)
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
";

/// The same, and prints all the time.
const ENDLESS_OUTPUT: &str = "\
print('begun', flush=True)
while True:
    try:
        while True:
            print('x' * 1000, flush=True)
    except BaseException:
        pass
";

/// How long a request may take to reach its server.
const ARRIVAL: Duration = Duration::from_millis(500);

struct Scene {
    server: Served,
    id: String,
    /// The cell's events, not read since the first.
    cell: Option<Unread>,
}

impl Scene {
    /// A sandbox in which a cell runs for ever.
    async fn begin(f: &Fixture, code: &str) -> anyhow::Result<Self> {
        let mut scene = Self::set(f, Served::start(patience(f)).await?).await?;
        let mut cell = scene.server.open(&scene.cells(), &json!({ "code": code })).await?;
        cell.until("begun\\n", patience(f)).await?;
        scene.cell = Some(cell);
        Ok(scene)
    }

    /// A sandbox that has run one cell.
    async fn set(f: &Fixture, server: Served) -> anyhow::Result<Self> {
        // The template that the server warms up, for the jail.
        let tier = f.tier.as_str();
        let body = json!({ "template": "base", "tier": tier, "timeout_seconds": 3600 });
        let made = server.ask("POST", "/v1/sandboxes", &body).await?.expect(201, "create")?;
        let id = made.value()?["id"].as_str().context("a sandbox without an id")?.to_owned();
        let scene = Self { server, id, cell: None };
        let first = scene.server.ask("POST", &scene.cells(), &json!({ "code": "1" })).await?;
        first.expect(200, "the first cell")?;
        Ok(scene)
    }

    fn cells(&self) -> String {
        format!("{}/contexts/python/cells", self.path())
    }

    async fn until_stalled(&self, f: &Fixture) -> anyhow::Result<()> {
        self.cell.as_ref().context("no cell runs")?.until_stalled(patience(f)).await
    }

    fn path(&self) -> String {
        format!("/v1/sandboxes/{}", self.id)
    }

    async fn snapshot(&self) -> JoinHandle<anyhow::Result<Answer>> {
        let path = format!("{}/checkpoints", self.path());
        let asked = self.server.ask_beside("POST", path, json!({}));
        tokio::time::sleep(ARRIVAL).await;
        asked
    }

    /// How long a DELETE takes of another sandbox, in which nothing goes on.
    async fn idle_delete(&self, f: &Fixture) -> anyhow::Result<Duration> {
        let body = json!({ "template": "base", "tier": f.tier.as_str(), "timeout_seconds": 3600 });
        let made = self.server.ask("POST", "/v1/sandboxes", &body).await?.expect(201, "create")?;
        let id = made.value()?["id"].as_str().context("a sandbox without an id")?.to_owned();
        let path = format!("/v1/sandboxes/{id}");
        let deleted = self.server.ask("DELETE", &path, &Value::Null).await?;
        Ok(deleted.expect(204, "delete an idle one")?.took)
    }

    /// How the sandbox ended.
    async fn reason(&self) -> anyhow::Result<Value> {
        let ended = self.server.ask("GET", "/v1/ended", &Value::Null).await?;
        let ended = ended.expect(200, "what ended")?.value()?;
        let mut all = ended["items"].as_array().into_iter().flatten();
        let own = all.find(|end| end["id"] == self.id.as_str());
        Ok(own.with_context(|| format!("the end is not on record: {ended}"))?["reason"].clone())
    }
}

/// Snapshots of tiers that share the host's kernel without a zygote are refused at once.
fn must_wait(f: &Fixture) -> bool {
    use crate::features::Feature;
    f.has(Feature::CopiesMemory).is_ok()
}

async fn a_delete_does_not_wait_for_a_snapshot(f: &Fixture) -> anyhow::Result<()> {
    let scene = Scene::begin(f, ENDLESS).await?;
    delete_during_snapshot(f, scene, "with an endless cell").await
}

async fn a_delete_does_not_wait_for_a_stalled_reader(f: &Fixture) -> anyhow::Result<()> {
    let scene = Scene::begin(f, ENDLESS_OUTPUT).await?;
    scene.until_stalled(f).await?;
    delete_during_snapshot(f, scene, "with a stalled reader").await
}

async fn delete_during_snapshot(f: &Fixture, scene: Scene, what: &str) -> anyhow::Result<()> {
    let idle = scene.idle_delete(f).await?;
    let snapshot = scene.snapshot().await;
    let waits = !snapshot.is_finished();
    ensure!(!must_wait(f) || waits, "the snapshot did not wait for the cell");
    let path = scene.path();
    let deleted = scene.server.ask("DELETE", &path, &Value::Null);
    let deleted = tokio::time::timeout(patience(f), deleted).await;
    let deleted = deleted.context("DELETE hangs")??.expect(204, "delete")?;
    let meanwhile = if waits { "a snapshot waits" } else { "a snapshot was refused at once" };
    println!("    {}: {meanwhile}; DELETE {what} answered after {:?}", f.tier, deleted.took);
    println!("    {}: DELETE of an idle sandbox answered after {idle:?}", f.tier);
    ensure!(deleted.took <= PROMPT, "DELETE took {:?}, more than {PROMPT:?}", deleted.took);
    let begin = Instant::now();
    let answered = tokio::time::timeout(patience(f), snapshot).await;
    let answered = answered.context("the snapshot hangs after the end")???;
    ensure!(answered.status >= 400, "a snapshot of what is gone: {}", answered.body);
    println!("    {}: the snapshot was answered {} {}", f.tier, answered.status, answered.body);
    ensure!(begin.elapsed() <= PROMPT, "the snapshot waited for {:?}", begin.elapsed());
    ensure!(scene.reason().await? == "killed", "it ended as {}", scene.reason().await?);
    scene.server.stop(patience(f)).await.map(drop)
}

async fn a_deadline_does_not_wait_for_a_snapshot(f: &Fixture) -> anyhow::Result<()> {
    let scene = Scene::begin(f, ENDLESS).await?;
    let life = json!({ "timeout_seconds": 3 });
    let begin = Instant::now();
    scene.server.ask("PATCH", &scene.path(), &life).await?.expect(200, "shorten its life")?;
    let deadline = begin + Duration::from_secs(3);
    let snapshot = scene.snapshot().await;
    ensure!(!must_wait(f) || !snapshot.is_finished(), "the snapshot did not wait for the cell");
    until("the end at the deadline", patience(f), async || {
        let answer = scene.server.ask("GET", &scene.path(), &Value::Null).await?;
        Ok((answer.status == 404).then_some(()))
    })
    .await?;
    let late = deadline.elapsed();
    println!("    {}: gone {late:?} after the deadline", f.tier);
    ensure!(late <= PROMPT, "it lived on for {late:?}, more than {PROMPT:?}");
    until("the end on record", patience(f), async || {
        Ok(scene.reason().await.is_ok().then_some(()))
    })
    .await?;
    ensure!(scene.reason().await? == "timeout_wall", "it ended as {}", scene.reason().await?);
    let answered = tokio::time::timeout(patience(f), snapshot).await;
    let answered = answered.context("the snapshot hangs after the end")???;
    ensure!(answered.status >= 400, "a snapshot of what is gone: {}", answered.body);
    scene.server.stop(patience(f)).await.map(drop)
}

async fn a_shutdown_does_not_wait_for_a_snapshot(f: &Fixture) -> anyhow::Result<()> {
    let plain = Scene::begin(f, ENDLESS).await?.server.stop(patience(f)).await?;
    let scene = Scene::begin(f, ENDLESS_OUTPUT).await?;
    scene.until_stalled(f).await?;
    let snapshot = scene.snapshot().await;
    ensure!(!must_wait(f) || !snapshot.is_finished(), "the snapshot did not wait for the cell");
    let with = scene.server.stop(patience(f)).await?;
    snapshot.abort();
    println!("    {}: a shutdown takes {plain:?}, with a snapshot {with:?}", f.tier);
    ensure!(with <= plain + PROMPT, "a shutdown takes {plain:?}, with a snapshot {with:?}");
    Ok(())
}

/// What writes the memory of a sandbox does not come back: gVisor's runtime, or a machine
/// monitor that stands still.
async fn a_delete_does_not_wait_for_a_runtime_that_hangs(f: &Fixture) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let server = if f.tier == Tier::GVISOR {
        let program = hanging_runsc(directory.path())?;
        // It is a script, and has no version.
        let force = ("BELLJAR_FORCE_RUNTIME", Path::new("1"));
        Served::start_with(patience(f), &[], &[("BELLJAR_RUNSC", &program), force]).await?
    } else {
        Served::start(patience(f)).await?
    };
    let scene = Scene::set(f, server).await?;
    if f.tier == Tier::Microvm {
        kill_process(monitor_of(scene.server.pid()?)?, Signal::STOP)?;
    }
    let path = scene.path();
    let snapshot = scene.snapshot().await;
    if f.tier == Tier::GVISOR {
        until("a checkpoint that hangs", patience(f), async || {
            Ok(directory.path().join("hangs").exists().then_some(()))
        })
        .await?;
    }
    ensure!(!snapshot.is_finished(), "the snapshot does not hang");
    let deleted = scene.server.ask("DELETE", &path, &Value::Null);
    let deleted = tokio::time::timeout(patience(f), deleted).await;
    let deleted = deleted.context("DELETE hangs")??.expect(204, "delete")?;
    println!("    {}: DELETE with a hanging runtime answered after {:?}", f.tier, deleted.took);
    ensure!(deleted.took <= PROMPT, "DELETE took {:?}, more than {PROMPT:?}", deleted.took);
    if f.tier == Tier::GVISOR {
        let pid = std::fs::read_to_string(directory.path().join("hangs"))?.trim().parse()?;
        until("the end of the command", patience(f), async || {
            Ok(Process::read(pid).is_none().then_some(()))
        })
        .await?;
    }
    snapshot.abort();
    scene.server.stop(patience(f)).await.map(drop)
}

/// A `runsc` that hangs when it is to write a sandbox, and says so.
fn hanging_runsc(directory: &Path) -> anyhow::Result<PathBuf> {
    let named = std::env::var_os("BELLJAR_RUNSC").filter(|name| !name.is_empty());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|dir| dir.join("runsc"));
    let real = named.map(PathBuf::from).or_else(|| found.find(|path| path.is_file()));
    let (real, said) = (real.context("there is no runsc")?, directory.join("hangs"));
    let script = format!(
        "#!/bin/sh\nfor word; do if [ \"$word\" = checkpoint ]; then\n\
         echo $$ > {said}.new; mv {said}.new {said}; exec sleep 100000\nfi; done\n\
         exec {real} \"$@\"\n",
        said = said.display(),
        real = real.display(),
    );
    let program = directory.join("runsc");
    std::fs::write(&program, script)?;
    std::fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    Ok(program)
}

/// The machine monitor below this server.
fn monitor_of(server: u32) -> anyhow::Result<Pid> {
    let is_below = |mut pid: u32| {
        while let Some(process) = Process::read(pid) {
            if pid == server {
                return true;
            }
            pid = process.parent;
        }
        false
    };
    let pids = std::fs::read_dir("/proc")?.flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let monitor = pids.find(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("qemu") && is_below(*pid)
    });
    let monitor = monitor.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    monitor.context("the server has no machine monitor")
}

async fn a_restart_does_not_wait_for_a_stalled_reader(f: &Fixture) -> anyhow::Result<()> {
    let scene = Scene::begin(f, ENDLESS_OUTPUT).await?;
    scene.until_stalled(f).await?;
    let path = format!("{}/contexts/python/restart", scene.path());
    let begin = Instant::now();
    let restarted = scene.server.ask("POST", &path, &Value::Null);
    let restarted = tokio::time::timeout(patience(f), restarted).await;
    restarted.context("a restart hangs")??.expect(204, "restart")?;
    println!("    {}: a restart with a stalled reader took {:?}", f.tier, begin.elapsed());
    let deleted = scene.server.ask("DELETE", &scene.path(), &Value::Null).await?;
    deleted.expect(204, "delete")?;
    scene.server.stop(patience(f)).await.map(drop)
}

//! Snapshots take no more of the host's memory than they may. Through the API of a real server.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::cases;
use crate::features::Feature;
use crate::fixture::Fixture;
use crate::served::{Answer, Served};
use crate::verbs::patience;

cases!["snapshots":
    a_snapshot_is_refused_before_it_takes_memory needs [Contexts, CopiesMemory],
    snapshots_at_once_take_turns needs [Contexts, CopiesMemory],
];

/// An interpreter that holds 64 MiB that no other has.
const FULL: &str = "kept = b'x' * (64 << 20)";

struct Scene {
    server: Served,
    id: String,
}

impl Scene {
    /// A sandbox whose interpreter is full, on a server with this much memory for snapshots.
    async fn set(f: &Fixture, memory: &str) -> anyhow::Result<Self> {
        let told = ["--checkpoint-memory", memory];
        let server = Served::start_with(patience(f), &told, &[]).await?;
        let body = json!({ "template": "base", "tier": f.tier.as_str(), "timeout_seconds": 3600 });
        let made = server.ask("POST", "/v1/sandboxes", &body).await?.expect(201, "create")?;
        let id = made.value()?["id"].as_str().context("a sandbox without an id")?.to_owned();
        let scene = Self { server, id };
        scene.run(FULL).await?;
        Ok(scene)
    }

    async fn run(&self, code: &str) -> anyhow::Result<Value> {
        let path = format!("/v1/sandboxes/{}/contexts/python/cells", self.id);
        let ran = self.server.ask("POST", &path, &json!({ "code": code })).await?;
        ran.expect(200, "a cell")?.value()
    }

    async fn snapshot(&self, keep: &str) -> anyhow::Result<Answer> {
        let path = format!("/v1/sandboxes/{}/checkpoints", self.id);
        self.server.ask("POST", &path, &json!({ "keep": keep })).await
    }
}

async fn a_snapshot_is_refused_before_it_takes_memory(f: &Fixture) -> anyhow::Result<()> {
    let scene = Scene::set(f, "16M").await?;
    if f.has(Feature::Saves).is_ok() {
        // These tiers write their memory to disk themselves: it takes none of the server's.
        scene.snapshot("memory").await?.expect(201, "a snapshot on disk")?;
        return scene.server.stop(patience(f)).await.map(drop);
    }
    let refused = scene.snapshot("memory").await?.expect(503, "more than there is room for")?;
    let code = &refused.value()?["code"];
    ensure!(code == "snapshot_memory_full", "refused as {code}");
    // A copy in another form is no way around it.
    let path = format!("/v1/sandboxes/{}/fork", scene.id);
    let forked = scene.server.ask("POST", &path, &json!({ "count": 1 })).await?;
    ensure!(forked.status == 503, "a fork: {} {}", forked.status, forked.body);
    // The sandbox goes on, and its files are few enough.
    scene.run("assert len(kept) == 64 << 20").await?;
    scene.snapshot("files").await?.expect(201, "files only")?;
    scene.server.stop(patience(f)).await?;
    // The same with room for it.
    let scene = Scene::set(f, "512M").await?;
    scene.snapshot("memory").await?.expect(201, "with room for it")?;
    scene.server.stop(patience(f)).await.map(drop)
}

async fn snapshots_at_once_take_turns(f: &Fixture) -> anyhow::Result<()> {
    // Each could take all of it.
    let scene = Scene::set(f, "512M").await?;
    let (one, two, three) =
        tokio::join!(scene.snapshot("memory"), scene.snapshot("memory"), scene.snapshot("memory"));
    for answer in [one, two, three] {
        answer?.expect(201, "one of three at once")?;
    }
    scene.server.stop(patience(f)).await.map(drop)
}

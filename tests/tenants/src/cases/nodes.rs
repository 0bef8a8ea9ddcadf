//! Two servers that share objects: what one builds, the other has, for its owner
//! alone and whole or not at all.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_actions::{Actions, Config, Keys};
use belljar_node::PoolSize;
use belljar_server::{EngineGone, Listener, Server, Settings};
use belljar_template::{Builder, Job, Options, Recipe, Runner, Silent, Store};
use belljar_testkit::ensure_in_time;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Client, HANG_LIMIT};
use crate::world::World;

const KEY_A: &str = "e2b_adadadadadadadadadadadadadadadadadadadad";
const KEY_B: &str = "e2b_bdbdbdbdbdbdbdbdbdbdbdbdbdbdbdbdbdbdbdbd";

/// A server with a store of its own.
struct One {
    a: Client,
    b: Client,
    store: PathBuf,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), EngineGone>>,
}

impl One {
    async fn start(dir: &Path, name: &str) -> anyhow::Result<Self> {
        let own = dir.join(name);
        std::fs::create_dir(&own)?;
        std::fs::set_permissions(&own, Permissions::from_mode(0o711))?;
        let keys = own.join("keys");
        std::fs::write(&keys, format!("{KEY_A} a\n{KEY_B} b\n"))?;
        let store = dir.join(format!("{name}-store"));
        let mut config = Config::new(own.join("state"), store.clone());
        config.engine_state = Some(own.join("engine"));
        config.pool = PoolSize { least: 0, ..config.pool };
        let objects = dir.join("objects");
        config.objects = Some(objects.to_str().context("an odd directory")?.parse()?);
        let actions = Actions::start(config, Keys::read(&keys)?).await?;
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None)?;
        let address = listener.address().context("the server has no address")?;
        let (stop, stopped) = oneshot::channel();
        let server = Server::new(actions, Settings::default());
        let stopped = async { drop(stopped.await) };
        let server = tokio::spawn(async move { server.run(vec![listener], stopped).await });
        let client = |key: &str| Client { address, key: Some(key.to_owned()) };
        Ok(Self { a: client(KEY_A), b: client(KEY_B), store, stop, server })
    }

    async fn stop(self) -> anyhow::Result<()> {
        let _ = self.stop.send(());
        self.server.await.context("a server panicked")?.context("a server ended by itself")
    }

    /// What its store holds.
    fn kept(&self) -> anyhow::Result<BTreeSet<PathBuf>> {
        let mut kept = BTreeSet::new();
        for name in ["layers", "templates"] {
            for entry in std::fs::read_dir(self.store.join(name))? {
                kept.insert(entry?.path());
            }
        }
        Ok(kept)
    }
}

/// API-14/nodes: a template of one node on another.
pub(crate) async fn templates_are_on_every_node(_: &World) -> anyhow::Result<String> {
    let dir = tempfile::tempdir()?;
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o711))?;
    make_base(dir.path(), &dir.path().join("one-store"))?;
    let one = One::start(dir.path(), "one").await?;
    let two = One::start(dir.path(), "two").await?;
    let seen = Box::pin(share(dir.path(), &one, &two)).await;
    one.stop().await?;
    two.stop().await?;
    seen
}

async fn share(dir: &Path, one: &One, two: &One) -> anyhow::Result<String> {
    let id = build(&one.a, "small", "app:v1", "echo first > /home/user/made").await?;

    // Of the other node, and only for its owner; asked for twice at once.
    for name in ["app:v1", "a/app:v1", &id] {
        let stranger = two.b.json("POST", "/v1/sandboxes", &json!({ "template": name })).await?;
        ensure!(!stranger.is_success(), "{name}: {}", stranger.text());
    }
    ensure!(two.b.get("/templates").await?.expect(200)?.value()? == json!([]));
    ensure!(two.kept()?.is_empty(), "a stranger had it fetched: {:?}", two.kept()?);
    let listed = two.a.get("/templates").await?.expect(200)?.value()?;
    ensure!(listed[0]["templateID"] == id.as_str(), "{listed}");
    let wish = json!({ "template": "app:v1" });
    let (first, second) = tokio::join!(two.a.sandbox(&wish), two.a.sandbox(&wish));
    for sandbox in [first?, second?] {
        let seen = two.a.run(&sandbox, "cat /home/user/made").await?;
        ensure!(seen["stdout"]["data"] == "first\n", "{seen}");
    }

    // Tags that one gives, the other has.
    let tags = json!({ "target": "app:v1", "tags": ["stable"] });
    two.a.json("POST", "/templates/tags", &tags).await?.expect(201)?;
    let path = format!("/templates/{id}/tags");
    until("the tag on the first node", async || {
        Ok(one.a.get(&path).await?.expect(200)?.text().contains("stable"))
    })
    .await?;

    // What is damaged on its way is not used, and nothing of it.
    let before = blobs(dir);
    build(&one.a, "small", "app:v2", "echo second > /home/user/made").await?;
    let fresh: Vec<_> = blobs(dir).difference(&before).cloned().collect();
    ensure!(!fresh.is_empty(), "nothing was shared");
    let kept = two.kept()?;
    let wish = json!({ "template": "app:v2" });
    for blob in &fresh {
        let whole = std::fs::read(blob)?;
        std::fs::write(blob, &whole[..whole.len() / 2])?;
        let damaged = two.a.json("POST", "/v1/sandboxes", &wish).await?;
        ensure!(damaged.status >= 500, "{}: {}", damaged.status, damaged.text());
        std::fs::write(blob, whole)?;
    }
    // The record's own blob comes first: with it damaged, no layer is fetched at all.
    let left: Vec<_> = two.kept()?.difference(&kept).cloned().collect();
    ensure!(left.iter().all(|path| !is_version(path)), "a version of it is kept: {left:?}");
    let sandbox = two.a.sandbox(&wish).await?;
    let seen = two.a.run(&sandbox, "cat /home/user/made").await?;
    ensure!(seen["stdout"]["data"] == "second\n", "{seen}");

    // A build on the other node belongs to the same template.
    let there = build(&two.a, "app:v2", "app:v3", "echo third > /home/user/made").await?;
    ensure!(there == id, "two templates of one name");
    until("what was built on the second node", async || {
        let wish = json!({ "template": "app:v3" });
        Ok(one.a.json("POST", "/v1/sandboxes", &wish).await?.is_success())
    })
    .await?;

    // What one deletes is gone on the other, and from its disk; strangers delete nothing.
    let path = format!("/templates/{id}");
    ensure!(two.b.send("DELETE", &path, "").await?.status == 404);
    two.a.send("DELETE", &path, "").await?.expect(204)?;
    until("the end of the template on the first node", async || {
        let asked = one.a.json("POST", "/v1/sandboxes", &json!({ "template": "app:v1" })).await?;
        Ok(asked.status == 404)
    })
    .await?;
    ensure!(one.a.get("/templates").await?.expect(200)?.value()? == json!([]));
    until("the end of its versions", async || {
        Ok(!one.kept()?.iter().any(|path| path.ends_with(format!("built-{id}"))))
    })
    .await?;
    Ok("built on one node, used, tagged, damaged, deleted on another".to_owned())
}

fn is_version(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.ends_with("templates"))
}

/// Builds a template on another, and answers its id.
async fn build(client: &Client, from: &str, name: &str, command: &str) -> anyhow::Result<String> {
    let asked = client.json("POST", "/v3/templates", &json!({ "name": name })).await?;
    let asked = asked.expect(202)?.value()?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("no id");
    let (id, build) = (text(&asked["templateID"])?, text(&asked["buildID"])?);
    let told = json!({
        "fromTemplate": from,
        "steps": [{ "type": "RUN", "args": [command, "user"] }],
    });
    let path = format!("/v2/templates/{id}/builds/{build}");
    client.json("POST", &path, &told).await?.expect(202)?;
    let path = format!("/templates/{id}/builds/{build}/status");
    until("the build", async || {
        let status = client.get(&path).await?.expect(200)?.value()?;
        ensure!(status["status"] != "error", "the build failed: {status}");
        Ok(status["status"] == "ready")
    })
    .await?;
    Ok(id)
}

async fn until(
    what: &str,
    mut is_so: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !is_so().await? {
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

fn blobs(dir: &Path) -> BTreeSet<PathBuf> {
    let shelves = std::fs::read_dir(dir.join("objects/blobs")).into_iter().flatten().flatten();
    let blobs = shelves.flat_map(|shelf| std::fs::read_dir(shelf.path()).into_iter().flatten());
    blobs.flatten().map(|blob| blob.path()).collect()
}

/// A template of a few programs of the host, small enough to be carried quickly.
fn make_base(dir: &Path, store: &Path) -> anyhow::Result<()> {
    let base = dir.join("base");
    for directory in ["usr/bin", "usr/lib", "usr/lib64"] {
        std::fs::create_dir_all(base.join(directory))?;
    }
    for name in ["bin", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), base.join(name))?;
    }
    for program in ["bash", "cat", "id"] {
        let found = Path::new("/usr/bin").join(program);
        copy(&found, &base)?;
        let needed = Command::new("ldd").arg(&found).output()?;
        let needed = String::from_utf8(needed.stdout)?;
        for library in needed.split_whitespace().filter(|word| word.starts_with('/')) {
            copy(Path::new(library), &base)?;
        }
    }
    std::os::unix::fs::symlink("bash", base.join("usr/bin/sh"))?;
    let recipe = "name = \"small\"\nbase = { directory = \"base\" }\n";
    let recipe = Recipe::parse(recipe, "small", dir)?;
    let store = Store::open(store)?;
    Builder::new(&store, &Nobody, Options::default()).build(&recipe, &mut Silent)?;
    Ok(())
}

fn copy(from: &Path, base: &Path) -> anyhow::Result<()> {
    let inside = from.strip_prefix("/")?;
    let inside =
        if inside.starts_with("usr") { inside.into() } else { Path::new("usr").join(inside) };
    let to = base.join(inside);
    std::fs::create_dir_all(to.parent().context("no directory")?)?;
    std::fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// The recipe has no step that would need a sandbox.
struct Nobody;

impl Runner for Nobody {
    fn run(
        &self,
        _: &Job<'_>,
        _: &mut dyn FnMut(&[u8]),
    ) -> Result<belljar_model::End, Box<dyn std::error::Error + Send + Sync>> {
        Err("nothing is to be run".into())
    }
}

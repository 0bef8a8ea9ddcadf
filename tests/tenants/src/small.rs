//! A server with a store of its own, and a template that is built in a moment.
//!
//! For cases in which tenants build templates: what they build is gone with the server.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_node::PoolSize;
use belljar_sandboxes::{Actions, Config, Keys};
use belljar_server::{EngineGone, Listener, Server, Settings};
use belljar_template::{Builder, Job, Options, Recipe, Runner, Silent, Store};
use belljar_testkit::ensure_in_time;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Client, HANG_LIMIT};

const KEY_A: &str = "e2b_adadadadadadadadadadadadadadadadadadadad";
const KEY_B: &str = "e2b_bdbdbdbdbdbdbdbdbdbdbdbdbdbdbdbdbdbdbdbd";

/// What the template `small` has of the host.
const PROGRAMS: &[&str] = &[
    "bash",
    "cat",
    "chmod",
    "dd",
    "fallocate",
    "id",
    "ln",
    "mkdir",
    "mv",
    "rm",
    "sleep",
    "stat",
    "touch",
    "uname",
];

/// A server with the tenants `a` and `b`.
pub(crate) struct SmallServer {
    pub(crate) a: Client,
    pub(crate) b: Client,
    keys: PathBuf,
    store: PathBuf,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), EngineGone>>,
}

impl SmallServer {
    /// Starts one below `dir`; `adapt` changes its settings. One of the same name takes over what
    /// the last one left.
    pub(crate) async fn start(
        dir: &Path,
        name: &str,
        adapt: impl FnOnce(&Path, &mut Config) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let own = dir.join(name);
        std::fs::create_dir_all(&own)?;
        std::fs::set_permissions(&own, Permissions::from_mode(0o711))?;
        let keys = own.join("keys");
        std::fs::write(&keys, format!("{KEY_A} a\n{KEY_B} b\n"))?;
        let store = dir.join(format!("{name}-store"));
        let mut config = Config::new(own.join("state"), store.clone());
        config.engine_state = Some(own.join("engine"));
        config.pool = PoolSize { least: 0, ..config.pool };
        adapt(dir, &mut config)?;
        let actions = Actions::start(config, Keys::read(&keys)?).await?;
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None)?;
        let address = listener.address().context("the server has no address")?;
        let (stop, stopped) = oneshot::channel();
        let server = Server::new(actions, Settings::default());
        let stopped = async { drop(stopped.await) };
        let server = tokio::spawn(async move { server.run(vec![listener], stopped).await });
        let client = |key: &str| Client { address, key: Some(key.to_owned()) };
        Ok(Self { a: client(KEY_A), b: client(KEY_B), keys, store, stop, server })
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let _ = self.stop.send(());
        self.server.await.context("a server panicked")?.context("a server ended by itself")
    }

    /// Gives `b` a floor, and waits until the server has heard of it.
    pub(crate) async fn raise(&self, floor: &str) -> anyhow::Result<()> {
        std::fs::write(&self.keys, format!("{KEY_A} a\n{KEY_B} b floor={floor}\n"))?;
        until("the floor", async || {
            let wish = json!({ "template": "small", "tier": "jail" });
            let answer = self.b.json("POST", "/v1/sandboxes", &wish).await?;
            Ok(answer.text().contains("tier_too_weak") && answer.text().contains(floor))
        })
        .await
    }

    /// The layers and templates in its store.
    pub(crate) fn kept(&self) -> anyhow::Result<BTreeSet<PathBuf>> {
        let mut kept = BTreeSet::new();
        for name in ["layers", "templates"] {
            for entry in std::fs::read_dir(self.store.join(name))? {
                kept.insert(entry?.path());
            }
        }
        Ok(kept)
    }
}

/// A build that is over.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) template: String,
    /// `ready` or `error`.
    pub(crate) status: String,
    /// Everything that the server says about it, log included.
    pub(crate) said: String,
}

impl Client {
    /// Builds a template with one command, and answers its id.
    pub(crate) async fn build(
        &self,
        from: &str,
        name: &str,
        command: &str,
    ) -> anyhow::Result<String> {
        let steps = json!([{ "type": "RUN", "args": [command, "user"] }]);
        let told = json!({ "fromTemplate": from, "steps": steps });
        let built = self.build_as(name, &told).await?;
        ensure!(built.status == "ready", "the build failed: {}", built.said);
        Ok(built.template)
    }

    /// Asks for a build, and answers its template and the path to start it.
    pub(crate) async fn ask_build(&self, name: &str) -> anyhow::Result<(String, String)> {
        self.ask_build_of(&json!({ "name": name })).await
    }

    /// As [`Self::ask_build`], with a machine of another size.
    pub(crate) async fn ask_build_of(&self, wish: &Value) -> anyhow::Result<(String, String)> {
        let asked = self.json("POST", "/v3/templates", wish).await?;
        let asked = asked.expect(202)?.value()?;
        let text = |value: &Value| value.as_str().map(str::to_owned).context("no id");
        let (id, build) = (text(&asked["templateID"])?, text(&asked["buildID"])?);
        let path = format!("/v2/templates/{id}/builds/{build}");
        Ok((id, path))
    }

    /// Builds a template as told, and waits for the end of the build.
    pub(crate) async fn build_as(&self, name: &str, told: &Value) -> anyhow::Result<Built> {
        let (template, path) = self.ask_build(name).await?;
        self.json("POST", &path, told).await?.expect(202)?;
        self.built(template, &path).await
    }

    /// Waits for the end of a build that was started at `path`.
    pub(crate) async fn built(&self, template: String, path: &str) -> anyhow::Result<Built> {
        let path = format!("{}/status", path.trim_start_matches("/v2"));
        let mut last = Value::Null;
        until("the build", async || {
            last = self.get(&path).await?.expect(200)?.value()?;
            Ok(last["status"] == "ready" || last["status"] == "error")
        })
        .await?;
        let status = last["status"].as_str().unwrap_or_default().to_owned();
        Ok(Built { template, status, said: last.to_string() })
    }
}

/// Waits until something is so.
pub(crate) async fn until(
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

/// Makes the template `small`: a few programs of the host, quickly carried.
pub(crate) fn make_base(dir: &Path, store: &Path) -> anyhow::Result<()> {
    let base = dir.join("base");
    for directory in ["usr/bin", "usr/lib", "usr/lib64"] {
        std::fs::create_dir_all(base.join(directory))?;
    }
    for name in ["bin", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), base.join(name))?;
    }
    for program in PROGRAMS {
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
    ) -> Result<belljar_domain::End, Box<dyn std::error::Error + Send + Sync>> {
        Err("nothing is to be run".into())
    }
}

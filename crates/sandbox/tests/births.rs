//! Runtimes that fail, lie or hang: what the engine says of it, and that nothing
//! is left. The runtimes are scripts; nothing of ours is replaced.
//!
//! Has its own `main`, because the spawner is this same executable.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test: it ends where it fails, and says what it did"
)]

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_model::{RootFs, Runtime, SandboxId, Spec, Tier};
use belljar_sandbox::{Backend as _, Config, Engine, Runtimes, StartError, Weakened, hook};

fn main() {
    hook();
    if !rustix::process::geteuid().is_root() {
        println!("skipped: containers are made by root");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = Stage::new();
        stage.failures().await;
        stage.given_up().await;
        stage.ended_with_the_engine().await;
    });
    println!("births: ok");
}

/// A directory for one engine after another, with an empty layer to stand on.
struct Stage {
    dir: PathBuf,
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// What every one of them says when it is judged.
const VERSION: &str = "[ \"$1\" = --version ] && echo crun version 1.20.0 && exit 0";

/// Writes a number where the pid is expected.
const CLAIM: &str = "while [ $# -gt 0 ]; do [ $1 = --pid-file ] && echo $N > $2; shift; done";

impl Stage {
    fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("belljar-births-{}", std::process::id()));
        fs::create_dir_all(dir.join("layer")).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    async fn engine(&self, script: &str) -> Engine {
        let program = self.dir.join("runtime");
        fs::write(&program, format!("#!/bin/sh\n{VERSION}\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let runtimes = Runtimes { crun: Some(program), ..Runtimes::default() };
        let state_dir = self.dir.join("state");
        let config = Config { state_dir, guest: b"#!/bin/sh\n", runtimes, machines: None };
        Engine::start(config).await.unwrap()
    }

    fn spec(&self) -> Spec {
        let root = RootFs { layers: vec![self.dir.join("layer")], binds: Vec::new() };
        Spec::new(Tier::Oci(Runtime::Crun), root)
    }

    /// What is said when a runtime does as `script` says.
    async fn refusal(&self, script: &str) -> String {
        let engine = self.engine(script).await;
        let made = engine.create(id(1), &self.spec(), &Weakened::default()).await;
        let refusal = chain(&made.expect_err("a sandbox was made of nothing"));
        assert!(!self.groups().is_empty(), "there is nowhere to look");
        self.is_clean(script);
        engine.stop().await;
        refusal
    }

    #[track_caller]
    fn is_clean(&self, when: &str) {
        let left: Vec<_> = fs::read_dir(self.dir.join("state/work")).unwrap().collect();
        assert!(left.is_empty(), "{when}: {left:?}");
        for group in self.groups() {
            let left = fs::read_dir(group).into_iter().flatten().flatten();
            let left: Vec<_> = left.filter(|entry| entry.path().is_dir()).collect();
            assert!(left.is_empty(), "{when}: {left:?}");
        }
    }

    /// The groups of the engine, where there are any.
    fn groups(&self) -> Vec<PathBuf> {
        let name = ours(&self.dir.join("state"));
        let roots = ["", "unified", "memory", "pids", "devices"].into_iter();
        let groups =
            roots.map(|root| Path::new("/sys/fs/cgroup").join(root).join(&name).join("e0"));
        groups.filter(|group| group.is_dir()).collect()
    }

    async fn failures(&self) {
        let said = self.refusal("echo 'no such luck' >&2; exit 3").await;
        assert!(said.contains("with crun; it says: no such luck"), "{said}");
        let said = self.refusal("exit 7").await;
        assert!(said.contains("exited with 7 and said nothing"), "{said}");
        let said = self.refusal("kill -9 $$").await;
        assert!(said.contains("signal 9 ended it"), "{said}");
        let said = self.refusal("exit 0").await;
        assert!(said.contains("read the container's pid"), "{said}");
        // A process that is not the sandbox's own is not taken for it.
        let said = self.refusal(&format!("N=1; {CLAIM}")).await;
        assert!(said.contains("find the container in its cgroups"), "{said}");
        let said = self.refusal(&format!("N=4194303; {CLAIM}; echo vanished >&2")).await;
        assert!(said.contains("it says: vanished"), "{said}");
        // Whatever it started goes with it.
        let said = self.refusal("sleep 1000 & setsid sleep 1000 & exit 1").await;
        assert!(said.contains("exited with 1"), "{said}");
    }

    /// A sandbox that nobody waits for any more is not made, and its id is free.
    async fn given_up(&self) {
        let engine = self.engine("sleep 1000").await;
        let (spec, whole) = (self.spec(), Weakened::default());
        for _ in 0..3 {
            let made = engine.create(id(2), &spec, &whole);
            let soon = Duration::from_millis(100);
            assert!(tokio::time::timeout(soon, made).await.is_err(), "it did not hang");
        }
        // The end of the last was asked for before this, and requests keep order.
        let other = engine.create(id(3), &spec, &whole);
        assert!(tokio::time::timeout(Duration::from_millis(100), other).await.is_err());
        engine.stop().await;
        self.is_clean("given up");
    }

    async fn ended_with_the_engine(&self) {
        let engine = self.engine("sleep 1000").await;
        let (spec, whole) = (self.spec(), Weakened::default());
        let others = engine.clone();
        let waiting =
            tokio::spawn(async move { others.create(id(4), &spec, &whole).await.map(drop) });
        tokio::time::sleep(Duration::from_millis(100)).await;
        engine.stop().await;
        let told = waiting.await.unwrap().expect_err("a sandbox was made of nothing");
        assert!(matches!(told, StartError::SpawnerGone), "{told:?}");
        self.is_clean("the engine ended");
    }
}

fn id(number: u8) -> SandboxId {
    SandboxId::from_random([number; 16])
}

fn chain(error: &dyn Error) -> String {
    let next = error.source().map(|source| format!(": {}", chain(source)));
    format!("{error}{}", next.unwrap_or_default())
}

/// The name of the groups of an engine with this state directory.
fn ours(state: &Path) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    state.as_os_str().hash(&mut hasher);
    format!("belljar-{:016x}", hasher.finish())
}

//! Runtimes that fail, lie or hang: what the engine says of it, and that nothing
//! is left. The runtimes are scripts; nothing of ours is replaced.
//!
//! Has its own `main`, because the spawner is this same executable.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test: it ends where it fails, and says what it lacks"
)]

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use belljar_domain::{RootFs, Runtime, SandboxId, Spec, Tier};
use belljar_engine::{Backend as _, Config, Engine, Runtimes, StartError, Weakened, hook};
use libtest_mimic::{Arguments, Trial};

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    hook();
    let mut arguments = Arguments::from_args();
    // The stages of one process have the same directory.
    arguments.test_threads = Some(1);
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && !arguments.list {
        eprintln!("SKIPPED: containers are made by root");
    }
    let trials = vec![
        trial("failures", async |stage: &Stage| stage.failures().await),
        trial("given_up", async |stage: &Stage| stage.given_up().await),
        trial("ended_with_the_engine", async |stage: &Stage| stage.ended_with_the_engine().await),
    ];
    let trials = trials.into_iter().map(|trial| trial.with_ignored_flag(!is_root)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: &str, case: impl AsyncFnOnce(&Stage) + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(case(&Stage::new()));
        Ok(())
    })
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

/// Says that it has begun, and does nothing for long.
const HANGS: &str = "touch \"$0.begun\"; sleep 1000";

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

    /// Waits until a runtime that hangs has begun.
    async fn begun(&self) {
        let (mark, since) = (self.dir.join("runtime.begun"), Instant::now());
        while fs::remove_file(&mark).is_err() {
            assert!(since.elapsed() < PATIENCE, "no runtime begins");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
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
        assert!(said.contains("with crun; it printed: no such luck"), "{said}");
        let said = self.refusal("exit 7").await;
        assert!(said.contains("exited with 7 and printed nothing"), "{said}");
        let said = self.refusal("kill -9 $$").await;
        assert!(said.contains("ended by signal 9"), "{said}");
        let said = self.refusal("exit 0").await;
        assert!(said.contains("read the container's pid"), "{said}");
        // A process that is not the sandbox's own is not taken for it.
        let said = self.refusal(&format!("N=1; {CLAIM}")).await;
        assert!(said.contains("find the container in its cgroups"), "{said}");
        let said = self.refusal(&format!("N=4194303; {CLAIM}; echo vanished >&2")).await;
        assert!(said.contains("it printed: vanished"), "{said}");
        // Whatever it started goes with it.
        let said = self.refusal("sleep 1000 & setsid sleep 1000 & exit 1").await;
        assert!(said.contains("exited with 1"), "{said}");
    }

    /// A sandbox that nobody waits for any more is not made, and its id is free.
    async fn given_up(&self) {
        let engine = self.engine(HANGS).await;
        let (spec, whole) = (self.spec(), Weakened::default());
        // The end of each was asked for before the next, and requests keep order.
        for number in [2, 2, 2, 3] {
            tokio::select! {
                made = engine.create(id(number), &spec, &whole) => panic!("it ended: {made:?}"),
                () = self.begun() => {}
            }
        }
        engine.stop().await;
        self.is_clean("given up");
    }

    async fn ended_with_the_engine(&self) {
        let engine = self.engine(HANGS).await;
        let (spec, whole) = (self.spec(), Weakened::default());
        let others = engine.clone();
        let waiting =
            tokio::spawn(async move { others.create(id(4), &spec, &whole).await.map(drop) });
        self.begun().await;
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

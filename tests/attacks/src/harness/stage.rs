//! What an act stands on: sandboxes, payloads, canaries.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_domain::limits::MIB;
use belljar_domain::{End, Limits, RootFs, Spec, Tier, User};
use belljar_node::{Call, Command, Defence, Event, Input, Node, NodeError, Sandbox, Weakened};
use belljar_testkit::OwnEngines;

use crate::harness::canary::Canaries;
use crate::harness::programs::Programs;
use crate::harness::smuggled::Smuggled;
use crate::harness::warm::{Made, Warm};

/// Given to each run of an act; clones are the same stage.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) node: Node,
    /// What this program's engines leave on the host; all have one state directory.
    pub(crate) engines: Arc<OwnEngines>,
    /// What the sandboxes are.
    pub(crate) tier: Tier,
    /// The `host` template, or one of layers for machines.
    pub(crate) root: RootFs,
    /// The template with a warm interpreter, if it was asked for.
    pub(crate) warm: Option<Arc<Warm>>,
    /// How the usual sandbox is made.
    pub(crate) made: Made,
    /// What is switched off: nothing, except in a control run.
    pub(crate) weakened: Weakened,
    pub(crate) canaries: Arc<Mutex<Canaries>>,
    pub(crate) programs: Arc<Programs>,
    pub(crate) smuggled: Arc<Smuggled>,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    /// Whether golden files are rewritten.
    pub(crate) bless: bool,
}

/// What a run did, for the oracle.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    live: Vec<Arc<Sandbox>>,
    pub(crate) traces: Vec<Trace>,
    pub(crate) output: Vec<u8>,
}

/// By what a sandbox can be found on the host once it is gone.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) id: String,
    /// Its user ids are this and the 65 535 after it; 0 when unknown.
    pub(crate) first_uid: u32,
}

/// A call that is over.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) end: End,
}

impl Ran {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// How it ended, with the last of its output.
    pub(crate) fn ending(&self) -> String {
        let tail = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(600)..]);
            text.trim().to_owned()
        };
        let end = &self.end;
        format!(
            "{} (code {:?}, signal {:?}); out: {:?}; err: {:?}",
            end.reason.as_str(),
            end.exit_code,
            end.signal,
            tail(&self.stdout),
            tail(&self.stderr)
        )
    }

    /// The texts after lines that begin with `head`.
    pub(crate) fn after(&self, head: &str) -> Vec<String> {
        let text = self.text();
        text.lines().filter_map(|line| line.strip_prefix(head)).map(str::to_owned).collect()
    }
}

/// Output that is kept of each stream.
const KEPT: usize = 16 << 20;

impl Stage {
    /// The same stage with other defences off, for controls of one's own.
    pub(crate) fn without(&self, defences: &[Defence]) -> Self {
        Self { weakened: Weakened::without_all(defences), ..self.clone() }
    }

    /// Starts a node for one act alone.
    pub(crate) async fn start_node(&self) -> Result<Node, NodeError> {
        Node::start(Some(self.engines.state())).await
    }

    /// Whether something is switched off.
    pub(crate) fn is_control(&self) -> bool {
        self.weakened != Weakened::default()
    }

    /// The usual sandbox of the suite.
    pub(crate) fn spec(&self) -> Spec {
        let mut spec = Spec::new(self.tier, self.root.clone());
        spec.limits = Limits {
            memory_bytes: 256 * MIB,
            disk_bytes: 128 * MIB,
            output_bytes: 16 * MIB,
            // An emulated machine is that much slower.
            wall: Duration::from_secs(if self.tier == Tier::Microvm { 50 } else { 10 }),
            ..Limits::default()
        };
        spec
    }

    /// Makes a sandbox; it is ended with the run unless the act does so first.
    pub(crate) async fn sandbox(
        &self,
        tune: impl FnOnce(&mut Spec),
    ) -> anyhow::Result<Arc<Sandbox>> {
        let mut spec = self.spec();
        tune(&mut spec);
        self.sandbox_of(&spec).await
    }

    pub(crate) async fn sandbox_of(&self, spec: &Spec) -> anyhow::Result<Arc<Sandbox>> {
        if let (Some(warm), true) = (&self.warm, self.made != Made::Plain) {
            let spec = Spec { root: warm.root(), ..spec.clone() };
            return self.keep(warm.sandbox(&self.node, self.made, &spec).await?);
        }
        let made = self.node.create_weakened(spec, &self.weakened).await;
        self.keep(made.context("cannot make a sandbox")?)
    }

    /// Has a sandbox ended with the run.
    pub(crate) fn keep(&self, sandbox: Sandbox) -> anyhow::Result<Arc<Sandbox>> {
        let sandbox = Arc::new(sandbox);
        let trace = Trace { id: sandbox.id().to_string(), first_uid: first_uid(sandbox.pid()) };
        let mut ledger = self.ledger();
        ledger.traces.push(trace);
        ledger.live.push(sandbox.clone());
        Ok(sandbox)
    }

    /// Puts a payload into the sandbox and answers the call that would run it.
    pub(crate) async fn place(
        &self,
        sandbox: &Sandbox,
        file: &str,
        args: &[impl AsRef<str>],
    ) -> anyhow::Result<Command> {
        let name = file.rsplit('/').next().unwrap_or(file);
        let name = name.strip_suffix(".c").unwrap_or(name);
        let path = format!("{}/{name}", self.temporary(sandbox).await?);
        let bytes = std::fs::read(self.programs.path(file)?)?;
        self.write(sandbox, &path, bytes).await?;
        let interpreter = match file.rsplit('.').next() {
            Some("py") => Some("/usr/bin/python3"),
            Some("sh") => Some("/bin/sh"),
            _ => None,
        };
        let argv = interpreter.into_iter().chain([&*path]).chain(args.iter().map(AsRef::as_ref));
        Ok(Command::new(argv))
    }

    /// The directory for temporary files inside.
    async fn temporary(&self, sandbox: &Sandbox) -> anyhow::Result<String> {
        if self.tier != Tier::Process {
            return Ok("/tmp".to_owned());
        }
        // The host's own is not the sandbox's there.
        let ran = self.exec(sandbox, &Command::shell("echo $TMPDIR")).await?;
        Ok(ran.text().trim().to_owned())
    }

    /// Makes an executable file by way of a call's standard input. Uploads are
    /// themselves under attack in other places, so nothing rests on them here.
    pub(crate) async fn write(
        &self,
        sandbox: &Sandbox,
        path: &str,
        bytes: Vec<u8>,
    ) -> anyhow::Result<()> {
        let script = "/bin/cat > \"$0\" && /bin/chmod 755 \"$0\"";
        let mut command = Command::new(["/bin/sh", "-c", script, path]);
        command.input = Input::Stream;
        command.wall = Some(Duration::from_secs(10));
        let running = self.start(sandbox, &command).await?;
        let writer = running.call.writer();
        writer.write(bytes);
        writer.close();
        let ran = running.finish().await?;
        anyhow::ensure!(ran.end.exit_code == Some(0), "cannot write {path}: {}", ran.ending());
        Ok(())
    }

    pub(crate) async fn download(&self, sandbox: &Sandbox, path: &str) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let got = sandbox.download(User::User, path.as_bytes(), KEPT as u64, &mut bytes).await;
        got.with_context(|| format!("cannot download {path}"))?;
        Ok(bytes)
    }

    /// Places a payload and runs it to its end.
    pub(crate) async fn run(
        &self,
        sandbox: &Sandbox,
        file: &str,
        args: &[impl AsRef<str>],
    ) -> anyhow::Result<Ran> {
        let command = self.place(sandbox, file, args).await?;
        self.exec(sandbox, &command).await
    }

    /// Runs a call to its end and keeps its output.
    pub(crate) async fn exec(&self, sandbox: &Sandbox, command: &Command) -> anyhow::Result<Ran> {
        self.start(sandbox, command).await?.finish().await
    }

    /// Starts a call that the act wants to watch.
    pub(crate) async fn start(
        &self,
        sandbox: &Sandbox,
        command: &Command,
    ) -> anyhow::Result<Running> {
        let call = sandbox.start(command).await.context("cannot start the call")?;
        Ok(Running {
            call,
            stdout: Vec::new(),
            stderr: Vec::new(),
            end: None,
            ledger: self.ledger.clone(),
        })
    }

    /// Ends a sandbox before the run is over, and answers how long it took.
    pub(crate) async fn destroy(&self, sandbox: Arc<Sandbox>) -> anyhow::Result<Duration> {
        self.ledger().live.retain(|live| !Arc::ptr_eq(live, &sandbox));
        let begin = Instant::now();
        let sandbox = Arc::into_inner(sandbox).context("the sandbox is still used by a task")?;
        sandbox.destroy().await.context("cannot end the sandbox")?;
        Ok(begin.elapsed())
    }

    /// Ends every sandbox that is still there.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        let live = std::mem::take(&mut self.ledger().live);
        let mut result = Ok(());
        for sandbox in live {
            let ended = match Arc::into_inner(sandbox) {
                Some(sandbox) => sandbox.destroy().await.context("cannot end the sandbox"),
                None => Err(anyhow::anyhow!("a task of the act still uses a sandbox")),
            };
            result = result.and(ended);
        }
        result
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn canaries(&self) -> MutexGuard<'_, Canaries> {
        self.canaries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in progress.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) call: Call,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<End>,
    ledger: Arc<Mutex<Ledger>>,
}

impl Running {
    /// Waits until a line of its output begins with `head`, and answers it.
    pub(crate) async fn until(&mut self, head: &str) -> anyhow::Result<String> {
        loop {
            let text = String::from_utf8_lossy(&self.stdout);
            let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
            if let Some(line) = complete.lines().find(|line| line.starts_with(head)) {
                return Ok(line.to_owned());
            }
            if self.end.is_some() {
                anyhow::bail!("it ended without saying {head:?}: {text}");
            }
            self.step().await;
        }
    }

    pub(crate) async fn finish(mut self) -> anyhow::Result<Ran> {
        loop {
            if let Some(end) = self.end.take() {
                let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
                ledger.output.extend_from_slice(&self.stdout);
                ledger.output.extend_from_slice(&self.stderr);
                return Ok(Ran { stdout: self.stdout, stderr: self.stderr, end });
            }
            self.step().await;
        }
    }

    async fn step(&mut self) {
        match self.call.next().await {
            Event::Stdout(bytes) => keep(&mut self.stdout, &bytes),
            Event::Stderr(bytes) => keep(&mut self.stderr, &bytes),
            Event::End(end) => self.end = Some(end),
        }
    }
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    let room = KEPT.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..room.min(bytes.len())]);
}

/// The first host uid of the sandbox whose guest is `pid`.
fn first_uid(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next());
    uid.and_then(|uid| uid.parse::<u32>().ok()).map_or(0, |uid| uid & !0xffff)
}

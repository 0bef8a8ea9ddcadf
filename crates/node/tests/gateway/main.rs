//! A sandbox's way out, from the node's side: who made each connection, what
//! programs find in their environment, and what happens when the gateway dies.
//!
//! Has its own `main`: the spawner and the gateway are this same executable. The variable
//! `BELLJAR_TIER` chooses another tier than `jail`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test: it ends where it fails, and says what it did"
)]

mod stand_in;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_domain::network::{Policy, Row, Subject, Throttle};
use belljar_domain::{Limits, SandboxId, Spec, Tier, User};
use belljar_engine::ListenError;
use belljar_node::{
    Command, ContextOptions, Event, Gateway, GatewayError, GatewayOptions, Language, Leftovers,
    Node, Sandbox, Tag,
};
use belljar_peer_proto::gateway::{Grant, PROCESS, Session};
use belljar_template::{Store, Template};
use libtest_mimic::{Arguments, Trial};
use tokio::sync::broadcast;

fn main() -> ExitCode {
    belljar_node::hook();
    if std::env::args_os().next().is_some_and(|name| name == PROCESS) {
        stand_in::run();
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // The stages of one process have the same directory.
    arguments.test_threads = Some(1);
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && !arguments.list {
        eprintln!("SKIPPED: namespaces of sandboxes are entered by root");
    }
    let trials = vec![
        trial("refused", async |stage: &Stage| stage.refused().await),
        trial("attribution", async |stage: &Stage| stage.attribution().await),
        trial("cells", async |stage: &Stage| stage.cells().await),
        trial("environment", async |stage: &Stage| stage.environment().await),
        trial("tokens_and_policies", async |stage: &Stage| stage.tokens_and_policies().await),
        trial("death", async |stage: &Stage| stage.death().await),
        trial("close", async |stage: &Stage| stage.close().await),
    ];
    let trials = trials.into_iter().map(|trial| trial.with_ignored_flag(!is_root)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A case with a node and a gateway of its own.
fn trial(name: &str, case: impl AsyncFnOnce(&Stage) + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let tier = std::env::var("BELLJAR_TIER").unwrap_or_else(|_| "jail".to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stage = Stage::new(tier.parse().unwrap()).await;
            case(&stage).await;
            stage.node.clone().stop().await;
        });
        Ok(())
    })
}

struct Stage {
    tier: Tier,
    dir: PathBuf,
    node: Node,
    template: Template,
    gateway: Gateway,
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Says a word to whoever listens, and waits for the answer.
const SAY: &str = r#"say() { exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:} || return 1
echo "$1" >&3; read -r -u 3 answer; exec 3>&- 3<&-; [ "$answer" = ok ]; }
"#;

const CALLS: usize = 20;
const EACH: usize = 25;

impl Stage {
    async fn new(tier: Tier) -> Self {
        let dir = std::env::temp_dir().join(format!("belljar-gateway-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let node = Node::start(Some(&dir.join("state"))).await.unwrap();
        let template = match (tier, std::env::var_os("BELLJAR_STORE")) {
            // Directories of the host cannot be shown in a machine of its own.
            (Tier::Microvm, Some(store)) => {
                Store::open(Path::new(&store)).unwrap().resolve("python-data").unwrap()
            }
            _ => belljar_template::host::prepare(&dir.join("store")).unwrap(),
        };
        let options = GatewayOptions { config: dir.join("config"), ..GatewayOptions::default() };
        let gateway = Gateway::start(options).await.unwrap();
        Self { tier, dir, node, template, gateway }
    }

    async fn sandbox(&self, tier: Tier) -> Sandbox {
        let limits = Limits { pids: 256, ..Limits::default() };
        let spec = Spec { limits, ..Spec::new(tier, self.template.root.clone()) };
        self.node.create(&spec).await.unwrap()
    }

    async fn connected(&self) -> Sandbox {
        let sandbox = self.sandbox(self.tier).await;
        sandbox.connect_gateway(&self.gateway, session()).await.unwrap();
        sandbox
    }

    /// A tier without a namespace of its own says so.
    async fn refused(&self) {
        let sandbox = self.sandbox(Tier::Process).await;
        let refused = sandbox.connect_gateway(&self.gateway, session()).await.unwrap_err();
        let no_namespace = GatewayError::Listen(ListenError::NoNamespace(Tier::Process));
        assert_eq!(format!("{refused:?}"), format!("{no_namespace:?}"));
        assert!(!sandbox.is_connected());
        assert!(matches!(sandbox.revoke().await, Err(GatewayError::NotConnected)));
        sandbox.destroy().await.unwrap();
    }

    /// A thousand connections of twenty calls at once, half of them by what the
    /// calls left behind.
    async fn attribution(&self) {
        let sandbox = Arc::new(self.connected().await);
        let mut rows = self.gateway.rows();
        let mut numbers = BTreeMap::new();
        let mut running = Vec::new();
        for index in 0..CALLS {
            let name = format!("call-{index}");
            // The daemon has left the session, and its parents have ended.
            let script = format!(
                "{SAY} i=0; while [ $i -lt {EACH} ]; do say '{name}' || exit 9; i=$((i+1)); done
                setsid bash -c '(bash /tmp/daemon {name} &) ' </dev/null >/dev/null 2>&1"
            );
            let daemon = format!(
                "{SAY} while [ ! -e /tmp/go ]; do sleep 0.05; done
                i=0; while [ $i -lt {EACH} ]; do say \"$1-left\"; i=$((i+1)); done"
            );
            if index == 0 {
                write(&sandbox, "/tmp/daemon", &daemon).await;
            }
            let mut command = Command::new(["bash", "-c", &script]);
            command.leftovers = Leftovers::Keep;
            // On an emulated processor this takes its time.
            command.wall = Some(Duration::from_secs(600));
            let run = Some("run".to_owned());
            command.tag = Tag { name: Some(name.clone()), run, turn: Some(7) };
            let mut call = sandbox.start(&command).await.unwrap();
            numbers.insert(name, call.number());
            running.push(tokio::spawn(async move {
                loop {
                    match call.next().await {
                        Event::End(end) => return end,
                        Event::Stderr(text) => panic!("{}", String::from_utf8_lossy(&text)),
                        Event::Stdout(_) => {}
                    }
                }
            }));
        }
        let start = Instant::now();
        let seen = self.collect(&mut rows, &numbers, false).await;
        for call in running {
            let end = call.await.unwrap();
            assert_eq!(end.exit_code, Some(0), "{end:?}");
        }
        write(&sandbox, "/tmp/go", "").await;
        let left = self.collect(&mut rows, &numbers, true).await;
        println!("{} connections in {:?}", 2 * CALLS * EACH, start.elapsed());
        for counted in [seen, left] {
            assert_eq!(counted.len(), CALLS);
            assert!(counted.values().all(|count| *count == EACH), "{counted:?}");
        }
        Arc::into_inner(sandbox).unwrap().destroy().await.unwrap();
    }

    /// Takes the rows of all calls; each must be put down to the call that its
    /// client said it was of.
    async fn collect(
        &self,
        rows: &mut broadcast::Receiver<Arc<[Row]>>,
        numbers: &BTreeMap<String, u32>,
        ended: bool,
    ) -> BTreeMap<String, usize> {
        let mut seen = BTreeMap::new();
        for _ in 0..CALLS * EACH {
            let row = next(rows).await;
            let said = row.path.clone().unwrap();
            let name = said.strip_suffix("-left").unwrap_or(&said).to_owned();
            assert_eq!(said.ends_with("-left"), ended, "{row:?}");
            let call = row.subject.call.as_ref().unwrap_or_else(|| panic!("{row:?}"));
            assert_eq!(call.number, numbers[&name], "{row:?}");
            assert_eq!(call.name.as_deref(), Some(&*name), "{row:?}");
            assert_eq!((row.subject.run.as_deref(), row.subject.turn), (Some("run"), Some(7)));
            assert_eq!(call.ended, ended, "{row:?}");
            // Only where they are the host kernel's own can it show the processes.
            let process = row.subject.process.as_ref().map(|process| process.name.as_str());
            assert_eq!(process, self.tier.shares_kernel().then_some("bash"), "{row:?}");
            *seen.entry(name).or_default() += 1;
        }
        seen
    }

    /// Cells are calls: of one interpreter, each connection is of the cell.
    async fn cells(&self) {
        let sandbox = self.sandbox(self.tier).await;
        let options = ContextOptions {
            language: Language::Bash,
            interpreter: "/bin/bash".into(),
            cwd: None,
            env: BTreeMap::from([("NO_PROXY".to_owned(), "mine".to_owned())]),
        };
        // One that is older than the way out, and one that is not.
        let older = sandbox.context(options.clone()).await.unwrap();
        sandbox.connect_gateway(&self.gateway, session()).await.unwrap();
        let newer = sandbox.context(options).await.unwrap();
        let mut rows = self.gateway.rows();
        for context in [&older, &newer, &older] {
            let running = context.run(format!("{SAY} say hello; echo $NO_PROXY"), None);
            let number = running.number();
            let ran = running.collect().await;
            assert_eq!(ran.text(), "mine\n", "{ran:?}");
            let row = next(&mut rows).await;
            let call = row.subject.call.as_ref().unwrap();
            assert_eq!((call.number, call.ended), (number, false), "{row:?}");
        }
        // What a cell started runs on after it.
        let later = format!("{SAY} (while [ ! -e /tmp/go ]; do sleep 0.05; done; say later) &");
        let running = newer.run(later, None);
        let number = running.number();
        running.collect().await;
        write(&sandbox, "/tmp/go", "").await;
        let row = next(&mut rows).await;
        let call = row.subject.call.as_ref().unwrap();
        assert_eq!((call.number, call.ended), (number, true), "{row:?}");
        sandbox.destroy().await.unwrap();
    }

    async fn environment(&self) {
        let sandbox = self.sandbox(self.tier).await;
        let bare = output(&sandbox, &Command::shell("env")).await;
        assert!(!bare.to_lowercase().contains("proxy"), "{bare}");
        sandbox.connect_gateway(&self.gateway, session()).await.unwrap();
        let mut command = Command::shell("env; tail -n 1 $SSL_CERT_FILE; wc -l < $SSL_CERT_FILE");
        command.env = vec![(b"https_proxy".to_vec(), b"http://elsewhere".to_vec())];
        let found = output(&sandbox, &command).await;
        for line in ["https_proxy=http://elsewhere", "NODE_USE_ENV_PROXY=1"] {
            assert!(found.lines().any(|found| found == line), "{line}: {found}");
        }
        assert!(!found.lines().any(|line| line.starts_with("https_proxy=http://127")), "{found}");
        let is_proxy = |line: &str| line.starts_with("HTTPS_PROXY=http://127.0.0.1:");
        assert!(found.lines().any(is_proxy), "{found}");
        let pid = self.gateway.pid().unwrap();
        assert!(found.contains(&format!("authority of {pid}")), "{found}");
        let lines: u32 = found.lines().last().unwrap().trim().parse().unwrap();
        // The host has authorities of its own, and its template shows them.
        let host = Path::new("/etc/ssl/certs/ca-certificates.crt").exists();
        assert_eq!(lines > 100, host, "{lines} lines");
        let spoil = "echo x >> $SSL_CERT_FILE; mv $SSL_CERT_FILE /tmp/x; rm -rf /etc/belljar";
        output(&sandbox, &Command::shell(&format!("({spoil}) 2>/dev/null; true"))).await;
        let kept = output(&sandbox, &Command::shell("tail -n 1 $SSL_CERT_FILE")).await;
        assert_eq!(kept, format!("authority of {pid}\n"));
        sandbox.destroy().await.unwrap();
    }

    async fn tokens_and_policies(&self) {
        let sandbox = self.connected().await;
        let twice = sandbox.connect_gateway(&self.gateway, session()).await;
        assert!(matches!(twice, Err(GatewayError::Connected)), "{twice:?}");
        let operations = vec![];
        let grant = Grant { operations, agent: None, seconds: 60, budget: None, approvals: None };
        let minted = sandbox.mint(grant).await.unwrap();
        assert_eq!(minted.token, format!("token of {}", sandbox.id()));
        let mut rows = self.gateway.rows();
        sandbox.change_policy(Policy::default()).await.unwrap();
        assert_eq!(next(&mut rows).await.path.as_deref(), Some("change"));
        let throttle = Throttle { connections: 0, ..Throttle::default() };
        let refused = sandbox.change_policy(Policy { throttle, ..Policy::default() }).await;
        assert!(matches!(refused, Err(GatewayError::Refused(why)) if why.contains("connect")));
        if self.tier.shares_kernel() {
            sandbox.pause().await.unwrap();
            assert_eq!(next(&mut rows).await.path.as_deref(), Some("revoke"));
            sandbox.resume().await.unwrap();
        }
        sandbox.destroy().await.unwrap();
    }

    /// Without a gateway nothing is reached; with the next one it is again.
    async fn death(&self) {
        let sandbox = self.connected().await;
        let say = format!("{SAY} say alive");
        let mut rows = self.gateway.rows();
        output(&sandbox, &Command::new(["bash", "-c", &say])).await;
        next(&mut rows).await;
        let dead = self.gateway.pid().unwrap();
        let hold = self.dir.join("config");
        std::fs::write(&hold, "").unwrap();
        kill(dead);
        until(async || self.gateway.pid().is_none()).await;
        // Nobody is there, and nobody comes.
        let refused = format!("{SAY} for i in 1 2 3; do say x && exit 1; done; exit 0");
        output(&sandbox, &Command::new(["bash", "-c", &refused])).await;
        // Whoever needs one meanwhile hears how it ended, and why if it says so.
        let options = GatewayOptions { config: hold.clone(), ..GatewayOptions::default() };
        let silent = Gateway::start(options.clone()).await.unwrap_err();
        assert!(matches!(silent, GatewayError::Ended(_)), "{silent:?}");
        let said = self.dir.join("said");
        std::fs::write(&said, "it rains").unwrap();
        std::fs::rename(&said, &hold).unwrap();
        let failed = "the gateway process cannot serve: it rains";
        assert_eq!(Gateway::start(options).await.unwrap_err().to_string(), failed);
        until(async || sandbox.revoke().await.is_err_and(|error| error.to_string() == failed))
            .await;
        std::fs::remove_file(&hold).unwrap();
        let back = Command::new(["bash", "-c", &say]);
        until(async || sandbox.execute(&back).await.unwrap().end.exit_code == Some(0)).await;
        let next_pid = self.gateway.pid().unwrap();
        assert_ne!(next_pid, dead);
        // It has an authority of its own, which is trusted instead.
        let bundle = Command::shell("tail -n 1 $SSL_CERT_FILE");
        let trusted = format!("authority of {next_pid}\n");
        until(async || output(&sandbox, &bundle).await == trusted).await;
        sandbox.destroy().await.unwrap();
    }

    /// A sandbox's end is the end of its session, whoever forgets it.
    async fn close(&self) {
        let mut rows = self.gateway.rows();
        for end in ["destroy", "end", "drop"] {
            let sandbox = self.connected().await;
            match end {
                "destroy" => sandbox.destroy().await.unwrap(),
                "end" => sandbox.end().await.unwrap(),
                _ => drop(sandbox),
            }
            assert_eq!(next(&mut rows).await.path.as_deref(), Some("close"), "{end}");
        }
    }
}

fn session() -> Session {
    let subject = Subject {
        tenant: "tenant".into(),
        // Whatever is said here, it is the sandbox's own.
        sandbox: SandboxId::from_random([1; 16]),
        run: None,
        turn: None,
        call: None,
        process: None,
    };
    Session { subject, policy: Policy::default(), operations: Vec::new(), charged: None }
}

async fn next(rows: &mut broadcast::Receiver<Arc<[Row]>>) -> Row {
    let soon = Duration::from_secs(120);
    let rows = tokio::time::timeout(soon, rows.recv()).await.expect("a row").unwrap();
    assert_eq!(rows.len(), 1);
    rows[0].clone()
}

async fn write(sandbox: &Sandbox, path: &str, text: &str) {
    let mut source = text.as_bytes();
    sandbox.upload(User::User, path.as_bytes(), 0o644, &mut source).await.unwrap();
}

async fn output(sandbox: &Sandbox, command: &Command) -> String {
    let ended = sandbox.execute(command).await.unwrap();
    let text = String::from_utf8_lossy(&ended.stdout.head).into_owned();
    assert_eq!(ended.end.exit_code, Some(0), "{text} {ended:?}");
    text
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < Duration::from_secs(60), "it never came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

//! A PostgreSQL server that lives as long as the test's process, or as long as the run
//! of `cargo nextest` that the process belongs to.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use rustix::fs::FlockOperation;
use tempfile::TempDir;

const PREFIX: &str = "belljar-pg-";

/// Set by `cargo nextest` for each test, which has a process of its own.
const RUN_ID: &str = "NEXTEST_RUN_ID";

/// Keeps a server for a run: ends it, and removes its directory, when the runner has
/// ended. `$1` is the runner's process id, `$2` the directory, the rest is the server.
const KEEPER: &str = r#"
runner=$1 dir=$2
shift 2
"$@" &
server=$!
while kill -0 "$runner" && kill -0 "$server"; do sleep 0.5; done
kill -QUIT "$server"
wait "$server"
rm -rf "$dir"
"#;
const PATIENCE: Duration = Duration::from_secs(60);

/// One server, reached by a socket in a directory of its own; no port.
#[derive(Debug)]
pub struct Postgres {
    dir: PathBuf,
    lifetime: Lifetime,
    schemas: AtomicU32,
}

#[derive(Debug)]
enum Lifetime {
    /// Ends with this value.
    Owned { server: Child, _dir: TempDir },
    /// Ends with the run of `cargo nextest`.
    Run,
}

impl Postgres {
    /// The server of this process, or of the run of `cargo nextest`: the first test that
    /// asks for it starts it.
    ///
    /// # Panics
    /// If there is none to be had: then nothing can be tested.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| {
            let server = match std::env::var(RUN_ID) {
                Ok(run) => Self::of_run(&run),
                Err(_) => Self::start(),
            };
            server.unwrap_or_else(|error| panic!("no PostgreSQL: {error:#}"))
        })
    }

    /// Joins the server of a run, and starts it if this is the first test that needs it. A
    /// server takes a second to start, and nextest gives each test a process.
    fn of_run(run: &str) -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("{PREFIX}run-{run}"));
        std::fs::create_dir_all(&dir)?;
        let lock = File::create(dir.join("lock"))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let (lifetime, schemas) = (Lifetime::Run, AtomicU32::new(0));
        let postgres = Self { dir, lifetime, schemas };
        let ready = postgres.dir.join("ready");
        if !ready.exists() {
            let programs = programs()?;
            let server = postgres.initialize(&programs, "fsync=off")?;
            let runner = rustix::process::getppid().context("the test has no runner")?;
            let mut keeper = Command::new("setsid");
            keeper.args(["sh", "-c", KEEPER, "sh"]).arg(runner.to_string()).arg(&postgres.dir);
            keeper.arg(server.get_program()).args(server.get_args()).current_dir("/");
            keeper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            keeper.spawn().context("cannot start the server")?;
            postgres.wait(&programs)?;
            File::create(ready)?;
        }
        Ok(postgres)
    }

    /// A server that dies with this process, however that ends.
    pub fn start() -> anyhow::Result<Self> {
        // A test that needs what was written to survive a crash says so itself.
        Self::start_with("fsync=off")
    }

    /// One that waits for the disk, as it should: to measure with.
    pub fn start_durable() -> anyhow::Result<Self> {
        Self::start_with("fsync=on")
    }

    fn start_with(fsync: &str) -> anyhow::Result<Self> {
        sweep();
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        let programs = programs()?;
        let (dir, schemas) = (made.path().to_owned(), AtomicU32::new(0));
        // Until the server has started, there is none to end.
        let mut postgres = Self { dir, lifetime: Lifetime::Run, schemas };
        let mut command = postgres.initialize(&programs, fsync)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = spawn_for_good(command)?;
        postgres.lifetime = Lifetime::Owned { server, _dir: made };
        postgres.wait(&programs)?;
        Ok(postgres)
    }

    /// Makes the server's files. Answers the command that starts it.
    fn initialize(&self, programs: &Path, fsync: &str) -> anyhow::Result<Command> {
        if rustix::process::geteuid().is_root() {
            give_to_postgres(&self.dir)?;
        }
        let data = self.dir.join("data");
        let made = as_postgres(&programs.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"])
            .arg("--locale=C")
            .arg("--pgdata")
            .arg(&data)
            .current_dir(&self.dir)
            .output()
            .context("cannot run initdb")?;
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        anyhow::ensure!(made.status.success(), "initdb failed: {said}");
        let mut command = as_postgres(&programs.join("postgres"));
        command.arg("-D").arg(&data).arg("-k").arg(&self.dir).current_dir(&self.dir);
        for setting in ["listen_addresses=", fsync, "max_connections=200"] {
            command.args(["-c", setting]);
        }
        Ok(command)
    }

    #[expect(clippy::disallowed_methods, reason = "the server tells nobody when it is ready")]
    fn wait(&self, programs: &Path) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let ready = Command::new(programs.join("pg_isready"))
                .arg("--quiet")
                .arg("--host")
                .arg(&self.dir)
                .status()?;
            if ready.success() {
                return Ok(());
            }
            anyhow::ensure!(began.elapsed() < PATIENCE, "the server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The address of an empty schema that nobody else has.
    ///
    /// # Panics
    /// If the server does not make one.
    pub fn schema(&self) -> String {
        let number = self.schemas.fetch_add(1, Ordering::Relaxed);
        // Process ids come again, and the server outlives the process.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let name = format!("test_{}_{now}_{number}", std::process::id());
        self.run(&format!("create schema {name}")).unwrap_or_else(|error| panic!("{error:#}"));
        let dir = self.dir.display();
        format!("postgres://postgres@localhost/postgres?host={dir}&options[search_path]={name}")
    }

    /// The directory with all of the server's files: tables, indexes, write-ahead log.
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// Runs a statement as the server's owner.
    pub fn run(&self, sql: &str) -> anyhow::Result<()> {
        let done = self.psql(sql)?.output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        anyhow::ensure!(done.status.success(), "`{sql}`: {said}");
        Ok(())
    }
}

impl Postgres {
    /// Begins a statement as the server's owner, and does not wait for it.
    pub fn start_statement(&self, sql: &str) -> anyhow::Result<Child> {
        let mut psql = self.psql(sql)?;
        psql.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(psql.spawn()?)
    }

    fn psql(&self, sql: &str) -> anyhow::Result<Command> {
        let mut psql = Command::new(programs()?.join("psql"));
        psql.args(["--quiet", "--no-psqlrc", "--username=postgres", "--dbname=postgres"])
            .args(["--set=ON_ERROR_STOP=1", "--command", sql])
            .arg("--host")
            .arg(&self.dir);
        Ok(psql)
    }

    /// All rows of all schemas, as statements.
    pub fn dump(&self) -> anyhow::Result<Vec<u8>> {
        let done = Command::new(programs()?.join("pg_dump"))
            .args(["--data-only", "--inserts", "--username=postgres", "--dbname=postgres"])
            .arg("--host")
            .arg(&self.dir)
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        anyhow::ensure!(done.status.success(), "cannot dump the database: {said}");
        Ok(done.stdout)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Lifetime::Owned { server, .. } = &mut self.lifetime {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Removes what servers left that ended with their test: the shared one of a
/// process is never dropped.
fn sweep() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let written = std::fs::read_to_string(entry.path().join("data/postmaster.pid"));
        // One without the file may be about to start.
        let Ok(written) = written else { continue };
        // So may one whose files were only just made.
        let is_new = |data: std::fs::Metadata| data.modified()?.elapsed().map_err(io::Error::other);
        let age = entry.path().join("data").metadata().and_then(is_new);
        if age.is_ok_and(|age| age < PATIENCE) {
            continue;
        }
        let pid = written.lines().next().unwrap_or_default();
        if !Path::new("/proc").join(pid).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Where the programs of the newest server of this host are.
pub fn programs() -> anyhow::Result<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .context("there is no PostgreSQL; install Debian's `postgresql`")?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, path)| path).context("there is no PostgreSQL in /usr/lib/postgresql")
}

/// The server refuses to run as root.
fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
    }
    command.args(["--pdeathsig=KILL", "--"]).arg(program);
    command
}

fn give_to_postgres(dir: &Path) -> anyhow::Result<()> {
    let done = Command::new("chown").arg("postgres:postgres").arg(dir).status()?;
    anyhow::ensure!(done.success(), "cannot give `{}` to the user postgres", dir.display());
    Ok(())
}

/// The kernel ends a child with the thread that made it, and the threads of tests
/// end early. This one does not.
pub(crate) fn spawn_for_good(mut command: Command) -> anyhow::Result<Child> {
    let (sender, spawned) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(command.spawn());
        loop {
            std::thread::park();
        }
    });
    spawned.recv()?.context("cannot start the server")
}

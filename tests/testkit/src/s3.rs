//! A server that speaks S3, over a directory that a test can look into.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tempfile::TempDir;

use crate::postgres::spawn_for_good;

const PREFIX: &str = "belljar-s3-";
const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "test-access-key";
const SECRET: &str = "test-secret-key";

/// One server with an empty bucket.
#[derive(Debug)]
pub struct S3 {
    dir: TempDir,
    port: u16,
    server: Child,
}

impl S3 {
    pub const BUCKET: &str = "bucket";

    /// A server that dies with this process, however that ends.
    pub fn start() -> anyhow::Result<Self> {
        let mut last = anyhow::anyhow!("not tried");
        // Between choosing a port and using it somebody else may take it.
        for _ in 0..5 {
            match Self::try_start() {
                Ok(started) => return Ok(started),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn try_start() -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        std::fs::create_dir_all(dir.path().join("root").join(Self::BUCKET))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "--"]).arg(program()?);
        command.args(["--quiet", "--keep-alive", "--access", KEY, "--secret", SECRET]);
        command.arg("--port").arg(format!("127.0.0.1:{port}"));
        // Tags of objects are attributes of their files: beside them, in files of their
        // own, they would change a moment later than the content.
        command.arg("posix").arg(dir.path().join("root")).current_dir(dir.path());
        let log = std::fs::File::create(dir.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let server = spawn_for_good(command)?;
        let mut s3 = Self { dir, port, server };
        s3.wait()?;
        Ok(s3)
    }

    #[expect(clippy::disallowed_methods, reason = "the server tells nobody when it is ready")]
    fn wait(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let said = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            if let Some(status) = self.server.try_wait()? {
                anyhow::bail!("the S3 server ended: {status}; {said}");
            }
            anyhow::ensure!(began.elapsed() < PATIENCE, "the S3 server does not listen: {said}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Writes what a client has to know to a file of `AWS_NAME=value` lines.
    pub fn settings(&self) -> anyhow::Result<PathBuf> {
        let path = self.dir.path().join("settings");
        let text = format!(
            "AWS_ENDPOINT_URL=http://127.0.0.1:{}\nAWS_REGION=us-east-1\n\
             AWS_ACCESS_KEY_ID={KEY}\nAWS_SECRET_ACCESS_KEY={SECRET}\n",
            self.port
        );
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Where the server keeps the bucket's objects, as plain files.
    pub fn bucket(&self) -> PathBuf {
        self.dir.path().join("root").join(Self::BUCKET)
    }

    /// A directory that is gone with the server.
    pub fn directory(&self) -> &Path {
        self.dir.path()
    }

    /// Ends the server, with no time to write anything.
    pub fn kill(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.kill();
    }
}

/// On the path, or where the gate installs its tools.
fn program() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("BELLJAR_CACHE").map(|cache| Path::new(&cache).join("tools/bin"));
    let home =
        std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/belljar/tools/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(cache).chain(home);
    let mut programs = places.map(|place| place.join("versitygw"));
    programs
        .find(|program| program.is_file())
        .context("there is no versitygw; `.ci/run prepare` installs it")
}

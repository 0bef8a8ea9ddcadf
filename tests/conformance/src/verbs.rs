//! Short ways to say what cases say often.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use belljar_domain::{End, EndReason, User};
use belljar_node::{Call, CallError, Command, Event, FileError, Finished, Input, Sandbox};
use tokio::io::{AsyncRead, ReadBuf};

use crate::fixture::Fixture;

/// Fails unless both are equal, and shows both.
#[macro_export]
macro_rules! same {
    ($got:expr, $want:expr, $($what:tt)+) => {
        match (&$got, &$want) {
            (got, want) => {
                anyhow::ensure!(got == want, "{}: got {got:?}, not {want:?}", format!($($what)+));
            }
        }
    };
}

/// Runs a shell script to its end.
pub(crate) async fn run(sandbox: &Sandbox, script: &str) -> anyhow::Result<Finished> {
    sandbox.execute(&Command::shell(script)).await.with_context(|| format!("run `{script}`"))
}

/// The output of a script that must succeed.
pub(crate) async fn output(sandbox: &Sandbox, script: &str) -> anyhow::Result<String> {
    output_of(sandbox, &Command::shell(script)).await
}

pub(crate) async fn output_of(sandbox: &Sandbox, command: &Command) -> anyhow::Result<String> {
    let finished = sandbox.execute(command).await.context("run the command")?;
    ensure!(
        finished.end.reason == EndReason::Done,
        "{} (status {}): {}{}",
        finished.end.reason,
        finished.end.status(),
        finished.stdout.text(),
        finished.stderr.text(),
    );
    Ok(finished.stdout.text())
}

pub(crate) fn python(script: &str) -> Command {
    Command::new(["/usr/bin/python3", "-c", script])
}

/// A shell script with an input stream.
pub(crate) fn interactive(script: &str) -> Command {
    Command { input: Input::Stream, ..Command::shell(script) }
}

/// Reads events until standard output has `text`. What came is answered.
pub(crate) async fn until_printed(call: &mut Call, text: &str) -> anyhow::Result<String> {
    let mut seen = Vec::new();
    loop {
        match call.next().await {
            Event::Stdout(bytes) => seen.extend(bytes),
            Event::Stderr(_) => {}
            Event::End(end) => {
                bail!("ended ({}) before printing {text:?}: {:?}", end.reason, lossy(&seen))
            }
        }
        if lossy(&seen).contains(text) {
            return Ok(lossy(&seen));
        }
    }
}

/// Reads a call to its end.
pub(crate) async fn finish(call: &mut Call) -> (Vec<u8>, Vec<u8>, End) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match call.next().await {
            Event::Stdout(bytes) => stdout.extend(bytes),
            Event::Stderr(bytes) => stderr.extend(bytes),
            Event::End(end) => return (stdout, stderr, end),
        }
    }
}

pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A path in the home directory.
pub(crate) fn at_home(sandbox: &Sandbox, name: impl AsRef<[u8]>) -> Vec<u8> {
    [sandbox.home(User::User).as_bytes(), b"/", name.as_ref()].concat()
}

pub(crate) async fn put(sandbox: &Sandbox, path: &[u8], bytes: &[u8]) -> Result<u64, FileError> {
    put_with_mode(sandbox, path, bytes, 0o644).await
}

pub(crate) async fn put_with_mode(
    sandbox: &Sandbox,
    path: &[u8],
    mut bytes: &[u8],
    mode: u32,
) -> Result<u64, FileError> {
    sandbox.upload(User::User, path, mode, &mut bytes).await
}

pub(crate) async fn get(sandbox: &Sandbox, path: &[u8]) -> Result<Vec<u8>, FileError> {
    get_at_most(sandbox, path, 1 << 30).await
}

pub(crate) async fn get_at_most(
    sandbox: &Sandbox,
    path: &[u8],
    limit: u64,
) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    sandbox.download(User::User, path, limit, &mut bytes).await?;
    Ok(bytes)
}

/// Operations that the sandbox answers with the kernel's error.
pub(crate) trait Refusal {
    /// The error number, if this is a refusal and nothing worse.
    fn errno(&self) -> Option<i32>;
}

impl Refusal for FileError {
    fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

impl Refusal for CallError {
    fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// Fails unless `result` is a refusal with one of these errors; with none
/// given, any refusal will do.
pub(crate) fn refused<T, E>(result: Result<T, E>, what: &str, errors: &[i32]) -> anyhow::Result<()>
where
    E: Refusal + std::error::Error + Send + Sync + 'static,
{
    let Err(error) = result else { bail!("{what}: was done, not refused") };
    match error.errno() {
        Some(errno) if errors.is_empty() || errors.contains(&errno) => Ok(()),
        Some(errno) => bail!("{what}: error {errno} instead of one of {errors:?}"),
        None => Err(error).context(format!("{what}: no plain refusal")),
    }
}

/// Error numbers that the suite knows by name.
pub(crate) mod errno {
    pub(crate) const ENOENT: i32 = 2;
    pub(crate) const ESRCH: i32 = 3;
    pub(crate) const E2BIG: i32 = 7;
    pub(crate) const ENOEXEC: i32 = 8;
    pub(crate) const EACCES: i32 = 13;
    pub(crate) const EEXIST: i32 = 17;
    pub(crate) const ENOTDIR: i32 = 20;
    pub(crate) const EISDIR: i32 = 21;
    pub(crate) const EINVAL: i32 = 22;
    pub(crate) const ENOTTY: i32 = 25;
    pub(crate) const ENOSPC: i32 = 28;
    pub(crate) const ENAMETOOLONG: i32 = 36;
    pub(crate) const ENOTEMPTY: i32 = 39;
    pub(crate) const ESTALE: i32 = 116;
}

/// Asks again and again, for at most `longest`, until `ready` answers a value.
pub(crate) async fn until<T, F>(
    what: &str,
    longest: Duration,
    mut ready: impl FnMut() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(value) = ready().await? {
            return Ok(value);
        }
        ensure!(start.elapsed() < longest, "{what}: not within {longest:?}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// What is not there by then hangs, also on a machine that others use. Nothing is shown
/// by its being quicker.
pub(crate) fn patience(f: &Fixture) -> Duration {
    f.within(Duration::from_secs(5)).max(Duration::from_secs(60))
}

/// A source that fails after some bytes.
#[derive(Debug)]
pub(crate) struct Breaking {
    pub(crate) left: usize,
}

impl AsyncRead for Breaking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let count = self.left.min(buffer.remaining());
        buffer.put_slice(&vec![7; count]);
        self.left -= count;
        Poll::Ready(Ok(()))
    }
}

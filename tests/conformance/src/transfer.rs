//! A large file goes in and out: does it come back the same, and how fast was that,
//! beside `cp` in the same memory?

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::pin::Pin;
use std::process::Command as Program;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::User;
use belljar_domain::limits::{GIB, MIB};
use belljar_node::Sandbox;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::Verdict;
use crate::args::Args;
use crate::fixture::Fixture;
use crate::random::Random;
use crate::verbs::at_home;

const ROUNDS: usize = 3;

pub(crate) async fn run(args: &Args) -> anyhow::Result<Verdict> {
    let store = tempfile::tempdir().context("make a directory for the template")?;
    let memory = tempfile::tempdir_in("/dev/shm").context("make a directory in memory")?;
    let (source, copy) = (memory.path().join("source"), memory.path().join("copy"));
    let back = memory.path().join("back");
    let size = args.transfer_size.checked_mul(MIB).context("that is too large")?;
    let want = fill(&source, size)?;
    let state = tempfile::tempdir().context("make a directory for the engine")?;
    let fixture = Fixture::start(state.path(), args.first(), store.path()).await?;
    let sandbox = fixture
        .limited(|limits| {
            limits.disk_bytes = 2 * size + GIB;
            limits.memory_bytes = 4 * size + GIB;
        })
        .await?;
    let (mut ins, mut outs, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    // Taken in turns, so that whatever else the machine does hits all three.
    for round in 1..=ROUNDS {
        ins.push(upload(&sandbox, &source, size).await?);
        outs.push(download(&sandbox, &back, size).await?);
        if digest(&back)? != want {
            println!("FAILED: round {round}: what came back differs");
            return Ok(Verdict::Failed);
        }
        std::fs::remove_file(&back)?;
        sandbox.remove(User::User, &at_home(&sandbox, "file")).await?;
        copies.push(cp(&source, &copy)?);
    }
    let speed = |times: &[Duration]| {
        let mut sorted = times.to_vec();
        sorted.sort();
        size as f64 / 1e6 / sorted[sorted.len() / 2].as_secs_f64()
    };
    let (inwards, outwards, plain) = (speed(&ins), speed(&outs), speed(&copies));
    println!("{} {} MiB, median of {ROUNDS}, SHA-256 equal", fixture.tier, size / MIB);
    for (name, speed, times) in
        [("in", inwards, &ins), ("out", outwards, &outs), ("cp", plain, &copies)]
    {
        println!("{name:4} {speed:7.0} MB/s, ratio {:.2}  {times:.2?}", speed / plain);
    }
    let slower = inwards.min(outwards) / plain;
    let good = args.least_speed.is_none_or(|least| slower >= least);
    if let Some(least) = args.least_speed {
        println!("{} the required {least} of cp", if good { "reaches" } else { "FAILED: below" });
    }
    sandbox.destroy().await?;
    fixture.node.stop().await;
    Ok(if good { Verdict::Passed } else { Verdict::Failed })
}

fn fill(path: &Path, size: u64) -> anyhow::Result<Vec<u8>> {
    let mut file = File::create(path)?;
    let mut random = Random::new(4);
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 20];
    for _ in 0..size / MIB {
        random.fill(&mut block);
        hash.update(&block);
        file.write_all(&block)?;
    }
    Ok(hash.finalize().to_vec())
}

fn digest(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut hash = Sha256::new();
    let mut file = File::open(path)?;
    let mut block = vec![0; 1 << 20];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hash.finalize().to_vec()),
            count => hash.update(&block[..count]),
        }
    }
}

async fn upload(sandbox: &Sandbox, source: &Path, size: u64) -> anyhow::Result<Duration> {
    let mut source = InMemory(File::open(source)?);
    let started = Instant::now();
    let path = at_home(sandbox, "file");
    let count = sandbox.upload(User::User, &path, 0o644, &mut source).await?;
    ensure!(count == size, "{count} bytes were taken");
    Ok(started.elapsed())
}

async fn download(sandbox: &Sandbox, target: &Path, size: u64) -> anyhow::Result<Duration> {
    let mut target = InMemory(File::create(target)?);
    let started = Instant::now();
    let path = at_home(sandbox, "file");
    let count = sandbox.download(User::User, &path, size, &mut target).await?;
    ensure!(count == size, "{count} bytes came");
    Ok(started.elapsed())
}

fn cp(source: &Path, target: &Path) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let status = Program::new("/bin/cp").arg(source).arg(target).status()?;
    let took = started.elapsed();
    ensure!(status.success(), "cp failed: {status}");
    std::fs::remove_file(target)?;
    Ok(took)
}

/// A file in memory: reading and writing it never waits.
#[derive(Debug)]
struct InMemory(File);

impl AsyncRead for InMemory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = self.0.read(buffer.initialize_unfilled())?;
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for InMemory {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.0.write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

//! Gives template builds their sandboxes.
//!
//! A build is plain blocking code on a thread of its own; the runtime that
//! drives the sandbox stays on the main thread.

use std::error::Error;
use std::fmt;

use belljar_domain::limits::GIB;
use belljar_domain::{Disk, End, Limits, Spec, Tier, User};
use belljar_node::{Command, Event, Node};
use belljar_template::{Job, Runner};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Why a build step has no end of its own.
#[derive(Debug)]
struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the build was interrupted")
    }
}

impl Error for Cancelled {}

/// Runs build steps as jails.
#[derive(Debug)]
pub(crate) struct Jails {
    node: Node,
    runtime: Handle,
    /// Becomes true when the build is to stop.
    cancelled: watch::Receiver<bool>,
}

impl Jails {
    pub(crate) fn new(node: Node, runtime: Handle, cancelled: watch::Receiver<bool>) -> Self {
        Self { node, runtime, cancelled }
    }

    async fn perform(
        &self,
        job: &Job<'_>,
        output: &mut dyn FnMut(&[u8]),
    ) -> Result<End, Box<dyn Error + Send + Sync>> {
        let spec = Spec {
            disk: Disk::Directory { path: job.disk.to_owned(), file_bytes: None },
            limits: limits(job),
            ..Spec::new(Tier::Jail, job.root.clone())
        };
        let mut command = Command::new(job.argv.iter().map(String::as_str));
        command.user = User::Root;
        command.cwd = Some(b"/".to_vec());
        let pairs = job.env.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        command.env = pairs.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();

        let mut cancelled = self.cancelled.clone();
        let sandbox = self.node.create(&spec).await?;
        let ended = tokio::select! {
            ended = async {
                let mut call = sandbox.start(&command).await?;
                loop {
                    match call.next().await {
                        Event::Stdout(bytes) | Event::Stderr(bytes) => output(&bytes),
                        Event::End(end) => return Ok(end),
                    }
                }
            } => ended,
            _ = cancelled.wait_for(|asked| *asked) => Err(Cancelled.into()),
        };
        sandbox.destroy().await?;
        ended
    }
}

impl Runner for Jails {
    fn run(
        &self,
        job: &Job<'_>,
        output: &mut dyn FnMut(&[u8]),
    ) -> Result<End, Box<dyn Error + Send + Sync>> {
        if *self.cancelled.borrow() {
            return Err(Cancelled.into());
        }
        self.runtime.block_on(self.perform(job, output))
    }
}

/// Installing takes more than running: whole machines' worth of CPU, and many
/// files open. Disk is a directory of the store and cannot be bounded here.
fn limits(job: &Job<'_>) -> Limits {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Limits {
        memory_bytes: 4 * GIB,
        cpu_millis: u32::try_from(cores.saturating_mul(1000)).unwrap_or(1000).min(1_024_000),
        pids: 1024,
        output_bytes: GIB,
        wall: job.timeout,
        cpu: None,
        open_files: 4096,
        ..Limits::default()
    }
}

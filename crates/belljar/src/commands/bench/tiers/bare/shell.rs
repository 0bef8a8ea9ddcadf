//! A shell that lives as long as the benchmark, in a mount namespace of its own
//! where the template's layers are one writable tree.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use belljar_domain::RootFs;

pub(super) struct Shell {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// Where the tree is, for whoever the shell starts.
    pub(super) root: PathBuf,
}

/// Whatever takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// Before the line that says how a command ended.
const ENDED: &str = "ended ";

impl Shell {
    pub(super) fn start(root: &RootFs, dir: &Path) -> anyhow::Result<Self> {
        ensure!(root.binds.is_empty(), "the template shows directories of the host");
        let layers: Vec<_> = root.layers.iter().map(|layer| layer.display().to_string()).collect();
        // crun refuses to start beside the version 2 tree of a hybrid host.
        let script = "umount /sys/fs/cgroup/unified 2>/dev/null
            cd \"$1\" && mkdir -p scratch root && mount -t tmpfs tmpfs scratch &&
            mkdir scratch/upper scratch/work &&
            mount -t overlay overlay -o \"lowerdir=$2,upperdir=scratch/upper,workdir=scratch/work\" \
                root &&
            mount -t proc proc root/proc && mount --rbind /dev root/dev && echo ready || exit
            while read -r line; do eval \"$line\"; echo \"ended $?\"; done";
        let mut child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
            .arg(dir)
            .arg(layers.join(":"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run unshare")?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.context("the shell has no pipes")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let read = BufReader::new(output).lines().map_while(Result::ok);
            // Nobody listens any more: the benchmark is over.
            read.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        let shell = Self { child, input, lines, root: dir.join("root") };
        ensure!(shell.line()? == "ready", "cannot lay the template's layers over each other");
        Ok(shell)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Begins a command; its output comes as lines.
    pub(super) fn begin(&mut self, command: &str) -> anyhow::Result<()> {
        writeln!(self.input, "{command}").context("the shell is gone")
    }

    pub(super) fn line(&self) -> anyhow::Result<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("no answer within {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("the shell has ended"),
        }
    }

    /// The first line of the command's output; an error if there is none.
    pub(super) fn first(&self) -> anyhow::Result<String> {
        let line = self.line()?;
        match line.strip_prefix(ENDED) {
            Some(status) => bail!("it ended with {status} and said nothing"),
            None => Ok(line),
        }
    }

    /// Waits until the command is over; it must have succeeded.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        loop {
            let line = self.line()?;
            if let Some(status) = line.strip_prefix(ENDED) {
                ensure!(status == "0", "it ended with {status}");
                return Ok(());
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The shell ends with its input; kill is for one that hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

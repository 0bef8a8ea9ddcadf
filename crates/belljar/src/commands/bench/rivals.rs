//! The programs that Belljar is measured beside, on the same root filesystem.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use belljar_domain::RootFs;
use serde_json::json;

/// Something that runs `/bin/true` once and is gone.
pub(super) trait Rival {
    fn once(&mut self) -> anyhow::Result<()>;
}

/// Times one turn.
pub(super) fn time(rival: &mut dyn Rival) -> anyhow::Result<Duration> {
    let start = Instant::now();
    rival.once()?;
    Ok(start.elapsed())
}

/// A program with fixed arguments.
pub(super) struct Program(Vec<String>);

impl Rival for Program {
    fn once(&mut self) -> anyhow::Result<()> {
        let output = Command::new(&self.0[0])
            .args(&self.0[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .with_context(|| format!("cannot run {}", self.0[0]))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{} failed: {}", self.0[0], said.lines().next().unwrap_or("without output"));
        }
        Ok(())
    }
}

/// No isolation at all: the floor.
pub(super) fn bare() -> Program {
    Program(vec!["/bin/true".into()])
}

/// Bubblewrap with every namespace, the same root and binds, procfs and `/dev`;
/// no cgroup, no filter, no writable layer, no guest.
pub(super) fn bubblewrap(root: &RootFs) -> Program {
    let layer = root.layers[0].to_string_lossy().into_owned();
    let mut line: Vec<String> =
        ["bwrap", "--unshare-all", "--ro-bind", &layer, "/"].map(str::to_owned).into();
    for bind in &root.binds {
        let (source, target) = (bind.source.to_string_lossy(), bind.target.to_string_lossy());
        line.extend(["--ro-bind".to_owned(), source.into_owned(), target.into_owned()]);
    }
    line.extend(["--proc", "/proc", "--dev", "/dev", "/bin/true"].map(str::to_owned));
    Program(line)
}

/// An OCI runtime, driven through one shell that lives as long as the bench.
///
/// The shell is in a mount namespace of its own where the version 2 tree of a
/// hybrid host is not mounted: crun refuses to start beside it.
pub(super) struct Oci {
    shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    bundle: PathBuf,
    name: &'static str,
    turn: u32,
}

impl Oci {
    pub(super) fn new(name: &'static str, root: &RootFs, dir: &Path) -> anyhow::Result<Self> {
        let found = Command::new(name).arg("--version").stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            bail!("{name} is not installed");
        }
        let bundle = dir.join(name);
        fs::create_dir_all(&bundle)?;
        let text = serde_json::to_string_pretty(&config(root))?;
        fs::write(bundle.join("config.json"), text)?;
        let script = "umount /sys/fs/cgroup/unified 2>/dev/null; \
                      while read -r line; do eval \"$line\"; echo \"$?\"; done";
        let mut shell = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run unshare")?;
        let pipes = shell.stdin.take().zip(shell.stdout.take());
        let (input, output) = pipes.context("the shell has no pipes")?;
        Ok(Self { shell, input, output: BufReader::new(output), bundle, name, turn: 0 })
    }
}

impl Rival for Oci {
    fn once(&mut self) -> anyhow::Result<()> {
        self.turn += 1;
        let id = format!("bench-{}-{}", std::process::id(), self.turn);
        let (name, bundle) = (self.name, self.bundle.display());
        let log = self.bundle.join("log");
        let log = log.display();
        writeln!(
            self.input,
            "{name} run --bundle '{bundle}' {id} </dev/null >/dev/null 2>'{log}'"
        )?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        if answer.trim() != "0" {
            let said = fs::read_to_string(self.bundle.join("log")).unwrap_or_default();
            bail!("{name} failed: {}", said.lines().next().unwrap_or("without output"));
        }
        Ok(())
    }
}

impl Drop for Oci {
    fn drop(&mut self) {
        // The shell ends with its input; kill is for one that hangs.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// What both runtimes are given: the usual namespaces, the same root, `/bin/true`.
fn config(root: &RootFs) -> serde_json::Value {
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc"}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
               "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]}),
        json!({"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
               "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]}),
    ];
    for bind in &root.binds {
        mounts.push(json!({"destination": bind.target, "type": "bind", "source": bind.source,
                           "options": ["bind", "ro", "nosuid", "nodev"]}));
    }
    let namespaces: Vec<_> = ["pid", "network", "ipc", "uts", "mount"]
        .iter()
        .map(|kind| json!({"type": kind}))
        .collect();
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false, "user": {"uid": 0, "gid": 0}, "args": ["/bin/true"],
            "env": ["PATH=/usr/bin:/bin"], "cwd": "/", "noNewPrivileges": true,
        },
        "root": {"path": root.layers[0], "readonly": true},
        "hostname": "sandbox",
        "mounts": mounts,
        "linux": {"namespaces": namespaces},
    })
}

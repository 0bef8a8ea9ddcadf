//! An OCI runtime without anything of ours: one bundle for each thing to run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use belljar_domain::Runtime;
use belljar_template::Template;
use serde_json::{Value, json};

use super::shell::Shell;
use crate::commands::bench::machine;
use crate::commands::bench::tiers::{Figures, work};

/// What can be run, each as a line for the shell.
pub(in super::super) struct Bundles {
    shell: Shell,
    dir: PathBuf,
    how: How,
    python: String,
    env: Vec<String>,
    turn: u32,
    idle: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Chroot,
    Runtime(Runtime),
}

/// A range of ids that nobody on the host has.
const FIRST_ID: u32 = 1_500_000_000;
const IDS: u32 = 65_536;

/// Long enough to be looked at.
const IDLE: &str = "echo up; exec sleep 1";

impl Bundles {
    pub(super) fn chroot(template: &Template, shell: Shell, dir: &Path) -> anyhow::Result<Self> {
        Self::of(How::Chroot, template, shell, dir)
    }

    pub(super) fn new(
        runtime: Runtime,
        template: &Template,
        shell: Shell,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        Self::of(How::Runtime(runtime), template, shell, dir)
    }

    fn of(how: How, template: &Template, shell: Shell, dir: &Path) -> anyhow::Result<Self> {
        let python = template.languages.get("python").context("the template has no Python")?;
        let env = template.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let python = python.display().to_string();
        let bundles = Self {
            shell,
            dir: dir.to_owned(),
            how,
            python: python.clone(),
            env,
            turn: 0,
            idle: None,
        };
        let word = work::ECHO.map(str::to_owned);
        let idle = ["/bin/sh", "-c", IDLE].map(str::to_owned);
        let print = [python.clone(), "-c".to_owned(), work::PRINT.to_owned()];
        let script = [python, "-c".to_owned(), work::SCRIPT.to_owned()];
        bundles.write("word", &word)?;
        bundles.write("idle", &idle)?;
        bundles.write("python", &print)?;
        bundles.write("work", &script)?;
        Ok(bundles)
    }

    fn write(&self, name: &str, args: &[String]) -> anyhow::Result<()> {
        let bundle = self.dir.join(name);
        fs::create_dir_all(&bundle)?;
        let config = config(&self.shell.root, args, &self.env, self.how);
        fs::write(bundle.join("config.json"), serde_json::to_string(&config)?)?;
        Ok(())
    }

    pub(super) fn turn(&mut self, figures: &mut Figures) -> anyhow::Result<()> {
        let (took, said) = self.run("word")?;
        ensure!(said == "1", "echo said {said:?}");
        figures.word.push(took);
        let (took, said) = self.run("python")?;
        ensure!(said == "1", "Python said {said:?}");
        figures.python.push(took);
        let (_, said) = self.run("work")?;
        figures.work = work::parse(&said)?;
        if self.idle.is_none() {
            self.idle = Some(self.idle_bytes()?);
        }
        figures.memory_bytes = self.idle;
        Ok(())
    }

    /// Runs one of the bundles: the time until its first line, and that line.
    fn run(&mut self, name: &str) -> anyhow::Result<(Duration, String)> {
        let line = self.command(name)?;
        let start = Instant::now();
        self.shell.begin(&line)?;
        let said = self.shell.first();
        let took = start.elapsed();
        let ended = said.and_then(|said| self.shell.finish().map(|()| said));
        let said = ended.with_context(|| {
            let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            log.lines().next().unwrap_or("without a word").to_owned()
        })?;
        Ok((took, said))
    }

    /// Memory of everything that is there while a container sleeps.
    fn idle_bytes(&mut self) -> anyhow::Result<u64> {
        let line = self.command("idle")?;
        let before = machine::below(self.shell.pid());
        self.shell.begin(&line)?;
        self.shell.first()?;
        let now = machine::below(self.shell.pid());
        let new = now.into_iter().filter(|pid| !before.contains(pid));
        let bytes = new.filter_map(machine::proportional).sum();
        self.shell.finish()?;
        Ok(bytes)
    }

    fn command(&mut self, name: &str) -> anyhow::Result<String> {
        self.turn += 1;
        let (dir, log) = (self.dir.display(), self.dir.join("log"));
        let log = log.display();
        let id = format!("bench-{}-{}", std::process::id(), self.turn);
        let run = match self.how {
            How::Chroot => {
                let env: Vec<_> = self.env.iter().map(|pair| format!("'{pair}'")).collect();
                let root = self.shell.root.display();
                let program = match name {
                    "word" => "/bin/echo 1".to_owned(),
                    "idle" => format!("/bin/sh -c '{IDLE}'"),
                    "python" => format!("{} -c '{}'", self.python, work::PRINT),
                    "work" => {
                        fs::write(self.shell_file("work.py"), work::SCRIPT)?;
                        // The shell reads lines: the code comes from a file.
                        format!("{} -c \"$(cat '{dir}/work.py')\"", self.python)
                    }
                    other => bail!("there is no bundle {other}"),
                };
                format!("env -i {} chroot '{root}' {program}", env.join(" "))
            }
            How::Runtime(runtime) => {
                let program = runtime.program();
                let flags = match runtime {
                    Runtime::Crun | Runtime::Runc => String::new(),
                    Runtime::Runsc => format!(
                        "--root '{dir}/state' --network=none --ignore-cgroups --overlay2=none \
                         --platform=systrap"
                    ),
                };
                format!("{program} {flags} run --bundle '{dir}/{name}' {id}")
            }
        };
        Ok(format!("{run} </dev/null 2>'{log}'"))
    }

    fn shell_file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// What ours asks for as well, but for the guest: namespaces, mounts, limits.
fn config(root: &Path, args: &[String], env: &[String], how: How) -> Value {
    let map = json!([{"containerID": 0, "hostID": FIRST_ID, "size": IDS}]);
    let gvisor = how == How::Runtime(Runtime::Runsc);
    let namespaces = ["user", "mount", "pid", "network", "ipc", "uts", "cgroup"];
    let namespaces = namespaces.iter().filter(|kind| !gvisor || **kind != "cgroup");
    let namespaces: Vec<_> = namespaces.map(|kind| json!({"type": kind})).collect();
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false, "user": {"uid": 0, "gid": 0}, "args": args,
            "env": env, "cwd": "/", "noNewPrivileges": true,
        },
        "root": {"path": root, "readonly": false},
        "hostname": "sandbox",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
             "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
            {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
             "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
             "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmp",
             "options": ["nosuid", "nodev", "mode=1777"]},
        ],
        "linux": {
            "namespaces": namespaces, "uidMappings": map, "gidMappings": map,
            "resources": {
                "memory": {"limit": 2_147_483_648_u64},
                "pids": {"limit": 512},
            },
        },
    })
}

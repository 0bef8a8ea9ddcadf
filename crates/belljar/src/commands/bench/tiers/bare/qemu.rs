//! The machine monitor by itself, as an ordinary process: the same kernel,
//! initramfs, devices and disks, until the same first word.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::commands::bench::machine;
use crate::commands::bench::tiers::Figures;

pub(in super::super) struct Qemu {
    words: Vec<String>,
    stream: PathBuf,
    /// As it was before the first boot, and as the monitor may write to it.
    disks: (PathBuf, PathBuf),
    /// What the monitor complains about.
    log: PathBuf,
}

/// An emulated machine takes seconds; one that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

impl Qemu {
    /// Takes one of ours as the example, while it runs.
    pub(in super::super) fn like(pid: u32, root: &Path, dir: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(dir)?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).context("cannot see the monitor")?;
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        let program = words.first().map(String::as_str).unwrap_or_default();
        ensure!(program.contains("qemu"), "process {pid} is no monitor but `{program}`");
        for (from, to) in [("kernel/kernel", "kernel"), ("initramfs/initramfs", "initramfs")] {
            fs::copy(format!("/proc/{pid}/root/{from}"), dir.join(to))
                .with_context(|| format!("cannot copy {to}"))?;
        }
        let disks = (dir.join("empty"), PathBuf::from(format!("/dev/shm/belljar-bench-{pid}")));
        let stream = dir.join("stream");
        let mut its = Vec::new();
        let mut rest = words.into_iter();
        while let Some(word) = rest.next() {
            let Some(value) = rest.next_if_value(&word) else {
                its.push(word);
                continue;
            };
            // What has none belongs to how ours is driven, not to the machine.
            if let Some(value) = translated(&word, &value, (dir, root), (&stream, &disks.1)) {
                its.extend([word, value]);
            }
        }
        let size = disk_size(pid)?;
        empty_disk(&disks.0, dir, size)?;
        Ok(Self { words: its, stream, disks, log: dir.join("log") })
    }

    pub(super) fn turn(&mut self, figures: &mut Figures) -> anyhow::Result<()> {
        let _ = fs::remove_file(&self.stream);
        // Ours begins with a copy of an empty disk in memory as well.
        let start = Instant::now();
        fs::copy(&self.disks.0, &self.disks.1)?;
        let mut child = Command::new(&self.words[0])
            .args(&self.words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&self.log)?)
            .spawn()
            .context("cannot run the monitor")?;
        let heard = self.first_word(&mut child, start);
        let took = start.elapsed();
        let memory = machine::proportional(child.id());
        let _ = child.kill();
        let _ = child.wait();
        heard.with_context(|| fs::read_to_string(&self.log).unwrap_or_default())?;
        figures.up.push(took);
        figures.memory_bytes = memory;
        Ok(())
    }

    fn first_word(&self, child: &mut Child, start: Instant) -> anyhow::Result<()> {
        let mut stream = loop {
            match UnixStream::connect(&self.stream) {
                Ok(stream) => break stream,
                Err(_) if start.elapsed() < PATIENCE && child.try_wait()?.is_none() => {
                    std::thread::yield_now();
                }
                Err(error) => bail!("the monitor does not listen: {error}"),
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut byte = [0];
        stream.read_exact(&mut byte).context("the machine says nothing")
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.disks.1);
    }
}

/// Options that have no value.
const ALONE: [&str; 3] = ["-nodefaults", "-no-user-config", "-no-reboot"];

trait Values {
    /// The next word, if an option like this has one.
    fn next_if_value(&mut self, option: &str) -> Option<String>;
}

impl<I: Iterator<Item = String>> Values for I {
    fn next_if_value(&mut self, option: &str) -> Option<String> {
        if !option.starts_with('-') || ALONE.contains(&option) { None } else { self.next() }
    }
}

/// What an option is where there is no jail and nobody passes descriptors.
fn translated(
    option: &str,
    value: &str,
    (dir, image): (&Path, &Path),
    (stream, disk): (&Path, &Path),
) -> Option<String> {
    let at = |name: &str| dir.join(name).display().to_string();
    match option {
        "-kernel" => Some(at("kernel")),
        "-initrd" => Some(at("initramfs")),
        "-mon" | "-add-fd" => None,
        "-chardev" if value.contains("id=control") => None,
        "-chardev" if value.contains("id=stream") => {
            let stream = stream.display();
            Some(format!("socket,id=stream,path={stream},server=on,wait=off"))
        }
        "-blockdev" => {
            let (image, disk) = (image.display().to_string(), disk.display().to_string());
            let value = value.replace("/dev/fdset/1", &image).replace("/dev/fdset/2", &disk);
            Some(value)
        }
        _ => Some(value.to_owned()),
    }
}

/// The size of the disk of one of ours, which is a file in memory. The monitor
/// gives it another number than it was told.
fn disk_size(pid: u32) -> anyhow::Result<u64> {
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        let is_disk = |target: PathBuf| target.starts_with("/memfd:belljar-disk (deleted)");
        if fs::read_link(&path).is_ok_and(is_disk) {
            return Ok(fs::metadata(&path)?.len());
        }
    }
    bail!("the monitor {pid} has no disk in memory")
}

/// An empty disk as the guest wants it.
fn empty_disk(path: &Path, dir: &Path, size: u64) -> anyhow::Result<()> {
    let tree = dir.join("tree");
    for name in ["upper", "work"] {
        fs::create_dir_all(tree.join(name))?;
    }
    File::create(path)?.set_len(size)?;
    let made = Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d"])
        .arg(&tree)
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .context("cannot run mke2fs")?;
    let said = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "mke2fs failed: {}", said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_become_files_and_the_control_is_left_out() {
        let (dir, image) = (Path::new("/b"), Path::new("/i.erofs"));
        let say = |option, value| {
            translated(option, value, (dir, image), (Path::new("/b/s"), Path::new("/shm/d")))
        };
        assert_eq!(say("-kernel", "/kernel/kernel").as_deref(), Some("/b/kernel"));
        assert_eq!(say("-chardev", "socket,id=control,fd=5"), None);
        assert_eq!(say("-add-fd", "set=1,fd=7"), None);
        let disk = say("-blockdev", "node-name=disk,file.filename=/dev/fdset/2").unwrap();
        assert_eq!(disk, "node-name=disk,file.filename=/shm/d");
        assert_eq!(say("-m", "512M").as_deref(), Some("512M"));
    }
}

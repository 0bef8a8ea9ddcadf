//! Where the engine prepares machines: finds the monitor, and makes what all
//! machines of a kind share.
//!
//! ```text
//! <state>/vm/root/                   the root that a monitor sees
//!            initramfs-<key>/initramfs
//!            disk-<bytes>-<inodes>   empty disks
//! ```

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use belljar_domain::{Bind, Disk, RootFs, Spec};
use belljar_sys::clock::Moment;
use serde::{Deserialize, Serialize};

use crate::engine::StartError;
use crate::version;

use super::argv::{INITRAMFS_DIR, KERNEL_DIR};
use super::monitor::{Ends, Monitor};
use super::save::{self, GENERATION, Saved};
use super::trial::Chosen;
use super::{Order, Parts, Shape, Supplier, disk, initramfs, outer_limits};

/// What runs a machine's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accelerator {
    /// The processor itself.
    Kvm,
    /// A translator, some fifteen times slower.
    Tcg,
}

/// The monitor's program, where its libraries are as well.
const PROGRAM: &str = "/usr/bin/qemu-system-x86_64";

/// How long the processor's clock is watched at least, to know its rate.
const WATCH: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Workshop {
    pub(super) dir: PathBuf,
    guest: &'static [u8],
    supplier: Option<&'static dyn Supplier>,
    /// When the engine began to watch the processor's clock.
    since: Option<Moment>,
    /// How machines are run here, once that is known.
    pub(super) chosen: tokio::sync::OnceCell<Chosen>,
    version: OnceLock<Result<String, String>>,
    /// Use a monitor with known holes.
    force: bool,
    /// Kernels, by directory, and the initramfs of each.
    initramfs: Mutex<HashMap<PathBuf, PathBuf>>,
}

/// Everything that one machine takes.
pub(crate) struct Blueprint {
    pub(crate) order: Order,
    /// What the jail around the monitor is.
    pub(crate) spec: Spec,
    pub(crate) ends: Ends,
    pub(crate) facts: Saved,
}

impl Blueprint {
    /// Answers when the monitor runs, and with it the machine.
    pub(crate) async fn meet(self, from: Option<&Path>) -> Result<Monitor, StartError> {
        let met = self.ends.meet(self.facts, from).await;
        met.map_err(|source| StartError::Step { doing: "start a machine monitor".into(), source })
    }
}

impl Workshop {
    pub(crate) fn new(
        state: &Path,
        guest: &'static [u8],
        supplier: Option<&'static dyn Supplier>,
        force: bool,
    ) -> Self {
        Self {
            dir: state.join("vm"),
            guest,
            supplier,
            since: Moment::now().ok(),
            chosen: tokio::sync::OnceCell::new(),
            version: OnceLock::new(),
            force,
            initramfs: Mutex::default(),
        }
    }

    /// Prepares a machine that is `spec`. Blocks, the first time for long.
    pub(crate) fn design(
        &self,
        spec: &Spec,
        from: Option<&Path>,
        accelerator: Accelerator,
    ) -> Result<Blueprint, String> {
        if spec.disk != Disk::Memory {
            return Err("a virtual machine has its own disk; templates are built in a jail".into());
        }
        let monitor = self.version()?;
        let Parts { kernel, kernel_version, image, image_digest } = self.supply(&spec.root)?;
        let told = |what: &'static str| move |error: io::Error| format!("cannot {what}: {error}");
        make_dir(&self.dir).map_err(told("make a directory"))?;
        let initramfs = self.initramfs(&kernel).map_err(told("make an initramfs"))?;
        let clock_khz = self.clock_khz()?;
        let shape = Shape::of(&spec.limits, accelerator, clock_khz);
        let facts = Saved {
            generation: GENERATION,
            monitor,
            kernel: kernel_version,
            image: image_digest,
            shape: shape.clone(),
        };
        let begins_as = match from {
            Some(dir) => {
                let saved = save::described(dir).map_err(told("read a saved machine"))?;
                if let Some(why) = saved.differs(&facts) {
                    return Err(why);
                }
                save::disk(dir)
            }
            None => disk::empty(&self.dir, &spec.limits).map_err(told("make an empty disk"))?,
        };
        let ends = Ends::new(&image, &begins_as).map_err(told("open the machine's disks"))?;
        let mut root = self.root().map_err(told("make the monitor's root"))?;
        root.binds.push(Bind::of_sandboxes(kernel, KERNEL_DIR));
        root.binds.push(Bind::of_sandboxes(initramfs, INITRAMFS_DIR));
        let limits = outer_limits(&spec.limits, &shape);
        let order = Order { program: PROGRAM.into(), shape, incoming: from.is_some() };
        Ok(Blueprint { order, spec: Spec { root, limits, ..spec.clone() }, ends, facts })
    }

    /// Finds what a machine is made of.
    pub(super) fn supply(&self, root: &RootFs) -> Result<Parts, String> {
        self.supplier.ok_or("no kernel for virtual machines is configured")?.supply(root)
    }

    /// The monitor's version, in its own words.
    pub(crate) fn version(&self) -> Result<String, String> {
        let ask = || {
            let ran = Command::new(PROGRAM)
                .arg("--version")
                .env_clear()
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .output();
            match ran {
                Ok(output) if output.status.success() => {
                    let text = String::from_utf8_lossy(&output.stdout).into_owned();
                    let line = text.lines().next().unwrap_or_default().trim().to_owned();
                    let checked = version::check_monitor(&line);
                    if self.force { Ok(line) } else { checked.map(|()| line) }
                }
                Ok(output) => Err(format!("`{PROGRAM} --version` ended with {}", output.status)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(format!("`{PROGRAM}` is not installed (Debian: qemu-system-x86)"))
                }
                Err(error) => Err(format!("cannot run `{PROGRAM}`: {error}")),
            }
        };
        self.version.get_or_init(ask).clone()
    }

    /// The rate of the processor's clock; better known the longer the engine runs.
    fn clock_khz(&self) -> Result<u64, String> {
        let unknown = || "cannot measure the processor's clock rate".to_owned();
        let since = self.since.ok_or_else(unknown)?;
        let measured = crate::wait::until(Duration::from_secs(5), || {
            let now = Moment::now()?;
            Ok(since.kilohertz(&now).filter(|_| since.is_before(&now, WATCH)))
        });
        measured.map_err(|_| unknown())
    }

    /// The directory with the initramfs of a kernel.
    fn initramfs(&self, kernel: &Path) -> io::Result<PathBuf> {
        let mut known = self.initramfs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = known.get(kernel).filter(|dir| dir.join("initramfs").is_file()) {
            return Ok(dir.clone());
        }
        let built = initramfs::build(self.guest, &kernel.join("modules"))?;
        // Always seeded alike. It tells our own builds apart, nothing more.
        let mut hasher = DefaultHasher::new();
        built.hash(&mut hasher);
        let dir = self.dir.join(format!("initramfs-{:016x}", hasher.finish()));
        make_dir(&dir)?;
        let fresh = dir.join(format!("fresh.{}", std::process::id()));
        fs::write(&fresh, built)?;
        fs::rename(&fresh, dir.join("initramfs"))?;
        known.insert(kernel.to_owned(), dir.clone());
        Ok(dir)
    }

    /// What a monitor sees of the host: its programs and libraries.
    fn root(&self) -> io::Result<RootFs> {
        let skeleton = self.dir.join("root");
        make_dir(&skeleton)?;
        for name in ["usr", "dev", "proc", "tmp", "kernel", "initramfs"] {
            make_dir(&skeleton.join(name))?;
        }
        let mut binds = vec![Bind::of_host("/usr", "/usr")];
        for name in ["bin", "lib", "lib64"] {
            let (path, place) = (Path::new("/").join(name), skeleton.join(name));
            match fs::read_link(&path) {
                Ok(target) => match symlink(target, &place) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error);
                    }
                    _ => {}
                },
                Err(_) if path.is_dir() => {
                    make_dir(&place)?;
                    binds.push(Bind::of_host(path.clone(), path));
                }
                Err(_) => {}
            }
        }
        Ok(RootFs { layers: vec![skeleton], binds })
    }
}

/// A directory that others may look into; fine if it is there, and nothing but our own: a
/// link in its place would have root write elsewhere.
pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    let found = fs::symlink_metadata(path)?;
    let is_own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if is_own && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let why = format!("{} is not a directory that only this user can access", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

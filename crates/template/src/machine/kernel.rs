//! The kernel for virtual machines: the host's own if one is installed that fits, else
//! Debian's for clouds, fetched with the host's apt.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{MachineError, unpack};
use crate::file::at;
use crate::progress::{Lines, Outcome, Progress, StepStart};
use crate::store::Store;
use crate::tool::{self, Inherit};

/// A kernel in the store, ready to boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    pub version: String,
    /// Holds `kernel` and `modules`.
    pub directory: PathBuf,
}

/// What a machine cannot do without; what these depend on comes along.
const MODULES: [&str; 6] =
    ["virtio_mmio", "virtio_console", "virtio_blk", "erofs", "ext4", "overlay"];

const PACKAGE: &str = "linux-image-cloud-amd64";

/// For everything that is fetched.
const LONGEST: Duration = Duration::from_secs(600);

impl Store {
    /// The kernel for virtual machines, taken from the host or fetched if there is none
    /// yet. What is in the store stays in use until the host has a newer one.
    pub fn kernel(&self, progress: &mut dyn Progress) -> Result<Kernel, MachineError> {
        let installed = installed(Path::new("/"));
        if let Some(kernel) = installed.iter().find_map(|found| self.kept_kernel(&found.version)) {
            return Ok(kernel);
        }
        if installed.is_empty()
            && let Some(kernel) = self.newest_kernel()?
        {
            return Ok(kernel);
        }
        let started = Instant::now();
        progress.started(&StepStart { name: "kernel for virtual machines", number: 1, total: 1 });
        let made = self.make_kernel(&installed, progress);
        let outcome = if made.is_ok() { Outcome::Made } else { Outcome::Failed };
        progress.finished(outcome, started.elapsed());
        made
    }

    fn make_kernel(
        &self,
        installed: &[Found],
        progress: &mut dyn Progress,
    ) -> Result<Kernel, MachineError> {
        for found in installed {
            // One that lacks a module is no reason not to fetch one that has it.
            match self.keep_kernel(found) {
                Err(MachineError::NoModule { .. } | MachineError::NotAKernel(_)) => {}
                kept => return kept,
            }
        }
        let work = self.workspace()?;
        fetch(work.path(), progress)?;
        let fetched = self::installed(work.path());
        let found = fetched.first().ok_or(MachineError::NoKernel)?;
        self.keep_kernel(found)
    }

    fn kept_kernel(&self, version: &str) -> Option<Kernel> {
        let directory = self.root().join("kernels").join(version);
        let complete = directory.join("kernel").is_file();
        complete.then(|| Kernel { version: version.to_owned(), directory })
    }

    fn newest_kernel(&self) -> Result<Option<Kernel>, MachineError> {
        let kernels = self.root().join("kernels");
        let Ok(entries) = fs::read_dir(&kernels) else { return Ok(None) };
        let versions = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let newest = versions.max_by_key(|version| order(version));
        Ok(newest.and_then(|version| self.kept_kernel(&version)))
    }

    /// Copies what a machine needs of an installed kernel.
    fn keep_kernel(&self, found: &Found) -> Result<Kernel, MachineError> {
        let work = self.workspace()?;
        let fresh = work.path().join("kernel");
        let modules = fresh.join("modules");
        fs::create_dir_all(&modules).map_err(at("create", &modules))?;
        let image = fs::read(&found.image).map_err(at("read", &found.image))?;
        if !unpack::is_kernel(&image) {
            return Err(MachineError::NotAKernel(found.image.clone()));
        }
        let list = Modules::of(found)?.copy(&modules)?;
        let path = modules.join("list");
        fs::write(&path, list).map_err(at("write", &path))?;
        let path = fresh.join("kernel");
        let kernel = unpack::vmlinux(&image).unwrap_or(image);
        fs::write(&path, kernel).map_err(at("write", &path))?;

        let kernels = self.root().join("kernels");
        fs::create_dir_all(&kernels).map_err(at("create", &kernels))?;
        let target = kernels.join(&found.version);
        match fs::rename(&fresh, &target) {
            // Somebody else made the same one meanwhile.
            Err(_) if target.join("kernel").is_file() => {}
            done => done.map_err(at("create", &target))?,
        }
        Ok(Kernel { version: found.version.clone(), directory: target })
    }
}

/// A kernel as a package installs it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    version: String,
    image: PathBuf,
    modules: PathBuf,
}

/// Kernels below `root` that have their modules with them; those for clouds
/// first, because they are the smallest, then the newest.
fn installed(root: &Path) -> Vec<Found> {
    let Ok(entries) = fs::read_dir(root.join("boot")) else { return Vec::new() };
    let mut found: Vec<Found> = entries
        .filter_map(|entry| {
            let image = entry.ok()?.path();
            let version = image.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
            let places = ["lib/modules", "usr/lib/modules"];
            let modules = places.map(|place| root.join(place).join(&version));
            let modules = modules.into_iter().find(|path| path.join("kernel").is_dir())?;
            Some(Found { version, image, modules })
        })
        .collect();
    found.sort_by_key(|found| {
        (
            std::cmp::Reverse(found.version.contains("cloud")),
            std::cmp::Reverse(order(&found.version)),
        )
    });
    found
}

/// Versions in the order of their numbers.
fn order(version: &str) -> Vec<u64> {
    let numbers = version.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Fetches Debian's kernel for clouds and unpacks it below `work`, with package
/// lists apart from the host's, which may be absent or old.
fn fetch(work: &Path, progress: &mut dyn Progress) -> Result<(), MachineError> {
    for name in ["lists/partial", "archives/partial"] {
        let path = work.join(name);
        fs::create_dir_all(&path).map_err(at("create", &path))?;
    }
    let own = |name: &str, path: &Path| format!("{name}={}", path.display());
    let options = [
        own("Dir::State::Lists", &work.join("lists")),
        own("Dir::Cache", work),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let mut apt = |program: &str, arguments: &[&str]| {
        let mut all: Vec<OsString> = vec![own("--chdir", work).into(), program.into(), "-q".into()];
        all.extend(options.iter().flat_map(|option| ["-o".into(), option.into()]));
        all.extend(arguments.iter().map(OsString::from));
        let (mut text, mut lines) = (Vec::new(), Lines::default());
        let ran = tool::run("env", &all, Inherit::Least, LONGEST, &mut |bytes| {
            text.extend_from_slice(bytes);
            lines.feed(bytes, |line| progress.line(line));
        });
        ran.map(|()| String::from_utf8_lossy(&text).into_owned())
    };
    apt("apt-get", &["update"])?;
    let shown = apt("apt-cache", &["show", PACKAGE])?;
    let image = image_package(&shown).ok_or(MachineError::NoKernel)?;
    apt("apt-get", &["download", &image])?;
    let entries = fs::read_dir(work).map_err(at("list", work))?;
    let package = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let package = package.ok_or(MachineError::NoKernel)?;
    let arguments = ["--extract".into(), package.into(), OsString::from(work)];
    tool::run("dpkg-deb", &arguments, Inherit::Least, LONGEST, &mut |_| {})?;
    Ok(())
}

/// The package that holds the kernel, which the one that is asked for only
/// depends on.
fn image_package(shown: &str) -> Option<String> {
    let depends = shown.lines().find_map(|line| line.strip_prefix("Depends: "))?;
    let first = depends.split([' ', ',']).next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    (first.starts_with("linux-image-") && first.chars().all(plain)).then(|| first.to_owned())
}

/// The modules of a kernel: files, and those that are built in.
struct Modules<'a> {
    version: &'a str,
    files: Vec<PathBuf>,
    built_in: BTreeSet<String>,
}

impl<'a> Modules<'a> {
    fn of(found: &'a Found) -> Result<Self, MachineError> {
        let mut files = Vec::new();
        collect(&found.modules.join("kernel"), &mut files)?;
        let text = fs::read_to_string(found.modules.join("modules.builtin")).unwrap_or_default();
        let built_in = text.lines().map(|line| name_of(Path::new(line))).collect();
        Ok(Self { version: &found.version, files, built_in })
    }

    /// Copies what machines need to `target`; answers the names in order.
    fn copy(&self, target: &Path) -> Result<String, MachineError> {
        let mut order = Vec::new();
        for module in MODULES {
            self.add(module, target, &mut order)?;
        }
        Ok(order.iter().map(|name| format!("{name}\n")).collect())
    }

    fn add(&self, name: &str, target: &Path, order: &mut Vec<String>) -> Result<(), MachineError> {
        if self.built_in.contains(name) || order.iter().any(|known| known == name) {
            return Ok(());
        }
        let file = self.files.iter().find(|file| name_of(file) == name);
        let file = file.ok_or_else(|| MachineError::NoModule {
            version: self.version.to_owned(),
            module: name.to_owned(),
        })?;
        let content = read_module(file)?;
        for needed in depends(&content) {
            self.add(&needed, target, order)?;
        }
        let path = target.join(format!("{name}.ko"));
        fs::write(&path, content).map_err(at("write", &path))?;
        order.push(name.to_owned());
        Ok(())
    }
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), MachineError> {
    for entry in fs::read_dir(directory).map_err(at("list", directory))? {
        let entry = entry.map_err(at("list", directory))?;
        let kind = entry.file_type().map_err(at("list", directory))?;
        if kind.is_dir() {
            collect(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// A module's name, as the kernel spells it.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.split(".ko").next().unwrap_or_default().replace('-', "_")
}

fn read_module(file: &Path) -> Result<Vec<u8>, MachineError> {
    let content = fs::read(file).map_err(at("read", file))?;
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => Ok(zstd::decode_all(&content[..]).map_err(at("unpack", file))?),
        Some("xz") => {
            let mut plain = Vec::new();
            let arguments = ["--decompress".into(), "--stdout".into(), OsString::from(file)];
            tool::run("xz", &arguments, Inherit::Least, LONGEST, &mut |bytes| {
                plain.extend_from_slice(bytes);
            })?;
            Ok(plain)
        }
        _ => Ok(content),
    }
}

/// What a module says that it needs.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let found = module.windows(KEY.len()).position(|window| window == KEY);
    let Some(start) = found.map(|at| at + KEY.len()) else { return Vec::new() };
    let value = module[start..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value);
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_names_what_it_needs() {
        let module = b"\x7fELF..license=GPL\0depends=virtio,virtio-ring\0name=virtio_blk\0";
        assert_eq!(depends(module), ["virtio", "virtio_ring"]);
        assert!(depends(b"..\0depends=\0name=virtio\0").is_empty());
    }

    #[test]
    fn versions_go_by_their_numbers() {
        assert!(order("6.1.0-100-cloud-amd64") > order("6.1.0-54-cloud-amd64"));
        assert!(order("6.12.1+bpo") > order("6.1.0-54-cloud-amd64"));
    }

    #[test]
    fn the_package_of_the_kernel_is_the_first_dependency() {
        let shown = "Package: x\nDepends: linux-image-6.1.0-54-cloud-amd64 (= 6.1.190-1)\n";
        assert_eq!(image_package(shown).as_deref(), Some("linux-image-6.1.0-54-cloud-amd64"));
        assert_eq!(image_package("Depends: linux-image-$(id)\n"), None);
    }

    #[test]
    fn a_kernel_is_kept_with_what_its_modules_need_in_order() {
        let host = tempfile::tempdir().unwrap();
        let put = |path: &str, content: &[u8]| {
            let path = host.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let mut image = vec![0; 1024];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        put("boot/vmlinuz-6.1.0-cloud", &image);
        put("boot/vmlinuz-9.0-without-modules", &image);
        let base = "usr/lib/modules/6.1.0-cloud";
        put(&format!("{base}/modules.builtin"), b"kernel/fs/ext4/ext4.ko\n");
        for (name, needs) in [
            ("virtio", ""),
            ("virtio_mmio", "virtio"),
            ("virtio_blk", "virtio"),
            ("virtio_console", "virtio"),
            ("erofs", ""),
        ] {
            let content = format!("x\0depends={needs}\0");
            put(&format!("{base}/kernel/drivers/{name}.ko"), content.as_bytes());
        }
        let overlay = zstd::encode_all(&b"y\0depends=\0"[..], 1).unwrap();
        put(&format!("{base}/kernel/fs/overlay.ko.zst"), &overlay);

        let found = installed(host.path());
        assert_eq!(found.len(), 1);
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(root.path()).unwrap();
        let kernel = store.keep_kernel(&found[0]).unwrap();
        let list = fs::read_to_string(kernel.directory.join("modules/list")).unwrap();
        assert_eq!(list, "virtio\nvirtio_mmio\nvirtio_console\nvirtio_blk\nerofs\noverlay\n");
        let overlay = fs::read(kernel.directory.join("modules/overlay.ko")).unwrap();
        assert_eq!(overlay, b"y\0depends=\0");
        assert_eq!(store.newest_kernel().unwrap(), Some(kernel));

        fs::remove_file(host.path().join(format!("{base}/kernel/drivers/erofs.ko"))).unwrap();
        let error = store.keep_kernel(&found[0]).unwrap_err();
        assert!(error.to_string().contains("no module `erofs`"), "{error}");
    }
}

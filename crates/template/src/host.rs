//! The `host` template: the machine's own `/usr`, read-only, over a skeleton.
//!
//! Nothing is downloaded and nothing of the host's secrets is shown. `/usr` is
//! what any local user can read anyway: no user inside owns it. Of `/etc` only a short list of public
//! files is copied, and of those only what is readable by everyone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use belljar_domain::{Bind, RootFs};
use rustix::fs::{FlockOperation, flock};

use crate::confined::{Attributes, Root};
use crate::digest::{Digest, Fields};
use crate::file::{Error, at};
use crate::recipe::LimitDefaults;
use crate::skeleton;
use crate::template::{Defaults, Template, hold};

/// The reserved name of this template.
pub const NAME: &str = "host";

/// Raised whenever the skeleton's own content changes.
const GENERATION: u64 = 1;

/// Directories that are links into `/usr` on a merged system.
const USR_LINKS: [&str; 6] = ["bin", "sbin", "lib", "lib64", "lib32", "libx32"];

/// Public files and directories of `/etc`. Client configurations (`pip.conf`,
/// `npmrc`, `gitconfig`) are not here: they may hold tokens.
const ETC: [&str; 15] = [
    "alternatives",
    "fonts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "protocols",
    "services",
    "ssl/certs/ca-certificates.crt",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "pki/tls/certs/ca-bundle.crt",
];

/// Directories of `/etc` copied by the beginning of their name, if small.
const ETC_PREFIXES: [&str; 2] = ["java-", "python3"];
const SMALL: u64 = 1 << 20;

/// Stale skeletons are kept this long, so that a process which just prepared
/// one can still take its lease.
const STALE_AGE: Duration = Duration::from_secs(24 * 3600);

/// Makes the template, or finds it made. Safe to call from many processes.
pub fn prepare(store_dir: &Path) -> Result<Template, Error> {
    prepare_from(Path::new("/"), store_dir)
}

fn prepare_from(host: &Path, store_dir: &Path) -> Result<Template, Error> {
    let stamp = stamp(host)?;
    let home = store_dir.join("host");
    fs::create_dir_all(&home).map_err(at("create", &home))?;
    let skeleton = home.join(stamp.to_string());
    if !skeleton.exists() {
        let work = tempfile::Builder::new()
            .prefix(".new-")
            .tempdir_in(&home)
            .map_err(at("create a directory in", &home))?;
        make(host, &work.path().join("root"))?;
        match fs::rename(work.path().join("root"), &skeleton) {
            Ok(()) => {}
            // Another process was faster with the same content.
            Err(_) if skeleton.exists() => {}
            Err(source) => return Err(at("create", &skeleton)(source)),
        }
        remove_stale(&home, &skeleton);
    }
    let mut binds = vec![bind(host, "usr")];
    for name in USR_LINKS {
        let path = host.join(name);
        if path.is_dir() && usr_link(&path).is_none() {
            binds.push(bind(host, name));
        }
    }
    Ok(Template {
        name: NAME.to_owned(),
        version: stamp.short(),
        root: RootFs { layers: vec![skeleton], binds },
        env: BTreeMap::from([
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("PATH".to_owned(), crate::builder::DEFAULT_PATH.to_owned()),
        ]),
        languages: languages(host),
        limits: LimitDefaults::default(),
        warm: None,
        defaults: Defaults::default(),
    })
}

fn bind(host: &Path, name: &str) -> Bind {
    Bind::of_host(host.join(name), Path::new("/").join(name))
}

fn languages(host: &Path) -> BTreeMap<String, PathBuf> {
    let known = [("python", "usr/bin/python3"), ("node", "usr/bin/node"), ("bash", "usr/bin/bash")];
    let present = known.into_iter().filter(|(_, path)| host.join(path).exists());
    present.map(|(name, path)| (name.to_owned(), Path::new("/").join(path))).collect()
}

/// The link's text, if `path` is a link into `/usr`.
fn usr_link(path: &Path) -> Option<PathBuf> {
    let target = fs::read_link(path).ok()?;
    let inside = target.starts_with("usr") || target.starts_with("/usr");
    (inside && !target.components().any(|c| c.as_os_str() == "..")).then_some(target)
}

/// Digest of everything that the skeleton is made from, by time and size.
fn stamp(host: &Path) -> Result<Digest, Error> {
    let mut fields = Fields::new();
    fields.number(GENERATION).number(u64::from(rustix::process::geteuid().is_root()));
    for name in USR_LINKS {
        let link = usr_link(&host.join(name)).unwrap_or_default();
        fields.add(name).add(link.as_os_str().as_encoded_bytes());
        fields.number(u64::from(host.join(name).is_dir()));
    }
    for path in inputs(host)? {
        // Links are followed: it is the content that would be copied.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        fields.add(path.as_os_str().as_encoded_bytes()).number(metadata.len());
        fields.add(metadata.mtime().to_le_bytes()).add(metadata.mtime_nsec().to_le_bytes());
    }
    Ok(fields.finish())
}

/// The entries of `/etc` that are copied, as they exist on this host.
fn inputs(host: &Path) -> Result<Vec<PathBuf>, Error> {
    let etc = host.join("etc");
    let mut found: Vec<PathBuf> = ETC.iter().map(|name| etc.join(name)).collect();
    for entry in fs::read_dir(&etc).map_err(at("list", &etc))? {
        let entry = entry.map_err(at("list", &etc))?;
        let name = entry.file_name();
        let matches = ETC_PREFIXES.iter().any(|p| name.to_string_lossy().starts_with(p));
        if matches && entry.path().is_dir() && size(&entry.path()) <= SMALL {
            found.push(entry.path());
        }
    }
    found.retain(|path| fs::symlink_metadata(path).is_ok());
    found.sort();
    Ok(found)
}

fn size(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

fn make(host: &Path, target: &Path) -> Result<(), Error> {
    fs::create_dir(target).map_err(at("create", target))?;
    fs::set_permissions(target, fs::Permissions::from_mode(0o755))
        .map_err(at("set mode of", target))?;
    let root = Root::open(target).map_err(at("open", target))?;
    for name in USR_LINKS {
        let path = host.join(name);
        let placed = match usr_link(&path) {
            Some(link) => root.symlink(Path::new(name), link.as_os_str(), &Attributes::root(0o777)),
            None if path.is_dir() => root.directory(Path::new(name), &Attributes::root(0o755)),
            None => Ok(()),
        };
        placed.map_err(at("create", target.join(name)))?;
    }
    for source in inputs(host)? {
        let inside = source.strip_prefix(host).unwrap_or(&source).to_owned();
        copy(&root, &source, &inside)?;
    }
    skeleton::apply(&root).map_err(at("complete", target))?;
    // `apply` could not see the shell behind the link into the empty `/usr`.
    if host.join("bin/bash").exists() {
        root.remove(Path::new("etc/passwd")).map_err(at("remove", target.join("etc/passwd")))?;
        skeleton::users(&root, "/bin/bash").map_err(at("write", target.join("etc/passwd")))?;
    }
    Ok(())
}

/// Copies one public entry. What not everyone may read is left out, silently:
/// that is how a directory of public files with one secret is meant.
fn copy(root: &Root, source: &Path, inside: &Path) -> Result<(), Error> {
    let Ok(metadata) = fs::symlink_metadata(source) else { return Ok(()) };
    if metadata.is_symlink() {
        let link = fs::read_link(source).map_err(at("read link", source))?;
        // The named file itself may be a link to wherever the host keeps it; a
        // link into what the sandbox sees stays a link.
        if ["/usr", "/etc/alternatives"].iter().any(|visible| link.starts_with(visible)) {
            return root
                .symlink(inside, link.as_os_str(), &Attributes::root(0o777))
                .map_err(at("create", inside));
        }
        return match fs::metadata(source) {
            Ok(metadata) if metadata.is_file() => copy_file(root, source, inside, &metadata),
            _ => Ok(()),
        };
    }
    if metadata.is_dir() {
        if metadata.mode() & 0o005 != 0o005 {
            return Ok(());
        }
        root.directory(inside, &Attributes::root(0o755)).map_err(at("create", inside))?;
        for entry in fs::read_dir(source).map_err(at("list", source))? {
            let name = entry.map_err(at("list", source))?.file_name();
            copy(root, &source.join(&name), &inside.join(&name))?;
        }
        return Ok(());
    }
    if metadata.is_file() { copy_file(root, source, inside, &metadata) } else { Ok(()) }
}

fn copy_file(
    root: &Root,
    source: &Path,
    inside: &Path,
    metadata: &fs::Metadata,
) -> Result<(), Error> {
    if metadata.mode() & 0o004 == 0 {
        return Ok(());
    }
    let mut content = File::open(source).map_err(at("open", source))?;
    let mode = if metadata.mode() & 0o111 == 0 { 0o644 } else { 0o755 };
    let attributes = Attributes { modified: Some(metadata.mtime()), ..Attributes::root(mode) };
    root.file(inside, &mut content, &attributes).map_err(at("copy", source))?;
    Ok(())
}

/// Removes old skeletons that nobody holds. Failing to is no failure: the next
/// call tries again.
fn remove_stale(home: &Path, current: &Path) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let age = fs::metadata(&path)
            .and_then(|metadata| metadata.modified())
            .ok()
            .and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if path == current || age.is_none_or(|age| age < STALE_AGE) {
            continue;
        }
        let Ok(directory) = hold(&path) else { continue };
        if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests;

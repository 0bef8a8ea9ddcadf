//! Compiles the payloads, once for each content.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, bail};
use belljar_guest_proto::GENERATION;

const FLAGS: [&str; 6] = ["-std=gnu11", "-O1", "-static", "-pthread", "-w", "-lrt"];

/// The generation of the protocol that a forged guest speaks.
fn definition() -> String {
    format!("-DGENERATION={GENERATION}")
}

/// Every payload as bytes that can be put into a sandbox, by its path below
/// `payloads/`.
#[derive(Debug)]
pub(crate) struct Programs {
    built: BTreeMap<String, PathBuf>,
}

impl Programs {
    /// Compiles what has changed since the last time.
    pub(crate) fn compile() -> anyhow::Result<Self> {
        let source = source_dir();
        let cache = std::env::current_exe()?.with_file_name("attack-payloads");
        fs::create_dir_all(&cache)?;
        let files = files_below(&source)?;
        let shared = hash_headers(&files)?;
        let mut built = BTreeMap::new();
        let mut missing = Vec::new();
        for file in &files {
            let name = file.strip_prefix(&source)?.to_string_lossy().into_owned();
            if file.extension().is_none_or(|end| end != "c") {
                built.insert(name, file.clone());
                continue;
            }
            let mut hash = DefaultHasher::new();
            (shared, FLAGS, definition(), fs::read(file)?).hash(&mut hash);
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let target = cache.join(format!("{stem}-{:016x}", hash.finish()));
            if !target.exists() {
                missing.push((file.clone(), target.clone()));
            }
            built.insert(name, target);
        }
        compile_all(&missing, &source)?;
        Ok(Self { built })
    }

    /// The payload `file`, compiled if it is C.
    pub(crate) fn path(&self, file: &str) -> anyhow::Result<&Path> {
        let found = self.built.get(file).with_context(|| format!("there is no payload {file}"))?;
        Ok(found)
    }
}

fn source_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("payloads")
}

fn files_below(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_below(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn hash_headers(files: &[PathBuf]) -> anyhow::Result<u64> {
    let mut hash = DefaultHasher::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "h")) {
        fs::read(file)?.hash(&mut hash);
    }
    Ok(hash.finish())
}

fn compile_all(missing: &[(PathBuf, PathBuf)], source: &Path) -> anyhow::Result<()> {
    let queue = Mutex::new(missing.iter());
    let failures = Mutex::new(HashMap::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.next());
                    let Some((file, target)) = next else { return };
                    if let Err(error) = compile_one(file, target, source)
                        && let Ok(mut failures) = failures.lock()
                    {
                        failures.insert(file.clone(), format!("{error:#}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_default();
    if let Some((file, error)) = failures.iter().next() {
        bail!("{} of the payloads do not compile: {}: {error}", failures.len(), file.display());
    }
    Ok(())
}

fn compile_one(file: &Path, target: &Path, source: &Path) -> anyhow::Result<()> {
    // Under its name only when it is complete.
    let partial = target.with_extension("partial");
    let output = Command::new("gcc")
        .args(FLAGS)
        .arg(definition())
        .arg("-I")
        .arg(source)
        .arg("-o")
        .arg(&partial)
        .arg(file)
        .output()
        .context("cannot run gcc")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    fs::rename(partial, target)?;
    Ok(())
}

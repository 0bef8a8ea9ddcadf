//! Builds what sandboxes run of ours, and embeds it: the guest, a static program,
//! and the library that a zygote loads.
//!
//! Each is a build of its own: another profile, other linking, whatever this
//! crate is built for.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let crates = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .parent()
        .expect("this crate is in a folder")
        .to_owned();
    // Worktrees that share a target directory share this script's output, too. Paths
    // from here on are looked for in the worktree that is built; the last one, which
    // cargo remembers as `build.rs` and finds written differently when another
    // worktree was built before, has the script run again whatever their dates say.
    for part in ["guest", "zygote", "guest-proto", "confine", "sys"] {
        println!("cargo::rerun-if-changed=../{part}/src");
        println!("cargo::rerun-if-changed=../{part}/Cargo.toml");
    }
    println!("cargo::rerun-if-changed=../../runtimes");
    println!("cargo::rerun-if-changed={}", crates.join("node/build.rs").display());
    let is_static = "-Ctarget-feature=+crt-static\x1f-Crelocation-model=static";
    let guest = build(&crates, "guest", is_static, "belljar-guest");
    println!("cargo::rustc-env=BELLJAR_GUEST={}", guest.display());
    let zygote = build(&crates, "zygote", "", "libbelljar_zygote.so");
    println!("cargo::rustc-env=BELLJAR_ZYGOTE={}", zygote.display());
    let runtimes = crates.with_file_name("runtimes");
    let sources = runtimes.join("python/belljar");
    println!("cargo::rustc-env=BELLJAR_PYTHON={}", pack(&sources).display());
}

/// Builds one crate of the workspace and answers where the result is: a copy of
/// our own, because worktrees that share a target directory also share that of
/// this build, and the other's result speaks another protocol.
fn build(crates: &Path, name: &str, flags: &str, result: &str) -> PathBuf {
    let target = env::var("TARGET").expect("cargo sets it");
    let dir = build_dir(name);
    let status = Command::new(env::var("CARGO").expect("cargo sets it"))
        .args(["build", "--locked", "--profile", "guest"])
        .args(["--package", &format!("belljar-{name}")])
        .args(["--target", &target, "--target-dir"])
        .arg(&dir)
        .arg("--manifest-path")
        .arg(crates.join(name).join("Cargo.toml"))
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status()
        .expect("cargo can be run");
    assert!(status.success(), "the {name} did not build");
    let own = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join(result);
    std::fs::copy(dir.join(target).join("guest").join(result), &own).expect("it can be copied");
    own
}

/// A directory beside the profiles, so that they share one build.
fn build_dir(name: &str) -> PathBuf {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    // <target>/<profile>/build/<package>/out
    let name = format!("{name}-build");
    out.ancestors().nth(4).map_or(out.clone(), |target| target.join(&name))
}

/// Writes the modules of the Python runtime as a Rust table of names and
/// sources.
fn pack(sources: &Path) -> PathBuf {
    let mut table = String::from("&[\n");
    let mut files: Vec<_> = std::fs::read_dir(sources)
        .expect("the runtime is there")
        .map(|entry| entry.expect("the runtime can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .collect();
    files.sort();
    for file in files {
        let name = file.file_stem().expect("it has a name").to_string_lossy().into_owned();
        table.push_str(&format!(
            "    ({name:?}, include_str!({:?})),\n",
            file.display().to_string()
        ));
    }
    table.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("python.rs");
    std::fs::write(&out, table).expect("the table can be written");
    out
}

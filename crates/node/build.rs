//! Builds the guest, a static program, and embeds it.
//!
//! It is a build of its own: another profile, linked statically, whatever this
//! crate is built for.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let crates = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .parent()
        .expect("this crate is in a folder")
        .to_owned();
    for part in ["guest", "guest-proto", "sys"] {
        println!("cargo::rerun-if-changed={}", crates.join(part).join("src").display());
        println!("cargo::rerun-if-changed={}", crates.join(part).join("Cargo.toml").display());
    }
    let target = env::var("TARGET").expect("cargo sets it");
    let dir = build_dir();
    let status = Command::new(env::var("CARGO").expect("cargo sets it"))
        .args(["build", "--locked", "--profile", "guest", "--package", "belljar-guest"])
        .args(["--target", &target, "--target-dir"])
        .arg(&dir)
        .arg("--manifest-path")
        .arg(crates.join("guest/Cargo.toml"))
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static\x1f-Crelocation-model=static")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status()
        .expect("cargo can be run");
    assert!(status.success(), "the guest did not build");
    let guest = dir.join(target).join("guest/belljar-guest");
    println!("cargo::rustc-env=BELLJAR_GUEST={}", guest.display());
}

/// A directory beside the profiles, so that they share one guest.
fn build_dir() -> PathBuf {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    // <target>/<profile>/build/<package>/out
    out.ancestors().nth(4).map_or(out.clone(), |target| target.join("guest-build"))
}

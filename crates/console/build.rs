//! Embeds `console/dist`: writes a Rust table of its files, each as it is and as gzip.
//!
//! `just console` builds that folder. Without it the table is empty, so a host without npm can
//! build the executable. This script never runs npm: a build of Rust needs no network.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

fn main() {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    // Absolute, so that worktrees which share a target directory run this script again. A path
    // that does not exist would run it at every build: `just console` touches this file when it
    // creates the folder.
    println!("cargo::rerun-if-changed={}", own.join("build.rs").display());
    let dist = own.join("../../console/dist");
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        println!("cargo::rerun-if-changed={}", dist.display());
        collect(&dist, "", &mut files);
    }
    files.sort();
    let copies = out.join("files");
    let _ = fs::remove_dir_all(&copies);
    fs::create_dir_all(&copies).expect("the folder of copies can be created");
    let mut table = String::from("&[\n");
    for (number, path) in files.iter().enumerate() {
        table.push_str(&row(&dist.join(path), path, &copies, number));
    }
    table.push_str("]\n");
    fs::write(out.join("table.rs"), table).expect("the table can be written");
}

/// Adds the paths of all files below `folder`. Names with a leading dot and source maps stay out.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("console/dist can be listed") {
        let entry = entry.expect("console/dist can be listed");
        let name = entry.file_name().into_string().expect("names in console/dist are UTF-8");
        if name.starts_with('.') || name.ends_with(".map") {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.file_type().expect("console/dist can be listed").is_dir() {
            collect(&entry.path(), &format!("{path}/"), files);
        } else {
            files.push(path);
        }
    }
}

/// Returns the row of one file. The table includes copies, because worktrees that share a target
/// directory have a `console/dist` each.
fn row(source: &Path, path: &str, copies: &Path, number: usize) -> String {
    let plain = fs::read(source).expect("a file of console/dist can be read");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&plain).expect("memory can be written");
    let packed = encoder.finish().expect("memory can be written");
    let digest = hex::encode(&Sha256::digest(&plain)[..16]);
    fs::write(copies.join(number.to_string()), &plain).expect("the copy can be written");
    let include =
        |name: String| format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/files/{name}\"))");
    // Images are compressed already.
    let gzip = if packed.len() < plain.len() / 10 * 9 {
        let name = format!("{number}.gz");
        fs::write(copies.join(&name), &packed).expect("the copy can be written");
        format!("Some({})", include(name))
    } else {
        "None".to_owned()
    };
    format!(
        "    File {{ path: {path:?}, content_type: {:?}, plain: {}, gzip: {gzip}, digest: {digest:?} }},\n",
        content_type(path),
        include(number.to_string()),
    )
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}

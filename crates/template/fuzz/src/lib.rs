//! Layers of images, as bytes that a stranger made up. The fuzz target makes bytes up;
//! `tests/seeds.rs` of the crate runs the seeds through the same check.

use std::fs;
use std::path::Path;

use belljar_template::oci::{Caps, Image};
use belljar_template::progress::Silent;
use sha2::{Digest as _, Sha256};

/// What came of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Refused,
    Unpacked,
}

const CAPS: Caps = Caps { bytes: 1 << 20, entries: 64, layers: 4 };
const BLOCK: usize = 512;

/// Unpacks an image of two layers, and looks whether anything beside its directory changed.
///
/// The first byte says how the layers are packed, the second how the rest is cut in two.
pub fn unpack(input: &[u8]) -> Outcome {
    let [packing, cut, rest @ ..] = input else { return Outcome::Refused };
    let place = tempfile::tempdir().expect("a directory of our own");
    let outside = place.path().join("outside");
    fs::create_dir(&outside).expect("a directory beside");
    fs::write(outside.join("canary"), "untouched").expect("a file beside");
    let target = place.path().join("target");
    fs::create_dir(&target).expect("a directory to unpack into");
    let at = (usize::from(*cut) * BLOCK).min(rest.len());
    let layers = [&rest[..at], &rest[at..]].map(checksummed);
    let layout = place.path().join("layout");
    write_layout(&layout, &layers, *packing);
    let unpacked = Image::open(&layout, None, &CAPS).expect("the documents are our own").unpack(
        &target,
        &CAPS,
        &mut Silent,
    );
    let mut names: Vec<_> = fs::read_dir(place.path())
        .expect("our own directory")
        .map(|entry| entry.expect("our own directory").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["layout", "outside", "target"]);
    let beside: Vec<_> = fs::read_dir(&outside).expect("it is there").collect();
    assert_eq!(beside.len(), 1);
    assert_eq!(fs::read(outside.join("canary")).expect("it is there"), b"untouched");
    match unpacked {
        Ok(_) => Outcome::Unpacked,
        Err(_) => Outcome::Refused,
    }
}

/// The archive, with the sums of its headers put right: nobody guesses them.
fn checksummed(raw: &[u8]) -> Vec<u8> {
    let mut archive = raw.to_vec();
    let mut at = 0;
    while let Some(header) = archive.get_mut(at..at + BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            // The end.
            break;
        }
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = header[124..136].iter().take_while(|byte| byte.is_ascii_digit());
        let size = size.fold(0usize, |size, digit| {
            size.saturating_mul(8).saturating_add(usize::from((digit - b'0') & 7))
        });
        at = at.saturating_add(BLOCK).saturating_add(size.div_ceil(BLOCK).saturating_mul(BLOCK));
    }
    archive
}

fn write_layout(layout: &Path, layers: &[Vec<u8>; 2], packing: u8) {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).expect("space for it");
    let put = |content: &[u8]| {
        let digest = digest(content);
        fs::write(blobs.join(&digest["sha256:".len()..]), content).expect("space for it");
        serde_json::json!({ "digest": digest, "size": content.len() })
    };
    let kind = match packing % 3 {
        0 => "application/vnd.oci.image.layer.v1.tar",
        1 => "application/vnd.oci.image.layer.v1.tar+gzip",
        _ => "application/vnd.oci.image.layer.v1.tar+zstd",
    };
    let described = layers.iter().map(|layer| {
        let mut descriptor = put(layer);
        descriptor["mediaType"] = kind.into();
        descriptor
    });
    let described: Vec<_> = described.collect();
    let ids: Vec<_> = layers.iter().map(|layer| digest(layer)).collect();
    let config = serde_json::json!({ "rootfs": { "type": "layers", "diff_ids": ids } });
    let config = put(config.to_string().as_bytes());
    let manifest = serde_json::json!({ "config": config, "layers": described });
    let manifest = put(manifest.to_string().as_bytes());
    let index = serde_json::json!({ "manifests": [manifest] });
    fs::write(layout.join("index.json"), index.to_string()).expect("space for it");
}

fn digest(content: &[u8]) -> String {
    let hash = Sha256::digest(content);
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

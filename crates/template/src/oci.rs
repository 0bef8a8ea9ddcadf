//! Reads an OCI image layout on disk.
//!
//! Nothing in it is trusted: every blob is checked against the digest that
//! named it before it is read, documents are bounded in size, and layers are
//! unpacked by [`unpack`]. See the image-spec's `image-layout.md`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::confined::Root;
use crate::digest::Digest;
use crate::file::{self, at};
use crate::progress::Progress;

mod entries;
mod unpack;

pub(crate) use unpack::Unpack;
pub use unpack::{Skipped, UnpackError};

/// What an image may hold at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Uncompressed bytes of all layers together.
    pub bytes: u64,
    pub entries: u64,
    pub layers: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self { bytes: 32 << 30, entries: 2_000_000, layers: 256 }
    }
}

/// An image whose documents have been read and checked.
#[derive(Debug)]
pub struct Image {
    blobs: PathBuf,
    pub manifest: Digest,
    /// Lowest first.
    layers: Vec<Descriptor>,
    /// Digests of the uncompressed layers.
    diff_ids: Vec<String>,
    /// `NAME=value`, as the image's own programs expect it.
    pub env: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error("`{0}` is not an OCI image layout: it has no index.json")]
    NotALayout(PathBuf),
    #[error("cannot parse the {what} of the image")]
    Document { what: &'static str, source: serde_json::Error },
    #[error("the image has no manifest {wanted}; it has: {present}")]
    NoManifest { wanted: String, present: String },
    #[error("`{0}` is not a sha256 digest")]
    Digest(String),
    #[error("blob {0} does not match its digest or size")]
    Mismatch(String),
    #[error("layers of type `{0}` are not supported")]
    MediaType(String),
    #[error("the image's configuration does not list its layers")]
    DiffIds,
    #[error("the image has more than {0} layers")]
    TooManyLayers(usize),
    #[error("cannot unpack layer {digest}")]
    Unpack { digest: String, source: UnpackError },
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Debug, Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct ImageManifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct Configuration {
    #[serde(default)]
    config: Option<RunConfiguration>,
    rootfs: RootfsIds,
}

#[derive(Debug, Default, Deserialize)]
struct RunConfiguration {
    #[serde(default, rename = "Env")]
    env: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct RootfsIds {
    diff_ids: Vec<String>,
}

/// How a layer's bytes are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

const MAX_DOCUMENT: u64 = 8 << 20;
const REF_NAME: &str = "org.opencontainers.image.ref.name";

impl Image {
    /// Reads the documents of the image `tag` in `layout`; without a tag, of
    /// the only one.
    pub fn open(layout: &Path, tag: Option<&str>, caps: &Caps) -> Result<Self, ImageError> {
        let path = layout.join("index.json");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ImageError::NotALayout(layout.to_owned()));
            }
            Err(error) => return Err(at("open", &path)(error).into()),
        };
        let mut text = Vec::new();
        file.take(MAX_DOCUMENT).read_to_end(&mut text).map_err(at("read", &path))?;
        let index: Index = document("index", &text)?;
        let mut chosen = choose(index.manifests, tag)?;
        let blobs = layout.join("blobs/sha256");
        // An index may hold one more, with a manifest for each platform.
        if chosen.media_type.ends_with("index.v1+json")
            || chosen.media_type.ends_with("manifest.list.v2+json")
        {
            let nested: Index = document("index", &read_blob(&blobs, &chosen)?)?;
            chosen = choose(nested.manifests, None)?;
        }
        let manifest: ImageManifest = document("manifest", &read_blob(&blobs, &chosen)?)?;
        let text = read_blob(&blobs, &manifest.config)?;
        let configuration: Configuration = document("configuration", &text)?;
        let diff_ids = configuration.rootfs.diff_ids;
        if diff_ids.len() != manifest.layers.len() {
            return Err(ImageError::DiffIds);
        }
        if diff_ids.len() > caps.layers {
            return Err(ImageError::TooManyLayers(caps.layers));
        }
        Ok(Self {
            blobs,
            manifest: digest(&chosen.digest)?,
            layers: manifest.layers,
            diff_ids,
            env: configuration.config.and_then(|config| config.env).unwrap_or_default(),
        })
    }

    /// Unpacks all layers, one over the other, into the empty directory
    /// `target`.
    pub fn unpack(
        &self,
        target: &Path,
        caps: &Caps,
        progress: &mut dyn Progress,
    ) -> Result<Skipped, ImageError> {
        let root = Root::open(target).map_err(at("open", target))?;
        let mut unpack = unpack::Unpack::new(&root, *caps);
        let total = self.layers.iter().map(|layer| layer.size).fold(0, u64::saturating_add);
        let mut done = 0;
        for (layer, diff_id) in self.layers.iter().zip(&self.diff_ids) {
            let wrap = |source| ImageError::Unpack { digest: layer.digest.clone(), source };
            let compression = compression(&layer.media_type)?;
            let path = self.blobs.join(digest(&layer.digest)?.to_string());
            let mut file = open_blob(&path)?;
            verify(&mut file, layer, &path)?;
            // Whiteouts speak about lower layers only, wherever in the archive
            // they stand; so they are all applied before the first entry is.
            unpack.whiteouts(reader(&file, compression).map_err(wrap)?).map_err(wrap)?;
            let found = unpack.entries(reader(&file, compression).map_err(wrap)?).map_err(wrap)?;
            if found != digest(diff_id)? {
                return Err(ImageError::Mismatch(diff_id.clone()));
            }
            done += layer.size;
            progress.bytes(done, total);
        }
        Ok(unpack.skipped())
    }
}

fn document<T: for<'de> Deserialize<'de>>(
    what: &'static str,
    text: &[u8],
) -> Result<T, ImageError> {
    serde_json::from_slice(text).map_err(|source| ImageError::Document { what, source })
}

fn choose(manifests: Vec<Descriptor>, tag: Option<&str>) -> Result<Descriptor, ImageError> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let name = |manifest: &Descriptor| {
        manifest.annotations.get(REF_NAME).map_or_else(|| "(no tag)".to_owned(), Clone::clone)
    };
    let present = manifests.iter().map(name).collect::<Vec<_>>().join(", ");
    let mut fitting = manifests.into_iter().filter(|manifest| {
        let runs_here = manifest
            .platform
            .as_ref()
            .is_none_or(|platform| platform.os == "linux" && platform.architecture == architecture);
        runs_here
            && tag.is_none_or(|tag| manifest.annotations.get(REF_NAME).is_some_and(|t| t == tag))
    });
    let wanted = match tag {
        Some(tag) => format!("tagged `{tag}` for linux/{architecture}"),
        None => format!("for linux/{architecture}, or has several and needs a tag"),
    };
    match (fitting.next(), fitting.next(), tag) {
        (Some(only), None, _) | (Some(only), Some(_), Some(_)) => Ok(only),
        _ => Err(ImageError::NoManifest { wanted, present }),
    }
}

fn digest(text: &str) -> Result<Digest, ImageError> {
    let hex = text.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
    hex.ok_or_else(|| ImageError::Digest(text.to_owned()))
}

fn compression(media_type: &str) -> Result<Compression, ImageError> {
    match media_type {
        "application/vnd.oci.image.layer.v1.tar" => Ok(Compression::None),
        "application/vnd.oci.image.layer.v1.tar+gzip"
        | "application/vnd.docker.image.rootfs.diff.tar.gzip" => Ok(Compression::Gzip),
        "application/vnd.oci.image.layer.v1.tar+zstd" => Ok(Compression::Zstd),
        other => Err(ImageError::MediaType(other.to_owned())),
    }
}

/// Opens a blob that is a regular file; a link in the layout could name
/// anything on the host.
fn open_blob(path: &Path) -> Result<File, ImageError> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(at("open", path))?;
    Ok(File::from(fd))
}

fn verify(file: &mut File, descriptor: &Descriptor, path: &Path) -> Result<(), ImageError> {
    let (found, length) = Digest::of_reader(file).map_err(at("read", path))?;
    if found == digest(&descriptor.digest)? && length == descriptor.size {
        Ok(())
    } else {
        Err(ImageError::Mismatch(descriptor.digest.clone()))
    }
}

fn read_blob(blobs: &Path, descriptor: &Descriptor) -> Result<Vec<u8>, ImageError> {
    let expected = digest(&descriptor.digest)?;
    let path = blobs.join(expected.to_string());
    let mut content = Vec::new();
    let file = open_blob(&path)?;
    file.take(MAX_DOCUMENT).read_to_end(&mut content).map_err(at("read", &path))?;
    if Digest::of(&content) != expected || content.len() as u64 != descriptor.size {
        return Err(ImageError::Mismatch(descriptor.digest.clone()));
    }
    Ok(content)
}

fn reader(file: &File, compression: Compression) -> Result<Box<dyn io::Read + '_>, UnpackError> {
    use io::Seek as _;
    let mut file = file;
    file.rewind().map_err(UnpackError::Archive)?;
    let buffered = io::BufReader::with_capacity(128 * 1024, file);
    Ok(match compression {
        Compression::None => Box::new(buffered),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(buffered)),
        Compression::Zstd => {
            let mut decoder =
                zstd::stream::read::Decoder::with_buffer(buffered).map_err(UnpackError::Archive)?;
            // A frame may ask for a window of up to 2 GiB; 128 MiB is what the
            // format's own tools accept unasked.
            decoder.window_log_max(27).map_err(UnpackError::Archive)?;
            Box::new(decoder)
        }
    })
}

#[cfg(test)]
mod tests;

//! What machines are made of, which others keep.

use std::fmt;
use std::path::PathBuf;

use belljar_domain::RootFs;

/// What one machine is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Holds `kernel`, and `modules/list` with the modules that it names.
    pub kernel: PathBuf,
    pub kernel_version: String,
    /// The root filesystem, `erofs`.
    pub image: PathBuf,
    /// Stands for the image's content.
    pub image_digest: String,
}

/// Who keeps kernels and root filesystems.
pub trait Supplier: fmt::Debug + Send + Sync {
    /// Finds or makes the parts of a machine that stands on `root`. May take
    /// minutes the first time. The error says what to do.
    fn supply(&self, root: &RootFs) -> Result<Parts, String>;
}

//! What virtual machines are made of: a kernel with the modules that it needs,
//! and the root filesystem of a template as one read-only image.
//!
//! ```text
//! <root>/kernels/<version>/kernel          unpacked where it can be
//!                          modules/list    names, in the order to load them
//!                          modules/*.ko
//!        images/<key>.erofs                all layers of a template, merged
//!        images/<key>.json                 which layers, and the image's digest
//! ```
//!
//! Both are made when they are first asked for, under `tmp`, and renamed into
//! place. Nothing in them is secret, and nothing writes to them again.

mod image;
mod kernel;
mod unpack;

use std::path::PathBuf;

pub use image::Image;
pub(crate) use image::ImageFacts;
pub use kernel::Kernel;

use crate::file;
use crate::store::StoreError;
use crate::tool::ToolError;

/// Why a machine's parts cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(
        "this host's apt has no kernel for virtual machines; install one with modules in \
         /lib/modules (Debian: linux-image-cloud-amd64)"
    )]
    NoKernel,
    #[error("the kernel {version} has no module `{module}`, which virtual machines need")]
    NoModule { version: String, module: String },
    #[error("`{}` is not a kernel", .0.display())]
    NotAKernel(PathBuf),
    #[error(
        "a virtual machine cannot use directories of the host (`{}`); build a template with \
         `belljar template build`", .0.display()
    )]
    OnHost(PathBuf),
    #[error("a template of {0} layers is too large for one image; build it with fewer steps")]
    TooHigh(usize),
}

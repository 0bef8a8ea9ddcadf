//! Files of lines that are only ever appended to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// A file of lines, open for appending.
#[derive(Debug)]
pub(crate) struct LineFile {
    pub(crate) file: File,
    pub(crate) length: u64,
    /// True if a process died while it wrote the last line.
    pub(crate) is_torn: bool,
}

impl LineFile {
    /// Opens a file, and makes it and its folder if they are not there. It is locked until it is
    /// closed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut options = OpenOptions::new();
        let mut file = options.create(true).append(true).read(true).mode(0o600).open(path)?;
        file.lock()?;
        let length = file.metadata()?.len();
        let mut last = [b'\n'];
        if length > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(Self { file, length, is_torn: last != *b"\n" })
    }
}

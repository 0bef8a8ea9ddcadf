//! `belljar admin cluster-key`: what control and nodes know each other by.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::output::{Printer, hinted};

pub(super) fn run(file: &Path, printer: &Printer) -> anyhow::Result<u8> {
    make(file)?;
    if printer.is_json() {
        printer.document(&json!({ "file": file }))?;
    } else {
        printer.note(format_args!(
            "made a cluster key in `{}`; copy it to every machine of the platform, and nowhere else",
            file.display()
        ));
    }
    Ok(0)
}

/// Writes 256 random bits as text, for nobody but the file's owner.
pub(crate) fn make(file: &Path) -> anyhow::Result<()> {
    let made = write(file);
    made.map_err(|error| {
        let taken = error.kind() == io::ErrorKind::AlreadyExists;
        let cannot = format!("cannot write a cluster key to `{}`", file.display());
        let error = anyhow::Error::new(error).context(cannot);
        if !taken {
            return error;
        }
        hinted(
            error,
            "it may be in use; move it away first, and give the new one to all machines at once",
        )
    })
}

fn write(file: &Path) -> io::Result<()> {
    let mut random = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(opened, "{text}")?;
    opened.sync_all()
}

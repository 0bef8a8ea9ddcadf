//! `belljar admin control-key`: the secret that seals the platform's signing keys.

use std::io;
use std::path::Path;

use belljar_identity::ControlKeys;
use serde_json::json;

use crate::output::{Printer, hinted};

pub(super) fn run(file: &Path, printer: &Printer) -> anyhow::Result<u8> {
    make(file)?;
    if printer.is_json() {
        printer.document(&json!({ "file": file }))?;
    } else {
        printer.note(format_args!(
            "wrote a control key to `{}`; copy it to every host that runs control, and to no node",
            file.display()
        ));
    }
    Ok(0)
}

/// Writes 256 random bits as text, for nobody but the file's owner.
pub(crate) fn make(file: &Path) -> anyhow::Result<()> {
    ControlKeys::create(file).map_err(|error| {
        let taken = error.kind() == io::ErrorKind::AlreadyExists;
        let cannot = format!("cannot write a control key to `{}`", file.display());
        let error = anyhow::Error::new(error).context(cannot);
        if !taken {
            return error;
        }
        hinted(
            error,
            "it may be in use: it encrypts the keys in the database; see `Rotate keys` in \
             the operator's guide",
        )
    })
}

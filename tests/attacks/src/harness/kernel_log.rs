//! New lines of the kernel log.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

/// Words of a kernel in trouble. Lines about killed or crashed processes are
/// not among them: attacks cause those on purpose.
const TROUBLE: [&str; 9] = [
    "BUG:",
    "Oops",
    "WARNING:",
    "KASAN",
    "KFENCE",
    "general protection fault:",
    "Kernel panic",
    "unable to handle",
    "UBSAN:",
];

#[derive(Debug)]
pub(crate) struct KernelLog {
    file: File,
}

impl KernelLog {
    /// Starts after everything that is in the log now.
    pub(crate) fn open() -> std::io::Result<Self> {
        const O_NONBLOCK: i32 = 0o4000;
        let mut file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open("/dev/kmsg")?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file })
    }

    /// The messages since the last time.
    pub(crate) fn news(&mut self) -> Vec<String> {
        const EPIPE: i32 = 32;
        let mut lines = Vec::new();
        let mut record = [0u8; 8192];
        loop {
            match self.file.read(&mut record) {
                Ok(0) => return lines,
                Ok(count) => {
                    let text = String::from_utf8_lossy(&record[..count]);
                    let message = text.split_once(';').map_or(&*text, |(_, message)| message);
                    lines.push(message.lines().next().unwrap_or_default().to_owned());
                }
                // Overwritten before it was read; the next read goes on after it.
                Err(error) if error.raw_os_error() == Some(EPIPE) => {}
                Err(_) => return lines,
            }
        }
    }
}

/// Whether the line tells of a kernel in trouble.
pub(crate) fn is_trouble(line: &str) -> bool {
    TROUBLE.iter().any(|word| line.contains(word))
}

//! Drivers that the kernel has as modules.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;

use belljar_confine::{Attempt as _, Failure};

const PLACE: &str = "/modules";

/// Loads what is listed, each with its options from the kernel's command line.
pub(super) fn load(words: &str) -> Result<(), Failure> {
    let list = fs::read_to_string(format!("{PLACE}/list")).doing("read the list of modules")?;
    for name in list.lines().filter(|name| !name.is_empty()) {
        let file = File::open(format!("{PLACE}/{name}.ko")).doing(format!("open {name}"))?;
        let options = CString::new(options(words, name))
            .map_err(|_| Failure::new("read options", &io::ErrorKind::InvalidData.into()))?;
        match rustix::system::finit_module(&file, &options, 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno).doing(format!("load {name}")),
        }
    }
    // What is loaded needs not be kept in memory as a file too.
    let _ = fs::remove_dir_all(PLACE);
    Ok(())
}

/// The options of one module: the kernel takes `-` and `_` for the same.
fn options(words: &str, module: &str) -> String {
    let plain = |text: &str| text.replace('-', "_");
    let mut found = Vec::new();
    for word in words.split_whitespace() {
        if let Some((name, option)) = word.split_once('.')
            && plain(name) == plain(module)
        {
            found.push(option);
        }
    }
    found.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_to_their_module() {
        let words = "quiet virtio-mmio.device=512@0xfeb00e00:12 other.x=1 virtio_mmio.device=a.b\n";
        assert_eq!(options(words, "virtio_mmio"), "device=512@0xfeb00e00:12 device=a.b");
        assert_eq!(options(words, "virtio"), "");
    }
}

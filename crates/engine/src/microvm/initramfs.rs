//! The first files that a machine's kernel sees: the guest and its modules.

use std::fs;
use std::io;
use std::path::Path;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// An initramfs with `guest` as `/init` and the modules that lie in `modules`.
pub(crate) fn build(guest: &[u8], modules: &Path) -> io::Result<Vec<u8>> {
    let list = fs::read_to_string(modules.join("list"))?;
    let mut archive = Archive::default();
    for name in ["dev", "proc", "sys", "root", "modules"] {
        archive.add(name, DIRECTORY, &[], (0, 0));
    }
    // The kernel opens it for pid 1 before anything is mounted.
    archive.add("dev/console", CONSOLE, &[], (5, 1));
    archive.add("init", PROGRAM, guest, (0, 0));
    archive.add("modules/list", FILE, list.as_bytes(), (0, 0));
    for name in list.lines() {
        let file = format!("{name}.ko");
        let content = fs::read(modules.join(&file))?;
        archive.add(&format!("modules/{file}"), FILE, &content, (0, 0));
    }
    Ok(archive.finish())
}

/// A cpio archive in the `newc` format: see the kernel's
/// `early-userspace/buffer-format`.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8], (major, minor): (u32, u32)) {
        self.entries += 1;
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            number(content.len()),
            0,
            0,
            major,
            minor,
            number(name.len() + 1),
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[], (0, 0));
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_holds_the_guest_and_the_listed_modules() {
        let dir = std::env::temp_dir().join(format!("belljar-initramfs-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("list"), "one\n").unwrap();
        fs::write(dir.join("one.ko"), "module").unwrap();
        fs::write(dir.join("two.ko"), "not listed").unwrap();
        let built = build(b"program", &dir);
        fs::remove_dir_all(&dir).unwrap();
        let built = built.unwrap();
        assert_eq!(built.len() % 4, 0);
        assert!(built.starts_with(b"07070100000001000041ed"));
        let text = String::from_utf8_lossy(&built).into_owned();
        assert!(text.contains("init\0") && text.contains("program"));
        assert!(text.contains("modules/one.ko\0") && text.contains("module"));
        assert!(!text.contains("not listed"));
        assert!(text.trim_end_matches('\0').ends_with("TRAILER!!!"));
    }
}

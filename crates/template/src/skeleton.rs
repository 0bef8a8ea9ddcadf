//! What every root filesystem has, whatever it was made from: mount points, the
//! sandbox's users and their homes, and an identity that tells nothing about
//! the host.

use std::io;
use std::path::Path;

use crate::confined::{Attributes, Root};

/// Mount points and the usual empty directories, with their permissions.
const DIRECTORIES: [(&str, u32); 15] = [
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("media", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("proc", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("srv", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("var", 0o755),
    ("var/tmp", 0o1777),
];

/// Where a build shows host files to a step. `/run` is no choice: the engine
/// may mount a fresh filesystem there.
pub(crate) const BUILD_MOUNT: &str = "/mnt";

const MAX_FILE: u64 = 1 << 20;

const HOSTS: &str = "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n";

const NSSWITCH: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n\
    networks: files\nprotocols: files\nservices: files\n";

/// Completes the tree in `root`. An image's own users are kept.
pub(crate) fn apply(root: &Root) -> io::Result<()> {
    for (path, mode) in DIRECTORIES {
        let path = Path::new(path);
        // Usrmerged or older images may link one of them; that is theirs to say.
        if root.read_link(path)?.is_none() {
            root.directory(path, &Attributes::root(mode))?;
        }
    }
    let home = Attributes { mode: 0o755, owner: (1000, 1000), modified: None };
    root.directory(Path::new("home/user"), &home)?;

    let shell = if root.exists(Path::new("bin/bash"))? { "/bin/bash" } else { "/bin/sh" };
    users(root, shell)?;
    let write = |path: &str, content: &str| {
        root.file(Path::new(path), &mut content.as_bytes(), &Attributes::root(0o644)).map(drop)
    };
    write("etc/hostname", "sandbox\n")?;
    write("etc/hosts", HOSTS)?;
    // Names are resolved outside, by the gateway, or not at all.
    write("etc/resolv.conf", "")?;
    // An image may bring the id of the machine that it was made on.
    root.remove(Path::new("etc/machine-id"))?;
    if !root.exists(Path::new("etc/nsswitch.conf"))? {
        write("etc/nsswitch.conf", NSSWITCH)?;
    }
    Ok(())
}

/// Adds the users that are missing, by id, to `passwd` and `group`.
pub(crate) fn users(root: &Root, shell: &str) -> io::Result<()> {
    let passwd = [
        ("0", "root:x:0:0:root:/root:".to_owned() + shell),
        ("1000", "user:x:1000:1000:user:/home/user:".to_owned() + shell),
        ("999", "guest:x:999:999:guest:/nonexistent:/usr/sbin/nologin".to_owned()),
        ("65534", "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin".to_owned()),
    ];
    let group = [
        ("0", "root:x:0:".to_owned()),
        ("1000", "user:x:1000:".to_owned()),
        ("999", "guest:x:999:".to_owned()),
        ("65534", "nogroup:x:65534:".to_owned()),
    ];
    complete(root, Path::new("etc/passwd"), &passwd)?;
    complete(root, Path::new("etc/group"), &group)
}

fn complete(root: &Root, path: &Path, wanted: &[(&str, String)]) -> io::Result<()> {
    let present = root.read(path, MAX_FILE)?.unwrap_or_default();
    let mut text = String::from_utf8_lossy(&present).into_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for (id, line) in wanted {
        if !text.lines().any(|present| present.split(':').nth(2) == Some(id)) {
            text.push_str(line);
            text.push('\n');
        }
    }
    root.file(path, &mut text.as_bytes(), &Attributes::root(0o644))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use expect_test::expect;
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn an_images_own_users_are_kept() {
        let dir = tempdir().unwrap();
        fs::create_dir(dir.path().join("etc")).unwrap();
        let own = "root:x:0:0::/root:/bin/ash\nnode:x:1000:1000::/home/node:/bin/ash";
        fs::write(dir.path().join("etc/passwd"), own).unwrap();
        apply(&Root::open(dir.path()).unwrap()).unwrap();
        expect![[r#"
            root:x:0:0::/root:/bin/ash
            node:x:1000:1000::/home/node:/bin/ash
            guest:x:999:999:guest:/nonexistent:/usr/sbin/nologin
            nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
        "#]]
        .assert_eq(&fs::read_to_string(dir.path().join("etc/passwd")).unwrap());
        let mode = fs::metadata(dir.path().join("tmp")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
    }

    #[test]
    fn a_hostile_image_cannot_redirect_the_skeleton() {
        let (dir, outside) = (tempdir().unwrap(), tempdir().unwrap());
        fs::write(outside.path().join("hosts"), "kept").unwrap();
        fs::create_dir(dir.path().join("etc")).unwrap();
        symlink(outside.path().join("hosts"), dir.path().join("etc/hosts")).unwrap();
        symlink(outside.path().join("hosts"), dir.path().join("etc/passwd")).unwrap();
        apply(&Root::open(dir.path()).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(outside.path().join("hosts")).unwrap(), "kept");
        let passwd = fs::read_to_string(dir.path().join("etc/passwd")).unwrap();
        assert!(!passwd.contains("kept") && passwd.contains("user:x:1000:"));
    }
}

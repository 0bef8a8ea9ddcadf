use std::os::unix::fs::{MetadataExt as _, symlink};

use tempfile::tempdir;

use super::*;
use std::io;

fn archive(fill: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> File {
    let mut builder = tar::Builder::new(Vec::new());
    fill(&mut builder);
    let mut file = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut file, &builder.into_inner().unwrap()).unwrap();
    file.rewind().unwrap();
    file
}

fn entry(kind: tar::EntryType, path: &str, link: &str, content: &str) -> (tar::Header, Vec<u8>) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    if !link.is_empty() {
        header.set_link_name(link).unwrap();
    }
    header.set_size(content.len() as u64);
    header.set_mode(0o4755);
    header.set_uid(4242);
    header.set_gid(4242);
    header.set_mtime(0);
    header.set_cksum();
    (header, content.as_bytes().to_vec())
}

fn pack(entries: &[(tar::Header, Vec<u8>)]) -> File {
    archive(|builder| {
        for (header, content) in entries {
            builder.append(header, content.as_slice()).unwrap();
        }
    })
}

use tar::EntryType::{Directory, Regular, Symlink};

#[test]
fn a_directory_is_merged_and_a_file_takes_the_name() {
    let dir = tempdir().unwrap();
    let (lower, from) = (dir.path().join("lower"), dir.path().join("from"));
    for path in [lower.join("srv/data"), lower.join("etc"), from.clone()] {
        fs::create_dir_all(path).unwrap();
    }
    symlink("/srv/data", lower.join("etc/linked")).unwrap();
    let mut upload = pack(&[
        entry(Directory, "folder/", "", ""),
        entry(Regular, "folder/a.txt", "", "a"),
        entry(Symlink, "folder/link", "a.txt", ""),
        entry(Directory, "folder/linked/", "", ""),
        entry(Regular, "folder/linked/deep", "", "deep"),
    ]);
    unpack(&mut upload, &from, Caps::default()).unwrap();
    let stage = dir.path().join("stage");
    let mut lay = Lay::new(&[lower], &stage, (0, 0)).unwrap();
    let copy =
        |source, target, names| Copy { source, target: Path::new(target), names, mode: None };
    lay.copy(&from, &copy("folder/*", "/etc", Target::Itself)).unwrap();
    lay.copy(&from, &copy("folder/a.txt", "/opt/b.txt", Target::Itself)).unwrap();
    lay.copy(&from, &copy("folder/a.txt", "/opt/c/", Target::Directory)).unwrap();
    lay.copy(&from, &copy("folder/a.txt", "/srv/data", Target::Itself)).unwrap();
    let read = |path: &str| fs::read_to_string(stage.join(path)).unwrap();
    assert_eq!(read("etc/a.txt"), "a");
    assert_eq!(fs::read_link(stage.join("etc/link")).unwrap(), Path::new("a.txt"));
    // The link below stays, and the files go where it leads.
    assert!(!stage.join("etc/linked").exists());
    assert_eq!(read("srv/data/deep"), "deep");
    assert_eq!(read("opt/b.txt"), "a");
    assert_eq!(read("opt/c/a.txt"), "a");
    assert_eq!(read("srv/data/a.txt"), "a");
    // The sender's ids and setuid bits are not taken over.
    let metadata = fs::metadata(stage.join("opt/b.txt")).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o755);
    assert_ne!(metadata.uid(), 4242);
}

#[test]
fn an_upload_cannot_name_what_it_does_not_hold() {
    let dir = tempdir().unwrap();
    let (lower, from, outside) =
        (dir.path().join("lower"), dir.path().join("from"), dir.path().join("outside"));
    for path in [&lower, &from, &outside] {
        fs::create_dir(path).unwrap();
    }
    fs::write(outside.join("secret"), "secret").unwrap();
    let mut upload = pack(&[
        entry(Symlink, "way", outside.to_str().unwrap(), ""),
        entry(Regular, "plain", "", "plain"),
    ]);
    unpack(&mut upload, &from, Caps::default()).unwrap();
    let stage = dir.path().join("stage");
    let mut lay = Lay::new(&[lower], &stage, (0, 0)).unwrap();
    let mut copy = |source| {
        let target = Path::new("/got");
        lay.copy(&from, &Copy { source, target, names: Target::Itself, mode: None })
    };
    assert!(matches!(copy("way/secret"), Err(LayError::Missing(_))));
    assert!(matches!(copy("../outside/secret"), Err(LayError::Escape(_))));
    assert!(matches!(copy("/etc/passwd"), Err(LayError::Escape(_))));
    assert!(matches!(copy("plain/x"), Err(LayError::Missing(_))));
    assert!(!stage.join("got").exists());
    // The link itself may be had; it is only text.
    copy("way").unwrap();
    assert!(fs::symlink_metadata(stage.join("got")).unwrap().is_symlink());
}

#[test]
fn an_upload_that_climbs_or_grows_is_refused() {
    let dir = tempdir().unwrap();
    let try_unpack = |entries: &[_], caps| {
        let into = tempfile::tempdir_in(dir.path()).unwrap();
        unpack(&mut pack(entries), into.path(), caps)
    };
    let climbing = try_unpack(&[entry(Regular, "../up", "", "x")], Caps::default());
    assert!(matches!(climbing, Err(LayError::Unpack(UnpackError::Escape(_)))));
    let caps = Caps { bytes: 4096, ..Caps::default() };
    let large = try_unpack(&[entry(Regular, "large", "", &"x".repeat(8192))], caps);
    assert!(matches!(large, Err(LayError::Unpack(UnpackError::TooLarge(4096)))));
    assert!(!dir.path().join("up").exists());
}

#[test]
fn owners_are_those_of_the_layers() {
    let dir = tempdir().unwrap();
    fs::create_dir(dir.path().join("etc")).unwrap();
    fs::write(dir.path().join("etc/passwd"), "root:x:0:0::/:\nuser:x:1000:1001::/home/user:\n")
        .unwrap();
    fs::write(dir.path().join("etc/group"), "root:x:0:\nstaff:x:50:user\n").unwrap();
    let layers = [dir.path().to_owned()];
    let find = |name| owner(&layers, name).unwrap();
    assert_eq!(find("user"), Some((1000, 1001)));
    assert_eq!(find("user:staff"), Some((1000, 50)));
    assert_eq!(find("12:7"), Some((12, 7)));
    for unknown in ["", "root123", "user:nobody", "70000", ":"] {
        assert_eq!(find(unknown), None, "{unknown}");
    }
}

use std::fs;
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use rustix::fs::{CWD, Timespec, Timestamps, XattrFlags, mknodat, setxattr, utimensat};
use tempfile::tempdir;

use super::*;
use crate::store::{Store, StoreError};
use crate::tree::Kind;

/// A tree with everything that a layer can hold.
fn fill(tree: &Path) {
    let long = "n".repeat(120);
    fs::create_dir_all(tree.join("usr/bin")).unwrap();
    fs::create_dir_all(tree.join(&long).join(&long)).unwrap();
    fs::write(tree.join("usr/bin/tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(tree.join("usr/bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::hard_link(tree.join("usr/bin/tool"), tree.join("usr/bin/also")).unwrap();
    fs::write(tree.join(&long).join(&long).join("deep"), vec![7; 300_000]).unwrap();
    fs::write(tree.join(".wh.not-a-whiteout"), "kept").unwrap();
    fs::write(tree.join(OsStr::from_bytes(b"odd\xff\n")), "").unwrap();
    symlink("./usr/../usr/bin", tree.join("bin")).unwrap();
    symlink(format!("/{long}/{long}"), tree.join("far")).unwrap();
    let when = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
    let times = Timestamps { last_access: when, last_modification: when };
    utimensat(CWD, tree.join("usr/bin/tool"), &times, AtFlags::empty()).unwrap();
    mknodat(CWD, tree.join("usr/gone"), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    fs::create_dir(tree.join("hides")).unwrap();
    fs::set_permissions(tree.join("hides"), fs::Permissions::from_mode(0o1777)).unwrap();
    if rustix::process::geteuid().is_root() {
        setxattr(tree.join("hides"), MARKS[0], b"y", XattrFlags::empty()).unwrap();
        std::os::unix::fs::chown(tree.join("hides"), Some(1000), Some(100_000)).unwrap();
    }
}

fn packed(store: &Store) -> (crate::store::Layer, File) {
    let work = store.workspace().unwrap();
    let tree = work.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fill(&tree);
    let layer = store.add_layer(&tree, Kind::Upper).unwrap();
    let mut file = tempfile::tempfile().unwrap();
    pack(&layer.path, &mut file).unwrap();
    file.rewind().unwrap();
    (layer, file)
}

fn unpacked(store: &Store, file: &mut File, caps: Caps) -> (crate::store::Workspace, PathBuf) {
    let work = store.workspace().unwrap();
    let tree = work.path().join("tree");
    fs::create_dir(&tree).unwrap();
    unpack(file, &tree, caps).unwrap();
    (work, tree)
}

#[test]
fn a_layer_is_the_same_in_another_store() {
    let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
    let (here, there) = (Store::open(here.path()).unwrap(), Store::open(there.path()).unwrap());
    let (layer, mut file) = packed(&here);
    let (_work, tree) = unpacked(&there, &mut file, Caps::default());
    let taken = there.add_known_layer(&tree, &layer.digest).unwrap();
    assert_eq!(taken.facts, layer.facts);
    let about = |name: &str| fs::symlink_metadata(taken.path.join(name)).unwrap();
    assert_eq!(about("usr/bin/tool").ino(), about("usr/bin/also").ino());
    assert_eq!(about("usr/bin/tool").mtime(), 1_000_000_000);
    assert_eq!(fs::read_link(taken.path.join("bin")).unwrap(), Path::new("./usr/../usr/bin"));
}

#[test]
fn a_tree_that_is_not_the_layer_is_no_layer() {
    let dir = tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let other = tempdir().unwrap();
    let (layer, mut file) = packed(&Store::open(other.path()).unwrap());
    let (_work, tree) = unpacked(&store, &mut file, Caps::default());
    fs::write(tree.join("usr/bin/tool"), "#!/bin/evil\n").unwrap();
    let added = store.add_known_layer(&tree, &layer.digest);
    assert!(matches!(added, Err(StoreError::OtherLayer { .. })), "{added:?}");
    assert!(store.layer(&layer.digest).unwrap().is_none());
    assert_eq!(fs::read_dir(store.root().join("layers")).unwrap().count(), 0);
}

#[test]
fn what_is_cut_off_or_too_long_is_not_unpacked() {
    let dir = tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (_, mut file) = packed(&store);
    let work = store.workspace().unwrap();
    let most = Caps { bytes: 1000, ..Caps::default() };
    assert!(unpack(&mut file, work.path(), most).is_err());
    let length = file.seek(SeekFrom::End(0)).unwrap();
    file.set_len(length / 2).unwrap();
    file.rewind().unwrap();
    let work = store.workspace().unwrap();
    assert!(unpack(&mut file, work.path(), Caps::default()).is_err());
}

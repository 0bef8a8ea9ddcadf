use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, XattrFlags, fsetxattr, mknodat};
use tempfile::{TempDir, tempdir};

use super::*;

fn sample() -> TempDir {
    let dir = tempdir().unwrap();
    fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
    fs::write(dir.path().join("usr/bin/tool"), "#!/bin/sh\n").unwrap();
    fs::write(dir.path().join("a"), "one").unwrap();
    symlink("usr/bin", dir.path().join("bin")).unwrap();
    dir
}

/// Marks a directory so that nothing of the layers under it shows through.
fn mark_opaque(directory: &Path) {
    let directory = File::open(directory).unwrap();
    fsetxattr(&directory, "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
}

fn digest(dir: &TempDir, kind: Kind) -> Digest {
    seal(dir.path(), kind).unwrap().digest
}

#[test]
fn the_same_tree_has_the_same_digest() {
    let (one, other) = (sample(), sample());
    assert_eq!(digest(&one, Kind::Base), digest(&other, Kind::Base));
    assert_eq!(digest(&one, Kind::Inspect), digest(&other, Kind::Base));
}

#[test]
fn every_change_shows_in_the_digest() {
    let before = digest(&sample(), Kind::Base);
    let changes: [fn(&Path); 6] = [
        |root| fs::write(root.join("a"), "two").unwrap(),
        |root| fs::rename(root.join("a"), root.join("b")).unwrap(),
        |root| fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o600)).unwrap(),
        |root| fs::create_dir(root.join("empty")).unwrap(),
        |root| {
            fs::remove_file(root.join("bin")).unwrap();
            symlink("usr/sbin", root.join("bin")).unwrap();
        },
        |root| {
            fs::remove_file(root.join("a")).unwrap();
            fs::create_dir(root.join("a")).unwrap();
        },
    ];
    for (index, change) in changes.iter().enumerate() {
        let dir = sample();
        change(dir.path());
        assert_ne!(digest(&dir, Kind::Base), before, "change {index}");
    }
}

#[test]
fn a_layer_keeps_no_setuid_socket_or_fifo() {
    let dir = sample();
    let tool = dir.path().join("usr/bin/tool");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o6755)).unwrap();
    let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
    mknodat(CWD, dir.path().join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();

    let sealed = seal(dir.path(), Kind::Base).unwrap();

    let want = Stripped { set_id: 1, sockets_and_fifos: 2, ..Stripped::default() };
    assert_eq!(sealed.stripped, want);
    assert_eq!(fs::metadata(&tool).unwrap().permissions().mode() & 0o7777, 0o755);
    assert!(!dir.path().join("socket").exists() && !dir.path().join("fifo").exists());
    let plain = sample();
    let same = plain.path().join("usr/bin/tool");
    fs::set_permissions(same, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(sealed.digest, digest(&plain, Kind::Base));
}

#[test]
fn inspecting_changes_nothing() {
    let dir = sample();
    let tool = dir.path().join("usr/bin/tool");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o4755)).unwrap();
    seal(dir.path(), Kind::Inspect).unwrap();
    assert_eq!(fs::metadata(&tool).unwrap().permissions().mode() & 0o7777, 0o4755);
}

#[test]
fn whiteouts_and_opaque_directories_survive_in_upper_layers_only() {
    let dir = sample();
    // Making a character device 0:0 needs no privilege since Linux 5.8.
    let gone = dir.path().join("gone");
    mknodat(CWD, &gone, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    let plain = digest(&dir, Kind::Upper);
    assert!(fs::symlink_metadata(&gone).is_ok());

    mark_opaque(&dir.path().join("usr"));
    assert_ne!(digest(&dir, Kind::Upper), plain);
    assert!(is_opaque(&File::open(dir.path().join("usr")).unwrap()));

    let sealed = seal(dir.path(), Kind::Base).unwrap();
    assert_eq!((sealed.stripped.devices, sealed.stripped.attributes), (1, 1));
    assert_eq!(sealed.digest, digest(&sample(), Kind::Base));
}

#[test]
fn an_upper_layer_that_points_elsewhere_is_refused() {
    let dir = sample();
    let usr = File::open(dir.path().join("usr")).unwrap();
    fsetxattr(&usr, "user.overlay.redirect", b"/etc", XattrFlags::empty()).unwrap();
    let error = seal(dir.path(), Kind::Upper).unwrap_err();
    assert!(matches!(error, SealError::Overlay { .. }), "{error}");
}

#[test]
fn a_device_in_an_upper_layer_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = sample();
    let null = rustix::fs::makedev(1, 3);
    let made = mknodat(CWD, dir.path().join("null"), FileType::CharacterDevice, Mode::RUSR, null);
    if made.is_ok() {
        assert!(matches!(seal(dir.path(), Kind::Upper), Err(SealError::Device(_))));
    }
}

#[test]
fn a_link_out_of_the_tree_is_not_followed() {
    let (dir, outside) = (sample(), tempdir().unwrap());
    let secret = outside.path().join("tool");
    fs::write(&secret, "x").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o4755)).unwrap();
    symlink(outside.path(), dir.path().join("out")).unwrap();
    symlink(&secret, dir.path().join("file")).unwrap();
    let sealed = seal(dir.path(), Kind::Upper).unwrap();
    assert_eq!((sealed.entries, sealed.stripped.set_id), (7, 0));
    assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o7777, 0o4755);
}

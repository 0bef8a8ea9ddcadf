use std::fs;
use std::io::Cursor;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::*;

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("belljar-archive-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("u")).unwrap();
    dir
}

fn packed(dir: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let handle = fs::File::open(dir).unwrap();
    // As if our own user were 1000 inside.
    pack(handle.as_fd(), &["u", "missing"], HostIds::own(), most, &mut bytes)?;
    Ok(bytes)
}

#[test]
fn records_name_what_is_there_and_keep_holes() {
    let dir = scratch("there");
    fs::create_dir(dir.join("u/sub")).unwrap();
    fs::write(dir.join("u/sub/a"), b"hello").unwrap();
    fs::set_permissions(dir.join("u/sub/a"), fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("../../../etc/passwd", dir.join("u/link")).unwrap();
    let sparse = fs::File::create(dir.join("u/sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    sparse.write_at(b"end", (1 << 30) - 3).unwrap();
    let bytes = packed(&dir, 1 << 20).unwrap();
    assert!(bytes.len() < 1 << 20, "a hole was packed: {} bytes", bytes.len());
    let held = fs::metadata(dir.join("u/sparse")).unwrap();
    assert!(held.blocks() < 1000);
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("hello") && text.contains("end"));
    // The link itself, never what it points to.
    assert!(text.contains("../../../etc/passwd") && !text.contains("root:"));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn ids_of_the_host_are_counted_as_the_sandbox_counts_them() {
    let range = HostIds::From(100_000);
    assert_eq!(range.inside(100_000, 101_000), (0, 1000));
    assert_eq!(range.inside(99_999, 100_000 + IDS), (OVERFLOW_ID, OVERFLOW_ID));
    let one = HostIds::One { uid: 4242, gid: 4343 };
    assert_eq!(one.inside(4242, 4343), (USER_UID, USER_UID));
    assert_eq!(one.inside(0, 4242), (OVERFLOW_ID, OVERFLOW_ID));
}

#[test]
fn too_many_bytes_and_too_deep_trees_are_refused() {
    let dir = scratch("bounds");
    fs::write(dir.join("u/big"), vec![7u8; 4096]).unwrap();
    assert!(packed(&dir, 4095).is_err());
    assert!(packed(&dir, 4096).is_ok());
    let mut deep = dir.join("u");
    for _ in 0..=DEEPEST {
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    assert!(packed(&dir, 4096).is_err());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn nonsense_is_not_unpacked() {
    assert!(unpack(Cursor::new(vec![0xff; 64]), 0).is_err());
    let mut bytes = postcard::to_allocvec(&Record::Leave).unwrap();
    let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    bytes.splice(0..0, length);
    assert!(unpack(Cursor::new(bytes), 0).is_err());
}

/// Whatever is forged, nothing is made outside.
#[test]
fn names_do_not_lead_out() {
    let dir = scratch("forged");
    let enter = |name: &str| Record::Enter { name: name.into(), about: About::default() };
    let file = |name: &str, xattrs: &[&str]| {
        let xattrs = xattrs.iter().map(|name| (name.as_bytes().to_vec(), Vec::new())).collect();
        let about = About { xattrs, ..About::default() };
        Record::File { name: name.into(), about, size: 0 }
    };
    let link = |name: &str| Record::Symlink {
        name: name.into(),
        about: About::default(),
        target: b"/".to_vec(),
    };
    let out = dir.join("out").to_string_lossy().into_owned();
    let forged = [
        vec![enter("..")],
        vec![enter("x")],
        vec![enter(&out)],
        vec![file("out", &[])],
        vec![enter("u"), enter("..")],
        vec![enter("u"), enter("a/../../out")],
        vec![enter("u"), file(&out, &[])],
        vec![enter("u"), file("../out", &[])],
        vec![enter("u"), file("", &[])],
        vec![enter("u"), link("../out")],
        vec![enter("u"), Record::Whiteout { name: b"../out".to_vec() }],
        vec![enter("u"), Record::Fifo { name: b"../out".to_vec(), about: About::default() }],
        vec![enter("u"), file("f", &["security.capability"])],
        vec![enter("u"), file("f", &["user.overlay.redirect"])],
        vec![enter("u"), file("f", &["user.overlay.metacopy"])],
    ];
    for records in forged {
        let mut depth = 0;
        let refused = records.iter().any(|record| {
            let refused = check(record, depth).is_err();
            depth += usize::from(matches!(record, Record::Enter { .. }));
            refused
        });
        assert!(refused, "{records:?}");
    }
    for honest in [file("f", &["user.a", "user.overlay.opaque"]), link("..x"), enter("...")] {
        assert!(check(&honest, 1).is_ok(), "{honest:?}");
    }
    fs::remove_dir_all(dir).unwrap();
}

/// Files that were saved with root are not where a sandbox without root looks for them.
#[test]
fn files_of_a_server_with_other_rights_are_refused() {
    use std::io::Write;

    use crate::engine::StartError;
    use crate::machine::Files;

    let dir = scratch("rights");
    let files = |ids| {
        let handle = fs::File::open(&dir).unwrap();
        let archive = in_memory(|file| pack(handle.as_fd(), &["u"], ids, 4096, file));
        Files { archive: archive.unwrap() }
    };
    let as_root = files(HostIds::From(100_000));
    assert!(as_root.check_layout(true).is_ok());
    assert!(matches!(as_root.check_layout(false), Err(StartError::SavedAsRoot)));
    let without = files(HostIds::own());
    assert!(without.check_layout(false).is_ok());
    assert!(matches!(without.check_layout(true), Err(StartError::SavedWithoutRoot)));
    // An older version did not write it, and what is no archive is refused later.
    for older in [&b""[..], b"no archive"] {
        let archive = in_memory(|mut file| file.write_all(older)).unwrap();
        assert!(Files { archive }.check_layout(true).is_ok());
    }
    assert!(check(&Record::Layout(Layout::Layer), 0).is_ok());
    assert!(check(&Record::Layout(Layout::Layer), 1).is_err());
    fs::remove_dir_all(dir).unwrap();
}

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use expect_test::{Expect, expect};
use serde_json::json;
use tar::{Builder, EntryType, Header};
use tempfile::{TempDir, tempdir};

use super::*;
use crate::progress::Silent;

/// An entry, without the checks that the `tar` crate makes on paths.
fn entry(kind: EntryType, path: &str, link: &str, content: &str) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
    header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_000_000);
    header.set_size(content.len() as u64);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(path: &str, content: &str) -> Vec<u8> {
    entry(EntryType::Regular, path, "", content)
}

fn dir(path: &str) -> Vec<u8> {
    entry(EntryType::Directory, path, "", "")
}

fn symlink(path: &str, target: &str) -> Vec<u8> {
    entry(EntryType::Symlink, path, target, "")
}

fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// An image layout being written, in `layout`, beside an empty `target`.
struct Case {
    dir: TempDir,
}

impl Case {
    fn new(layers: &[Vec<u8>]) -> Self {
        let packed: Vec<_> = layers.iter().map(|tar| ("tar", tar.clone(), tar.clone())).collect();
        Self::packed(&packed)
    }

    fn packed(layers: &[(&str, Vec<u8>, Vec<u8>)]) -> Self {
        let case = Self { dir: tempdir().unwrap() };
        fs::create_dir_all(case.layout().join("blobs/sha256")).unwrap();
        fs::create_dir(case.target()).unwrap();
        fs::write(case.dir.path().join("secret"), "outside").unwrap();
        let described: Vec<_> = layers
            .iter()
            .map(|(kind, packed, _)| {
                case.blob(&format!("application/vnd.oci.image.layer.v1.{kind}"), packed)
            })
            .collect();
        let ids: Vec<_> =
            layers.iter().map(|(_, _, tar)| format!("sha256:{}", Digest::of(tar))).collect();
        let config = json!({
            "architecture": "amd64", "os": "linux",
            "config": { "Env": ["PATH=/bin"] },
            "rootfs": { "type": "layers", "diff_ids": ids },
        });
        let config = case.blob("config", config.to_string().as_bytes());
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": described });
        let mut manifest = case
            .blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes());
        manifest["annotations"] = json!({ REF_NAME: "latest" });
        let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
        fs::write(case.layout().join("index.json"), index.to_string()).unwrap();
        case
    }

    fn blob(&self, media_type: &str, content: &[u8]) -> serde_json::Value {
        let digest = Digest::of(content);
        let path = self.layout().join("blobs/sha256").join(digest.to_string());
        fs::write(path, content).unwrap();
        json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len() })
    }

    fn layout(&self) -> PathBuf {
        self.dir.path().join("layout")
    }

    fn target(&self) -> PathBuf {
        self.dir.path().join("target")
    }

    fn unpack_with(&self, caps: &Caps) -> Result<Skipped, ImageError> {
        let image = Image::open(&self.layout(), None, caps)?;
        image.unpack(&self.target(), caps, &mut Silent)
    }

    fn unpack(&self) -> Result<Skipped, ImageError> {
        self.unpack_with(&Caps::default())
    }

    /// What was unpacked, one entry a line.
    fn listing(&self) -> String {
        fn walk(directory: &Path, root: &Path, lines: &mut Vec<String>) {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                let (path, metadata) = (entry.path(), entry.metadata().unwrap());
                let shown = path.strip_prefix(root).unwrap().display().to_string();
                if metadata.is_dir() {
                    lines.push(shown + "/");
                    walk(&path, root, lines);
                } else if metadata.is_symlink() {
                    lines.push(format!("{shown} -> {}", fs::read_link(&path).unwrap().display()));
                } else {
                    lines.push(format!("{shown} = {}", fs::read_to_string(&path).unwrap()));
                }
            }
        }
        let mut lines = Vec::new();
        walk(&self.target(), &self.target(), &mut lines);
        lines.sort();
        lines.join("\n")
    }

    fn untouched(&self) {
        assert_eq!(fs::read_to_string(self.dir.path().join("secret")).unwrap(), "outside");
        let mut names: Vec<_> =
            fs::read_dir(self.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["layout", "secret", "target"]);
    }
}

#[track_caller]
fn check(layers: &[Vec<u8>], want: Expect) {
    let case = Case::new(layers);
    case.unpack().unwrap();
    want.assert_eq(&case.listing());
    case.untouched();
}

#[track_caller]
fn check_refused(entries: &[Vec<u8>], want: Expect) {
    let case = Case::new(&[archive(entries)]);
    let error = case.unpack().unwrap_err();
    let cause = std::error::Error::source(&error).unwrap();
    want.assert_eq(&cause.to_string());
    case.untouched();
}

#[test]
fn layers_lie_over_each_other() {
    check(
        &[
            archive(&[dir("./"), dir("./etc/"), file("etc/a", "1"), file("etc/b", "1")]),
            archive(&[file("etc/a", "2"), file("deep/er/c", "3")]),
        ],
        expect![[r#"
            deep/
            deep/er/
            deep/er/c = 3
            etc/
            etc/a = 2
            etc/b = 1"#]],
    );
}

#[test]
fn whiteouts_remove_lower_entries_only() {
    check(
        &[
            archive(&[file("d/a", "1"), file("d/b", "1"), file("e/a", "1"), file("e/s/x", "1")]),
            archive(&[
                file("d/b", "2"),
                file("d/.wh.a", ""),
                file("d/.wh.b", ""),
                file("e/new", "2"),
                file("e/.wh..wh..opq", ""),
                file(".wh.nothing", ""),
            ]),
        ],
        expect![[r#"
            d/
            d/b = 2
            e/
            e/new = 2"#]],
    );
}

#[test]
fn every_compression_is_read() {
    let tar = archive(&[file("a", "1")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(&tar[..], 1).unwrap();
    let other = archive(&[file("b", "2")]);
    let case = Case::packed(&[
        ("tar+gzip", gzip, tar.clone()),
        ("tar+zstd", zstd, tar),
        ("tar", other.clone(), other),
    ]);
    case.unpack().unwrap();
    assert_eq!(case.listing(), "a = 1\nb = 2");
}

#[test]
fn long_names_and_attributes_in_extensions_are_read() {
    let long = format!("{}/file", "d".repeat(150));
    let mut builder = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    builder.append_pax_extensions([("SCHILY.xattr.security.capability", &b"x"[..])]).unwrap();
    builder.append_data(&mut header, &long, &b"1"[..]).unwrap();
    let case = Case::new(&[builder.into_inner().unwrap()]);
    case.unpack().unwrap();
    assert_eq!(
        fs::metadata(case.target().join(&long)).unwrap().permissions().mode() & 0o777,
        0o755
    );
}

#[test]
fn a_path_with_dots_is_refused() {
    let want = || expect!["the path `../secret` leads outside the image"];
    check_refused(&[file("../secret", "x")], want());
    check_refused(
        &[file("a/../../secret", "x")],
        expect!["the path `a/../../secret` leads outside the image"],
    );
    check_refused(&[entry(EntryType::Link, "a", "../secret", "")], want());
    check_refused(&[file(".wh...", "")], expect!["the path `.wh...` leads outside the image"]);
}

#[test]
fn a_path_from_the_root_is_refused() {
    check_refused(&[file("/secret", "x")], expect!["the path `/secret` leads outside the image"]);
    check_refused(
        &[entry(EntryType::Link, "a", "/etc/passwd", "")],
        expect!["the path `/etc/passwd` leads outside the image"],
    );
}

#[test]
fn a_link_then_a_file_through_it_stays_inside() {
    check(
        &[archive(&[
            dir("etc"),
            symlink("up", "../../../../.."),
            file("up/escaped", "x"),
            symlink("abs", "/etc"),
            file("abs/passwd", "y"),
        ])],
        expect![[r#"
            abs -> /etc
            escaped = x
            etc/
            etc/passwd = y
            up -> ../../../../.."#]],
    );
}

#[test]
fn a_file_replaces_a_link_and_does_not_follow_it() {
    check(&[archive(&[symlink("x", "../secret"), file("x", "mine")])], expect!["x = mine"]);
    check(
        &[archive(&[symlink("x", ".."), dir("x"), file("x/f", "mine")])],
        expect![[r#"
        x/
        x/f = mine"#]],
    );
}

#[test]
fn a_hard_link_cannot_reach_out() {
    let case = Case::new(&[archive(&[
        symlink("up", "../.."),
        entry(EntryType::Link, "stolen", "up/secret", ""),
    ])]);
    case.unpack().unwrap_err();
    case.untouched();
    assert!(!case.target().join("stolen").exists());
}

#[test]
fn a_hard_link_inside_shares_the_file() {
    let case = Case::new(&[archive(&[
        file("a", "1"),
        entry(EntryType::Link, "b", "a", ""),
        entry(EntryType::Link, "a", "a", ""),
    ])]);
    case.unpack().unwrap();
    let inode = |name: &str| fs::metadata(case.target().join(name)).unwrap().ino();
    assert_eq!(inode("a"), inode("b"));
}

#[test]
fn a_whiteout_through_a_link_stays_inside() {
    let case = Case::new(&[
        archive(&[symlink("up", "../..")]),
        archive(&[file("up/.wh.secret", ""), file("up/.wh..wh..opq", "")]),
    ]);
    case.unpack().unwrap();
    case.untouched();
}

#[test]
fn devices_are_skipped_and_setuid_is_dropped() {
    let mut setuid = file("su", "x");
    let mut header = Header::from_byte_slice(&setuid[..512]).clone();
    header.set_mode(0o4755);
    header.set_cksum();
    setuid[..512].copy_from_slice(header.as_bytes());
    let case = Case::new(&[archive(&[
        entry(EntryType::Char, "null", "", ""),
        entry(EntryType::Block, "disk", "", ""),
        entry(EntryType::Fifo, "fifo", "", ""),
        setuid,
    ])]);
    assert_eq!(case.unpack().unwrap(), Skipped { devices: 3 });
    assert_eq!(case.listing(), "su = x");
    assert_eq!(fs::metadata(case.target().join("su")).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn bombs_stop_at_the_caps() {
    let tar = archive(&[file("a", &"0".repeat(100_000)), file("b", "1"), file("c", "1")]);
    let small = Caps { bytes: 50_000, ..Caps::default() };
    let few = Caps { entries: 2, ..Caps::default() };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    let case = Case::packed(&[("tar+gzip", gzip.finish().unwrap(), tar)]);
    let cause = |caps: &Caps| {
        let error = case.unpack_with(caps).unwrap_err();
        std::error::Error::source(&error).unwrap().to_string()
    };
    expect!["the image unpacks to more than 50000 bytes"].assert_eq(&cause(&small));
    expect!["the image has more than 2 entries"].assert_eq(&cause(&few));
}

#[test]
fn an_endless_name_is_refused() {
    let long = "n".repeat(2 << 20);
    check_refused(
        &[entry(EntryType::GNULongName, "././@LongLink", "", &long), file("a", "")],
        expect!["an extension header is damaged or too long"],
    );
}

#[test]
fn a_changed_blob_is_noticed() {
    let tar = archive(&[file("a", "1")]);
    let case = Case::new(std::slice::from_ref(&tar));
    let path = case.layout().join("blobs/sha256").join(Digest::of(&tar).to_string());
    fs::write(path, archive(&[file("a", "2")])).unwrap();
    assert!(matches!(case.unpack(), Err(ImageError::Mismatch(_))));
    assert_eq!(case.listing(), "");

    let (tar, other) = (archive(&[file("a", "1")]), archive(&[file("a", "2")]));
    let case = Case::packed(&[("tar", tar, other)]);
    assert!(matches!(case.unpack(), Err(ImageError::Mismatch(_))));
}

#[test]
fn a_tag_that_is_not_there_lists_those_that_are() {
    let case = Case::new(&[]);
    assert!(Image::open(&case.layout(), Some("latest"), &Caps::default()).is_ok());
    let error = Image::open(&case.layout(), Some("v2"), &Caps::default()).unwrap_err();
    assert!(error.to_string().ends_with("it has: latest"), "{error}");
    let error = Image::open(case.dir.path(), None, &Caps::default()).unwrap_err();
    assert!(matches!(error, ImageError::NotALayout(_)));
}

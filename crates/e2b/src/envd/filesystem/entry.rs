//! Files, as clients read about them.

use belljar_node::{Entry, EntryKind};
use belljar_sandboxes::{METADATA, Moment, kind_of, name_of};
use serde_json::{Map, Value, json};

use crate::json;

/// What is told about a file. Of a link it is the type and the mode of what it
/// leads to, but its own size and permissions.
pub(super) fn entry(entry: &Entry) -> Value {
    let path = String::from_utf8_lossy(&entry.path);
    let is_link = entry.kind == EntryKind::Symlink;
    let kind = match kind_of(entry) {
        EntryKind::File => "FILE_TYPE_FILE",
        EntryKind::Directory => "FILE_TYPE_DIRECTORY",
        // A link that leads nowhere is no kind of file.
        EntryKind::Symlink | EntryKind::Fifo | EntryKind::Socket | EntryKind::Device => {
            "FILE_TYPE_UNSPECIFIED"
        }
    };
    let mode = match (&entry.points_to, is_link) {
        (Some(end), _) => end.mode & 0o777,
        (None, true) => 0,
        (None, false) => entry.mode & 0o777,
    };
    let mut value = json!({
        "name": name_of(&path),
        "type": kind,
        "path": path,
        "size": entry.size.to_string(),
        "mode": mode,
        "permissions": permissions(entry.kind, entry.mode),
        "owner": name(entry.uid, "nobody"),
        "group": name(entry.gid, "nogroup"),
        "isSymlink": is_link,
        "metadata": metadata(entry),
    });
    if let Some(modified) = Moment::from_unix(entry.modified_seconds) {
        let nanos = std::time::Duration::from_nanos(entry.modified_nanos.into());
        json::set(&mut value, "modifiedTime", modified.plus(nanos).to_string());
    }
    if is_link {
        let end = entry.points_to.as_ref().map_or(&entry.path, |end| &end.path);
        json::set(&mut value, "symlinkTarget", String::from_utf8_lossy(end));
    }
    value
}

/// Metadata; what is no text is left out.
fn metadata(entry: &Entry) -> Map<String, Value> {
    let texts = entry.attributes.iter().filter_map(|(name, value)| {
        let name = std::str::from_utf8(name).ok()?.strip_prefix(METADATA)?;
        let value = std::str::from_utf8(value).ok()?;
        Some((name.to_owned(), value.into()))
    });
    texts.collect()
}

/// Sandboxes have these two users; what is the host's belongs to nobody here.
fn name(id: u32, nobody: &str) -> String {
    match id {
        0 => "root".to_owned(),
        1000 => "user".to_owned(),
        65_534 => nobody.to_owned(),
        other => other.to_string(),
    }
}

/// The permissions as Go writes them: every letter that applies, `-` if none
/// does, then nine letters.
fn permissions(kind: EntryKind, mode: u32) -> String {
    let mut text = String::new();
    let letters = [
        (kind == EntryKind::Directory, 'd'),
        (kind == EntryKind::Symlink, 'L'),
        (kind == EntryKind::Device, 'D'),
        (kind == EntryKind::Fifo, 'p'),
        (kind == EntryKind::Socket, 'S'),
        (mode & 0o4000 != 0, 'u'),
        (mode & 0o2000 != 0, 'g'),
        (mode & 0o1000 != 0, 't'),
    ];
    text.extend(letters.iter().filter(|(applies, _)| *applies).map(|(_, letter)| letter));
    if text.is_empty() {
        text.push('-');
    }
    for (index, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if mode & (0o400 >> index) != 0 { letter } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    use belljar_node::PointsTo;

    use super::*;

    fn sample(kind: EntryKind, mode: u32) -> Entry {
        Entry {
            path: b"/home/user/a".to_vec(),
            kind,
            size: 5_000_000_000,
            allocated: 0,
            mode,
            uid: 1000,
            gid: 0,
            modified_seconds: 1_700_000_000,
            modified_nanos: 5_000_000,
            target: None,
            points_to: None,
            attributes: vec![
                (b"user.e2b.k".to_vec(), b"v".to_vec()),
                (b"user.other".to_vec(), b"v".to_vec()),
                (b"user.e2b.bad".to_vec(), vec![0xff]),
            ],
        }
    }

    #[test]
    fn permissions_are_written_as_go_does() {
        assert_eq!(permissions(EntryKind::File, 0o644), "-rw-r--r--");
        assert_eq!(permissions(EntryKind::Directory, 0o755), "drwxr-xr-x");
        assert_eq!(permissions(EntryKind::Directory, 0o1777), "dtrwxrwxrwx");
        assert_eq!(permissions(EntryKind::File, 0o4755), "urwxr-xr-x");
        assert_eq!(permissions(EntryKind::Symlink, 0o777), "Lrwxrwxrwx");
    }

    #[test]
    fn a_file_is_told_with_sizes_as_texts() {
        let value = entry(&sample(EntryKind::File, 0o100_644));
        assert_eq!(value["name"], "a");
        assert_eq!(value["size"], "5000000000");
        assert_eq!(value["mode"], 0o644);
        assert_eq!((&value["owner"], &value["group"]), (&json!("user"), &json!("root")));
        assert_eq!(value["modifiedTime"], "2023-11-14T22:13:20.005Z");
        assert_eq!(value["metadata"], json!({ "k": "v" }));
        assert_eq!(value.get("symlinkTarget"), None);
    }

    #[test]
    fn a_link_is_told_by_what_it_leads_to() {
        let path = b"/etc".to_vec();
        let end = PointsTo { path, kind: EntryKind::Directory, mode: 0o755 };
        let link = Entry { points_to: Some(end), ..sample(EntryKind::Symlink, 0o777) };
        let value = entry(&link);
        assert_eq!(
            (&value["type"], &value["mode"]),
            (&json!("FILE_TYPE_DIRECTORY"), &json!(0o755))
        );
        assert_eq!((&value["symlinkTarget"], &value["isSymlink"]), (&json!("/etc"), &json!(true)));
        let dangling = entry(&sample(EntryKind::Symlink, 0o777));
        assert_eq!(
            (&dangling["type"], &dangling["mode"]),
            (&json!("FILE_TYPE_UNSPECIFIED"), &json!(0))
        );
        assert_eq!(dangling["symlinkTarget"], "/home/user/a");
    }
}

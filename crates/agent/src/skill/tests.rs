use std::os::unix::fs::symlink;

use tar::{Builder, EntryType, Header};

use super::*;

const FRONT: &str = "---\nname: sales\ndescription: How deals are counted.\n---\nCount them.\n";

/// An archive as others write it: any path, any kind.
fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, kind, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o777);
        header.set_size(content.len() as u64);
        if *kind == EntryType::Symlink {
            header.set_link_name("/etc/passwd").unwrap();
        }
        // Written as bytes: the builder refuses what is tested here.
        let name = &mut header.as_old_mut().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn of_file(path: &str) -> Result<SkillFolder, SkillError> {
    let main = ("SKILL.md", EntryType::Regular, FRONT.as_bytes());
    SkillFolder::read_archive(&archive(&[main, (path, EntryType::Regular, &b"x"[..])]))
}

#[test]
fn a_folder_and_its_archive_are_the_same_skill() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("SKILL.md"), FRONT).unwrap();
    std::fs::create_dir(place.path().join("scripts")).unwrap();
    std::fs::write(place.path().join("scripts/count.py"), "print(1)\n").unwrap();
    let skill = SkillFolder::read_folder(place.path()).unwrap();
    assert_eq!((skill.name(), skill.description()), ("sales", "How deals are counted."));
    let bytes = skill.to_archive().unwrap();
    assert_eq!(SkillFolder::read_archive(&bytes).unwrap(), skill);
    let paths: Vec<String> = skill.placed_files().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/mnt/skills/sales/SKILL.md", "/mnt/skills/sales/scripts/count.py"]);

    // Written at another time, it is the same object.
    let again = tempfile::tempdir().unwrap();
    std::fs::create_dir(again.path().join("scripts")).unwrap();
    std::fs::write(again.path().join("scripts/count.py"), "print(1)\n").unwrap();
    std::fs::write(again.path().join("SKILL.md"), FRONT).unwrap();
    let again = SkillFolder::read_folder(again.path()).unwrap();
    assert_eq!(again.to_archive().unwrap(), bytes);
}

#[test]
fn an_archive_may_hold_the_folder_or_what_is_in_it() {
    let bare = of_file("a/b.txt").unwrap();
    for top in ["./", "sales/", "./sales/"] {
        let entries = [
            (format!("{top}a"), EntryType::Directory, &b""[..]),
            (format!("{top}SKILL.md"), EntryType::Regular, FRONT.as_bytes()),
            (format!("{top}a/b.txt"), EntryType::Regular, &b"x"[..]),
        ];
        let entries: Vec<_> =
            entries.iter().map(|(path, kind, content)| (path.as_str(), *kind, *content)).collect();
        assert_eq!(SkillFolder::read_archive(&archive(&entries)).unwrap(), bare, "{top}");
    }
}

#[test]
fn no_path_leaves_the_folder() {
    for path in ["../x", "a/../../x", "/etc/x", "a//x", "a/./x", "a\nb", "a/"] {
        let read = of_file(path);
        assert!(matches!(read, Err(SkillError::Path(_))), "{path:?}: {read:?}");
    }
    let deep = "d/".repeat(MAX_PATH_DEPTH) + "x";
    assert!(matches!(of_file(&deep), Err(SkillError::Path(_))));
}

#[test]
fn links_and_devices_are_refused() {
    let main = ("SKILL.md", EntryType::Regular, FRONT.as_bytes());
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Char] {
        let read = SkillFolder::read_archive(&archive(&[main, ("x", kind, &b""[..])]));
        assert!(matches!(read, Err(SkillError::Kind(_))), "{kind:?}: {read:?}");
    }
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("SKILL.md"), FRONT).unwrap();
    symlink("/etc/passwd", place.path().join("x")).unwrap();
    assert!(matches!(SkillFolder::read_folder(place.path()), Err(SkillError::Kind(_))));
}

#[test]
fn size_and_count_are_bounded() {
    let large = vec![b' '; usize::try_from(MAX_SKILL_BYTES).unwrap()];
    let main = ("SKILL.md", EntryType::Regular, FRONT.as_bytes());
    let read =
        SkillFolder::read_archive(&archive(&[main, ("x", EntryType::Regular, large.as_slice())]));
    assert!(matches!(read, Err(SkillError::TooLarge)), "{read:?}");
    let names: Vec<String> = (0..MAX_SKILL_FILES).map(|n| format!("f{n}")).collect();
    let files = names.iter().map(|name| (name.as_str(), EntryType::Regular, &b""[..]));
    let files: Vec<_> = std::iter::once(main).chain(files).collect();
    let read = SkillFolder::read_archive(&archive(&files));
    assert!(matches!(read, Err(SkillError::TooManyFiles)), "{read:?}");
    assert!(SkillFolder::read_archive(&archive(&files[..MAX_SKILL_FILES])).is_ok());
    let twice = archive(&[main, main]);
    assert!(matches!(SkillFolder::read_archive(&twice), Err(SkillError::Twice(_))));
}

#[test]
fn names_and_descriptions_are_checked() {
    let of = |front: &str| {
        SkillFolder::read_archive(&archive(&[("SKILL.md", EntryType::Regular, front.as_bytes())]))
    };
    for name in ["", "Sales", "../x", "a b", "-a", "a-", &"a".repeat(65)] {
        let read = of(&format!("---\nname: {name}\ndescription: d\n---\n"));
        assert!(matches!(read, Err(SkillError::Name(_))), "{name:?}: {read:?}");
    }
    for description in ["", "a\u{7}b", &"d".repeat(1025)] {
        let read = of(&format!("---\nname: a\ndescription: {description}\n---\n"));
        assert!(matches!(read, Err(SkillError::Description)), "{description:?}: {read:?}");
    }
    assert!(matches!(of("# Sales"), Err(SkillError::NoFront)));
    let read = SkillFolder::read_archive(&archive(&[("README.md", EntryType::Regular, &b"x"[..])]));
    assert!(matches!(read, Err(SkillError::NoMain)), "{read:?}");
    assert!(matches!(SkillFolder::read_archive(&[b'x'; 1024]), Err(SkillError::Archive(_))));
}

use tempfile::TempDir;

use super::*;

fn shelf() -> (TempDir, Shelf) {
    let dir = tempfile::tempdir().unwrap();
    let shelf = Shelf::new(dir.path().join("shelf"));
    (dir, shelf)
}

fn file(dir: &TempDir, text: &str) -> PathBuf {
    let path = dir.path().join("a.csv");
    fs::write(&path, text).unwrap();
    path
}

/// Another handle to the same shelf, which has proven nothing yet.
fn anew(shelf: &Shelf) -> Shelf {
    Shelf::new(shelf.root.to_path_buf())
}

/// Writes over a file as only its owner can.
fn write_over(path: &Path, text: &str) {
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_file_is_kept_under_its_digest_once() {
    let (dir, shelf) = shelf();
    let kept = shelf.put_file(&file(&dir, "x\n1\n")).unwrap();
    assert_eq!((kept.digest, kept.identity.bytes), (Digest::of(b"x\n1\n"), 4));
    assert_eq!(fs::read(&kept.path).unwrap(), b"x\n1\n");
    assert_eq!(shelf.put_file(&file(&dir, "x\n1\n")).unwrap(), kept);
    let mut fresh = anew(&shelf).fresh().unwrap();
    fresh.write_all(b"x\n1\n").unwrap();
    assert_eq!(anew(&shelf).take(fresh).unwrap(), kept);
    assert_eq!(anew(&shelf).find(&kept.digest).unwrap(), kept);
    for shelf in [&shelf, &anew(&shelf)] {
        let file = shelf.open(&kept.digest).unwrap();
        assert_eq!(io::read_to_string(file).unwrap(), "x\n1\n");
    }
    assert_eq!(fs::read_dir(&shelf.root).unwrap().count(), 1);
}

#[test]
fn whoever_changes_the_original_changes_nothing_here() {
    let (dir, shelf) = shelf();
    let path = file(&dir, "x\n1\n");
    let kept = shelf.put_file(&path).unwrap();
    fs::write(&path, "x\n2\n").unwrap();
    assert_eq!(fs::read(&anew(&shelf).find(&kept.digest).unwrap().path).unwrap(), b"x\n1\n");
}

#[test]
fn a_file_that_changed_is_found_out_and_replaced() {
    let (dir, shelf) = shelf();
    let path = file(&dir, "x\n1\n");
    let kept = shelf.put_file(&path).unwrap();
    write_over(&kept.path, "x\n2\n");
    for shelf in [&shelf, &anew(&shelf)] {
        assert!(matches!(shelf.find(&kept.digest), Err(ShelfError::Changed(_))));
    }
    let again = shelf.put_file(&path).unwrap();
    assert_ne!(again.identity, kept.identity);
    assert_eq!(fs::read(&shelf.find(&kept.digest).unwrap().path).unwrap(), b"x\n1\n");
}

#[test]
fn a_link_to_a_file_is_no_file() {
    let (dir, shelf) = shelf();
    let path = file(&dir, "x\n1\n");
    let kept = shelf.put_file(&path).unwrap();
    fs::remove_file(&kept.path).unwrap();
    // Even to one with the right content: somebody else may change that.
    std::os::unix::fs::symlink(&path, &kept.path).unwrap();
    for shelf in [&shelf, &anew(&shelf)] {
        assert!(matches!(shelf.find(&kept.digest), Err(ShelfError::Absent(_))));
    }
    assert!(matches!(shelf.find(&Digest::of(b"")), Err(ShelfError::Absent(_))));
}

#[test]
fn the_way_to_the_files_is_closed() {
    let (dir, shelf) = shelf();
    let kept = shelf.put_file(&file(&dir, "x\n1\n")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&shelf.root), 0o700);
    assert_eq!(mode(&kept.path), 0o444);
    assert_eq!(mode(kept.path.parent().unwrap()), 0o755);
}

#[test]
fn what_is_shown_names_the_files_that_were_proven() {
    let (dir, shelf) = shelf();
    let kept = shelf.put_file(&file(&dir, "x\n1\n")).unwrap();
    let data = shelf.show(&[("a.csv".into(), kept.digest)]).unwrap();
    assert_eq!(data.files()[0].identity, kept.identity);
    assert_eq!(data.places().collect::<Vec<_>>(), [kept.path.parent().unwrap()]);
    let two = [("a".to_owned(), kept.digest), ("a".to_owned(), kept.digest)];
    assert!(matches!(shelf.show(&two), Err(ShelfError::Unfit(_))));
}

#[test]
fn what_is_not_wanted_any_more_is_removed() {
    const HOUR: Duration = Duration::from_secs(3600);
    let (dir, shelf) = shelf();
    assert_eq!(shelf.list().unwrap(), []);
    let mut content = File::open(file(&dir, "x\n1\n")).unwrap();
    let kept = shelf.put(&mut content).unwrap();
    assert_eq!((kept.digest, shelf.list().unwrap()), (Digest::of(b"x\n1\n"), vec![kept.digest]));
    let directory = File::open(kept.path.parent().unwrap()).unwrap();
    directory.set_modified(SystemTime::now() - 2 * HOUR).unwrap();
    assert_eq!(shelf.touch(&kept.digest).unwrap(), kept, "it is the same file");
    assert!(!shelf.remove_unused(&kept.digest, HOUR).unwrap());
    directory.set_modified(SystemTime::now() - 2 * HOUR).unwrap();
    assert!(shelf.remove_unused(&kept.digest, HOUR).unwrap());
    assert!(!shelf.remove_unused(&kept.digest, HOUR).unwrap());
    for shelf in [&shelf, &anew(&shelf)] {
        assert!(matches!(shelf.touch(&kept.digest), Err(ShelfError::Absent(_))));
    }
}

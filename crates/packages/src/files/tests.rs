use std::fs;
use std::os::unix::fs::symlink;

use belljar_domain::Bind;
use tempfile::TempDir;

use super::*;

fn layers(count: usize) -> (TempDir, Vec<PathBuf>) {
    let scratch = tempfile::tempdir().unwrap();
    let layers: Vec<_> = (0..count).map(|n| scratch.path().join(n.to_string())).collect();
    for layer in &layers {
        fs::create_dir(layer).unwrap();
    }
    (scratch, layers)
}

fn put(layer: &Path, path: &str, text: &str) {
    let path = layer.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn tree(layers: &[PathBuf]) -> Tree {
    Tree::of(&RootFs { layers: layers.to_vec(), binds: vec![] }).unwrap()
}

#[test]
fn the_uppermost_layer_wins_and_directories_are_merged() {
    let (_scratch, layers) = layers(2);
    put(&layers[0], "etc/a", "upper");
    put(&layers[1], "etc/a", "lower");
    put(&layers[1], "etc/b", "lower");
    let tree = tree(&layers);
    assert_eq!(tree.text("/etc/a").as_deref(), Some("upper"));
    assert_eq!(tree.text("/etc/b").as_deref(), Some("lower"));
    assert_eq!(tree.list("/etc"), ["a", "b"]);
    assert!(tree.has("/etc") && !tree.has("/etc/c") && tree.read("/etc").is_none());
    assert!(tree.read("/etc/a/b").is_none());
}

#[test]
fn links_stay_inside_the_view() {
    let (scratch, layers) = layers(2);
    put(scratch.path(), "secret", "of the host");
    put(&layers[1], "usr/etc/a", "inside");
    symlink("usr/etc", layers[0].join("etc")).unwrap();
    symlink("/usr/etc/a", layers[0].join("absolute")).unwrap();
    symlink("../../../../../../usr/etc/a", layers[0].join("climbing")).unwrap();
    symlink("../secret", layers[0].join("out")).unwrap();
    symlink(scratch.path().join("secret"), layers[0].join("far")).unwrap();
    symlink("loop", layers[0].join("loop")).unwrap();
    let tree = tree(&layers);
    for path in ["/etc/a", "/absolute", "/climbing", "/etc/../etc/a"] {
        assert_eq!(tree.text(path).as_deref(), Some("inside"), "{path}");
    }
    for path in ["/out", "/far", "/loop", "/../secret"] {
        assert_eq!(tree.text(path), None, "{path}");
    }
    assert_eq!(tree.list("/etc"), ["a"]);
}

#[test]
fn a_file_in_an_upper_layer_hides_a_directory_below() {
    let (_scratch, layers) = layers(2);
    put(&layers[0], "etc", "a file now");
    put(&layers[1], "etc/a", "hidden");
    assert_eq!(tree(&layers).text("/etc/a"), None);
    assert_eq!(tree(&layers).list("/etc"), Vec::<String>::new());
}

#[test]
fn an_opaque_directory_hides_the_one_below() {
    let (_scratch, layers) = layers(2);
    put(&layers[0], "etc/new", "");
    put(&layers[1], "etc/old", "");
    let etc = File::open(layers[0].join("etc")).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::fsetxattr(&etc, "user.overlay.opaque", b"y", flags).unwrap();
    assert_eq!(tree(&layers).list("/etc"), ["new"]);
    assert!(!tree(&layers).has("/etc/old"));
}

#[test]
fn a_bind_shows_what_lies_elsewhere() {
    let (scratch, layers) = layers(1);
    put(scratch.path(), "elsewhere/pip.conf", "bound");
    put(scratch.path(), "one", "file");
    put(&layers[0], "etc/x", "");
    let bind = |source: &str, target: &str| Bind::of_host(scratch.path().join(source), target);
    let binds = vec![bind("elsewhere", "/etc"), bind("one", "/etc/one")];
    let tree = Tree::of(&RootFs { layers: layers.clone(), binds }).unwrap();
    assert_eq!(tree.text("/etc/pip.conf").as_deref(), Some("bound"));
    assert_eq!(tree.text("/etc/one").as_deref(), Some("file"));
    assert_eq!(tree.text("/etc/x"), None);
}

#[test]
fn neither_pipes_nor_huge_files_are_read() {
    let (_scratch, layers) = layers(1);
    let fifo = layers[0].join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    File::create(layers[0].join("huge")).unwrap().set_len(LARGEST + 1).unwrap();
    assert!(tree(&layers).read("/pipe").is_none());
    assert!(tree(&layers).read("/huge").is_none());
}

#[test]
fn links_made_to_be_slow_lead_nowhere() {
    let (_scratch, layers) = layers(1);
    put(&layers[0], "a", "here");
    symlink(format!("{}a", "./x/../".repeat(200)), layers[0].join("slow")).unwrap();
    fs::create_dir(layers[0].join("x")).unwrap();
    symlink("x/../a", layers[0].join("quick")).unwrap();
    assert_eq!(tree(&layers).text("/quick").as_deref(), Some("here"));
    assert_eq!(tree(&layers).text("/slow"), None);
}

#[test]
fn what_an_upper_layer_removed_is_not_there() {
    let (_scratch, layers) = layers(2);
    put(&layers[0], "etc/kept", "");
    put(&layers[1], "etc/gone", "");
    put(&layers[1], "opt/tool/x", "");
    let whiteout = |path: &str| {
        let path = layers[0].join(path);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::CharacterDevice, Mode::empty(), 0)
            .unwrap();
    };
    whiteout("etc/gone");
    whiteout("opt");
    assert_eq!(tree(&layers).list("/etc"), ["kept"]);
    assert!(!tree(&layers).has("/etc/gone") && !tree(&layers).has("/opt/tool/x"));
}

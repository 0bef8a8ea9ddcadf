use std::os::unix::fs::symlink;

use expect_test::expect;
use tempfile::{TempDir, tempdir};

use super::*;

fn fake_host() -> TempDir {
    let dir = tempdir().unwrap();
    let root = dir.path();
    for path in [
        "usr/bin",
        "usr/lib64",
        "usr/share",
        "lib",
        "etc/ssl/private",
        "etc/ssl/certs",
        "etc/alternatives",
        "etc/python3",
        "home/me",
        "store",
    ] {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    symlink("usr/bin", root.join("bin")).unwrap();
    symlink("usr/lib64", root.join("lib64")).unwrap();
    symlink("/usr/bin/vim", root.join("etc/alternatives/editor")).unwrap();
    symlink("/home/me/tool", root.join("etc/alternatives/mine")).unwrap();
    let files = [
        ("usr/bin/bash", ""),
        ("usr/bin/python3", ""),
        ("usr/share/ca.pem", "public"),
        ("etc/services", "http 80/tcp\n"),
        ("etc/shadow", "secret"),
        ("etc/ssl/private/key", "secret"),
        ("etc/python3/debian_config", "x"),
        ("etc/python3/token", "secret"),
        ("home/me/key", "secret"),
    ];
    for (path, content) in files {
        fs::write(root.join(path), content).unwrap();
    }
    let token = root.join("etc/python3/token");
    fs::set_permissions(token, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("../../../usr/share/ca.pem", root.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    dir
}

/// Every entry, one a line, with its kind and permissions.
fn listing(root: &Path) -> String {
    fn walk(directory: &Path, root: &Path, lines: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let (path, metadata) = (entry.path(), entry.metadata().unwrap());
            let shown = path.strip_prefix(root).unwrap().display().to_string();
            let mode = metadata.mode() & 0o7777;
            if metadata.is_symlink() {
                lines.push(format!("{shown} -> {}", fs::read_link(&path).unwrap().display()));
            } else {
                lines.push(format!("{shown} {mode:o}"));
            }
            if metadata.is_dir() {
                walk(&path, root, lines);
            }
        }
    }
    let mut lines = Vec::new();
    walk(root, root, &mut lines);
    lines.sort();
    lines.join("\n") + "\n"
}

#[test]
fn the_skeleton_shows_public_files_only() {
    let host = fake_host();
    let template = prepare_from(host.path(), &host.path().join("store")).unwrap();
    expect![[r#"
        bin -> usr/bin
        dev 755
        etc 755
        etc/alternatives 755
        etc/alternatives/editor -> /usr/bin/vim
        etc/group 644
        etc/hostname 644
        etc/hosts 644
        etc/nsswitch.conf 644
        etc/passwd 644
        etc/python3 755
        etc/python3/debian_config 644
        etc/resolv.conf 644
        etc/services 644
        etc/ssl 755
        etc/ssl/certs 755
        etc/ssl/certs/ca-certificates.crt 644
        home 755
        home/user 755
        lib 755
        lib64 -> usr/lib64
        media 755
        mnt 755
        opt 755
        proc 755
        root 700
        run 755
        srv 755
        sys 755
        tmp 1777
        usr 755
        var 755
        var/tmp 1777
    "#]]
    .assert_eq(&listing(&template.root.layers[0]));
    let targets: Vec<_> = template.root.binds.iter().map(|bind| bind.target.clone()).collect();
    assert_eq!(targets, [Path::new("/usr"), Path::new("/lib")]);
    expect![[r#"
        root:x:0:0:root:/root:/bin/bash
        user:x:1000:1000:user:/home/user:/bin/bash
        guest:x:999:999:guest:/nonexistent:/usr/sbin/nologin
        nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
    "#]]
    .assert_eq(&fs::read_to_string(template.root.layers[0].join("etc/passwd")).unwrap());
}

#[test]
fn a_skeleton_is_made_once_and_again_when_its_inputs_change() {
    let host = fake_host();
    let store = host.path().join("store");
    let first = prepare_from(host.path(), &store).unwrap();
    assert_eq!(prepare_from(host.path(), &store).unwrap(), first);
    fs::write(host.path().join("etc/services"), "http 80/tcp\nssh 22/tcp\n").unwrap();
    let second = prepare_from(host.path(), &store).unwrap();
    assert_ne!(second.version, first.version);
    assert!(first.root.layers[0].exists(), "someone may be about to use it");
}

#[test]
fn this_machine_has_a_host_template() {
    let store = tempdir().unwrap();
    let template = prepare(store.path()).unwrap();
    assert_eq!(template.root.binds[0].source, Path::new("/usr"));
    assert!(template.root.layers[0].join("home/user").is_dir());
    template.lease().unwrap();
}

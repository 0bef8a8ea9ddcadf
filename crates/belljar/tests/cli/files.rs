//! Files in and out, and what hostile names cannot do on the way out.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::harness::{Place, can_jail};

fn binary() -> Vec<u8> {
    (0..=255).cycle().take(1_000_003).collect()
}

#[test]
fn a_binary_file_goes_in_and_comes_out_unchanged() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    place.write("in.bin", binary());
    let code = "open('out.bin', 'wb').write(open('in.bin', 'rb').read()[::-1])";
    let ran = place.run(&["run", "--in", "in.bin", "--out", "out.bin:back.bin", "-c", code]);
    ran.expect_status(0);
    let mut want = binary();
    want.reverse();
    assert!(place.read("back.bin") == want);
}

#[test]
fn directories_go_in_and_come_out() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    fs::create_dir_all(place.path().join("src/deep")).unwrap();
    place.write("src/deep/a.txt", "a");
    place.write("src/run.sh", "#!/bin/sh\necho ran; cp -r . ../copy");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.path().join("src/run.sh"), mode).unwrap();
    symlink("/etc/hostname", place.path().join("src/link")).unwrap();
    let args = ["exec", "--in", "src", "--out", "copy", "--workdir", "src", "--", "./run.sh"];
    let ran = place.run(&args);
    ran.expect_status(0).expect_text("ran\n");
    ran.expect_words(&["1 links or special files in `src` were not copied in"]);
    assert_eq!(place.read("copy/deep/a.txt"), b"a");
    assert!(!place.path().join("copy/link").exists());
    let mode = fs::metadata(place.path().join("copy/run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "what can be run inside can be run outside: {mode:o}");
}

#[test]
fn a_target_is_chosen_by_the_user_alone() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    place.write("a", "1");
    fs::create_dir(place.path().join("into")).unwrap();
    let args = ["exec", "--in", "a:deep/down/", "--out", "deep/down/a:into", "--", "true"];
    place.run(&args).expect_status(0);
    assert_eq!(place.read("into/a"), b"1");
}

#[test]
fn links_on_the_host_are_replaced_or_refused_but_never_followed() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    place.write("precious", "precious");
    fs::create_dir(place.path().join("elsewhere")).unwrap();
    symlink("precious", place.path().join("file")).unwrap();
    symlink("elsewhere", place.path().join("tree")).unwrap();
    let script = "echo new > file; mkdir tree; echo new > tree/x";
    place.run(&["exec", "--out", "file", "--", "sh", "-c", script]).expect_status(0);
    assert_eq!(
        (place.read("precious"), place.read("file")),
        (b"precious".to_vec(), b"new\n".into())
    );
    let ran = place.run(&["exec", "--out", "tree", "--", "sh", "-c", script]);
    ran.expect_status(125).expect_words(&["hint: ", "symbolic links"]);
    assert_eq!(fs::read_dir(place.path().join("elsewhere")).unwrap().count(), 0);
}

#[test]
fn links_inside_show_only_what_is_inside() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let secret = place.path().join("secret");
    place.write("secret", "of the host");
    let script = format!(
        "ln -s {0} a; ln -s /etc/passwd b; mkdir d; ln -s / d/root; ln -s {0} d/c; mkfifo d/f; \
         echo x > 'd/a\nb'",
        secret.display()
    );
    let run = |out: &str| place.run(&["exec", "--out", out, "--", "sh", "-c", &script]);
    run("a").expect_status(125).expect_words(&["No such file"]);
    run("b").expect_status(0);
    assert!(String::from_utf8(place.read("b")).unwrap().contains("user:x:1000:"));
    run("d").expect_status(0).expect_words(&["3 links or special files"]);
    let names: Vec<_> = fs::read_dir(place.path().join("d")).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(place.read("d/a\nb"), b"x\n");
}

#[test]
fn a_file_of_holes_cannot_fill_the_host() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let script = "mkdir d; for i in 1 2 3 4 5 6 7 8 9; do truncate -s 4M d/$i; done";
    let ran = place.run(&["exec", "--disk", "8M", "--out", "d", "--", "sh", "-c", script]);
    ran.expect_status(125).expect_words(&["at most the disk", "--disk"]);
    let names = fs::read_dir(place.path().join("d")).unwrap();
    let total: u64 = names.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(total <= 8 << 20, "{total}");
}

#[test]
fn a_missing_file_is_an_error_only_if_the_code_did_well() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let ran = place.run(&["exec", "--out", "nothing", "--", "true"]);
    ran.expect_status(125)
        .expect_words(&["cannot copy `nothing` out: it does not exist in the sandbox"]);
    place.run(&["exec", "--out", "nothing", "--", "sh", "-c", "exit 4"]).expect_status(4);
}

use super::*;

/// The holes of what `--version` prints, by number.
fn holes(runtime: Runtime, text: &str) -> Vec<&'static str> {
    version::flaws(runtime, &Version::read(runtime, text)).iter().map(|flaw| flaw.id).collect()
}

fn runc(version: &str) -> Vec<&'static str> {
    holes(Runtime::Runc, &format!("runc version {version}\ncommit: v1\nspec: 1.2.0\n"))
}

const TRIO: &str = "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881";
const DEV: &str = "CVE-2026-41579";

#[test]
fn each_branch_of_runc_is_mended_by_its_own_release() {
    assert_eq!(runc("1.1.11"), ["CVE-2024-21626", TRIO, DEV]);
    assert_eq!(runc("1.1.15"), [TRIO, DEV]);
    assert_eq!(runc("1.2.7"), [TRIO, DEV]);
    assert_eq!(runc("1.2.8"), [DEV]);
    assert_eq!(runc("1.3.2"), [TRIO, DEV]);
    assert_eq!(runc("1.3.5"), [DEV]);
    assert_eq!(runc("1.3.6"), [""; 0]);
    assert_eq!(runc("1.4.0-rc.2"), [TRIO, DEV]);
    assert_eq!(runc("1.4.0-rc.3"), [DEV]);
    assert_eq!(runc("1.4.3"), [""; 0]);
    assert_eq!(runc("1.5.0-rc.2"), [DEV]);
    assert_eq!(runc("1.5.0-rc.3"), [""; 0]);
    assert_eq!(runc("1.6.0"), [""; 0]);
}

#[test]
fn a_distributions_suffix_mends_nothing() {
    assert_eq!(runc("1.1.5+ds1"), runc("1.1.5"));
    assert_eq!(runc("1.1.12-0ubuntu3~22.04.1"), [TRIO, DEV]);
    assert_eq!(runc("1.3.6+ds1-1+deb13u2"), [""; 0]);
}

#[test]
fn crun_is_judged_by_what_it_was_built_with() {
    let crun = |version: &str, with: &str| {
        holes(
            Runtime::Crun,
            &format!("crun version {version}\nspec: 1.0.0\n+SYSTEMD {with} +YAJL\n"),
        )
    };
    assert_eq!(crun("1.4.3", ""), ["CVE-2022-27650"]);
    assert_eq!(crun("1.8.1", ""), [""; 0]);
    assert_eq!(crun("1.8.1", "+LIBKRUN"), ["CVE-2025-24965"]);
    assert_eq!(crun("1.20", "+LIBKRUN"), [""; 0]);
    assert_eq!(crun("0.10.4", ""), ["CVE-2019-18837", "CVE-2022-27650"]);
}

#[test]
fn runsc_is_judged_by_its_day() {
    let runsc =
        |version: &str| holes(Runtime::Runsc, &format!("runsc version {version}\nspec: 1.1.0\n"));
    assert_eq!(runsc("release-20240729.0"), [""; 0]);
    assert_eq!(runsc("release-20221219.0"), ["too old"]);
    assert_eq!(runsc("0.0~20221219.0"), ["too old"]);
    assert_eq!(runsc("VERSION_MISSING"), ["unknown version"]);
}

#[test]
fn what_says_no_version_is_not_trusted() {
    for text in ["", "runc", "runc version", "runc version unknown", "crun version x.y"] {
        assert_eq!(holes(Runtime::Runc, text), ["unknown version"], "{text}");
    }
}

#[test]
fn the_day_of_a_build_is_found_where_two_reads_meet() {
    let dir = std::env::temp_dir().join(format!("belljar-build-{}", std::process::id()));
    for before in [0, 5, (1 << 20) - 10, (1 << 20) - 30, (1 << 20) - 34, 1 << 20] {
        let mut bytes = vec![b'x'; before];
        bytes.extend(b"mod\tgvisor.dev/gvisor\tv0.0.0-20251107183415-abcdefabcdef\th1:");
        bytes.extend([b'y'; 100]);
        std::fs::write(&dir, &bytes).unwrap();
        assert_eq!(version::build_of(&dir), Version::Day(20_251_107), "after {before} bytes");
    }
    std::fs::write(&dir, vec![b'x'; 3 << 20]).unwrap();
    assert_eq!(version::build_of(&dir), Version::Unknown);
    std::fs::remove_file(dir).unwrap();
}

/// A program that prints `text` as its version.
fn program(name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("belljar-{name}-{}", std::process::id()));
    std::fs::write(&path, format!("#!/bin/sh\necho '{text}'\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn a_hole_is_named_and_forgiven_only_by_force() {
    let old = program("old-runc", "runc version 1.1.5+ds1");
    let runtimes = Runtimes { runc: Some(old.clone()), ..Runtimes::default() };
    let refused = Judge::new(runtimes.clone()).judge(Runtime::Runc).await.unwrap_err();
    assert!(refused.contains("CVE-2025-31133") && refused.contains("1.2.8"), "{refused}");
    let forced = Judge::new(Runtimes { force: true, ..runtimes }).judge(Runtime::Runc).await;
    let forced = forced.unwrap();
    assert!(forced.forgiven.is_some_and(|why| why.contains("CVE-2024-21626")));
    std::fs::remove_file(old).unwrap();
}

#[tokio::test]
async fn a_program_that_is_replaced_is_judged_again() {
    let path = program("crun-again", "crun version 1.8.1");
    let judge = Judge::new(Runtimes { crun: Some(path.clone()), ..Runtimes::default() });
    assert!(judge.judge(Runtime::Crun).await.is_ok());
    std::fs::remove_file(&path).unwrap();
    assert!(judge.judge(Runtime::Crun).await.unwrap_err().contains("BELLJAR_CRUN"));
    program("crun-again", "crun version 1.0.1");
    assert!(judge.judge(Runtime::Crun).await.unwrap_err().contains("CVE-2022-27650"));
    std::fs::remove_file(path).unwrap();
}

use super::*;

fn line(runtime: Runtime, from: Option<&str>) -> String {
    let order = Order { program: "/usr/bin/rt".into(), from: from.map(PathBuf::from) };
    let id: SandboxId = "a".repeat(26).parse().unwrap();
    let argv = Desk::at("/run/belljar/work/0-x".into()).argv(runtime, &order, &id);
    argv.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_container_is_started_apart_from_all_others() {
    assert_eq!(
        line(Runtime::Crun, None),
        "/usr/bin/rt --cgroup-manager=disabled --root /run/belljar/work/0-x/root run --detach \
         --bundle /run/belljar/work/0-x --pid-file /run/belljar/work/0-x/pid aaaaaaaaaaaaaaaaaaaaaaaaaa"
    );
}

#[test]
fn gvisor_is_given_nothing_of_the_host() {
    let line = line(Runtime::Runsc, Some("/saved"));
    assert!(line.contains(" restore --image-path /saved "), "{line}");
    for wanted in ["--network=none", "--host-uds=none", "--host-fifo=none", "--platform=systrap"] {
        assert!(line.contains(wanted), "{line}");
    }
    for dangerous in [
        "host-uds=all",
        "host-uds=open",
        "network=host",
        "--file-access=shared",
        "TESTONLY",
        "--rootless",
    ] {
        assert!(!line.contains(dangerous), "{line}");
    }
}

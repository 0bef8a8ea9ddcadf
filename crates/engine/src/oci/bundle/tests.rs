use belljar_domain::{Bind, Limits, RootFs, Tier};
use expect_test::{ExpectFile, expect_file};

use super::*;

fn spec(runtime: Runtime) -> Spec {
    let root = RootFs {
        layers: vec!["/layers/of/a/tenant".into()],
        binds: vec![Bind::of_host("/usr", "/usr")],
    };
    let limits = Limits { disk_bytes: 64 << 20, ..Limits::default() };
    Spec { limits, ..Spec::new(Tier::Oci(runtime), root) }
}

fn ground() -> Ground<'static> {
    let (base, shared) = (Path::new("/run/belljar/base"), Path::new("/run/belljar/oci"));
    Ground { base, shared, first_uid: 0x1000_0000, group: Path::new("/belljar/e0/x") }
}

const FACTS: Facts = Facts { landlock_abi: 7, privileged: true, ipv6: true };

fn made(runtime: Runtime) -> Value {
    config(&spec(runtime), runtime, FACTS, &Weakened::default(), ground())
}

#[track_caller]
fn check(runtime: Runtime, want: ExpectFile) {
    let text = serde_json::to_string_pretty(&made(runtime)).unwrap();
    want.assert_eq(&format!("{text}\n"));
}

#[test]
fn crun_is_told_this() {
    check(Runtime::Crun, expect_file!["golden/crun.json"]);
}

#[test]
fn runsc_is_told_this() {
    check(Runtime::Runsc, expect_file!["golden/runsc.json"]);
}

#[test]
fn runc_is_told_what_crun_is_told() {
    let mut runc = made(Runtime::Runc);
    let linux = runc["linux"].as_object_mut().unwrap();
    // It makes a group of devices whatever it is told; ours, then.
    assert!(linux.remove("cgroupsPath").is_some());
    assert!(linux.remove("resources").is_some());
    assert_eq!(runc, made(Runtime::Crun));
}

#[test]
fn the_profile_full_adds_the_capabilities_of_root_and_nothing_else() {
    use belljar_confine::rights;
    use belljar_sys::caps::Set;
    let bits = [
        ("CAP_CHOWN", Set::CHOWN),
        ("CAP_DAC_OVERRIDE", Set::DAC_OVERRIDE),
        ("CAP_FOWNER", Set::FOWNER),
        ("CAP_FSETID", Set::FSETID),
        ("CAP_KILL", Set::KILL),
        ("CAP_NET_BIND_SERVICE", Set::NET_BIND_SERVICE),
        ("CAP_SETGID", Set::SETGID),
        ("CAP_SETPCAP", Set::SETPCAP),
        ("CAP_SETUID", Set::SETUID),
        ("CAP_SYS_ADMIN", Set::SYS_ADMIN),
    ];
    for runtime in [Runtime::Crun, Runtime::Runsc] {
        let full = Spec { profile: SecurityProfile::Full, ..spec(runtime) };
        let mut full = config(&full, runtime, FACTS, &Weakened::default(), ground());
        let mut strict = made(runtime);
        let held = |bundle: &Value| {
            let names = bundle["process"]["capabilities"]["bounding"].as_array().unwrap();
            let bit = |name: &Value| bits.iter().find(|(known, _)| name == known).unwrap().1;
            names.iter().map(bit).fold(Set::EMPTY, Set::and)
        };
        assert_eq!(held(&full), held(&strict).and(rights::GRANTING), "{runtime:?}");
        for bundle in [&mut full, &mut strict] {
            bundle["process"]["capabilities"] = Value::Null;
        }
        assert_eq!(full, strict);
    }
}

#[test]
fn nothing_that_a_tenant_chose_is_in_it() {
    for runtime in [Runtime::Crun, Runtime::Runc, Runtime::Runsc] {
        let made = made(runtime);
        let text = made.to_string();
        assert!(!text.contains("tenant"), "{text}");
        for key in ["hooks", "annotations", "vm", "solaris"] {
            assert!(made.get(key).is_none(), "{key}");
        }
        let sources = made["mounts"].as_array().unwrap().iter();
        let binds = sources.filter(|mount| mount["type"] == "bind");
        for bind in binds {
            assert!(bind["source"].as_str().unwrap().starts_with("/run/belljar/"), "{bind}");
            let options = bind["options"].as_array().unwrap();
            assert!(options.iter().any(|option| option == "nosuid"), "{bind}");
        }
    }
}

#[test]
fn a_host_without_landlock_has_the_guest_do_without() {
    let facts = Facts { landlock_abi: 0, ..FACTS };
    let made = config(&spec(Runtime::Crun), Runtime::Crun, facts, &Weakened::default(), ground());
    assert_eq!(made["process"]["args"][2], "0");
}

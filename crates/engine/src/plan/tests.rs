use belljar_domain::data::{Data, Identity, Shown};
use belljar_domain::{Bind, Disk, Limits, RootFs, Runtime, SecurityProfile, Spec, Tier};
use expect_test::{Expect, expect};

use super::{Facts, GuestRights, Plan, Step};
use crate::defence::Weakened;

fn spec(tier: Tier) -> Spec {
    let root =
        RootFs { layers: vec!["/layers/a".into()], binds: vec![Bind::of_host("/usr", "/usr")] };
    Spec {
        limits: Limits { disk_bytes: 64 << 20, inodes: 1000, ..Limits::default() },
        ..Spec::new(tier, root)
    }
}

const ROOT: Facts = Facts { landlock_abi: 7, privileged: true, ipv6: true };

#[track_caller]
fn check(spec: &Spec, facts: Facts, want: Expect) {
    want.assert_eq(&Plan::new(spec, facts, &Weakened::default()).to_string());
}

#[test]
fn a_jail_gets_every_namespace_and_ends_with_its_filter() {
    check(
        &spec(Tier::Jail),
        ROOT,
        expect![[r#"
        namespaces user mount pid net ipc uts
        PrivateMounts
        OomScore
        LimitInotify
        ForbidUserNamespaces
        DisableIpv6
        LoopbackUp
        AwaitParent
        JoinGroups
        CgroupNamespace
        BecomeSetupRoot
        Scratch { bytes: Some(67108864), inodes: Some(1000) }
        Layers { count: 1 }
        Overlay { neutral: true }
        Bind { target: "/usr", index: 0 }
        Proc { view: Sandbox, read_only: true }
        Devices { minimal: true }
        Terminals
        SharedMemory
        EnterRoot
        Hostname
        NewKeyring
        Capabilities { guest: StartCalls }
        BecomeGuest { uid: 999 }
        NoNewPrivs
        Landlock { abi: 7, device_free: true, writable: Usual }
        Seccomp
        Descriptors { closed: true }
        RunGuest"#]],
    );
}

#[test]
fn without_root_the_guest_has_the_one_uid_and_no_capability() {
    let facts = Facts { privileged: false, ..ROOT };
    let plan = Plan::new(&spec(Tier::Jail), facts, &Weakened::default());
    assert!(plan.steps.contains(&Step::Capabilities { guest: GuestRights::None }));
    assert!(plan.steps.contains(&Step::BecomeGuest { uid: 1000 }));
    assert!(!plan.steps.contains(&Step::BecomeSetupRoot));
    // Neither the spawner nor the template can give it these.
    assert!(plan.steps.contains(&Step::OwnClocks) && plan.steps.contains(&Step::OwnPlaces));
}

#[test]
fn a_machine_monitor_gets_a_jail_without_any_right() {
    check(
        &spec(Tier::Microvm),
        ROOT,
        expect![[r#"
        namespaces user mount pid net ipc uts
        PrivateMounts
        OomScore
        LimitInotify
        ForbidUserNamespaces
        AwaitParent
        JoinGroups
        CgroupNamespace
        BecomeSetupRoot
        FillDisk
        Scratch { bytes: Some(67108864), inodes: Some(1000) }
        Layers { count: 1 }
        Overlay { neutral: true }
        Bind { target: "/usr", index: 0 }
        Proc { view: Processes, read_only: false }
        Devices { minimal: true }
        EnterRoot
        Hostname
        NewKeyring
        Capabilities { guest: None }
        BecomeGuest { uid: 1000 }
        NoNewPrivs
        Landlock { abi: 7, device_free: true, writable: Usual }
        Seccomp
        Descriptors { closed: true }
        RunGuest"#]],
    );
}

#[test]
fn the_process_tier_makes_no_namespace_and_still_filters() {
    check(
        &spec(Tier::Process),
        ROOT,
        expect![[r#"
        namespaces
        OomScore
        AwaitParent
        JoinGroups
        NewKeyring
        Capabilities { guest: None }
        BecomeGuest { uid: 1000 }
        NoNewPrivs
        Landlock { abi: 7, device_free: true, writable: Work }
        Seccomp
        Descriptors { closed: true }
        RunGuest"#]],
    );
}

/// On an older kernel, a signal to all would reach every process of the user.
#[test]
fn signals_stay_inside_only_where_landlock_bounds_them() {
    let keeps = |landlock_abi| {
        let facts = Facts { landlock_abi, privileged: false, ..ROOT };
        let plan = Plan::new(&spec(Tier::Process), facts, &Weakened::default());
        plan.keeps_signals_inside()
    };
    assert_eq!([4, 5, 6, 7].map(keeps), [false, false, true, true]);
}

#[test]
fn a_build_keeps_its_writable_layer_in_a_directory() {
    let disk = Disk::Directory { path: "/build/upper".into(), file_bytes: None };
    let spec = Spec { disk, ..spec(Tier::Jail) };
    let plan = Plan::new(&spec, ROOT, &Weakened::default());
    assert!(plan.steps.contains(&Step::UpperDirectory("/build/upper".into())));
}

/// No other step depends on it: what else confines the code is the same.
#[test]
fn root_gets_capabilities_by_the_profile_alone() {
    let strict = Plan::new(&spec(Tier::Jail), ROOT, &Weakened::default());
    let full = Spec { profile: SecurityProfile::Full, ..spec(Tier::Jail) };
    let full = Plan::new(&full, ROOT, &Weakened::default());
    let granting = Step::Capabilities { guest: GuestRights::GrantToRoot };
    assert!(!strict.steps.contains(&granting) && full.steps.contains(&granting));
    let others = |plan: Plan| -> Vec<Step> {
        let others = plan.steps.into_iter();
        others.filter(|step| !matches!(step, Step::Capabilities { .. })).collect()
    };
    assert_eq!(others(strict), others(full));
}

#[test]
fn nothing_but_leaving_follows_the_filter() {
    let runtimes = |tier: &Tier| matches!(tier, Tier::Oci(_));
    for tier in Tier::ALL.into_iter().filter(|tier| !runtimes(tier)) {
        let plan = Plan::new(&spec(tier), ROOT, &Weakened::default());
        let at = plan.steps.iter().position(|step| *step == Step::Seccomp).unwrap();
        assert_eq!(plan.steps[at + 1..], [Step::Descriptors { closed: true }, Step::RunGuest]);
    }
}

#[test]
fn a_zygote_has_no_rights_and_stays_in_the_hosts_user_and_pid_namespace() {
    let plan = Plan::zygote(&spec(Tier::Jail)).to_string();
    expect![[r#"
        namespaces mount net ipc uts
        PrivateMounts
        AwaitParent
        JoinGroups
        Scratch { bytes: Some(67108864), inodes: Some(1000) }
        Layers { count: 1 }
        Overlay { neutral: true }
        Proc { view: Processes, read_only: false }
        Devices { minimal: true }
        SharedMemory
        EnterRoot
        Hostname
        NewKeyring
        Capabilities { guest: None }
        BecomeGuest { uid: 1000 }
        NoNewPrivs
        Seccomp
        Descriptors { closed: true }
        RunGuest"#]]
    .assert_eq(&plan);
}

#[test]
fn files_are_laid_out_before_the_overlay_looks_at_them() {
    let plan = Plan::new(&spec(Tier::Jail), ROOT, &Weakened::default()).unpacking();
    let at = |wanted: fn(&Step) -> bool| plan.steps.iter().position(wanted).unwrap();
    let unpack = at(|step| *step == Step::Unpack);
    assert!(at(|step| matches!(step, Step::Scratch { .. })) < unpack);
    assert!(unpack < at(|step| matches!(step, Step::Overlay { .. })));
}

#[test]
fn a_runtime_finds_a_root_and_binds() {
    let plan = Plan::new(&spec(Tier::Oci(Runtime::Crun)), ROOT, &Weakened::default());
    expect![[r#"
        namespaces mount
        OomScore
        AwaitParent
        JoinGroups
        Scratch { bytes: Some(67108864), inodes: Some(1000) }
        OwnScratch
        Layers { count: 1 }
        Overlay { neutral: true }
        BindSource { index: 0 }
        SharedMemorySource
        Descriptors { closed: true }
        RunGuest"#]]
    .assert_eq(&plan.to_string());
}

#[test]
fn gvisor_insists_on_a_directory_for_temporary_files() {
    let plan = |runtime| Plan::new(&spec(Tier::Oci(runtime)), ROOT, &Weakened::default()).steps;
    assert!(plan(Runtime::Runsc).contains(&Step::TemporarySource));
    assert!(!plan(Runtime::Crun).contains(&Step::TemporarySource));
}

#[test]
fn nothing_is_attached_where_the_template_says_with_the_hosts_rights() {
    for runtime in [Runtime::Crun, Runtime::Runc, Runtime::Runsc] {
        let plan = Plan::new(&spec(Tier::Oci(runtime)), ROOT, &Weakened::default());
        assert!(!plan.steps.iter().any(|step| matches!(step, Step::Bind { .. })));
    }
}

#[test]
fn datasets_are_shown_in_a_root_that_nobody_has_entered_yet() {
    let identity = Identity { inode: 1, bytes: 2, modified: (3, 4), changed: (5, 6) };
    let shown = |name: &str| Shown { name: name.into(), content: "c".into(), identity };
    let data = Data::new("/shelf".into(), vec![shown("a"), shown("b")]).unwrap();
    let both = Step::Data { places: 1 };
    for (tier, after) in [(Tier::Jail, Step::EnterRoot), (Tier::Oci(Runtime::Crun), Step::RunGuest)]
    {
        let spec = Spec { data: data.clone(), ..spec(tier) };
        let steps = Plan::new(&spec, ROOT, &Weakened::default()).steps;
        let at = |wanted: &Step| steps.iter().position(|step| step == wanted).unwrap();
        assert!(at(&Step::Overlay { neutral: true }) < at(&both) && at(&both) < at(&after));
    }
}

use belljar_domain::Runtime;

use super::*;

const PROCESS: Tier = Tier::Process;
const JAIL: Tier = Tier::Jail;
const CRUN: Tier = Tier::Oci(Runtime::Crun);
const RUNC: Tier = Tier::Oci(Runtime::Runc);
const GVISOR: Tier = Tier::GVISOR;
const MICROVM: Tier = Tier::Microvm;

fn tiers(default: Tier, floor: Tier, offered: &[Tier]) -> Tiers {
    Tiers::new(default, floor, Some(offered.to_vec())).unwrap()
}

#[test]
fn the_first_that_names_one_counts() {
    let all = [JAIL, CRUN, GVISOR, MICROVM];
    for (asked, template, default, want) in [
        (None, None, JAIL, JAIL),
        (None, None, GVISOR, GVISOR),
        (None, Some(MICROVM), JAIL, MICROVM),
        (Some(GVISOR), None, JAIL, GVISOR),
        (Some(CRUN), Some(MICROVM), GVISOR, CRUN),
        (Some(MICROVM), Some(JAIL), JAIL, MICROVM),
    ] {
        let chosen = tiers(default, JAIL, &all).choose(asked, template, None);
        assert_eq!(chosen, Ok(want), "{asked:?} {template:?} {default}");
    }
}

#[test]
fn what_nobody_named_is_raised_to_the_weakest_that_is_enough() {
    for (default, floor, tenant, offered, want) in [
        (JAIL, JAIL, Some(GVISOR), &[JAIL, CRUN, GVISOR, MICROVM][..], GVISOR),
        (JAIL, GVISOR, None, &[JAIL, GVISOR, MICROVM], GVISOR),
        (JAIL, JAIL, Some(GVISOR), &[JAIL, MICROVM], MICROVM),
        (JAIL, GVISOR, Some(MICROVM), &[JAIL, GVISOR, MICROVM], MICROVM),
        // The stricter of two floors, whoever set it.
        (JAIL, MICROVM, Some(GVISOR), &[JAIL, GVISOR, MICROVM], MICROVM),
        (JAIL, GVISOR, Some(JAIL), &[JAIL, GVISOR], GVISOR),
        // What is strong enough already stays, also where a weaker one would do.
        (MICROVM, JAIL, Some(GVISOR), &[JAIL, GVISOR, MICROVM], MICROVM),
        // Equals are preferred in the order of the offer.
        (JAIL, PROCESS, Some(RUNC), &[JAIL, CRUN], JAIL),
        (CRUN, JAIL, None, &[JAIL, CRUN], CRUN),
    ] {
        let chosen = tiers(default, floor, offered).choose(None, None, tenant);
        assert_eq!(chosen, Ok(want), "{default} {floor} {tenant:?} {offered:?}");
    }
}

#[test]
fn what_somebody_named_is_never_replaced() {
    let all = [JAIL, GVISOR, MICROVM];
    let weak = |named, by, floor| Err(Refusal::TooWeak { named, by, floor });
    for (asked, template, floor, tenant, want) in [
        (Some(JAIL), None, JAIL, Some(GVISOR), weak(JAIL, By::Session, GVISOR)),
        (None, Some(JAIL), JAIL, Some(GVISOR), weak(JAIL, By::Template, GVISOR)),
        (Some(GVISOR), Some(MICROVM), MICROVM, None, weak(GVISOR, By::Session, MICROVM)),
        (Some(JAIL), None, MICROVM, Some(GVISOR), weak(JAIL, By::Session, MICROVM)),
        (Some(PROCESS), None, JAIL, None, weak(PROCESS, By::Session, JAIL)),
        // A session may raise what its template names, and reach the floor.
        (Some(GVISOR), Some(JAIL), JAIL, Some(GVISOR), Ok(GVISOR)),
        (Some(MICROVM), None, JAIL, Some(GVISOR), Ok(MICROVM)),
        (Some(CRUN), None, JAIL, None, Err(Refusal::NotOffered { named: CRUN })),
        (None, Some(CRUN), JAIL, None, Err(Refusal::NotOffered { named: CRUN })),
    ] {
        let chosen = tiers(JAIL, floor, &all).choose(asked, template, tenant);
        assert_eq!(chosen, want, "{asked:?} {template:?} {floor} {tenant:?}");
    }
}

#[test]
fn a_tenant_is_told_of_the_tiers_that_it_may_name_and_of_no_other() {
    let some = tiers(JAIL, JAIL, &[JAIL, GVISOR]);
    let named = |floor: Option<Tier>| {
        let all = Tier::ALL.into_iter().filter(|tier| some.can_be_named(*tier, floor));
        all.collect::<Vec<_>>()
    };
    assert_eq!(named(None), [JAIL, GVISOR]);
    assert_eq!(named(Some(GVISOR)), [GVISOR]);
    assert!(named(Some(MICROVM)).is_empty());
}

#[test]
fn a_tenants_floor_above_the_offer_is_refused_and_not_lowered() {
    let weak = tiers(JAIL, JAIL, &[JAIL, GVISOR]);
    let chosen = weak.choose(None, None, Some(MICROVM));
    assert_eq!(chosen, Err(Refusal::NothingOffered { floor: MICROVM }));
}

#[test]
fn the_process_tier_cannot_be_had_whatever_the_floor() {
    let low = tiers(JAIL, PROCESS, &[JAIL]);
    let chosen = low.choose(Some(PROCESS), None, None);
    assert_eq!(chosen, Err(Refusal::NotOffered { named: PROCESS }));
}

#[test]
fn a_copy_has_the_wall_of_its_original() {
    let all = tiers(JAIL, JAIL, &[JAIL, GVISOR]);
    assert_eq!(all.copy(None, GVISOR, None), Ok(GVISOR));
    assert_eq!(all.copy(Some(GVISOR), GVISOR, None), Ok(GVISOR));
    let other = Refusal::Fixed { asked: JAIL, original: GVISOR };
    assert_eq!(all.copy(Some(JAIL), GVISOR, None), Err(other));
    // A floor that was raised since holds for copies of what is older.
    let weak = Refusal::TooWeak { named: JAIL, by: By::Original, floor: GVISOR };
    assert_eq!(all.copy(None, JAIL, Some(GVISOR)), Err(weak));
    let gone = Refusal::NotOffered { named: MICROVM };
    assert_eq!(all.copy(None, MICROVM, None), Err(gone));
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let new = |default, floor, offered: &[Tier]| Tiers::new(default, floor, Some(offered.into()));
    assert_eq!(new(PROCESS, JAIL, &[JAIL]), Err(TiersError::Rootless(PROCESS)));
    assert_eq!(new(JAIL, JAIL, &[JAIL, PROCESS]), Err(TiersError::Rootless(PROCESS)));
    assert_eq!(new(GVISOR, JAIL, &[JAIL]), Err(TiersError::DefaultNotOffered(GVISOR)));
    assert_eq!(new(JAIL, MICROVM, &[JAIL, GVISOR]), Err(TiersError::FloorNotOffered(MICROVM)));
    assert_eq!(Tiers::new(JAIL, JAIL, None), Ok(Tiers::default()));
}

#[test]
fn a_refusal_names_both_tiers() {
    let weak = Refusal::TooWeak { named: JAIL, by: By::Session, floor: GVISOR };
    let fixed = Refusal::Fixed { asked: JAIL, original: GVISOR };
    for (refusal, code) in [(weak, "tier_too_weak"), (fixed, "tier_fixed")] {
        let problem = Problem::from(refusal);
        assert_eq!(problem.code, code);
        let both = problem.message.contains("`jail`") && problem.message.contains("`oci/runsc`");
        assert!(both, "{}", problem.message);
    }
}

#[test]
fn a_tier_that_the_host_lacks_is_told_without_what_is_the_hosts() {
    let why = "/usr/bin/runsc is of 2022".to_owned();
    let lacking = NodeError::Start(StartError::Unsupported { tier: GVISOR, why });
    let problem = not_made(&lacking);
    assert_eq!((problem.code, problem.kind), ("tier_unavailable", Kind::Unsupported));
    assert!(problem.message.contains("`oci/runsc`"), "{}", problem.message);
    assert!(!problem.message.contains("/usr/bin"), "{}", problem.message);
    assert_eq!(not_made(&NodeError::Start(StartError::SpawnerGone)).code, "internal");
    for saved in [StartError::SavedAsRoot, StartError::SavedWithoutRoot] {
        assert_eq!(not_made(&NodeError::Start(saved)).code, "files_of_other_rights");
    }
}

#[test]
fn limit_that_cannot_be_kept_is_named() {
    let limit = belljar_engine::LimitName::Cpus;
    let weak = belljar_engine::WeakLimit { limit, why: "there are no halves", cgroup_keeps: true };
    let problem = not_made(&NodeError::Start(StartError::Weak(weak)));
    assert_eq!((problem.code, problem.kind), ("limit_unenforceable", Kind::Unsupported));
    assert!(problem.message.contains("`cpus`: there are no halves"), "{}", problem.message);
}

#[test]
fn commands_of_builds_get_the_tier_of_a_sandbox_or_none() {
    let all = [JAIL, CRUN, GVISOR, MICROVM];
    for (default, floor, template, tenant, want) in [
        (JAIL, JAIL, None, None, Some(JAIL)),
        (GVISOR, JAIL, None, None, Some(GVISOR)),
        (JAIL, JAIL, Some(CRUN), None, Some(CRUN)),
        // Floors hold.
        (JAIL, GVISOR, None, None, Some(GVISOR)),
        (JAIL, JAIL, None, Some(GVISOR), Some(GVISOR)),
        (JAIL, JAIL, Some(JAIL), Some(GVISOR), None),
        // A machine keeps no directory, and nothing weaker takes its place.
        (JAIL, JAIL, None, Some(MICROVM), None),
        (MICROVM, JAIL, None, None, None),
        (JAIL, JAIL, Some(MICROVM), None, None),
    ] {
        let tiers = tiers(default, floor, &all);
        let chosen = tiers.for_builds(template, tenant);
        assert_eq!(chosen.ok(), want, "{default} {floor} {template:?} {tenant:?}");
        if let Err(refusal) = chosen {
            assert_eq!(Problem::from(refusal).code, "tier_too_weak");
        }
    }
}

#[test]
fn an_operator_chooses_the_tier_of_builds_above_the_floor() {
    let all = [JAIL, GVISOR, MICROVM];
    let machines = tiers(MICROVM, JAIL, &all).with_builds(Some(GVISOR)).unwrap();
    assert_eq!(machines.for_builds(None, None), Ok(GVISOR));
    assert_eq!(machines.for_builds(Some(JAIL), Some(JAIL)), Ok(GVISOR));
    assert!(machines.for_builds(None, Some(MICROVM)).is_err());
    assert!(machines.check_builds(Some(GVISOR)).is_ok());
    assert!(machines.check_builds(Some(MICROVM)).is_err());
    assert!(tiers(JAIL, JAIL, &all).check_builds(Some(GVISOR)).is_ok());
    assert!(tiers(JAIL, JAIL, &all).check_builds(Some(MICROVM)).is_err());
    assert_eq!(
        tiers(JAIL, JAIL, &all).with_builds(Some(MICROVM)),
        Err(TiersError::CannotBuild(MICROVM))
    );
    let below = TiersError::BuildsBelowFloor { builds: JAIL, floor: GVISOR };
    assert_eq!(tiers(GVISOR, GVISOR, &all).with_builds(Some(JAIL)), Err(below));
}

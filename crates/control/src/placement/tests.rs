use super::*;

const PATIENCE: Duration = Duration::from_secs(6);

fn roster(seed: u64) -> Roster {
    Roster::new(PATIENCE, Random::new(seed))
}

fn heard(number: u16, free: u32) -> Heard {
    Heard {
        number,
        epoch: 1,
        free,
        is_draining: false,
        is_warming: false,
        tiers: vec![Tier::Jail],
        warm: BTreeSet::new(),
        max_limits: Some(MaxLimits::default()),
    }
}

const WISH: Wish<'static> =
    Wish { tier: Some(Tier::Jail), limits: ChosenLimits::NONE, template: "python", not: &[] };

#[test]
fn what_was_given_counts_before_the_node_says_so() {
    let (roster, now) = (roster(1), Instant::now());
    roster.hear(heard(1, 3), now);
    let held: Vec<_> = (0..3).map(|_| roster.place(WISH, now).unwrap()).collect();
    assert_eq!(roster.place(WISH, now).unwrap_err(), NoNode::Full);
    // Two are there, one came to nothing.
    for (nth, place) in held.into_iter().enumerate() {
        if nth < 2 {
            place.used();
        }
    }
    assert_eq!(roster.free(now), 1);
    // From its next word on, the node counts them itself.
    roster.hear(heard(1, 1), now);
    assert_eq!(roster.free(now), 1);
}

#[test]
fn only_nodes_that_would_do_are_asked() {
    let (roster, now) = (roster(2), Instant::now());
    roster.hear(Heard { is_draining: true, ..heard(1, 9) }, now);
    roster.hear(Heard { tiers: vec![Tier::Microvm], ..heard(2, 9) }, now);
    assert_eq!(roster.place(WISH, now).unwrap_err(), NoNode::Tier);
    roster.hear(heard(3, 9), now);
    for _ in 0..5 {
        assert_eq!(roster.place(WISH, now).unwrap().node, 3);
    }
    let again = Wish { not: &[3], ..WISH };
    assert_eq!(roster.place(again, now).unwrap_err(), NoNode::Full);
    let later = now + PATIENCE + Duration::from_millis(1);
    assert_eq!(roster.place(WISH, later).unwrap_err(), NoNode::Tier, "nobody has been heard of");
}

#[test]
fn node_is_heard_of_for_as_long_as_there_is_patience() {
    let (roster, now) = (roster(3), Instant::now());
    let [one, two] = [1, 2].map(|number| NodeNumber::new(number).unwrap());
    roster.hear(heard(1, 9), now);
    assert!(roster.hears(one, now + PATIENCE) && !roster.hears(two, now));
    assert!(!roster.hears(one, now + PATIENCE + Duration::from_millis(1)));
}

#[test]
fn only_nodes_that_allow_the_chosen_limits_are_asked() {
    const GIB: u64 = 1 << 30;
    let (roster, now) = (roster(5), Instant::now());
    let gives = |memory_bytes, cpu_millis| {
        Some(MaxLimits { memory_bytes, cpu_millis, ..MaxLimits::default() })
    };
    let wants = |memory_bytes, cpu_millis| {
        let (memory_bytes, cpu_millis) = (Some(memory_bytes), Some(cpu_millis));
        Wish { limits: ChosenLimits { memory_bytes, cpu_millis, ..ChosenLimits::NONE }, ..WISH }
    };
    // An older one takes no request that chooses limits; the others give much of one each.
    roster.hear(Heard { max_limits: None, ..heard(1, 90) }, now);
    assert_eq!(roster.place(wants(GIB, 1000), now).unwrap_err(), NoNode::Limits);
    assert_eq!(roster.max_limits(now), None);
    roster.hear(Heard { max_limits: gives(2 * GIB, 8000), ..heard(2, 9) }, now);
    roster.hear(Heard { max_limits: gives(64 * GIB, 1000), ..heard(3, 9) }, now);
    for _ in 0..5 {
        assert_eq!(roster.place(wants(GIB, 4000), now).unwrap().node, 2);
        assert_eq!(roster.place(wants(32 * GIB, 1000), now).unwrap().node, 3);
        // Without a choice, the emptiest of all.
        assert_eq!(roster.place(WISH, now).unwrap().node, 1);
    }
    assert_eq!(roster.place(wants(32 * GIB, 4000), now).unwrap_err(), NoNode::Limits);
    assert_eq!(roster.place(wants(65 * GIB, 1000), now).unwrap_err(), NoNode::Limits);
    let full = Wish { not: &[2], ..wants(GIB, 4000) };
    assert_eq!(roster.place(full, now).unwrap_err(), NoNode::Full);
    assert_eq!(roster.max_limits(now), gives(64 * GIB, 8000));
    assert_eq!(roster.tiers(now), [Tier::Jail]);
    // The database's record of a node has them, too.
    roster.learn(Heard { max_limits: gives(GIB, 8000), ..heard(2, 9) }, now + RECENT);
    let later = now + RECENT;
    assert_eq!(roster.place(wants(2 * GIB, 4000), later).unwrap_err(), NoNode::Limits);
}

#[test]
fn a_node_that_warms_up_is_chosen_only_if_there_is_no_other() {
    let (roster, now) = (roster(4), Instant::now());
    roster.hear(Heard { is_warming: true, ..heard(1, 50) }, now);
    assert!(!roster.has_ready_node(now) && roster.has_warming_node(now));
    assert_eq!(roster.place(WISH, now).unwrap().node, 1);
    roster.hear(Heard { is_draining: true, ..heard(2, 50) }, now);
    assert!(!roster.has_ready_node(now));
    roster.hear(heard(3, 1), now);
    assert!(roster.has_ready_node(now));
    assert_eq!(roster.place(WISH, now).unwrap().node, 3);
    assert!(!roster.has_ready_node(now + PATIENCE + Duration::from_millis(1)));
    // What the database says replaces a word that is not repeated.
    roster.learn(heard(1, 9), now + RECENT);
    assert!(roster.has_ready_node(now + RECENT) && !roster.has_warming_node(now + RECENT));
}

#[test]
fn late_words_of_an_earlier_life_count_for_nothing() {
    let (roster, now) = (roster(3), Instant::now());
    roster.hear(Heard { epoch: 2, ..heard(1, 1) }, now);
    roster.hear(heard(1, 50), now);
    assert_eq!(roster.free(now), 1);
    let place = roster.place(WISH, now).unwrap();
    roster.hear(Heard { epoch: 3, ..heard(1, 4) }, now);
    drop(place);
    assert_eq!(roster.free(now), 4, "the place was on a node that is no more");
    roster.forget(1, 2);
    assert_eq!(roster.free(now), 4);
    roster.forget(1, 3);
    assert_eq!(roster.free(now), 0);
}

#[test]
fn warm_nodes_are_preferred_until_they_are_fuller_than_others() {
    let (roster, now) = (roster(4), Instant::now());
    roster.hear(Heard { warm: BTreeSet::from(["python".to_owned()]), ..heard(1, 20) }, now);
    roster.hear(heard(2, 20), now);
    let place = |_| {
        let place = roster.place(WISH, now).unwrap();
        let node = place.node;
        place.used();
        node
    };
    let nodes: Vec<_> = (0..30).map(place).collect();
    assert!(nodes[..8].iter().all(|&node| node == 1), "{nodes:?}");
    let on_second = nodes.iter().filter(|&&node| node == 2).count();
    assert!((8..=14).contains(&on_second), "{on_second}");
}

/// A day in small: four replicas that hear of a hundred nodes every two seconds
/// place sandboxes that live for minutes, at nine tenths of all places.
#[test]
fn replicas_that_know_little_fill_nodes_evenly() {
    const NODES: u16 = 100;
    const SLOTS: u32 = 50;
    let mut random = Random::new(7);
    let replicas: Vec<_> = (0..4).map(roster).collect();
    let mut taken = [0u32; NODES as usize];
    let (start, mut refused, mut placed) = (Instant::now(), 0, 0);
    for second in 0..400 {
        let now = start + Duration::from_secs(second);
        if second % 2 == 0 {
            for number in 0..NODES {
                let free = SLOTS - taken[usize::from(number)];
                replicas.iter().for_each(|replica| replica.hear(heard(number, free), now));
            }
        }
        // They live for 200 seconds on average.
        for slot in &mut taken {
            let ends = (0..*slot).filter(|_| random.below(200) == 0).count();
            *slot -= u32::try_from(ends).unwrap();
        }
        let wanted = u32::from(NODES) * SLOTS * 9 / 10;
        while taken.iter().sum::<u32>() < wanted {
            let replica = &replicas[random.below(replicas.len())];
            let place = replica.place(WISH, now).unwrap();
            let slot = &mut taken[usize::from(place.node)];
            if *slot == SLOTS {
                refused += 1;
                continue;
            }
            *slot += 1;
            placed += 1;
            place.used();
        }
    }
    let (most, least) = (taken.iter().max().unwrap(), taken.iter().min().unwrap());
    assert!(placed > 10_000, "{placed}");
    assert!(refused * 1000 < placed, "{refused} of {placed} were sent to a full node");
    assert!(most - least <= 12, "between {least} and {most}");
}

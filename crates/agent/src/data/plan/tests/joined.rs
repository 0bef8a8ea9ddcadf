//! Samples of related files, and how far figures over a join of them are off.
//!
//! Requirements: D3, D4

use std::collections::BTreeMap;
use std::fs::File;

use belljar_dataset::{Input, Options, describe};
use serde_json::Value;

use super::*;
use crate::data::estimate::{LARGEST, SPREAD};

/// Numbers that look random: the same ones for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 32)) % end
    }
}

const DEALS: u64 = 3000;
/// No deal has more activities.
const MOST_ACTIVITIES: u64 = 7;

/// Two files that a join needs: a few deals have most of the money, and some no activity.
struct World {
    deals: (&'static str, String),
    activities: (&'static str, String),
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_add(1));
        let counts: Vec<u64> = (0..DEALS).map(|_| random.below(MOST_ACTIVITIES + 1)).collect();
        let mut amount = || {
            let root = random.below(1000) + 1;
            let cents = root * root / 10;
            format!("{}.{:02}", cents / 100, cents % 100)
        };
        // In two formats by turns: the same key is written in two ways.
        let deals = if seed.is_multiple_of(2) {
            let rows = (0..DEALS).map(|n| format!("\"{}\",{},xxxxxxxx\n", id(n), amount()));
            ("deals.csv", format!("id,amount,note\n{}", rows.collect::<String>()))
        } else {
            let rows =
                (0..DEALS).map(|n| format!("{{\"id\":{},\"amount\":{}}}\n", id(n), amount()));
            ("deals.jsonl", rows.collect())
        };
        let mut activities = "deal_id,minutes\n".to_owned();
        for round in 0..MOST_ACTIVITIES {
            for (n, _) in (0..DEALS).zip(&counts).filter(|(_, count)| **count > round) {
                activities.push_str(&format!("{},{}\n", id(n), 10 + random.below(80)));
            }
        }
        Self { deals, activities: ("activities.csv", activities) }
    }

    fn bytes(&self) -> u64 {
        (self.deals.1.len() + self.activities.1.len()) as u64
    }

    /// The true figures: those of both files without sampling.
    fn truth(&self) -> [f64; 3] {
        let totals = totals(&self.deals.1, &self.activities.1);
        let count: f64 = totals.values().map(|(n, _)| n).sum();
        let sum: f64 = totals.values().map(|(_, sum)| sum).sum();
        [count, sum, sum / count]
    }
}

fn id(n: u64) -> u64 {
    100_000 + 3 * n
}

/// The amounts of deals, by id.
fn amounts(deals: &str) -> BTreeMap<u64, f64> {
    let row = |line: &str| {
        if line.starts_with('{') {
            let row: Value = serde_json::from_str(line).unwrap();
            return (row["id"].as_u64().unwrap(), row["amount"].as_f64().unwrap());
        }
        let cells: Vec<&str> = line.split(',').collect();
        (cells[0].trim_matches('"').parse().unwrap(), cells[1].parse().unwrap())
    };
    deals.lines().filter(|line| !line.starts_with("id,")).map(row).collect()
}

/// The deal of each activity.
fn visited(activities: &str) -> impl Iterator<Item = u64> {
    activities.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap())
}

/// The join of activities with their deals: for each deal its rows, and the sum of its amount over
/// them.
fn totals(deals: &str, activities: &str) -> BTreeMap<u64, (f64, f64)> {
    let amounts = amounts(deals);
    let mut totals: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for deal in visited(activities) {
        if let Some(amount) = amounts.get(&deal) {
            let (rows, sum) = totals.entry(deal).or_default();
            *rows += 1.0;
            *sum += amount;
        }
    }
    totals
}

/// Count, sum and mean with their bounds, as the code does that the description gives the model.
fn estimate(
    totals: &BTreeMap<u64, (f64, f64)>,
    one_in: f64,
    most: f64,
    (low, high): (f64, f64),
) -> [(f64, f64); 3] {
    let (spread, largest) = (SPREAD as f64, LARGEST as f64);
    let root = |of: &dyn Fn(&(f64, f64)) -> f64| {
        totals.values().map(|one| of(one).powi(2)).sum::<f64>().sqrt()
    };
    let count: f64 = totals.values().map(|(n, _)| n).sum();
    let total: f64 = totals.values().map(|(_, sum)| sum).sum();
    let mean = total / count;
    let rows = root(&|(n, _)| *n);
    let sure = count - spread * rows;
    assert!(sure > 0.0, "the sample is too small: {count} rows");
    let of_count = spread * rows + largest * most;
    let of_sum = spread * root(&|(_, sum)| *sum) + largest * most * low.abs().max(high.abs());
    let of_mean = spread * root(&|(n, sum)| sum - mean * n) + largest * most * (high - low);
    [(one_in * count, one_in * of_count), (one_in * total, one_in * of_sum), (mean, of_mean / sure)]
}

/// A world, and the two samples of it.
struct Case {
    world: World,
    plan: Plan,
    deals: String,
    activities: String,
    range: (f64, f64),
}

impl Case {
    /// So many files have to be made smaller that both are.
    async fn new(world: World, are_related: bool) -> Self {
        let place = Place::new();
        let items = [&world.deals, &world.activities].map(|(name, text)| place.put(name, text));
        let mut profile = profile(&place, &items);
        assert_eq!(profile.relationships.len(), 1, "{:?}", profile.relationships);
        if !are_related {
            profile.relationships.clear();
        }
        let amount = profile.datasets[0].root.fields.iter().find(|field| field.name == "amount");
        let numbers = amount.unwrap().numbers.unwrap();
        // Three tenths of both: a quarter of each.
        let room = copying(1 << 30, world.bytes() * 2 / 5);
        let plan = Plan::new(items.to_vec(), room, Some(profile), &place.shelf).await.unwrap();
        let deals = place.read(plan.parts[0].item()).await;
        let activities = place.read(plan.parts[1].item()).await;
        let range = (numbers.min, numbers.max);
        Self { world, plan, deals, activities, range }
    }

    /// The entry of a sample in the manifest.
    fn stated(&self, part: usize, name: &str) -> f64 {
        let manifest: Value = serde_json::from_str(&self.plan.manifest()).unwrap();
        let stated = &manifest["datasets"][part]["sample"][name];
        stated.as_f64().unwrap_or_else(|| panic!("no {name} in {manifest}"))
    }

    fn estimates(&self, most: f64) -> [(f64, f64); 3] {
        let one_in = self.stated(0, "one_in");
        estimate(&totals(&self.deals, &self.activities), one_in, most, self.range)
    }
}

fn profile(place: &Place, items: &[Item]) -> Description {
    let open = |item: &Item| File::open(place.dir.path().join(&item.name)).unwrap();
    let inputs = items.iter().map(|item| Input::new(item.name.clone(), open(item)).unwrap());
    let inputs: Vec<Input> = inputs.collect();
    describe(&inputs, &Options { threads: 1, passed: &|_| {} }).unwrap()
}

#[tokio::test]
async fn figures_over_a_join_of_two_samples_are_within_the_bound_in_all_of_100_cases() {
    for seed in 0..100 {
        let case = Case::new(World::new(seed), true).await;
        let [deals, activities] = &case.plan.parts[..] else { panic!("{:?}", case.plan) };
        assert_eq!((deals.halvings, activities.halvings), (2, 2), "case {seed}");
        let most = case.stated(0, "most") * case.stated(1, "most");
        assert!((7.0..30.0).contains(&most), "case {seed}: {most}");
        let said = case.plan.describe();
        let code = format!("{SPREAD} * root(t) + {LARGEST} * most * largest");
        for told in [
            "Of the values of `id`, one in 4 was drawn",
            "Of the values of `deal_id`, one in 4 was drawn",
            "the same values in activities.csv (`deal_id`)",
            "probability of at least 99.9 %",
            code.as_str(),
        ] {
            assert!(said.contains(told), "no {told} in {said}");
        }
        // Nothing of a deal that was drawn is missing.
        let (all, drawn) = (amounts(&case.world.deals.1), amounts(&case.deals));
        let whole = totals(&case.world.deals.1, &case.world.activities.1);
        let joined = totals(&case.deals, &case.activities);
        assert!(drawn.len() > 500 && drawn.len() < all.len() / 3, "case {seed}: {}", drawn.len());
        assert!(visited(&case.activities).all(|deal| drawn.contains_key(&deal)), "case {seed}");
        let kept: BTreeMap<_, _> =
            whole.into_iter().filter(|(deal, _)| drawn.contains_key(deal)).collect();
        assert_eq!(joined, kept, "case {seed}");
        let truth = case.world.truth();
        for (what, (truth, (figure, bound))) in
            truth.into_iter().zip(case.estimates(most)).enumerate()
        {
            let error = (figure - truth).abs();
            assert!(error <= bound, "case {seed}, figure {what}: {figure} ± {bound}, not {truth}");
            // The bound is useful: it is less than the error of the control below.
            assert!(bound < 0.7 * truth, "case {seed}, figure {what}: {figure} ± {bound}");
        }
    }
}

/// The control of the case above: records that were drawn apart hardly meet.
#[tokio::test]
async fn samples_that_are_drawn_apart_break_the_bound() {
    for seed in 0..10 {
        let case = Case::new(World::new(seed), false).await;
        assert!(case.plan.parts.iter().all(|part| part.halvings == 2 && part.key.is_none()));
        let said = case.plan.describe();
        assert!(said.contains("Do not join it with another sample"), "{said}");
        let most = MOST_ACTIVITIES as f64;
        let [count, sum, _] = case.estimates(most);
        let [true_count, true_sum, _] = case.world.truth();
        for ((figure, bound), truth) in [(count, true_count), (sum, true_sum)] {
            assert!((figure - truth).abs() > bound, "case {seed}: {figure} ± {bound} for {truth}");
        }
    }
}

#[tokio::test]
async fn a_key_with_one_value_in_half_of_the_records_is_not_drawn_by() {
    let mut world = World::new(0);
    let usual: Vec<String> = world.activities.1.lines().skip(1).map(str::to_owned).collect();
    let rows = usual.iter().map(|row| format!("{row}\n{},30\n", id(0)));
    world.activities.1 = format!("deal_id,minutes\n{}", rows.collect::<String>());
    let case = Case::new(world, true).await;
    assert!(case.plan.parts.iter().all(|part| part.is_sample() && part.key.is_none()));
    let said = case.plan.describe();
    assert!(said.contains("It was not drawn by `deal_id`: one value has up to"), "{said}");
}

#[tokio::test]
async fn records_without_a_key_are_drawn_each_by_itself() {
    let mut world = World::new(0);
    let unkeyed = ",30\n".repeat(2000);
    world.activities.1.push_str(&unkeyed);
    let case = Case::new(world, true).await;
    let [deals, activities] = &case.plan.parts[..] else { panic!("{:?}", case.plan) };
    assert!(deals.key.is_some() && activities.key.is_some(), "{:?}", case.plan);
    let drawn = activities.drawn.as_ref().unwrap();
    assert_eq!(drawn.unkeyed, 2000);
    let kept = case.activities.lines().filter(|line| line.starts_with(',')).count();
    // Five standard deviations around the expected number.
    let expected = 2000.0 / case.stated(1, "one_in");
    assert!((kept as f64 - expected).abs() < 5.0 * expected.sqrt(), "{kept} of {expected}");
    assert!(case.plan.describe().contains("2,000 records of the file have no `deal_id`"));
}

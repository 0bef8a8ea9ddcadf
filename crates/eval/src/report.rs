//! The report of an evaluation: groups, tasks and comparisons, computed from trials.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::stats::{Interval, PairedDifference, Repeats, float, mean, paired, spread, wilson};
use crate::trial::Trial;

/// The format of the JSON document.
const VERSION: u32 = 1;

/// The facts of the grid that trials do not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportHead {
    pub name: String,
    pub models: Vec<String>,
    /// One empty name if there are no variants.
    pub variants: Vec<String>,
    pub tasks: Vec<String>,
    pub repeats: u32,
    /// Of the bootstrap.
    pub seed: u64,
    pub is_replay: bool,
    /// The reason why trials are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub version: u32,
    #[serde(flatten)]
    pub head: ReportHead,
    pub groups: Vec<Group>,
    pub comparisons: Vec<Comparison>,
    pub tasks_by_group: Vec<TaskLine>,
    pub trials: Vec<Trial>,
}

/// All trials of one model and one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub model: String,
    pub variant: String,
    pub trials: u64,
    /// Trials with a score, and those of them that passed.
    pub scored: u64,
    pub passed: u64,
    pub pass_rate: Option<f64>,
    /// It takes tasks as independent, and repeats of a task only as far as they differ.
    pub pass_interval: Option<Interval>,
    pub mean_score: Option<f64>,
    /// The standard deviation of the mean score between repeats of the grid.
    pub spread_of_repeats: Option<f64>,
    /// The mean over tasks of the standard deviation between repeats of a task.
    pub spread_within_tasks: Option<f64>,
    pub nano_dollars: u64,
    pub judge_nano_dollars: u64,
    pub nano_dollars_per_pass: Option<u64>,
    pub wall_ms: Option<u64>,
    pub model_ms: Option<u64>,
    pub turns: Option<f64>,
    pub tokens: u64,
    /// Trials that did not pass, by category.
    pub errors: BTreeMap<String, u64>,
    pub guards: BTreeMap<String, u64>,
}

/// One task of one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskLine {
    pub task: String,
    pub model: String,
    pub variant: String,
    pub scored: u64,
    pub passed: u64,
    pub mean_score: Option<f64>,
    pub spread: Option<f64>,
}

/// Two groups that differ in the model or in the variant alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub first: [String; 2],
    pub second: [String; 2],
    #[serde(flatten)]
    pub paired: PairedDifference,
}

impl Report {
    /// Computes the report. The order of the trials does not matter.
    pub fn new(head: ReportHead, mut trials: Vec<Trial>) -> Self {
        trials.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let pair = |model: &String, variant: &String| [model.clone(), variant.clone()];
        let names: Vec<[String; 2]> = head
            .models
            .iter()
            .flat_map(|model| head.variants.iter().map(move |variant| pair(model, variant)))
            .collect();
        let of = |name: &[String; 2]| -> Vec<&Trial> {
            let is_own =
                |trial: &&Trial| trial.key.model == name[0] && trial.key.variant == name[1];
            trials.iter().filter(is_own).collect()
        };
        let groups = names.iter().map(|name| Group::new(name, &of(name))).collect();
        let lines = names.iter().flat_map(|name| {
            let own = of(name);
            head.tasks.iter().map(move |task| TaskLine::new(task, name, &own)).collect::<Vec<_>>()
        });
        let tasks_by_group = lines.collect();
        let comparisons = pairs(&names)
            .filter_map(|(first, second)| {
                let paired = compared(&of(first), &of(second), head.seed)?;
                Some(Comparison { first: first.clone(), second: second.clone(), paired })
            })
            .collect();
        Self { version: VERSION, head, groups, comparisons, tasks_by_group, trials }
    }

    /// The lowest mean score of a group; none: a group has no score.
    pub fn lowest_score(&self) -> Option<f64> {
        let scores: Option<Vec<f64>> = self.groups.iter().map(|group| group.mean_score).collect();
        scores?.into_iter().min_by(f64::total_cmp)
    }

    /// Trials without a score.
    pub fn unscored(&self) -> usize {
        self.trials.iter().filter(|trial| trial.score.is_none()).count()
    }
}

/// Pairs of groups that have the model or the variant in common.
fn pairs(names: &[[String; 2]]) -> impl Iterator<Item = (&[String; 2], &[String; 2])> {
    let all = names.iter().enumerate();
    let pairs =
        all.flat_map(move |(at, first)| names[at + 1..].iter().map(move |second| (first, second)));
    pairs.filter(|(first, second)| first[0] == second[0] || first[1] == second[1])
}

/// The mean score of each task.
fn by_task(trials: &[&Trial]) -> BTreeMap<String, f64> {
    let mut scores: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for trial in trials {
        if let Some(score) = trial.score {
            scores.entry(&trial.key.task).or_default().push(score);
        }
    }
    let means = scores.into_iter().filter_map(|(task, all)| Some((task.to_owned(), mean(&all)?)));
    means.collect()
}

fn compared(first: &[&Trial], second: &[&Trial], seed: u64) -> Option<PairedDifference> {
    let (first, second) = (by_task(first), by_task(second));
    let both: BTreeSet<&String> = first.keys().filter(|task| second.contains_key(*task)).collect();
    let scores = |of: &BTreeMap<String, f64>| -> Vec<f64> {
        both.iter().filter_map(|task| of.get(*task).copied()).collect()
    };
    paired(&scores(&first), &scores(&second), seed)
}

impl Group {
    fn new([model, variant]: &[String; 2], trials: &[&Trial]) -> Self {
        let scored: Vec<&&Trial> = trials.iter().filter(|trial| trial.score.is_some()).collect();
        let passed = scored.iter().filter(|trial| trial.passed).count() as u64;
        let scores: Vec<f64> = trials.iter().filter_map(|trial| trial.score).collect();
        let sum = |of: fn(&Trial) -> u64| trials.iter().map(|trial| of(trial)).sum::<u64>();
        let count = trials.len() as u64;
        let per_trial = |of: fn(&Trial) -> u64| sum(of).checked_div(count);
        let nano_dollars = sum(|trial| trial.figures.nano_dollars);
        let mut errors: BTreeMap<String, u64> = BTreeMap::new();
        let mut guards: BTreeMap<String, u64> = BTreeMap::new();
        for trial in trials {
            if let Some(category) = trial.category() {
                *errors.entry(category.to_owned()).or_default() += 1;
            }
            for (guard, times) in &trial.figures.guards {
                *guards.entry(guard.clone()).or_default() += times;
            }
        }
        Self {
            model: model.clone(),
            variant: variant.clone(),
            trials: count,
            scored: scored.len() as u64,
            passed,
            pass_rate: (!scored.is_empty()).then(|| float(passed) / float(scored.len() as u64)),
            pass_interval: wilson(&repeats(&scored)),
            mean_score: mean(&scores),
            spread_of_repeats: spread(&means(trials, |trial| trial.key.repeat.to_string())),
            spread_within_tasks: mean(&spreads(trials)),
            nano_dollars,
            judge_nano_dollars: sum(|trial| trial.judge_nano_dollars),
            nano_dollars_per_pass: nano_dollars.checked_div(passed),
            wall_ms: per_trial(|trial| trial.figures.wall_ms),
            model_ms: per_trial(|trial| trial.figures.model_ms),
            turns: (count > 0).then(|| float(sum(|trial| trial.figures.turns)) / float(count)),
            tokens: sum(|trial| trial.figures.tokens),
            errors,
            guards,
        }
    }
}

/// The scored trials of each task.
fn repeats(scored: &[&&Trial]) -> Vec<Repeats> {
    let mut tasks: BTreeMap<&str, Repeats> = BTreeMap::new();
    for trial in scored {
        let task = tasks.entry(&trial.key.task).or_default();
        task.scored += 1;
        task.passed += u64::from(trial.passed);
    }
    tasks.into_values().collect()
}

fn grouped(trials: &[&Trial], by: impl Fn(&Trial) -> String) -> BTreeMap<String, Vec<f64>> {
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for trial in trials {
        if let Some(score) = trial.score {
            groups.entry(by(trial)).or_default().push(score);
        }
    }
    groups
}

fn means(trials: &[&Trial], by: impl Fn(&Trial) -> String) -> Vec<f64> {
    grouped(trials, by).values().filter_map(|scores| mean(scores)).collect()
}

fn spreads(trials: &[&Trial]) -> Vec<f64> {
    let tasks = grouped(trials, |trial| trial.key.task.clone());
    tasks.values().filter_map(|scores| spread(scores)).collect()
}

impl TaskLine {
    fn new(task: &str, [model, variant]: &[String; 2], trials: &[&Trial]) -> Self {
        let own: Vec<&&Trial> = trials.iter().filter(|trial| trial.key.task == task).collect();
        let scores: Vec<f64> = own.iter().filter_map(|trial| trial.score).collect();
        Self {
            task: task.to_owned(),
            model: model.clone(),
            variant: variant.clone(),
            scored: scores.len() as u64,
            passed: own.iter().filter(|trial| trial.passed).count() as u64,
            mean_score: mean(&scores),
            spread: spread(&scores),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::trial::{TrialFigures, TrialKey};

    fn trial(task: &str, variant: &str, repeat: u32, score: Option<f64>) -> Trial {
        let key =
            TrialKey { task: task.into(), model: "m".into(), variant: variant.into(), repeat };
        let figures =
            TrialFigures { nano_dollars: 10, wall_ms: 100, turns: 3, ..TrialFigures::default() };
        Trial {
            run: format!("{task}{variant}{repeat}"),
            key,
            link: None,
            outcome: "answered".into(),
            error: None,
            answer: Some("a <b>".into()),
            score,
            passed: score == Some(1.0),
            reason: "why".into(),
            figures,
            judged_by: Vec::new(),
            judge_nano_dollars: 0,
        }
    }

    /// Three tasks, two variants, two repeats: `on` is better at every task but one.
    pub(crate) fn report() -> Report {
        let head = ReportHead {
            name: "planted".into(),
            models: vec!["m".into()],
            variants: vec!["off".into(), "on".into()],
            tasks: ["a", "b", "c"].map(String::from).to_vec(),
            repeats: 2,
            seed: 0,
            is_replay: false,
            incomplete: None,
        };
        let mut trials = Vec::new();
        for repeat in 1..=2 {
            trials.push(trial("a", "off", repeat, Some(0.0)));
            trials.push(trial("a", "on", repeat, Some(1.0)));
            trials.push(trial("b", "off", repeat, Some(if repeat == 1 { 0.0 } else { 1.0 })));
            trials.push(trial("b", "on", repeat, Some(1.0)));
            trials.push(trial("c", "off", repeat, Some(1.0)));
            trials.push(trial("c", "on", repeat, (repeat == 1).then_some(1.0)));
        }
        Report::new(head, trials)
    }

    #[test]
    fn groups_are_summed_and_unscored_cells_left_out() {
        let report = report();
        let [off, on] = &report.groups[..] else { panic!("{:?}", report.groups) };
        assert_eq!((off.trials, off.scored, off.passed), (6, 6, 3));
        assert_eq!((on.trials, on.scored, on.passed), (6, 5, 5));
        assert_eq!((off.pass_rate, on.pass_rate), (Some(0.5), Some(1.0)));
        // Repeats had 1/3 and 2/3.
        assert!((off.spread_of_repeats.unwrap() - 0.235_702).abs() < 1e-5);
        // Only task b varied.
        assert!((off.spread_within_tasks.unwrap() - 0.235_702).abs() < 1e-5);
        assert_eq!((off.nano_dollars, off.nano_dollars_per_pass), (60, Some(20)));
        assert_eq!((off.wall_ms, off.turns), (Some(100), Some(3.0)));
        assert_eq!(off.errors, BTreeMap::from([("wrong".to_owned(), 3)]));
        assert_eq!(on.errors, BTreeMap::from([("unscored".to_owned(), 1)]));
        assert_eq!((report.lowest_score(), report.unscored()), (Some(0.5), 1));
    }

    /// More runs of the same tasks with the same results are no more evidence.
    #[test]
    fn the_interval_is_not_narrowed_by_identical_repeats() {
        let interval = |repeats: u32| {
            let head = ReportHead { repeats, variants: vec!["v".into()], ..report().head };
            let of = |repeat| {
                ["a", "b", "c"].map(|task| trial(task, "v", repeat, Some(f64::from(task != "a"))))
            };
            let report = Report::new(head, (1..=repeats).flat_map(of).collect());
            report.groups[0].pass_interval.unwrap()
        };
        let (one, five) = (interval(1), interval(5));
        assert!((one.low - five.low).abs() < 1e-9, "{one:?} {five:?}");
        assert!((one.high - five.high).abs() < 1e-9, "{one:?} {five:?}");
    }

    #[test]
    fn groups_are_compared_task_by_task() {
        let report = report();
        let [compared] = &report.comparisons[..] else { panic!("{:?}", report.comparisons) };
        assert_eq!((&*compared.first[1], &*compared.second[1]), ("off", "on"));
        let paired = compared.paired;
        assert_eq!((paired.tasks, paired.better, paired.worse), (3, 2, 0));
        assert!((paired.difference - 0.5).abs() < 1e-9 && (paired.p - 0.5).abs() < 1e-9);
        let lines: Vec<_> = report.tasks_by_group.iter().map(|line| line.passed).collect();
        assert_eq!(lines, [0, 1, 2, 2, 2, 1]);
    }

    #[test]
    fn the_order_of_cells_does_not_matter() {
        let one = report();
        let mut trials = one.trials.clone();
        trials.reverse();
        let other = Report::new(one.head.clone(), trials);
        assert_eq!(other, one);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap().trials, one.trials);
    }

    #[test]
    fn groups_that_have_nothing_in_common_are_not_compared() {
        let name = |model: &str, variant: &str| [model.to_owned(), variant.to_owned()];
        let names = [name("a", "x"), name("a", "y"), name("b", "x"), name("b", "y")];
        assert_eq!(pairs(&names).count(), 4);
    }
}

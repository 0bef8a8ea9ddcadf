//! Statistics of scores: small, and held to known values by tests.

use serde::{Deserialize, Serialize};

/// The quantile of the normal distribution for 95 % on both sides.
const Z: f64 = 1.959_963_984_540_054;
/// Samples that a bootstrap draws, and the places of its 95 % interval among them.
const RESAMPLES: usize = 10_000;
const LOW: usize = 249;
const HIGH: usize = 9_750;

/// A 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// Two groups compared, task by task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairedDifference {
    /// Tasks that both groups have scores of.
    pub tasks: u64,
    /// The mean of the second group's scores minus those of the first.
    pub difference: f64,
    /// By a bootstrap over tasks.
    pub interval: Interval,
    /// Tasks that the second group did better, and worse.
    pub better: u64,
    pub worse: u64,
    /// Of the sign test on both sides: how likely so uneven a count is if none is better.
    pub p: f64,
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / float(values.len() as u64))
}

/// The standard deviation of a sample; none: it has less than two values.
pub fn spread(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / float(values.len() as u64 - 1)).sqrt())
}

/// The scored trials of one task, and those of them that passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repeats {
    pub passed: u64,
    pub scored: u64,
}

/// Wilson's interval of the share of trials that passed. It holds for few trials, and for none or
/// all passed. Repeats of a task count as one trial as far as they agree with each other.
pub fn wilson(tasks: &[Repeats]) -> Option<Interval> {
    let sum = |of: fn(&Repeats) -> u64| tasks.iter().map(of).sum::<u64>();
    let (passed, all) = (sum(|task| task.passed), sum(|task| task.scored));
    if all == 0 {
        return None;
    }
    let (n, share) = (independent(tasks), float(passed) / float(all));
    let squared = Z * Z;
    let middle = share + squared / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + squared / (4.0 * n * n)).sqrt();
    let whole = 1.0 + squared / n;
    // The ends are exact there, and rounding is not.
    let low = if passed == 0 { 0.0 } else { (middle - half) / whole };
    let high = if passed == all { 1.0 } else { (middle + half) / whole };
    Some(Interval { low, high })
}

/// The number of independent trials whose share varies as much as that of these ones: their
/// variance by the sum of squares over tasks (Kish's effective sample size).
///
/// It is the number of tasks if each task has as many repeats and they are all the same, or if all
/// or no trials passed; then nothing shows that repeats are independent. It is never more than the
/// number of trials.
fn independent(tasks: &[Repeats]) -> f64 {
    let sum = |of: fn(&Repeats) -> u64| float(tasks.iter().map(of).sum::<u64>());
    let (passed, all) = (sum(|task| task.passed), sum(|task| task.scored));
    let share = passed / all;
    let squares =
        |of: &dyn Fn(&Repeats) -> f64| -> f64 { tasks.iter().map(|task| of(task).powi(2)).sum() };
    let alone = share * (1.0 - share);
    if alone == 0.0 {
        return all * all / squares(&|task| float(task.scored));
    }
    let between = squares(&|task| float(task.passed) - share * float(task.scored));
    (alone * all * all / between).min(all)
}

/// Compares scores of the same tasks, in one order; none: there is no task.
pub fn paired(first: &[f64], second: &[f64], seed: u64) -> Option<PairedDifference> {
    let differences: Vec<f64> = first.iter().zip(second).map(|(one, two)| two - one).collect();
    let difference = mean(&differences)?;
    let count = |is: fn(&f64) -> bool| differences.iter().filter(|it| is(it)).count() as u64;
    let (better, worse) = (count(|it| *it > 0.0), count(|it| *it < 0.0));
    Some(PairedDifference {
        tasks: differences.len() as u64,
        difference,
        interval: bootstrap(&differences, seed),
        better,
        worse,
        p: sign_test(better, worse),
    })
}

/// The interval of a mean by percentiles of means of samples drawn with replacement.
fn bootstrap(values: &[f64], seed: u64) -> Interval {
    let mut random = Random(seed);
    let size = values.len() as u64;
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn = (0..size).map(|_| values[random.below(size)]);
            drawn.sum::<f64>() / float(size)
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    Interval { low: means[LOW], high: means[HIGH] }
}

/// The exact binomial test of as many signs of each kind.
fn sign_test(better: u64, worse: u64) -> f64 {
    let (all, fewer) = (better + worse, better.min(worse));
    let mut log_choices = 0.0;
    let mut tail = 0.0;
    for count in 0..=fewer {
        if count > 0 {
            log_choices += (float(all - count + 1) / float(count)).ln();
        }
        tail += (log_choices - float(all) * std::f64::consts::LN_2).exp();
    }
    (2.0 * tail).min(1.0)
}

/// SplitMix64: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> usize {
        // The bias of the remainder is far too small to be seen.
        usize::try_from(self.next() % bound).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(one: f64, other: f64) {
        assert!((one - other).abs() < 5e-5, "{one} is not {other}");
    }

    /// Tasks with one repeat each.
    fn single(passed: u64, all: u64) -> Vec<Repeats> {
        (0..all).map(|at| Repeats { passed: u64::from(at < passed), scored: 1 }).collect()
    }

    /// Newcombe's examples (Statistics in Medicine 17, 1998), and the rule for 0 and all.
    #[test]
    fn wilson_gives_published_intervals() {
        for (passed, all, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
            (29, 29, 0.8830, 1.0),
        ] {
            let interval = wilson(&single(passed, all)).unwrap();
            close(interval.low, low);
            close(interval.high, high);
        }
        assert_eq!((wilson(&[]), wilson(&[Repeats::default()])), (None, None));
    }

    /// The same answers again tell nothing new.
    #[test]
    fn identical_repeats_do_not_narrow_the_interval() {
        for (passed, all) in [(0, 4), (1, 4), (3, 10), (10, 10)] {
            let once = single(passed, all);
            let again = |times: u64| -> Vec<Repeats> {
                let of = |it: &Repeats| Repeats { passed: it.passed * times, scored: times };
                once.iter().map(of).collect()
            };
            for times in [2, 5, 100] {
                let (one, many) = (wilson(&once).unwrap(), wilson(&again(times)).unwrap());
                close(one.low, many.low);
                close(one.high, many.high);
            }
        }
    }

    /// Repeats that vary like coins count each; others count in between.
    #[test]
    fn repeats_that_vary_narrow_the_interval() {
        let task = |passed| Repeats { passed, scored: 4 };
        let width = |tasks: &[Repeats]| wilson(tasks).map(|it| it.high - it.low).unwrap();
        let even = width(&[task(2), task(2), task(2), task(2)]);
        let some = width(&[task(1), task(3), task(1), task(3)]);
        let none = width(&[task(0), task(4), task(0), task(4)]);
        close(even, width(&single(8, 16)));
        close(none, width(&single(2, 4)));
        assert!(even < some + 1e-9 && some < none, "{even} {some} {none}");
        // A task that was repeated often does not outweigh the others.
        let unequal = [Repeats { passed: 9, scored: 9 }, task(4), task(4)];
        assert!(width(&unequal) > width(&single(3, 3)), "{unequal:?}");
    }

    #[test]
    fn the_spread_is_that_of_a_sample() {
        close(spread(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap(), 2.138_089_9);
        assert_eq!((spread(&[1.0]), mean(&[])), (None, None));
        assert_eq!((spread(&[3.0, 3.0]), mean(&[1.0, 2.0])), (Some(0.0), Some(1.5)));
    }

    /// Two-sided binomial tests with p = 1/2, as in tables.
    #[test]
    fn the_sign_test_is_exact() {
        for (better, worse, p) in [
            (0, 0, 1.0),
            (1, 0, 1.0),
            (5, 0, 0.0625),
            (9, 1, 0.021_484_4),
            (8, 2, 0.109_375),
            (5, 5, 1.0),
        ] {
            close(sign_test(better, worse), p);
            close(sign_test(worse, better), p);
        }
        assert!(sign_test(2_000, 0) < 1e-100);
    }

    #[test]
    fn a_bootstrap_is_the_same_for_the_same_seed() {
        let (first, second) = ([0.0, 0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0, 0.0]);
        let compared = paired(&first, &second, 7).unwrap();
        assert_eq!(paired(&first, &second, 7), Some(compared));
        assert_eq!((compared.tasks, compared.better, compared.worse), (5, 2, 1));
        close(compared.difference, 0.2);
        assert!(compared.interval.low < 0.2 && compared.interval.high > 0.2, "{compared:?}");
        // The same everywhere: nothing is left to chance.
        let even = paired(&[0.0; 4], &[0.5; 4], 1).unwrap();
        assert_eq!(even.interval, Interval { low: 0.5, high: 0.5 });
        assert_eq!(paired(&[], &[], 1), None);
    }

    /// The interval of a mean of many values is that of the normal distribution.
    #[test]
    fn a_bootstrap_has_the_width_of_the_standard_error() {
        let values: Vec<f64> = (0..400).map(|at| f64::from(at % 2)).collect();
        let Interval { low, high } = bootstrap(&values, 3);
        let half = Z * 0.5 / 20.0;
        assert!(
            (low - (0.5 - half)).abs() < 0.006 && (high - (0.5 + half)).abs() < 0.006,
            "{low} {high}"
        );
    }
}

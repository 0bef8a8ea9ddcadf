//! What is computed of rows, and the words that say it.

use super::question::DIFFERENT;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Count,
    Sum,
    Mean,
    Median,
    Min,
    Max,
    Std,
    Distinct,
    Correlation,
}

impl Measure {
    pub(super) fn of(words: &[String]) -> Option<Self> {
        let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
        let pair = |first: &str, second: &str| {
            words.windows(2).any(|pair| pair[0] == first && pair[1] == second)
        };
        Some(match () {
            () if has(&["correlation", "correlate", "correlated", "pearson"]) => Self::Correlation,
            () if has(&["average", "mean", "avg", "typical"]) => Self::Mean,
            () if has(&["median"]) => Self::Median,
            () if has(&["deviation", "std", "spread"]) => Self::Std,
            () if has(&DIFFERENT) => Self::Distinct,
            () if pair("how", "many") || has(&["count", "often", "frequent", "frequency"]) => {
                Self::Count
            }
            () if has(&["headcount"]) => Self::Count,
            () if pair("number", "of") || pair("most", "common") => Self::Count,
            () if has(&["total", "sum", "overall", "altogether"]) || pair("how", "much") => {
                Self::Sum
            }
            () if has(&["maximum", "max"]) => Self::Max,
            () if has(&["minimum", "min"]) => Self::Min,
            () => return None,
        })
    }

    /// Several that stand together: "min, max and mean". None: there is only one.
    pub(super) fn all(words: &[String]) -> Vec<Self> {
        let one = |word: &String| {
            let several = [Self::Mean, Self::Median, Self::Min, Self::Max, Self::Sum];
            several.into_iter().find(|measure| measure.words().contains(&word.as_str()))
        };
        let Some(start) = words.iter().position(|word| one(word).is_some()) else { return vec![] };
        let run = words[start..].iter().take_while(|word| one(word).is_some() || *word == "and");
        let run: Vec<Self> = run.filter_map(one).collect();
        if run.len() > 1 { run } else { vec![] }
    }

    /// Whether a word says what to compute.
    pub(super) fn says(word: &str) -> bool {
        let plain = [Self::Mean, Self::Median, Self::Sum, Self::Std, Self::Min, Self::Max];
        let counts = ["many", "number", "count", "much"];
        counts.contains(&word) || plain.iter().any(|measure| measure.words().contains(&word))
    }

    /// Words that say it. "Total" goes with "number of", "how many" with "different".
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            Self::Count => {
                &["count", "often", "frequent", "frequency", "number", "common", "total"]
            }
            Self::Sum => &["total", "sum"],
            Self::Mean => &["average", "mean", "avg", "typical"],
            Self::Median => &["median"],
            Self::Min => &["minimum", "min"],
            Self::Max => &["maximum", "max"],
            Self::Std => &["standard", "deviation", "std", "spread"],
            Self::Distinct => &["different", "distinct", "unique", "number", "count", "total"],
            Self::Correlation => &["correlation", "correlate", "correlated", "pearson", "between"],
        }
    }

    /// As the code calls it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Min => "min",
            Self::Max => "max",
            Self::Std => "std",
            Self::Distinct => "distinct",
            Self::Correlation => "correlation",
        }
    }
}

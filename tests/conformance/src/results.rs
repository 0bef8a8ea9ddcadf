//! What a run has shown of a tier, kept in a file so that tiers that run at
//! different times stand in one table.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use belljar_domain::Tier;
use serde::{Deserialize, Serialize};

use crate::features::Lack;

/// What came of a case, or of a feature: of all cases that need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) enum Came {
    Passed,
    Failed,
    /// The tier has no such thing, and why.
    No(String),
    /// The host or the template that it ran with has no such thing, and why.
    NotHere(String),
    /// No case has shown it.
    Unseen,
}

impl From<Lack> for Came {
    fn from(lack: Lack) -> Self {
        match lack {
            Lack::Tier(why) => Self::No(why.to_owned()),
            Lack::Here(why) => Self::NotHere(why.to_owned()),
        }
    }
}

impl fmt::Display for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed => f.write_str("failed"),
            Self::No(why) => write!(f, "no: {why}"),
            Self::NotHere(why) => write!(f, "not here: {why}"),
            Self::Unseen => f.write_str("unseen"),
        }
    }
}

impl From<Came> for String {
    fn from(came: Came) -> Self {
        came.to_string()
    }
}

impl TryFrom<String> for Came {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "passed" => Ok(Self::Passed),
            "failed" => Ok(Self::Failed),
            "unseen" => Ok(Self::Unseen),
            _ => match text.split_once(": ") {
                Some(("no", why)) => Ok(Self::No(why.to_owned())),
                Some(("not here", why)) => Ok(Self::NotHere(why.to_owned())),
                _ => Err(format!("`{text}` is nothing that can come of a case")),
            },
        }
    }
}

impl Came {
    /// Whether both say the same of a tier. What a host lacks says nothing of it.
    fn agrees(&self, other: &Self) -> bool {
        let of_a_host = |came: &Self| matches!(came, Self::NotHere(_) | Self::Unseen);
        self == other || of_a_host(self) || of_a_host(other)
    }
}

/// Everything that one run has shown of a tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) tier: Tier,
    /// By title.
    pub(crate) features: BTreeMap<String, Came>,
    /// By full name.
    pub(crate) cases: BTreeMap<String, Came>,
}

impl Results {
    pub(crate) fn load(dir: &Path, tier: Tier) -> anyhow::Result<Option<Self>> {
        let path = file(dir, tier);
        match fs::read(&path) {
            Ok(bytes) => {
                let found = serde_json::from_slice(&bytes);
                found.map(Some).with_context(|| format!("understand {}", path.display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
        }
    }

    /// This run, with what an earlier one has shown besides.
    pub(crate) fn over(self, before: Self) -> Self {
        let Self { tier, features, cases } = self;
        let mut all = before;
        all.tier = tier;
        all.cases.extend(cases);
        // A part says nothing of features by itself: all cases together do.
        for (title, came) in features {
            let shown = all.shown(&title);
            let came =
                if matches!(came, Came::No(_)) || shown == Came::Unseen { came } else { shown };
            all.features.insert(title, came);
        }
        all
    }

    /// This part of a run, with another part of the same run. A case that both ran has
    /// passed if it passed twice.
    pub(crate) fn beside(self, other: Self) -> Self {
        let failed = |(_, came): &(&String, &Came)| **came == Came::Failed;
        let names: Vec<String> =
            self.cases.iter().filter(failed).map(|(name, _)| name.clone()).collect();
        let mut all = other.over(self);
        all.cases.extend(names.into_iter().map(|name| (name, Came::Failed)));
        all
    }

    /// What every case that needs a feature has shown of it.
    fn shown(&self, title: &str) -> Came {
        let needs =
            |case: &&crate::suite::Case| case.needs.iter().any(|need| need.title() == title);
        let mut came = Came::Unseen;
        for case in crate::cases::all().filter(needs) {
            match self.cases.get(&case.full_name()) {
                Some(Came::Failed) => return Came::Failed,
                Some(Came::Passed) => came = Came::Passed,
                _ => {}
            }
        }
        came
    }

    pub(crate) fn save(&self, dir: &Path) -> anyhow::Result<()> {
        let path = file(dir, self.tier);
        fs::create_dir_all(dir)?;
        fs::write(&path, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| format!("write {}", path.display()))
    }

    /// What is said otherwise in `kept`. A run of some cases is compared in those.
    pub(crate) fn differences(&self, kept: &Self, whole: bool) -> Vec<String> {
        let mut found = Vec::new();
        for (name, came) in &self.cases {
            match kept.cases.get(name) {
                Some(before) if came.agrees(before) => {}
                Some(before) => found.push(format!("{name}: {came}; kept: {before}")),
                None => found.push(format!("{name}: {came}; not kept")),
            }
        }
        if whole {
            let gone = kept.cases.keys().filter(|name| !self.cases.contains_key(*name));
            found.extend(gone.map(|name| format!("{name}: kept, but there is no such case")));
            for (title, came) in &self.features {
                let before = kept.features.get(title).unwrap_or(&Came::Failed);
                if !came.agrees(before) {
                    found.push(format!("{title}: {came}; kept: {before}"));
                }
            }
        }
        found
    }
}

fn file(dir: &Path, tier: Tier) -> PathBuf {
    dir.join(format!("{}.json", tier.as_str().replace('/', "-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(cases: &[(&str, Came)]) -> Results {
        let cases = cases.iter().map(|(name, came)| ((*name).to_owned(), came.clone()));
        Results { tier: Tier::Jail, features: BTreeMap::new(), cases: cases.collect() }
    }

    #[test]
    fn what_is_kept_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let kept = results(&[
            ("a::b", Came::Passed),
            ("a::c", Came::No("a reason: with a colon".into())),
            ("a::d", Came::NotHere("no compiler".into())),
        ]);
        kept.save(dir.path()).unwrap();
        assert_eq!(Results::load(dir.path(), Tier::Jail).unwrap(), Some(kept));
        assert_eq!(Results::load(dir.path(), Tier::Microvm).unwrap(), None);
    }

    #[test]
    fn a_part_is_laid_over_what_was_seen_before() {
        let before = results(&[("a::b", Came::Failed), ("a::c", Came::Passed)]);
        let both = results(&[("a::b", Came::Passed)]).over(before);
        assert_eq!(both, results(&[("a::b", Came::Passed), ("a::c", Came::Passed)]));
    }

    #[test]
    fn a_case_of_two_parts_fails_if_it_failed_in_one() {
        let bad = results(&[("a::b", Came::Failed), ("a::c", Came::Passed)]);
        let good = results(&[("a::b", Came::Passed), ("a::d", Came::Passed)]);
        for both in [bad.clone().beside(good.clone()), good.beside(bad)] {
            let want = [("a::b", Came::Failed), ("a::c", Came::Passed), ("a::d", Came::Passed)];
            assert_eq!(both, results(&want));
        }
    }

    #[test]
    fn a_part_that_passed_does_not_hide_a_failure_beside_it() {
        let title = crate::features::Feature::Pause.title().to_owned();
        let with = |cases: &[(&str, Came)], came| {
            let features = BTreeMap::from([(title.clone(), came)]);
            Results { features, ..results(cases) }
        };
        let (still, ended) =
            ("life::a_paused_sandbox_stands_still", "life::a_paused_sandbox_can_be_ended");
        let before = with(&[(still, Came::Failed), (ended, Came::Passed)], Came::Failed);
        let part = with(&[(ended, Came::Passed)], Came::Passed);
        assert_eq!(part.over(before.clone()).features[&title], Came::Failed);
        let mended = with(&[(still, Came::Passed)], Came::NotHere("not built".into()));
        assert_eq!(mended.over(before).features[&title], Came::Passed);
    }

    #[test]
    fn a_gap_that_was_not_there_is_a_difference() {
        let kept = results(&[("a::b", Came::Passed), ("a::c", Came::Passed)]);
        let gap = results(&[("a::b", Came::No("cannot".into()))]);
        assert_eq!(gap.differences(&kept, false), ["a::b: no: cannot; kept: passed"]);
        assert_eq!(gap.differences(&kept, true).len(), 2);
        let host = results(&[("a::b", Came::NotHere("no git".into()))]);
        assert!(host.differences(&kept, false).is_empty());
        let other = results(&[("a::b", Came::Failed), ("a::new", Came::Passed)]);
        assert_eq!(other.differences(&kept, false).len(), 2);
    }
}

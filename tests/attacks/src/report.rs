//! What is printed at the end.

use std::time::Duration;

use belljar_testkit::CaseOutcome;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::attack::{Attack, Control};
use crate::catalogue::table::CLASSES;

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) id: String,
    /// What was switched off; `None` for the attack on the real jail.
    pub(crate) control: Option<String>,
    pub(crate) said: String,
    /// What the oracle found.
    pub(crate) wrong: Vec<String>,
    /// It could not be staged on this host.
    pub(crate) not_here: bool,
    /// Held in the real run, breached in the control run.
    pub(crate) as_expected: bool,
    pub(crate) took: Duration,
}

impl Outcome {
    /// One that was not run at all.
    pub(crate) fn elsewhere(id: &str, why: &str) -> Self {
        Self {
            id: id.to_owned(),
            control: None,
            said: format!("not here: {why}"),
            wrong: Vec::new(),
            not_here: true,
            as_expected: true,
            took: Duration::ZERO,
        }
    }

    fn passed(&self) -> bool {
        self.as_expected && self.wrong.is_empty()
    }

    /// Its name in the case log.
    pub(crate) fn case(&self) -> String {
        match &self.control {
            None => self.id.clone(),
            Some(off) => format!("{} {off}", self.id),
        }
    }

    /// The reason of a failure, in one line.
    pub(crate) fn why(&self) -> String {
        self.wrong.first().unwrap_or(&self.said).clone()
    }

    pub(crate) fn logged(&self) -> CaseOutcome {
        match (self.passed(), self.not_here) {
            (false, _) => CaseOutcome::Failed,
            (true, false) => CaseOutcome::Passed,
            (true, true) => CaseOutcome::Skipped,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) attacks: Vec<Attack>,
    pub(crate) runs: Vec<Outcome>,
    /// Attacks of which no control could be staged on this tier, and why.
    pub(crate) uncontrolled: Vec<(&'static str, &'static str)>,
    pub(crate) took: Duration,
}

impl Results {
    /// Why an attack was not staged, if it was not.
    fn elsewhere(&self, attack: &Attack) -> Option<&str> {
        let run = self.runs.iter().find(|run| run.id == attack.id && run.not_here);
        run.map(|run| run.said.as_str())
    }

    fn contained(&self, attack: &Attack) -> bool {
        let mut real = self.runs.iter().filter(|run| run.id == attack.id && run.control.is_none());
        real.all(Outcome::passed)
    }

    fn proven(&self, attack: &Attack) -> bool {
        let mut controls =
            self.runs.iter().filter(|run| run.id == attack.id && run.control.is_some()).peekable();
        controls.peek().is_some() && controls.all(Outcome::passed)
    }
}

/// Prints the report; `true` if nothing failed.
pub(crate) fn print(results: &Results, verbose: bool) -> bool {
    if verbose {
        for run in &results.runs {
            println!("{}", line(run));
        }
        println!();
    }
    for class in CLASSES {
        let attacks: Vec<_> = results.attacks.iter().filter(|a| a.class() == class).collect();
        if !attacks.is_empty() {
            print_class(class, &attacks, results);
        }
    }
    print_reasons(results);
    let failed: Vec<_> = results.runs.iter().filter(|run| !run.passed()).collect();
    for run in &failed {
        println!("\nFAILED {}", line(run));
        for wrong in &run.wrong {
            println!("    {wrong}");
        }
    }
    println!("\n{} s", results.took.as_secs());
    println!("{} passed, {} failed", results.runs.len() - failed.len(), failed.len());
    failed.is_empty()
}

fn line(run: &Outcome) -> String {
    format!("{} ({} ms): {}", run.case(), run.took.as_millis(), run.said)
}

fn print_class(class: &str, attacks: &[&Attack], results: &Results) {
    let count = |is: &dyn Fn(&Attack) -> bool| attacks.iter().filter(|attack| is(attack)).count();
    let elsewhere = |attack: &Attack| results.elsewhere(attack).is_some();
    let here = |attack: &Attack| !elsewhere(attack);
    println!(
        "{class:<5} contained {:<3} control-proven {:<3} control n/a {:<3} not applicable {:<3} open {}",
        count(&|attack| here(attack) && results.contained(attack)),
        count(&|attack| here(attack) && results.proven(attack)),
        count(&|attack| here(attack) && !results.proven(attack)),
        count(&elsewhere),
        count(&|attack| here(attack) && !results.contained(attack)),
    );
}

fn print_reasons(results: &Results) {
    let mut heading = Some("\nWithout a control run:");
    for attack in &results.attacks {
        let reason = match (results.elsewhere(attack), attack.control) {
            (Some(why), _) => format!("not applicable: {why}"),
            (None, Control::Because(why)) => why.to_owned(),
            (None, _) => match results.uncontrolled.iter().find(|(id, _)| *id == attack.id) {
                Some((_, why)) => (*why).to_owned(),
                None => continue,
            },
        };
        if let Some(heading) = heading.take() {
            println!("{heading}");
        }
        println!("  {:<8} {reason}", attack.id);
    }
}

/// The same for programs.
pub(crate) fn json(results: &Results) -> Value {
    let runs: Vec<_> = results
        .runs
        .iter()
        .map(|run| {
            json!({
                "id": run.id,
                "control": run.control,
                "passed": run.passed(),
                "said": run.said,
                "wrong": run.wrong,
                "ms": run.took.as_millis(),
            })
        })
        .collect();
    json!({ "runs": runs, "seconds": results.took.as_secs() })
}

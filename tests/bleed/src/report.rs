//! What is printed.

use crate::relation::Relation;

/// What came of one probe in one relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing was seen, and the probe sees what is there.
    Clean,
    /// The channel does not exist in a sandbox.
    Closed(String),
    /// In common, as documented.
    Shared,
    /// Something of the other session was seen.
    Bleed(String),
    /// The probe did not see what was there.
    Blind(String),
    Broken(String),
}

impl Outcome {
    pub(crate) fn failed(&self) -> bool {
        matches!(self, Self::Bleed(_) | Self::Blind(_) | Self::Broken(_))
    }

    /// The reason, where the probe showed nothing.
    pub(crate) fn undecided(&self) -> Option<&str> {
        match self {
            Self::Blind(why) | Self::Broken(why) => Some(why),
            Self::Clean | Self::Closed(_) | Self::Shared | Self::Bleed(_) => None,
        }
    }

    fn cell(&self) -> String {
        match self {
            Self::Clean => "clean".to_owned(),
            Self::Closed(_) => "closed".to_owned(),
            Self::Shared => "shared".to_owned(),
            Self::Bleed(_) => "**BLEED**".to_owned(),
            Self::Blind(_) => "**no control**".to_owned(),
            Self::Broken(_) => "**broken**".to_owned(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) relation: Relation,
    pub(crate) probe: String,
    pub(crate) outcome: Outcome,
}

impl Line {
    pub(crate) fn print(&self) {
        let (relation, probe) = (self.relation.as_str(), &self.probe);
        match &self.outcome {
            Outcome::Clean => println!("{relation:9} {probe:34} clean"),
            Outcome::Shared => println!("{relation:9} {probe:34} shared, as documented"),
            Outcome::Closed(why) => println!("{relation:9} {probe:34} closed: {why}"),
            Outcome::Bleed(what) => println!("{relation:9} {probe:34} BLEED: {what}"),
            Outcome::Blind(why) => println!("{relation:9} {probe:34} NO CONTROL: {why}"),
            Outcome::Broken(why) => println!("{relation:9} {probe:34} BROKEN: {why}"),
        }
    }
}

/// Prints the summary; `true` if nothing failed.
pub(crate) fn print(lines: &[Line], table: bool) -> bool {
    if table {
        print_table(lines);
    }
    let failed: Vec<_> = lines.iter().filter(|line| line.outcome.failed()).collect();
    if !failed.is_empty() {
        println!("\nfailed:");
        failed.iter().for_each(|line| line.print());
    }
    let count = |is: fn(&Outcome) -> bool| lines.iter().filter(|line| is(&line.outcome)).count();
    println!(
        "\n{} clean, {} shared as documented, {} closed, {} bleeds, {} without control, {} broken",
        count(|outcome| *outcome == Outcome::Clean),
        count(|outcome| *outcome == Outcome::Shared),
        count(|outcome| matches!(outcome, Outcome::Closed(_))),
        count(|outcome| matches!(outcome, Outcome::Bleed(_))),
        count(|outcome| matches!(outcome, Outcome::Blind(_))),
        count(|outcome| matches!(outcome, Outcome::Broken(_))),
    );
    failed.is_empty() && !lines.is_empty()
}

fn print_table(lines: &[Line]) {
    let mut probes: Vec<&str> = Vec::new();
    for line in lines {
        if !probes.contains(&line.probe.as_str()) {
            probes.push(&line.probe);
        }
    }
    let relations: Vec<_> = Relation::ALL
        .into_iter()
        .filter(|relation| lines.iter().any(|line| line.relation == *relation))
        .collect();
    let names: Vec<_> = relations.iter().map(|relation| relation.as_str()).collect();
    println!("\n| probe | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    for probe in probes {
        let cells = relations.iter().map(|relation| {
            let line = lines.iter().find(|line| line.relation == *relation && line.probe == probe);
            line.map_or_else(|| "-".to_owned(), |line| line.outcome.cell())
        });
        println!("| {probe} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

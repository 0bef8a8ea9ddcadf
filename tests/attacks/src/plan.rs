//! The runs that the selected attacks come to, and the order in which they may be done.
//!
//! The attacks on the real jail come first: while a control runs, settings of the host may be
//! touched. What needs the host for itself comes last.

use belljar_domain::Tier;
use belljar_node::Defence;

use crate::Options;
use crate::attack::{Attack, Control};
use crate::catalogue::applies;
use crate::harness::warm::Made;

/// One run of one attack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) attack: Attack,
    pub(crate) mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Real,
    Control(&'static [Defence]),
    OwnControl,
}

/// Runs that may be done at the same time. A round begins when the one before it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Round {
    Real,
    Controls,
    /// One run at a time, with nothing beside it.
    Alone,
}

impl Round {
    pub(crate) const ALL: [Self; 3] = [Self::Real, Self::Controls, Self::Alone];
}

impl Job {
    pub(crate) fn round(&self) -> Round {
        match self.mode {
            _ if self.attack.alone.is_some() => Round::Alone,
            Mode::Real => Round::Real,
            Mode::Control(_) | Mode::OwnControl => Round::Controls,
        }
    }
}

/// All runs, in the order of the catalogue. Every process of the suite comes to the same plan.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The controls of an attack follow it.
    pub(crate) jobs: Vec<Job>,
    /// Attacks that cannot be staged on the tier, and why.
    pub(crate) elsewhere: Vec<(&'static str, &'static str)>,
    /// Attacks of which no control can be staged on the tier, and why.
    pub(crate) uncontrolled: Vec<(&'static str, &'static str)>,
}

impl Plan {
    pub(crate) fn of(attacks: &[Attack], options: &Options) -> Self {
        let mut plan = Self::default();
        for &attack in attacks {
            match applies::attack(&attack, options.tier) {
                Ok(()) => plan.add(attack, options),
                Err(why) => plan.elsewhere.push((attack.id, why)),
            }
        }
        plan
    }

    fn add(&mut self, attack: Attack, options: &Options) {
        self.jobs.push(Job { attack, mode: Mode::Real });
        if options.no_control || options.stage != Made::Plain {
            return;
        }
        let sets: &[&[Defence]] = match attack.control {
            Control::Without(defences) => &[defences],
            Control::Each(sets) => sets,
            // Those of the jail switch its own defences off.
            Control::Own(_)
                if options.tier != Tier::Jail
                    && !["OCI", "VM"].contains(&attack.class())
                    && attack.id != "NET-01" =>
            {
                self.uncontrolled.push((attack.id, "its control is one of the jail"));
                return;
            }
            Control::Own(_) => {
                self.jobs.push(Job { attack, mode: Mode::OwnControl });
                return;
            }
            Control::Because(_) => return,
        };
        for &set in sets {
            let set = match options.tier {
                Tier::Process => applies::on_the_host_without(&attack, set),
                tier => applies::control(set, tier).map(|()| set),
            };
            match set {
                Ok(set) => self.jobs.push(Job { attack, mode: Mode::Control(set) }),
                Err(why) => self.uncontrolled.push((attack.id, why)),
            }
        }
    }

    /// The numbers of the jobs of a round, in order.
    pub(crate) fn round(&self, round: Round) -> impl Iterator<Item = usize> {
        let jobs = self.jobs.iter().enumerate();
        jobs.filter(move |(_, job)| job.round() == round).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser as _;

    use super::*;
    use crate::catalogue;

    fn whole() -> Plan {
        let options = Options::parse_from(["belljar-attacks"]);
        Plan::of(&catalogue::select(&[]).unwrap(), &options)
    }

    #[test]
    fn each_job_is_in_one_round_and_rounds_keep_the_order() {
        let plan = whole();
        let mut numbers = Vec::new();
        for round in Round::ALL {
            let found: Vec<usize> = plan.round(round).collect();
            assert!(found.is_sorted() && !found.is_empty(), "{round:?}");
            numbers.extend(found);
        }
        assert_eq!(numbers.len(), plan.jobs.len());
        assert_eq!(numbers.into_iter().collect::<BTreeSet<_>>().len(), plan.jobs.len());
    }

    #[test]
    fn every_control_is_still_run_and_never_beside_an_attack_on_the_real_jail() {
        let plan = whole();
        for attack in catalogue::select(&[]).unwrap() {
            let staged = plan.elsewhere.iter().all(|(id, _)| *id != attack.id);
            let named = plan.uncontrolled.iter().filter(|(id, _)| *id == attack.id).count();
            let expected = match attack.control {
                _ if !staged => 0,
                Control::Without(_) | Control::Own(_) => 1,
                Control::Each(sets) => sets.len(),
                Control::Because(_) => 0,
            };
            let is_control = |job: &&Job| job.attack.id == attack.id && job.mode != Mode::Real;
            assert_eq!(
                plan.jobs.iter().filter(is_control).count() + named,
                expected,
                "{}",
                attack.id
            );
        }
        for job in &plan.jobs {
            match job.round() {
                Round::Real => assert_eq!(job.mode, Mode::Real, "{}", job.attack.id),
                Round::Controls => assert_ne!(job.mode, Mode::Real, "{}", job.attack.id),
                Round::Alone => assert!(job.attack.alone.is_some(), "{}", job.attack.id),
            }
        }
    }

    #[test]
    fn floods_and_what_looks_at_the_whole_host_run_alone_for_a_reason() {
        let plan = whole();
        for id in ["PROC-08", "RES-01", "RES-04", "RES-08", "RES-15", "RES-16", "RES-20", "OUT-01"]
        {
            let job = plan.jobs.iter().find(|job| job.attack.id == id).unwrap();
            assert_eq!(job.round(), Round::Alone, "{id}");
        }
        for reason in plan.jobs.iter().filter_map(|job| job.attack.alone) {
            assert!(reason.split(' ').count() >= 3, "{reason:?} is no reason");
        }
    }
}

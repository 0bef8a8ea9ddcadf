//! Time on the CPU by role, that of processes that were killed included.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::super::machine;
use super::model::Model;
use super::rig::{CONTROLS, NATS, POSTGRES, Rig, node_names};

/// Time on the CPU, by role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct RoleCpu {
    pub(super) control: Duration,
    /// Of the replicas: models are reached through these.
    pub(super) gateway: Duration,
    /// Nodes with their spawners.
    pub(super) node: Duration,
    /// Zygotes, guests, interpreters: all that is below a spawner, and was.
    pub(super) sandboxes: Duration,
    pub(super) postgres: Duration,
    pub(super) nats: Duration,
    pub(super) model: Duration,
    pub(super) load: Duration,
}

/// Readings of processes that have been killed.
#[derive(Debug, Default)]
pub(super) struct Meter {
    killed: BTreeMap<String, RoleCpu>,
}

impl RoleCpu {
    fn plus(self, other: Self) -> Self {
        let add = |pick: fn(&Self) -> Duration| pick(&self) + pick(&other);
        Self::each(add)
    }

    pub(super) fn minus(self, earlier: Self) -> Self {
        let less = |pick: fn(&Self) -> Duration| pick(&self).saturating_sub(pick(&earlier));
        Self::each(less)
    }

    fn each(of: impl Fn(fn(&Self) -> Duration) -> Duration) -> Self {
        Self {
            control: of(|cpu| cpu.control),
            gateway: of(|cpu| cpu.gateway),
            node: of(|cpu| cpu.node),
            sandboxes: of(|cpu| cpu.sandboxes),
            postgres: of(|cpu| cpu.postgres),
            nats: of(|cpu| cpu.nats),
            model: of(|cpu| cpu.model),
            load: of(|cpu| cpu.load),
        }
    }

    pub(super) fn parts(&self) -> [(&'static str, Duration); 8] {
        [
            ("control", self.control),
            ("gateways of control", self.gateway),
            ("nodes with spawners", self.node),
            ("sandboxes", self.sandboxes),
            ("PostgreSQL", self.postgres),
            ("NATS", self.nats),
            ("model", self.model),
            ("load generator", self.load),
        ]
    }
}

impl Meter {
    /// Takes the last reading of a process that is about to be killed.
    pub(super) fn retire(&mut self, rig: &Rig, name: &str) {
        let last = of_process(rig, name);
        let before = self.killed.remove(name).unwrap_or_default();
        self.killed.insert(name.to_owned(), before.plus(last));
    }

    pub(super) fn read(&self, rig: &Rig, model: &Model) -> RoleCpu {
        let names = CONTROLS.into_iter().map(str::to_owned).chain(node_names());
        let roles =
            names.map(|name| of_process(rig, &name)).fold(RoleCpu::default(), RoleCpu::plus);
        let killed = self.killed.values().copied().fold(RoleCpu::default(), RoleCpu::plus);
        let of = |name: &str| rig.pid(name).map(machine::cpu_of).unwrap_or_default();
        let services = RoleCpu {
            postgres: of(POSTGRES),
            nats: of(NATS),
            model: machine::cpu_of(model.pid),
            load: machine::own_cpu(),
            ..RoleCpu::default()
        };
        roles.plus(killed).plus(services)
    }
}

/// A replica with its gateway, or a node with its sandboxes.
fn of_process(rig: &Rig, name: &str) -> RoleCpu {
    let Some(pid) = rig.pid(name) else { return RoleCpu::default() };
    let alone = machine::cpu_alone(pid);
    let below = machine::cpu_of(pid).saturating_sub(alone);
    if CONTROLS.contains(&name) {
        return RoleCpu { control: alone, gateway: below, ..RoleCpu::default() };
    }
    let spawners = machine::children(pid);
    let spawners = spawners.into_iter().filter(|&pid| machine::name(pid).contains("spawner"));
    let spawners: Duration = spawners.map(machine::cpu_alone).sum();
    let sandboxes = below.saturating_sub(spawners);
    RoleCpu { node: alone + spawners, sandboxes, ..RoleCpu::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_added_and_subtracted_one_by_one() {
        let one = RoleCpu { control: Duration::from_secs(3), ..RoleCpu::default() };
        let other = RoleCpu { model: Duration::from_secs(2), ..one };
        let both = one.plus(other);
        assert_eq!((both.control, both.model), (Duration::from_secs(6), Duration::from_secs(2)));
        assert_eq!(both.minus(other), one);
    }
}

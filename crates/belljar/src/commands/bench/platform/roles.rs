//! Who spends how much time on the CPU, of exactly the processes that were
//! started.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use super::super::machine::{self, EngineGroups};
use super::rig::{CONTROL, NATS, POSTGRES, Rig, name_of};

/// A moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    control: Duration,
    node: Duration,
    spawner: Duration,
    gateway: Duration,
    postgres: Duration,
    nats: Duration,
    /// Zygotes, guests, interpreters: all that the engine's groups are charged.
    sandboxes: Duration,
    /// The same by the book of processes: what is below the spawner, and was.
    /// Counts what a process did before it was in a group, and not what nobody
    /// waited for.
    below: Duration,
    client: Duration,
}

/// What one session cost, in milliseconds of CPU.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Cost {
    pub(super) control: f64,
    pub(super) node: f64,
    pub(super) spawner: f64,
    pub(super) gateway: f64,
    pub(super) postgres: f64,
    pub(super) nats: f64,
    /// What sandboxes cost besides their cells: forks, copied pages, the guest,
    /// their ends, zygotes.
    pub(super) sandboxes: f64,
    pub(super) client: f64,
    /// As they were charged, in whole milliseconds.
    pub(super) cells: f64,
    pub(super) outside: f64,
}

#[derive(Debug)]
pub(super) struct Roles {
    control: u32,
    node: u32,
    spawner: u32,
    postgres: u32,
    nats: u32,
    groups: EngineGroups,
}

impl Roles {
    /// Of a platform with one node.
    pub(super) fn of(rig: &Rig) -> anyhow::Result<Self> {
        let node = rig.pid(&name_of(1))?;
        let children = machine::children(node);
        let spawner = children.into_iter().find(|&pid| machine::name(pid).contains("spawner"));
        let spawner = spawner.context("the node has no spawner")?;
        // A zygote, or a sandbox that waits.
        let inside = machine::children(spawner).into_iter().find_map(EngineGroups::of);
        Ok(Self {
            control: rig.pid(CONTROL)?,
            node,
            spawner,
            postgres: rig.pid(POSTGRES)?,
            nats: rig.pid(NATS)?,
            groups: inside.context("the groups of the engine are not found")?,
        })
    }

    pub(super) fn spent(&self) -> anyhow::Result<Spent> {
        let others = machine::children(self.node).into_iter().filter(|&pid| pid != self.spawner);
        let spawner = machine::cpu_alone(self.spawner);
        Ok(Spent {
            below: machine::cpu_of(self.spawner).saturating_sub(spawner),
            control: machine::cpu_of(self.control),
            node: machine::cpu_alone(self.node),
            spawner,
            gateway: others.map(machine::cpu_of).sum(),
            postgres: machine::cpu_of(self.postgres),
            nats: machine::cpu_of(self.nats),
            sandboxes: self.groups.cpu().context("the engine's CPU time is not known")?,
            client: machine::own_cpu(),
        })
    }
}

impl Spent {
    pub(super) fn until(&self, later: &Self, cells: Duration, sessions: usize) -> Cost {
        let each =
            |pick: fn(&Self) -> Duration| per(pick(later).saturating_sub(pick(self)), sessions);
        let cells = per(cells, sessions);
        let sandboxes = each(|spent| spent.sandboxes).max(each(|spent| spent.below)) - cells;
        let mut cost = Cost {
            control: each(|spent| spent.control),
            node: each(|spent| spent.node),
            spawner: each(|spent| spent.spawner),
            gateway: each(|spent| spent.gateway),
            postgres: each(|spent| spent.postgres),
            nats: each(|spent| spent.nats),
            sandboxes,
            client: each(|spent| spent.client),
            cells,
            outside: 0.0,
        };
        cost.outside = cost.parts().iter().map(|(_, ms)| ms).sum();
        cost
    }
}

impl Cost {
    /// All but the cells.
    pub(super) fn parts(&self) -> [(&'static str, f64); 8] {
        [
            ("control", self.control),
            ("node", self.node),
            ("spawner", self.spawner),
            ("gateway", self.gateway),
            ("PostgreSQL", self.postgres),
            ("NATS", self.nats),
            ("sandboxes besides cells", self.sandboxes),
            ("load generator", self.client),
        ]
    }
}

fn per(time: Duration, sessions: usize) -> f64 {
    time.as_secs_f64() * 1e3 / sessions.max(1) as f64
}

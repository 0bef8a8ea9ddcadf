//! Which node makes a sandbox: the best of three.
//!
//! The best of all would send every request to the same node until it says that
//! it is full, as all replicas know the same and know it late. The best of a few
//! chosen at random is nearly as good and needs no agreement.
//!
//! A node's free places are what it said last, less what this replica has given it
//! since then. What other replicas gave it is not known; a node that is full says
//! so, and the next is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::{ChosenLimits, MaxLimits, NodeNumber, Tier};

use crate::random::Random;

/// How many are looked at.
const LOOKED_AT: usize = 3;
/// Warm is worth this many free places: enough to keep a template where it is,
/// not enough to heap everything on one node.
const WARM: i64 = 8;

/// Nodes speak every two seconds.
const RECENT: Duration = Duration::from_millis(2500);

/// What a node says of itself, every few seconds.
#[derive(Debug, Clone)]
pub struct Heard {
    pub number: u16,
    pub epoch: u64,
    pub free: u32,
    pub is_draining: bool,
    /// Its templates are not warm yet, so that sandboxes wait there.
    pub is_warming: bool,
    pub tiers: Vec<Tier>,
    /// Templates that it can start at once.
    pub warm: BTreeSet<String>,
    /// The largest limits that it gives; `None`: it knows no limits that a client chooses.
    pub max_limits: Option<MaxLimits>,
}

impl Heard {
    /// Returns true if a sandbox may have these limits there, and fits.
    fn allows(&self, limits: &ChosenLimits) -> bool {
        limits.is_empty() || self.max_limits.is_some_and(|max| limits.check(&max).is_ok())
    }
}

impl From<&belljar_store::Node> for Heard {
    fn from(node: &belljar_store::Node) -> Self {
        Self {
            number: node.number,
            epoch: node.epoch,
            free: node.slots.saturating_sub(node.taken),
            is_draining: node.state == belljar_store::NodeState::Draining,
            // The database does not know; a node that is heard of says so itself.
            is_warming: false,
            tiers: node.tiers.clone(),
            warm: BTreeSet::new(),
            max_limits: node.max_limits,
        }
    }
}

/// What is to be placed.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// None: whichever a node gives.
    pub tier: Option<Tier>,
    /// Those that the client chose.
    pub limits: ChosenLimits,
    pub template: &'a str,
    /// Nodes that were asked and could not.
    pub not: &'a [u16],
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoNode {
    #[error("no node offers this tier")]
    Tier,
    #[error("no node that offers this tier allows these limits")]
    Limits,
    #[error("every node that offers this tier is full")]
    Full,
}

/// What this replica knows of all nodes; cheap to clone.
#[derive(Debug, Clone)]
pub struct Roster {
    shared: Arc<Mutex<Shared>>,
    /// Whoever was not heard of for longer is not asked.
    patience: Duration,
}

#[derive(Debug)]
struct Shared {
    nodes: BTreeMap<u16, Known>,
    random: Random,
}

#[derive(Debug)]
struct Known {
    heard: Heard,
    at: Instant,
    /// Given to it and not answered yet.
    under_way: u32,
    /// Given to it, answered, and not in what it said last.
    since: u32,
}

impl Shared {
    /// What the nodes say that are heard of.
    fn heard(&self, now: Instant, patience: Duration) -> impl Iterator<Item = &Heard> {
        let lately = move |known: &&Known| now.saturating_duration_since(known.at) <= patience;
        self.nodes.values().filter(lately).map(|known| &known.heard)
    }
}

impl Known {
    fn free(&self) -> i64 {
        i64::from(self.heard.free) - i64::from(self.under_way) - i64::from(self.since)
    }
}

/// A place that is being used. Dropped: it was not, after all.
#[derive(Debug)]
pub struct Placement {
    pub node: u16,
    pub epoch: u64,
    roster: Roster,
}

impl Placement {
    /// The sandbox is there; the node will count it from its next word on.
    pub fn used(self) {
        if let Some(known) = self.roster.shared().nodes.get_mut(&self.node)
            && known.heard.epoch == self.epoch
        {
            known.since += 1;
        }
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        if let Some(known) = self.roster.shared().nodes.get_mut(&self.node)
            && known.heard.epoch == self.epoch
        {
            known.under_way = known.under_way.saturating_sub(1);
        }
    }
}

impl Roster {
    pub fn new(patience: Duration, random: Random) -> Self {
        let shared = Shared { nodes: BTreeMap::new(), random };
        Self { shared: Arc::new(Mutex::new(shared)), patience }
    }

    /// A node said how it is. What a node of an earlier epoch says comes late and
    /// counts for nothing.
    pub fn hear(&self, heard: Heard, now: Instant) {
        let mut shared = self.shared();
        match shared.nodes.get_mut(&heard.number) {
            Some(known) if known.heard.epoch > heard.epoch => {}
            Some(known) => {
                if known.heard.epoch < heard.epoch {
                    known.under_way = 0;
                }
                known.since = 0;
                known.heard = heard;
                known.at = now;
            }
            None => {
                let number = heard.number;
                shared.nodes.insert(number, Known { heard, at: now, under_way: 0, since: 0 });
            }
        }
    }

    /// The database says how a node was. That counts only of one that this replica
    /// has heard nothing of lately: what it said itself is newer.
    pub fn learn(&self, heard: Heard, now: Instant) {
        let mut shared = self.shared();
        match shared.nodes.get_mut(&heard.number) {
            Some(known)
                if known.heard.epoch == heard.epoch
                    && now.saturating_duration_since(known.at) < RECENT => {}
            Some(known) if known.heard.epoch == heard.epoch => {
                // What is warm there, only the node itself says.
                let warm = std::mem::take(&mut known.heard.warm);
                known.heard = Heard { warm, ..heard };
                (known.at, known.since) = (now, 0);
            }
            _ => {
                drop(shared);
                self.hear(heard, now);
            }
        }
    }

    /// A node is gone for good.
    pub fn forget(&self, number: u16, epoch: u64) {
        let mut shared = self.shared();
        if shared.nodes.get(&number).is_some_and(|known| known.heard.epoch <= epoch) {
            shared.nodes.remove(&number);
        }
    }

    /// Takes a place on the best of a few nodes that would do.
    pub fn place(&self, wish: Wish<'_>, now: Instant) -> Result<Placement, NoNode> {
        let mut shared = self.shared();
        let Shared { nodes, random } = &mut *shared;
        let offers = |known: &&mut Known| {
            let Heard { tiers, is_draining, number, .. } = &known.heard;
            wish.tier.is_none_or(|tier| tiers.contains(&tier))
                && !is_draining
                && !wish.not.contains(number)
                && now.saturating_duration_since(known.at) <= self.patience
        };
        let mut offering: Vec<_> = nodes.values_mut().filter(offers).collect();
        if offering.is_empty() {
            return Err(if wish.not.is_empty() { NoNode::Tier } else { NoNode::Full });
        }
        offering.retain(|known| known.heard.allows(&wish.limits));
        if offering.is_empty() {
            return Err(if wish.not.is_empty() { NoNode::Limits } else { NoNode::Full });
        }
        // One that is not warm yet is better than none.
        if offering.iter().any(|known| !known.heard.is_warming) {
            offering.retain(|known| !known.heard.is_warming);
        }
        offering.retain(|known| known.free() > 0);
        // The first few of a shuffle, and no more of it than is needed.
        let looked_at = LOOKED_AT.min(offering.len());
        for nth in 0..looked_at {
            let other = nth + random.below(offering.len() - nth);
            offering.swap(nth, other);
        }
        offering.truncate(looked_at);
        let worth = |known: &&mut Known| {
            let is_warm = known.heard.warm.contains(wish.template);
            known.free() + if is_warm { WARM } else { 0 }
        };
        let best = offering.into_iter().max_by_key(worth).ok_or(NoNode::Full)?;
        best.under_way += 1;
        let Heard { number, epoch, .. } = best.heard;
        drop(shared);
        Ok(Placement { node: number, epoch, roster: self.clone() })
    }

    /// Returns true if some node takes new sandboxes at once.
    pub fn has_ready_node(&self, now: Instant) -> bool {
        let shared = self.shared();
        shared.nodes.values().any(|Known { heard, at, .. }| {
            !heard.is_draining
                && !heard.is_warming
                && now.saturating_duration_since(*at) <= self.patience
        })
    }

    /// Returns true if some node that is heard of warms up its templates.
    pub fn has_warming_node(&self, now: Instant) -> bool {
        let shared = self.shared();
        shared.nodes.values().any(|Known { heard, at, .. }| {
            heard.is_warming && now.saturating_duration_since(*at) <= self.patience
        })
    }

    /// The largest of each limit that some node that is heard of gives.
    pub fn max_limits(&self, now: Instant) -> Option<MaxLimits> {
        let shared = self.shared();
        shared.heard(now, self.patience).filter_map(|heard| heard.max_limits).reduce(MaxLimits::max)
    }

    /// The tiers that some node that is heard of offers, from the weakest to the strongest.
    pub fn tiers(&self, now: Instant) -> Vec<Tier> {
        let shared = self.shared();
        let offered: Vec<_> =
            shared.heard(now, self.patience).flat_map(|heard| heard.tiers.clone()).collect();
        Tier::ALL.into_iter().filter(|tier| offered.contains(tier)).collect()
    }

    /// Returns true if a node is heard of.
    pub fn hears(&self, number: NodeNumber, now: Instant) -> bool {
        let shared = self.shared();
        let known = shared.nodes.get(&number.get());
        known.is_some_and(|known| now.saturating_duration_since(known.at) <= self.patience)
    }

    /// Whether nobody is heard of.
    pub fn is_empty(&self, now: Instant) -> bool {
        self.any(now).is_none()
    }

    /// Some node that is heard of.
    pub fn any(&self, now: Instant) -> Option<NodeNumber> {
        let mut shared = self.shared();
        let Shared { nodes, random } = &mut *shared;
        let heard: Vec<_> = nodes
            .values()
            .filter(|known| now.saturating_duration_since(known.at) <= self.patience)
            .map(|known| known.heard.number)
            .collect();
        let nth = random.below(heard.len());
        heard.get(nth).copied().and_then(NodeNumber::new)
    }

    /// Whether some node can start this template at once.
    pub fn is_warm(&self, template: &str) -> bool {
        self.shared().nodes.values().any(|known| known.heard.warm.contains(template))
    }

    /// How many are heard of.
    pub fn len(&self, now: Instant) -> usize {
        let shared = self.shared();
        let heard = shared.nodes.values();
        heard.filter(|known| now.saturating_duration_since(known.at) <= self.patience).count()
    }

    /// Free places on all nodes that are heard of.
    pub fn free(&self, now: Instant) -> u64 {
        let shared = self.shared();
        let alive = shared.nodes.values().filter(|known| {
            !known.heard.is_draining && now.saturating_duration_since(known.at) <= self.patience
        });
        alive.map(|known| known.free().max(0).unsigned_abs()).sum()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

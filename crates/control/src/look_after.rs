//! What takes no request: nodes that are gone, sandboxes that got stuck.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use belljar_domain::{EndReason, NodeNumber};
use belljar_identity::PublicKey;
use belljar_store::{LostNode, Node, NodeEnrolment, NodeState, Store, StoreError};

use crate::control::Control;
use crate::dial::{self, Known};

const LOOK: Duration = Duration::from_millis(500);
/// A create takes seconds at most; one that is neither made nor given up after
/// this has been forgotten by whoever was at it.
const STUCK: Duration = Duration::from_secs(90);

impl Control {
    pub(crate) async fn look_after(&self) {
        let mut round = 0u32;
        loop {
            match self.look(round).await {
                Ok(()) => self.set_well(true),
                Err(error) => {
                    if self.well_for().is_some() {
                        let error = &error as &dyn std::error::Error;
                        tracing::error!(error, "database unavailable");
                    }
                    self.set_well(false);
                }
            }
            round = round.wrapping_add(1);
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reads the nodes from the database.
    pub(crate) async fn learn_nodes(&self, store: &Store) -> Result<(), StoreError> {
        let nodes = store.nodes().await?;
        self.set_known(nodes.iter().filter_map(known).collect::<BTreeMap<_, _>>());
        for node in &nodes {
            if node.state == NodeState::Lost {
                self.roster().forget(node.number, node.epoch);
            } else {
                self.roster().learn(node.into(), Instant::now());
            }
        }
        Ok(())
    }

    async fn look(&self, round: u32) -> Result<(), StoreError> {
        self.learn_nodes(self.leases()).await?;
        let up = self.roster().len(Instant::now());
        self.turns().set_most(up * self.settings().at_once);
        // While the database was away nobody could say that he is there.
        let wait = self.settings().lease + self.settings().grace;
        if self.well_for().is_some_and(|well| well > wait) {
            let lost = self.leases().give_up(self.settings().grace).await?;
            for LostNode { name, number, sandboxes } in &lost {
                tracing::error!(node = name, number, sandboxes = sandboxes.len(), "node lost");
                for id in sandboxes {
                    tracing::warn!(sandbox.id = %id, node = name, "sandbox lost with its node");
                }
            }
        }
        if round.is_multiple_of(4)
            && let Err(error) = self.keyring().refresh(self.leases()).await
        {
            tracing::error!(error = &error as &dyn std::error::Error, "keyring refresh failed");
        }
        if round.is_multiple_of(5) {
            belljar_telemetry::metrics().set_outbox(self.leases().waiting().await?.0);
        }
        if round.is_multiple_of(5) {
            let ended = self.leases().end_closed().await?;
            if !ended.is_empty() {
                tracing::warn!(sandboxes = ended.len(), "sandboxes of closed tenants ended");
            }
        }
        if round.is_multiple_of(20) {
            for row in self.leases().stuck(STUCK).await? {
                let node = row.node.and_then(NodeNumber::new).map(|node| self.node_name(node));
                tracing::warn!(sandbox.id = %row.id, node, "sandbox lost: create never finished");
                self.leases().end(&row.tenant, &row.id, None, EndReason::Lost).await?;
            }
        }
        Ok(())
    }
}

/// A node that has come at least once, and whose key is not revoked.
fn known(node: &Node) -> Option<(NodeNumber, Known)> {
    let NodeEnrolment::Enrolled { public_key, .. } = &node.enrolment else { return None };
    let known = Known {
        name: node.name.clone(),
        address: dial::address(&node.address)?,
        public_key: PublicKey::from_bytes(public_key).ok()?,
        state: node.state,
        slots: node.slots,
        epoch: node.epoch,
    };
    Some((NodeNumber::new(node.number)?, known))
}

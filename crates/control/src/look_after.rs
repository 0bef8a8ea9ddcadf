//! What takes no request: nodes that are gone, sandboxes that got stuck.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use belljar_model::{EndReason, NodeNumber};
use belljar_store::{NodeState, StoreError};

use crate::control::{Control, Known};

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
                        tracing::error!(error, "the database does not answer");
                    }
                    self.set_well(false);
                }
            }
            round = round.wrapping_add(1);
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn look(&self, round: u32) -> Result<(), StoreError> {
        let nodes = self.store().nodes().await?;
        let known = nodes.iter().filter_map(|node| {
            let known = Known {
                address: node.address.clone(),
                state: node.state,
                slots: node.slots,
                epoch: node.epoch,
            };
            Some((NodeNumber::new(node.number)?, known))
        });
        self.set_known(known.collect::<BTreeMap<_, _>>());
        for node in &nodes {
            if node.state == NodeState::Lost {
                self.roster().forget(node.number, node.epoch);
            } else {
                self.roster().learn(node.into(), Instant::now());
            }
        }
        let up = self.roster().len(Instant::now());
        self.turns().set_most(up * self.settings().at_once);
        // While the database was away nobody could say that he is there.
        let wait = self.settings().lease + self.settings().grace;
        if self.well_for().is_some_and(|well| well > wait) {
            let lost = self.store().give_up(self.settings().grace).await?;
            if !lost.is_empty() {
                tracing::error!(sandboxes = lost.len(), "a node is lost, and what was on it");
            }
        }
        if round.is_multiple_of(5) {
            belljar_telemetry::metrics().set_outbox(self.store().waiting().await?.0);
        }
        if round.is_multiple_of(20) {
            for row in self.store().stuck(STUCK).await? {
                tracing::warn!(sandbox.id = %row.id, "a sandbox got stuck on its way: lost");
                self.store().end(&row.tenant, &row.id, None, EndReason::Lost).await?;
            }
        }
        Ok(())
    }
}

//! Places for messages of nodes, so that no node takes what others need.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_domain::NodeNumber;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages of one node at the same time.
const MESSAGES_AT_ONCE: usize = 2;
/// Batches of rows of one node at the same time: it sends one after the other.
const ROWS_AT_ONCE: usize = 1;
/// Requests for slices of budgets of one node at the same time: one for each budget that is short.
const BUDGETS_AT_ONCE: usize = 4;

/// Places by node. Rows have their own: slow inserts must not delay leases.
#[derive(Debug, Default)]
pub(crate) struct NodePlaces(Mutex<BTreeMap<NodeNumber, OfNode>>);

#[derive(Debug, Clone)]
struct OfNode {
    messages: Arc<Semaphore>,
    rows: Arc<Semaphore>,
    budgets: Arc<Semaphore>,
}

impl NodePlaces {
    /// Places for messages that leases depend on.
    pub(crate) fn messages(&self, node: NodeNumber) -> Arc<Semaphore> {
        self.of(node).messages
    }

    /// A place for a batch of rows; none if the node has one under way.
    pub(crate) fn rows(&self, node: NodeNumber) -> Option<OwnedSemaphorePermit> {
        self.of(node).rows.try_acquire_owned().ok()
    }

    /// Places for requests for slices of budgets.
    pub(crate) fn budgets(&self, node: NodeNumber) -> Arc<Semaphore> {
        self.of(node).budgets
    }

    fn of(&self, node: NodeNumber) -> OfNode {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || OfNode {
            messages: Arc::new(Semaphore::new(MESSAGES_AT_ONCE)),
            rows: Arc::new(Semaphore::new(ROWS_AT_ONCE)),
            budgets: Arc::new(Semaphore::new(BUDGETS_AT_ONCE)),
        };
        places.entry(node).or_insert_with(fresh).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_node_take_no_place_of_its_messages() {
        let places = NodePlaces::default();
        let [one, two] = [1, 2].map(|number| NodeNumber::new(number).unwrap());
        let first = places.rows(one).unwrap();
        assert!(places.rows(one).is_none());
        assert_eq!(places.messages(one).available_permits(), MESSAGES_AT_ONCE);
        assert!(places.rows(two).is_some());
        drop(first);
        assert!(places.rows(one).is_some());
    }
}

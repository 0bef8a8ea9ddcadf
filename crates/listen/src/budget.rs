//! Places for connections: so many at a port, and so many of one address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The address that a connection came from, beside each of its requests. Never what a header
/// says: any client can write that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerAddress(pub IpAddr);

impl PeerAddress {
    /// What counts as one client: an address, or the /64 that one host of IPv6 has.
    pub fn network(self) -> IpAddr {
        match self.0.to_canonical() {
            IpAddr::V6(address) => {
                let prefix = u128::from(address) & !u128::from(u64::MAX);
                IpAddr::V6(Ipv6Addr::from(prefix))
            }
            address => address,
        }
    }
}

/// Places of one port.
#[derive(Debug)]
pub(crate) struct Budget {
    places: Arc<Semaphore>,
    per_address: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Budget {
    /// Of `ports` that share the process's descriptors: all of them together take no more than
    /// half, the rest is for the database, nodes and files.
    pub(crate) fn of_one(ports: usize, connections: usize, per_address: usize) -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 2;
        let files = usize::try_from(files).unwrap_or(usize::MAX) / ports.max(1);
        let connections = connections.min(files).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            places: Arc::new(Semaphore::new(connections)),
            per_address: per_address.max(1),
            taken: Arc::default(),
        }
    }

    /// Waits for a place at the port.
    pub(crate) async fn place(&self) -> Option<PortPlace> {
        let permit = self.places.clone().acquire_owned().await.ok()?;
        Some(PortPlace { _permit: permit })
    }

    /// A place of this address, if it has not taken all of its own.
    fn of_address(&self, address: PeerAddress) -> Option<AddressPlace> {
        let network = address.network();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(network).or_default();
        if *count >= self.per_address {
            return None;
        }
        *count += 1;
        Some(AddressPlace { network, taken: self.taken.clone() })
    }
}

/// A place at a port for the next connection, from any address.
#[derive(Debug)]
pub(crate) struct PortPlace {
    _permit: OwnedSemaphorePermit,
}

impl PortPlace {
    /// Gives the place to a connection from this address, if it has not taken all of its own.
    pub(crate) fn of_address(self, budget: &Budget, address: PeerAddress) -> Option<Place> {
        let of_address = budget.of_address(address)?;
        Some(Place { _at_port: self, _of_address: of_address })
    }
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _at_port: PortPlace,
    _of_address: AddressPlace,
}

#[derive(Debug)]
struct AddressPlace {
    network: IpAddr,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.network);
            }
        }
    }
}

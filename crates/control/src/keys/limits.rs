//! Wrong keys of one address: so many at once, and so many a second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

/// Wrong keys that an address may show at once.
const MAX_WRONG: f64 = 200.0;
/// And how many of them are forgiven each second.
const FORGIVEN_PER_SECOND: f64 = 20.0;
/// Unknown keys of one address that wait to be looked up.
const MAX_PENDING: usize = 16;
/// Addresses that are watched.
const MAX_ADDRESSES: usize = 65_536;

/// How many wrong keys each address has shown lately.
#[derive(Debug, Default)]
pub(super) struct AddressLimits(HashMap<IpAddr, Wrong>);

#[derive(Debug, Clone, Copy)]
struct Wrong {
    count: f64,
    at: Instant,
    pending: usize,
}

impl Wrong {
    /// Those that are not forgiven yet.
    fn count(&self, now: Instant) -> f64 {
        let forgiven = now.saturating_duration_since(self.at).as_secs_f64() * FORGIVEN_PER_SECOND;
        (self.count - forgiven).max(0.0)
    }
}

impl AddressLimits {
    /// Returns true if an unknown key of this address is looked up.
    pub(super) fn may_ask(&self, network: IpAddr, now: Instant) -> bool {
        self.0.get(&network).is_none_or(|wrong| wrong.count(now) < MAX_WRONG)
    }

    /// Counts an unknown key of this address as one that waits, if it may.
    pub(super) fn begin(&mut self, network: IpAddr, now: Instant) -> bool {
        let wrong = self.of(network, now);
        let may = wrong.count(now) < MAX_WRONG && wrong.pending < MAX_PENDING;
        wrong.pending += usize::from(may);
        may
    }

    pub(super) fn end(&mut self, network: IpAddr) {
        if let Some(wrong) = self.0.get_mut(&network) {
            wrong.pending = wrong.pending.saturating_sub(1);
        }
    }

    pub(super) fn was_wrong(&mut self, network: IpAddr, now: Instant) {
        let wrong = self.of(network, now);
        (wrong.count, wrong.at) = (wrong.count(now) + 1.0, now);
    }

    fn of(&mut self, network: IpAddr, now: Instant) -> &mut Wrong {
        if self.0.len() >= MAX_ADDRESSES && !self.0.contains_key(&network) {
            self.0.retain(|_, wrong| wrong.count(now) > 0.0 || wrong.pending > 0);
            if self.0.len() >= MAX_ADDRESSES {
                self.0.clear();
            }
        }
        self.0.entry(network).or_insert(Wrong { count: 0.0, at: now, pending: 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    #[test]
    fn an_address_is_limited_and_forgiven() {
        let (mut limits, now) = (AddressLimits::default(), Instant::now());
        let mut shown = 0;
        while limits.may_ask(address(1), now) {
            limits.was_wrong(address(1), now);
            shown += 1;
        }
        assert_eq!(f64::from(shown), MAX_WRONG);
        assert!(limits.may_ask(address(2), now), "another address");
        let later = now + Duration::from_millis(100);
        assert!(limits.may_ask(address(1), later), "a few are forgiven");
        limits.was_wrong(address(1), later);
        limits.was_wrong(address(1), later);
        assert!(!limits.may_ask(address(1), later));
        assert!(limits.may_ask(address(1), later + Duration::from_secs(60)));
    }

    #[test]
    fn few_of_an_address_wait_at_once() {
        let (mut limits, now) = (AddressLimits::default(), Instant::now());
        let begun = (0..100).filter(|_| limits.begin(address(1), now)).count();
        assert_eq!(begun, MAX_PENDING);
        assert!(limits.begin(address(2), now), "another address");
        limits.end(address(1));
        assert!(limits.begin(address(1), now), "one was answered");
    }

    #[test]
    fn many_addresses_do_not_fill_the_memory() {
        let (mut limits, now) = (AddressLimits::default(), Instant::now());
        for number in 0..3 * u32::try_from(MAX_ADDRESSES).unwrap() {
            limits.was_wrong(address(number), now);
        }
        assert!(limits.0.len() <= MAX_ADDRESSES);
    }
}

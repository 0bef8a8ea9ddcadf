//! Addresses of this host itself: neither sandboxes nor webhooks reach them unless an operator
//! names the port.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns this host's addresses, from the kernel's tables. Loopback is not among them: it is
/// never public, and an operator who opens it means it.
pub fn addresses() -> Vec<IpAddr> {
    let routes = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let interfaces = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let v4 = v4(&routes).into_iter().map(IpAddr::V4);
    let v6 = v6(&interfaces).into_iter().map(IpAddr::V6);
    let mut found: Vec<_> = v4.chain(v6).filter(|address| !address.is_loopback()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Lines come in pairs: `|-- 10.0.0.7`, then `/32 host LOCAL`.
fn v4(routes: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in routes.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last);
        }
    }
    found
}

/// Each line begins with 32 digits.
fn v6(interfaces: &str) -> Vec<Ipv6Addr> {
    let address = |line: &str| u128::from_str_radix(line.get(..32)?, 16).ok().map(Ipv6Addr::from);
    interfaces.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let routes = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.7\n        /32 host LOCAL\n     \
                      |-- 10.0.0.255\n        /32 link BROADCAST\n";
        assert_eq!(v4(routes), [Ipv4Addr::new(10, 0, 0, 7)]);
        let interfaces = "fe80000000000000025056fffe000001 02 40 20 80     eth0\n";
        assert_eq!(v6(interfaces), ["fe80::250:56ff:fe00:1".parse::<Ipv6Addr>().unwrap()]);
    }
}

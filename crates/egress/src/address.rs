//! The veto over addresses, after names were looked up.
//!
//! Every answer is vetted, not only the one that is connected to, so that a name
//! which leads to both a public and a private place leads nowhere. IPv4 inside
//! IPv6 is judged like the IPv4: otherwise a translator on the way would undo
//! the veto.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use belljar_domain::network::{Block, Policy, Reason};

/// What the operator of this host opened although it is not public, and where
/// this host itself is found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Openings {
    opened: Vec<Opening>,
    own: Vec<IpAddr>,
}

/// A block that may be reached although it is not public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    pub block: Block,
    /// None: all.
    pub ports: Option<Vec<u16>>,
}

impl Openings {
    pub fn new(opened: Vec<Opening>) -> Self {
        Self { opened, own: vec![] }
    }

    /// All ports of these blocks.
    pub fn of(blocks: impl IntoIterator<Item = Block>) -> Self {
        Self::new(blocks.into_iter().map(|block| Opening { block, ports: None }).collect())
    }

    /// With this host's own addresses. They are closed even where they are
    /// public or lie in an opened block, unless the opening names the port:
    /// whoever opens a whole network does not mean the database beside us.
    pub fn with_own(mut self, own: Vec<IpAddr>) -> Self {
        self.own = own;
        self
    }

    fn covers(&self, address: IpAddr, port: u16) -> bool {
        let is_own = self.own.contains(&address);
        self.opened.iter().filter(|opening| opening.block.contains(address)).any(|opening| {
            match &opening.ports {
                Some(ports) => ports.contains(&port),
                None => !is_own,
            }
        })
    }
}

/// Whether a connection to this address may be made.
///
/// The policy's own blocks beat everything; then come the operator's openings;
/// then everything is refused that is not a public host of the internet.
pub fn vet(to: SocketAddr, policy: &Policy, openings: &Openings) -> Result<(), Reason> {
    if is_denied(to.ip(), policy) {
        return Err(Reason::DeniedBlock);
    }
    let open = faces(to.ip()).all(|face| {
        openings.covers(face, to.port()) || (is_public(face) && !openings.own.contains(&face))
    });
    if open && to.port() != 0 { Ok(()) } else { Err(Reason::Private) }
}

/// Whether one of the policy's blocks holds this address, however it is written.
pub(crate) fn is_denied(address: IpAddr, policy: &Policy) -> bool {
    policy
        .deny
        .iter()
        .any(|block| block.contains(address) || faces(address).any(|face| block.contains(face)))
}

/// The places that an address can stand for: itself, and the IPv4 inside it.
/// IPv4 in IPv6's clothes is only the IPv4.
pub(crate) fn faces(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let address = address.to_canonical();
    let inner = match address {
        IpAddr::V6(address) => inner(address).map(IpAddr::V4),
        IpAddr::V4(_) => None,
    };
    std::iter::once(address).chain(inner)
}

/// The IPv4 address that something on the way could take out of this one.
fn inner(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let number = u128::from(address);
    let within = |first: Ipv6Addr, bits: u32| (number ^ u128::from(first)) >> (128 - bits) == 0;
    let [.., third, second, first, last] = address.octets();
    let at_end = Ipv4Addr::new(third, second, first, last);
    // `::` and `::1` are this host and not 0.0.0.1, so that they can be opened.
    let compatible = within(Ipv6Addr::UNSPECIFIED, 96) && number > 1;
    let translated = within(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
    // Automatic tunnels between sites: the first half of the interface's number
    // is 0000:5efe or 0200:5efe, the second half is the tunnel's end.
    let interface = address.segments();
    let site_tunnel = interface[5] == 0x5efe && interface[4] & !0x0200 == 0;
    (compatible || translated || site_tunnel).then_some(at_end)
}

/// First address and fixed bits of what is not a public host.
const SPECIAL_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8), // this network; Linux reads 0.0.0.0 as loopback
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10), // carriers' NAT; 100.100.100.200 is metadata
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(168, 63, 129, 16), 32), // a cloud's agent, at a public address
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // link-local, metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24), // protocol assignments; .192 is metadata
    (Ipv4Addr::new(192, 0, 2, 0), 24), // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24), // relays into 6to4
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, broadcast
];

/// The same within `2000::/3`, outside of which nothing is public.
const SPECIAL_V6: &[(Ipv6Addr, u32)] = &[
    // Protocol assignments: Teredo, benchmarks, ORCHID. Teredo hides an IPv4
    // address of its server and, inverted, one of its client.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),     // 6to4, which embeds IPv4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),     // documentation
];

/// Global unicast, and the well-known prefix behind which a translator finds
/// IPv4; hosts without IPv4 of their own see half of the internet there.
const PUBLIC_V6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96),
];

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let number = u32::from(address);
            !SPECIAL_V4.iter().any(|(first, bits)| (number ^ u32::from(*first)) >> (32 - bits) == 0)
        }
        IpAddr::V6(address) => {
            let number = u128::from(address);
            let holds = |(first, bits): &(Ipv6Addr, u32)| {
                (number ^ u128::from(*first)) >> (128 - bits) == 0
            };
            PUBLIC_V6.iter().any(holds) && !SPECIAL_V6.iter().any(holds)
        }
    }
}

#[cfg(test)]
mod tests;

//! Looking names up, after the policy said yes to them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use belljar_domain::network::{Decision, Host, HostName, Kind, Reason};
use belljar_egress::Destination;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name;

use crate::connection::Connection;
use crate::log::Entry;
use crate::meter::Way;

/// An answer is kept no longer than this, whatever it says of itself.
const LONGEST_KEPT: Duration = Duration::from_secs(60);
/// What a question costs of a sandbox's bytes, beside the name.
const QUESTION: u64 = 64;
/// More answers than this are not looked at; a name with so many is none of
/// those that people use.
const MOST_ADDRESSES: usize = 64;

/// Asks these servers, or those that the system is configured for.
pub(crate) fn resolver(servers: &[SocketAddr]) -> Result<TokioResolver, NetError> {
    let provider = TokioRuntimeProvider::default;
    let builder = if servers.is_empty() {
        TokioResolver::builder(provider())?
    } else {
        let server = |address: &SocketAddr| {
            let mut config = NameServerConfig::udp_and_tcp(address.ip());
            config.connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
            for connection in &mut config.connections {
                connection.port = address.port();
            }
            config
        };
        let servers = servers.iter().map(server).collect();
        let config = ResolverConfig::from_parts(None, vec![], servers);
        TokioResolver::builder_with_config(config, provider()).with_options(ResolverOpts::default())
    };
    let mut builder = builder;
    let options = builder.options_mut();
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.timeout = Duration::from_secs(3);
    options.attempts = 2;
    options.positive_max_ttl = Some(LONGEST_KEPT);
    options.negative_max_ttl = Some(Duration::ZERO);
    builder.build()
}

/// Where a destination is, IPv4 first. Every answer has been vetted: a name that
/// also leads to a place that is refused leads nowhere.
pub(crate) async fn addresses(
    connection: &Arc<Connection>,
    destination: &Destination,
) -> Result<Vec<IpAddr>, Reason> {
    let found = match &destination.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => look_up(connection, name, destination.port).await?,
    };
    vet(connection, destination.port, &found)?;
    Ok(found)
}

/// Vets addresses by the policy and the settings of this moment.
pub(crate) fn vet(connection: &Connection, port: u16, found: &[IpAddr]) -> Result<(), Reason> {
    let session = &connection.session;
    let (policy, live) = (session.policy(), session.shared.live());
    let vet = |address: &IpAddr| {
        belljar_egress::vet(SocketAddr::new(*address, port), &policy, &live.openings)
    };
    found.iter().try_for_each(vet)
}

async fn look_up(
    connection: &Arc<Connection>,
    name: &HostName,
    port: u16,
) -> Result<Vec<IpAddr>, Reason> {
    let mut entry = Entry::begin(connection, Kind::Lookup).await;
    entry.row().host = Some(Host::Name(name.clone()));
    let cost = QUESTION + name.as_str().len() as u64;
    let session = &connection.session;
    if let Err(reason) = session.meter.take(Way::Out, cost, &session.policy().throttle) {
        entry.decide(Decision::Denied, reason);
        return Err(reason);
    }
    entry.row().bytes.out = cost;
    // With the dot at its end, no search domain of the host's is tried.
    let absolute = Name::from_ascii(format!("{name}.")).map_err(|_| Reason::Unresolved)?;
    let live = session.shared.live();
    let found = match live.resolver.lookup_ip(absolute).await {
        Ok(found) => found,
        Err(_) => {
            entry.decide(Decision::Failed, Reason::Unresolved);
            return Err(Reason::Unresolved);
        }
    };
    entry.first_byte();
    let mut found: Vec<IpAddr> = found.iter().take(MOST_ADDRESSES + 1).collect();
    found.sort_by_key(IpAddr::is_ipv6);
    if found.is_empty() || found.len() > MOST_ADDRESSES {
        entry.decide(Decision::Failed, Reason::Unresolved);
        return Err(Reason::Unresolved);
    }
    entry.row().address = found.first().copied();
    match vet(connection, port, &found) {
        Ok(()) => entry.decide(Decision::Allowed, Reason::Rule),
        Err(reason) => {
            entry.decide(Decision::Denied, reason);
            return Err(reason);
        }
    }
    Ok(found)
}

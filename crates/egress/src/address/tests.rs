use super::*;

fn policy(deny: &[&str]) -> Policy {
    Policy { deny: deny.iter().map(|block| block.parse().unwrap()).collect(), ..Policy::default() }
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

#[track_caller]
fn check(addresses: &[&str], openings: &Openings, policy: &Policy, want: Result<(), Reason>) {
    for address in addresses {
        assert_eq!(vet(at(address, 443), policy, openings), want, "{address}");
    }
}

const PUBLIC: &[&str] = &[
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.0.3.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2000::1",
    "2001:200::1",
    "2001:db7::1",
    "2001:4860:4860::8888",
    "2606:4700::1111",
    "3ffe::1",
    "3fff:1000::1",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
    "2606:4700::5efe:101:101",
];

const PRIVATE: &[&str] = &[
    // This host.
    "0.0.0.0",
    "0.0.0.1",
    "0.255.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "::",
    "::1",
    // This site.
    "10.0.0.0",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.255.255",
    "fc00::1",
    "fd12:3456::1",
    "fec0::1",
    // This link, and metadata.
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "168.63.129.16",
    "192.0.0.192",
    "100.100.100.200",
    "fd00:ec2::254",
    "fe80::1",
    "febf::1",
    // Carriers, protocols, benchmarks, documentation.
    "100.64.0.0",
    "100.127.255.255",
    "192.0.0.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "3fff::1",
    "3fff:fff:ffff::1",
    "100::1",
    "5f00::1",
    // Many at once, or nobody.
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "ff02::1",
    "ff0e::1",
    "4000::1",
    // IPv4 in IPv6: mapped, compatible, translated, 6to4, Teredo, site tunnels.
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "::1.1.1.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::10.1.2.3",
    "64:ff9b:0:0:0:1:101:101",
    "64:ff9b:1::101:101",
    "64:ff9b:1:ffff::7f00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2002:101:101::1",
    "2001:0:101:101::1",
    "2001::80ff:fffe",
    "2606:4700::5efe:7f00:1",
    "2606:4700::200:5efe:10.0.0.1",
    "fe80::5efe:101:101",
];

#[test]
fn public_hosts_may_be_reached() {
    check(PUBLIC, &Openings::default(), &policy(&[]), Ok(()));
}

#[test]
fn everything_else_may_not() {
    check(PRIVATE, &Openings::default(), &policy(&[]), Err(Reason::Private));
}

#[test]
fn the_edges_of_each_range_are_where_the_table_says() {
    // The first and the last are inside; `PUBLIC` has their neighbours outside.
    for (first, bits) in SPECIAL_V4 {
        let first = u32::from(*first);
        let last = first | u32::MAX.checked_shr(*bits).unwrap_or(0);
        for number in [first, last] {
            assert!(!is_public(IpAddr::V4(number.into())), "{}", Ipv4Addr::from(number));
        }
    }
    for public in PUBLIC {
        assert!(faces(public.parse().unwrap()).all(is_public), "{public}");
    }
}

#[test]
fn an_opening_opens_its_block_and_nothing_beside_it() {
    let openings = Openings::of(["10.1.0.0/16".parse().unwrap(), "::1".parse().unwrap()]);
    let open = ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203", "::1", "1.1.1.1"];
    check(&open, &openings, &policy(&[]), Ok(()));
    let closed = ["10.2.0.1", "127.0.0.1", "169.254.169.254", "2002:a01:203::1", "::2"];
    check(&closed, &openings, &policy(&[]), Err(Reason::Private));
}

#[test]
fn an_opening_of_ports_opens_only_these() {
    let openings = Openings::new(vec![Opening {
        block: "127.0.0.0/8".parse().unwrap(),
        ports: Some(vec![8080]),
    }]);
    let policy = policy(&[]);
    assert_eq!(vet(at("127.0.0.1", 8080), &policy, &openings), Ok(()));
    assert_eq!(vet(at("127.0.0.1", 8081), &policy, &openings), Err(Reason::Private));
    assert_eq!(vet(at("1.1.1.1", 0), &policy, &openings), Err(Reason::Private));
}

#[test]
fn this_host_is_closed_unless_its_port_is_opened() {
    let own = vec!["10.0.0.5".parse().unwrap(), "9.9.9.9".parse().unwrap()];
    let whole = "10.0.0.0/8".parse().unwrap();
    let openings = Openings::of([whole]).with_own(own.clone());
    check(&["10.0.0.6"], &openings, &policy(&[]), Ok(()));
    let closed = ["10.0.0.5", "9.9.9.9", "::ffff:9.9.9.9", "64:ff9b::909:909"];
    check(&closed, &openings, &policy(&[]), Err(Reason::Private));
    let named = Opening { block: whole, ports: Some(vec![443]) };
    let openings = Openings::new(vec![named]).with_own(own);
    check(&["10.0.0.5"], &openings, &policy(&[]), Ok(()));
}

#[test]
fn the_policy_beats_openings_and_the_public() {
    let everything = Openings::of(["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()]);
    let denied = policy(&["10.0.0.0/8", "1.1.1.0/24", "2606:4700::/32"]);
    let closed = [
        "10.9.9.9",
        "1.1.1.1",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101",
        "::1.1.1.1",
        "2606:4700::1",
        "2a00::5efe:101:101",
    ];
    check(&closed, &everything, &denied, Err(Reason::DeniedBlock));
    check(&["1.1.2.1", "127.0.0.1", "2606:4701::1"], &everything, &denied, Ok(()));
}

//! Networks of the rig: each member in a namespace of its own, all joined by a
//! bridge, each link to be cut in either direction.
//!
//! A link is cut by a neighbour entry that leads nowhere: what one member sends to
//! the other is addressed to a card that nobody has, and vanishes without a word,
//! as in a network that lost a cable. It needs no packet filter on the host.

use std::net::Ipv4Addr;

use anyhow::{Context as _, bail};

use super::record::Kind;
use super::{Rig, run, try_run};

/// A card that nobody has.
const NOWHERE: &str = "02:00:00:00:be:11";
const MOST: u8 = 200;

#[derive(Debug)]
pub(crate) struct Net {
    rig: Rig,
    number: u8,
    members: u8,
}

/// A place on the network.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// None: the host itself.
    pub(crate) namespace: Option<String>,
    device: String,
    pub(crate) address: Ipv4Addr,
}

impl Net {
    pub(crate) fn make(rig: &Rig) -> anyhow::Result<Self> {
        for number in 1..MOST {
            let bridge = format!("bjf{number}");
            if !try_run("ip", &["link", "add", &bridge, "type", "bridge"]) {
                continue;
            }
            rig.record.note(Kind::Link, &bridge)?;
            let net = Self { rig: rig.clone(), number, members: 0 };
            let address = format!("{}/24", net.address(1));
            run("ip", &["addr", "add", &address, "dev", &bridge])?;
            run("ip", &["link", "set", &bridge, "up"])?;
            return Ok(net);
        }
        bail!("no bridge can be made")
    }

    fn address(&self, member: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.number, member)
    }

    /// Where clients are, and whoever counts.
    pub(crate) fn host(&self) -> Place {
        Place { namespace: None, device: format!("bjf{}", self.number), address: self.address(1) }
    }

    pub(crate) fn join(&mut self, name: &str) -> anyhow::Result<Place> {
        self.members = self.members.checked_add(1).context("the network is full")?;
        let (number, member) = (self.number, self.members);
        let namespace = format!("bjf{number}-{name}");
        let outside = format!("bjf{number}v{member}");
        self.rig.record.note(Kind::Namespace, &namespace)?;
        // A connection that was cut keeps its namespace alive for minutes.
        self.rig.record.note(Kind::Link, &outside)?;
        run("ip", &["netns", "add", &namespace])?;
        let bridge = format!("bjf{number}");
        run(
            "ip",
            &["link", "add", &outside, "type", "veth", "peer", "name", "eth0", "netns", &namespace],
        )?;
        run("ip", &["link", "set", &outside, "master", &bridge, "up"])?;
        let address = self.address(member + 10);
        run("ip", &["-n", &namespace, "addr", "add", &format!("{address}/24"), "dev", "eth0"])?;
        run("ip", &["-n", &namespace, "link", "set", "eth0", "up"])?;
        run("ip", &["-n", &namespace, "link", "set", "lo", "up"])?;
        // What a gateway dials must have a way, even if it leads nowhere.
        let host = self.address(1).to_string();
        run("ip", &["-n", &namespace, "route", "add", "default", "via", &host])?;
        Ok(Place { namespace: Some(namespace), device: "eth0".to_owned(), address })
    }

    /// From now on nothing that `from` sends arrives at `to`.
    pub(crate) fn cut(&self, from: &Place, to: &Place) -> anyhow::Result<()> {
        from.neighbour(&["replace", &to.address.to_string(), "lladdr", NOWHERE])
    }

    pub(crate) fn cut_both(&self, one: &Place, other: &Place) -> anyhow::Result<()> {
        self.cut(one, other)?;
        self.cut(other, one)
    }

    pub(crate) fn mend(&self, one: &Place, other: &Place) {
        for (from, to) in [(one, other), (other, one)] {
            let _ = from.neighbour(&["del", &to.address.to_string()]);
        }
    }
}

impl Place {
    fn neighbour(&self, words: &[&str]) -> anyhow::Result<()> {
        let mut all = Vec::new();
        if let Some(namespace) = &self.namespace {
            all.extend(["-n", namespace]);
        }
        all.push("neigh");
        all.extend(words);
        all.extend(["dev", &self.device]);
        if words[0] == "replace" {
            all.extend(["nud", "permanent"]);
        }
        run("ip", &all).map(drop)
    }
}

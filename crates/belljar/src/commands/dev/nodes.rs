//! The nodes of a `belljar dev`: a platform goes on without one that dies.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use super::Platform;

/// Between the death of a node and its first restart; doubled for each death after it.
const RESTART_DELAY: Duration = Duration::from_secs(1);
const MAX_RESTART_DELAY: Duration = Duration::from_secs(30);
/// A node that lived this long died of something new.
const STABLE_LIFE: Duration = Duration::from_secs(60);

/// The settings that one node is started with, and its deaths.
#[derive(Debug)]
pub(super) struct DevNode {
    pub(super) address: SocketAddr,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) token: PathBuf,
    started: Instant,
    delay: Duration,
    life: Life,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Up,
    /// To be started again then.
    Waits(Instant),
    Down,
}

/// Nodes by name.
pub(super) type DevNodes = BTreeMap<String, DevNode>;

impl DevNode {
    pub(super) fn new(address: SocketAddr, metrics: Option<SocketAddr>, token: PathBuf) -> Self {
        let (started, delay) = (Instant::now(), RESTART_DELAY);
        Self { address, metrics, token, started, delay, life: Life::Up }
    }

    /// Notes a death; returns when the node is to be started again.
    fn died(&mut self, restarts: bool, now: Instant) -> Option<Duration> {
        if !restarts {
            self.life = Life::Down;
            return None;
        }
        let is_stable = now.saturating_duration_since(self.started) >= STABLE_LIFE;
        let delay = if is_stable { RESTART_DELAY } else { self.delay };
        self.delay = (delay * 2).min(MAX_RESTART_DELAY);
        self.life = Life::Waits(now + delay);
        Some(delay)
    }
}

impl Platform<'_> {
    /// Reports nodes that died and starts them again if that was asked for. An error if anything
    /// else died.
    pub(super) fn watch(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        for index in 0..self.children.len() {
            let name = self.children[index].name().to_owned();
            let Some(node) = self.nodes.get_mut(&name) else {
                self.children[index].look()?;
                continue;
            };
            match node.life {
                Life::Down => {}
                Life::Waits(until) if now < until => {}
                Life::Waits(_) => {
                    (node.life, node.started) = (Life::Up, now);
                    let command = self.node_command(&name);
                    self.children[index].start_again(command)?;
                    self.printer.note(format_args!("{name} is started again"));
                }
                Life::Up => {
                    let Some(status) = self.children[index].exit_status() else { continue };
                    let delay = node.died(self.options.restart_nodes, now);
                    self.report(index, &name, status, delay);
                }
            }
        }
        Ok(())
    }

    fn report(&self, index: usize, name: &str, status: ExitStatus, delay: Option<Duration>) {
        self.printer.always(format_args!(
            "{name} died ({status}): its sandboxes are lost; the platform goes on"
        ));
        let log = self.children[index].log().display();
        match delay {
            Some(delay) => self.printer.note(format_args!(
                "{name} is started again in {} s; its log is in `{log}`",
                delay.as_secs()
            )),
            None => self.printer.note(format_args!(
                "hint: its log is in `{log}`; `belljar dev --restart-nodes` starts nodes again"
            )),
        }
    }

    /// The command that starts a node.
    pub(super) fn node_command(&self, name: &str) -> Command {
        let mut command = self.programs.belljar();
        command.arg("node").args(["--name", name, "--nats", &self.nats]);
        command.args(["--control", &format!("https://{}", self.node_port)]);
        command.args(["--slots", &self.options.slots.to_string()]);
        command.arg("--data").arg(self.home.path(name));
        command.arg("--store").arg(&self.config.store);
        if let Some(state) = &self.config.state {
            command.arg("--state").arg(state);
        }
        if let Some(node) = self.nodes.get(name) {
            command.args(["--listen", &node.address.to_string()]);
            command.arg("--enrol-token-file").arg(&node.token);
            if let Some(metrics) = node.metrics {
                command.args(["--metrics", &metrics.to_string()]);
            }
        }
        command
    }
}

/// The address of a node's metrics: control's, with the node's number added to its port.
pub(super) fn metrics_of(first: SocketAddr, number: u16) -> anyhow::Result<SocketAddr> {
    let port = first.port().checked_add(number);
    let port = port.filter(|_| first.port() != 0).ok_or_else(|| {
        let error = anyhow::anyhow!("--metrics needs a port below {}", u16::MAX - number + 1);
        crate::output::hinted(error, "write it like --metrics 127.0.0.1:9300")
    })?;
    Ok(SocketAddr::new(first.ip(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_dies_again_and_again_waits_longer_each_time() {
        let mut node = DevNode::new(([127, 0, 0, 1], 1).into(), None, PathBuf::new());
        let now = Instant::now();
        let delays: Vec<_> = (0..7).map(|_| node.died(true, now).unwrap().as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(node.died(true, now + STABLE_LIFE), Some(RESTART_DELAY));
        assert_eq!(node.died(false, now), None);
        assert_eq!(node.life, Life::Down);
    }

    #[test]
    fn each_node_has_a_port_of_its_own_for_metrics() {
        let first = SocketAddr::from(([127, 0, 0, 1], 9300));
        assert_eq!(metrics_of(first, 3).unwrap().port(), 9303);
        assert!(metrics_of(SocketAddr::from(([127, 0, 0, 1], 65535)), 1).is_err());
        assert!(metrics_of(SocketAddr::from(([127, 0, 0, 1], 0)), 1).is_err());
    }
}

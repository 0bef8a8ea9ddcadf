//! A platform engineer's first hour: a node dies, is forgotten, another is drained and comes
//! back, and the logs say who was hit.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::dev::{Dev, PATIENCE};
use crate::harness::{Place, Ran, can_jail};
use crate::messages::shell_in;

/// Waits until something is so.
#[track_caller]
fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// A place whose store has a small template, and which PostgreSQL's user can pass.
fn place() -> Place {
    let place = Place::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).unwrap();
    shell_in(&place.path().join("root"));
    place.write("tiny.toml", "name = \"tiny\"\nbase = { directory = \"root\" }\n");
    place.run(&["template", "build", "tiny.toml"]).expect_status(0);
    place
}

fn admin(place: &Place, dev: &Dev, words: &[&str]) -> Ran {
    let database = dev.data.join("database");
    let start = ["admin", "--database-file", database.to_str().unwrap()];
    place.run(&[&start, words].concat())
}

/// The states of the nodes, by name.
fn states(place: &Place, dev: &Dev) -> Vec<(String, String)> {
    let nodes = admin(place, dev, &["node", "list", "--json"]).expect_status(0).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let nodes = nodes.as_array().unwrap().iter();
    nodes.map(|node| (text(&node["name"]), text(&node["state"]))).collect()
}

fn kill_node(dev: &Dev, name: &str) {
    let named = format!("--name {name} ");
    let node = dev.children().into_iter().find(|(_, line)| line.contains(&named));
    let (pid, _) = node.unwrap_or_else(|| panic!("no {name} in {:?}", dev.children()));
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// A base of ports for metrics: control's, and one for each node after it.
fn metrics_base(nodes: u16) -> u16 {
    loop {
        let port = belljar_testkit::free_port().unwrap();
        let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        let mut others = (1..=nodes).map(|node| port.checked_add(node));
        if others.all(|port| port.is_some_and(is_free)) {
            return port;
        }
    }
}

fn scrape(port: u16) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\nhost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_platform_goes_on_without_a_node_and_says_whom_it_took() {
    if !can_jail() {
        return;
    }
    let place = place();
    let port = metrics_base(2);
    let dev = Dev::start_with(&place, "2", &["--metrics", &format!("127.0.0.1:{port}")]);
    for (offset, role) in [(0, "control"), (1, "node"), (2, "node")] {
        let text = scrape(port + offset);
        assert!(text.contains(&format!("role=\"{role}\"")), "{offset}: {text}");
    }
    // Until both nodes have one; the best of few is chosen at random.
    let on = |node: &str| {
        let words = ["sandbox", "list", "--json", "--node", node, "--tenant", "dev"];
        admin(&place, &dev, &words).expect_status(0).json().as_array().unwrap().clone()
    };
    let hit = wait_for("a sandbox on each node", || {
        assert_eq!(dev.status("POST /v1/sandboxes\n{\"template\": \"tiny\"}"), 201);
        if on("node-1").is_empty() { None } else { on("node-2").first().cloned() }
    });
    assert_eq!((&hit["tenant"], &hit["node"]), (&"dev".into(), &"node-2".into()));
    let id = hit["id"].as_str().unwrap();
    let table = admin(&place, &dev, &["sandbox", "list"]);
    let table = String::from_utf8(table.expect_status(0).stdout.clone()).unwrap();
    assert!(table.starts_with("SANDBOX ") && table.contains(id), "{table}");
    admin(&place, &dev, &["sandbox", "list", "--node", "node-9"])
        .expect_status(1)
        .expect_words(&["no node `node-9`", "hint: "]);

    only_tiers_that_start_are_offered(&place, &dev);

    kill_node(&dev, "node-2");
    let unreached = wait_for("a request that is not forwarded", || {
        let (status, head, body) = dev.ask(&format!("GET /v1/sandboxes/{id}"));
        (status == 503).then_some((head, body))
    });
    let request = unreached.0.split("x-request-id: ").nth(1).unwrap();
    let request = request.split("\r\n").next().unwrap();
    assert!(
        unreached.1.contains(request) && unreached.1.contains("node_unreachable"),
        "{unreached:?}"
    );
    wait_for("node-2 to be lost", || {
        states(&place, &dev).contains(&("node-2".to_owned(), "lost".to_owned())).then_some(())
    });
    assert_eq!(dev.status("POST /v1/sandboxes\n{\"template\": \"tiny\"}"), 201);
    let log = || std::fs::read_to_string(dev.data.join("logs/control.log")).unwrap();
    let line = |words: &[&str]| {
        let holds = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(log().lines().any(holds), "no line with {words:?} in\n{}", log());
    };
    line(&["request not forwarded", request, id, "node-2"]);
    line(&["node lost", "node-2"]);
    line(&["sandbox lost with its node", id, "node-2"]);

    admin(&place, &dev, &["node", "forget", "node-1"])
        .expect_status(1)
        .expect_words(&["is connected", "hint: "]);
    admin(&place, &dev, &["node", "forget", "node-2"]).expect_status(0);
    assert_eq!(states(&place, &dev), [("node-1".to_owned(), "up".to_owned())]);

    let answer = |wanted: u16| {
        wait_for(&format!("/v1/ready to answer {wanted}"), || {
            let (status, _, body) = dev.ask("GET /v1/ready");
            (status == wanted).then_some(body)
        })
    };
    admin(&place, &dev, &["node", "drain", "node-1"]).expect_status(0);
    let body = answer(503);
    assert!(body.contains("no node takes new sandboxes: all are draining"), "{body}");
    admin(&place, &dev, &["node", "undrain", "node-1"])
        .expect_status(0)
        .expect_words(&["takes new sandboxes again"]);
    answer(200);
    wait_for("a sandbox on the node that was drained", || {
        (dev.status("POST /v1/sandboxes\n{\"template\": \"tiny\"}") == 201).then_some(())
    });
    dev.signal(Signal::INT);
    let ran = dev.end();
    ran.expect_status(0).expect_words(&[
        "node-2 died (signal: 9 (SIGKILL)): its sandboxes are lost; the platform goes on",
        "--restart-nodes",
    ]);
}

/// What `node list` shows for a container runtime is what a create gets.
fn only_tiers_that_start_are_offered(place: &Place, dev: &Dev) {
    let nodes = admin(place, dev, &["node", "list", "--json"]).expect_status(0).json();
    let offered = nodes[0]["tiers"].as_array().unwrap();
    for tier in ["jail", "oci/crun", "oci/runc"] {
        let wish = format!("POST /v1/sandboxes\n{{\"template\": \"tiny\", \"tier\": \"{tier}\"}}");
        let (status, _, body) = dev.ask(&wish);
        if offered.contains(&tier.into()) {
            assert_eq!(status, 201, "{tier} is offered: {body}");
        } else {
            assert!(body.contains("tier_unavailable"), "{tier} is not offered: {status} {body}");
        }
    }
}

#[test]
fn a_node_that_dies_is_started_again_if_that_was_asked_for() {
    if !can_jail() {
        return;
    }
    let place = place();
    let dev = Dev::start_with(&place, "1", &["--restart-nodes"]);
    let epoch = || {
        let nodes = admin(&place, &dev, &["node", "list", "--json"]).expect_status(0).json();
        nodes[0]["epoch"].as_u64().unwrap()
    };
    let before = epoch();
    kill_node(&dev, "node-1");
    wait_for("the node to register again", || (epoch() > before).then_some(()));
    wait_for("a sandbox", || {
        (dev.status("POST /v1/sandboxes\n{\"template\": \"tiny\"}") == 201).then_some(())
    });
    dev.signal(Signal::INT);
    let ran = dev.end();
    ran.expect_status(0).expect_words(&["node-1 died", "node-1 is started again"]);
}

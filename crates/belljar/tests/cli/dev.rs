//! `belljar dev`: a platform of real parts, started and ended by one command.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Place, Ran, can_jail};
use crate::messages::shell_in;

/// Only to end a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A running `belljar dev`.
pub(crate) struct Dev {
    process: Child,
    pub(crate) data: PathBuf,
    address: SocketAddr,
    key: String,
}

impl Dev {
    /// Starts it, and reads the variables that it prints once it is ready.
    pub(crate) fn start(place: &Place, nodes: &str) -> Self {
        Self::start_with(place, nodes, &[])
    }

    pub(crate) fn start_with(place: &Place, nodes: &str, more: &[&str]) -> Self {
        let port = belljar_testkit::free_port().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let data = place.path().join("dev");
        let mut command = place.command(&["dev", "--nodes", nodes, "--slots", "8"]);
        command.args(["--listen", &address.to_string()]).arg("--data").arg(&data).args(more);
        command.env("PATH", search_path()).stdin(Stdio::null());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut key = None;
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        while key.is_none() {
            let Some(line) = lines.next() else {
                let ran = Ran::from(process.wait_with_output().unwrap());
                panic!("it ended before it was ready: {ran:?}");
            };
            let line = line.unwrap();
            let value = line.strip_prefix("export E2B_API_KEY='");
            key = value.map(|value| value.trim_end_matches('\'').to_owned());
        }
        Self { process, data, address, key: key.unwrap() }
    }

    pub(crate) fn status(&self, request: &str) -> u16 {
        self.ask(request).0
    }

    /// The status of an answer, its head and its body.
    pub(crate) fn ask(&self, request: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let (line, body) = request.split_once('\n').unwrap_or((request, ""));
        let head = format!(
            "{line} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nx-api-key: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.key,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, head.to_ascii_lowercase(), body.to_owned())
    }

    /// Its children, by what they were started as.
    pub(crate) fn children(&self) -> Vec<(i32, String)> {
        let me = self.process.id();
        let list = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children")).unwrap();
        let child = |pid: &str| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some((pid.parse().ok()?, String::from_utf8_lossy(&line).replace('\0', " ")))
        };
        list.split_whitespace().filter_map(child).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn end(self) -> Ran {
        Ran::from(self.process.wait_with_output().unwrap())
    }
}

/// Where the host's programs are, and those of the gate.
fn search_path() -> std::ffi::OsString {
    let cache = std::env::var_os("BELLJAR_CACHE").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/belljar"));
    let tools = cache.or(home).map(|cache| cache.join("tools/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::env::split_paths(&path).chain(tools)).unwrap()
}

/// Whether no process has this directory on its command line any more.
#[track_caller]
fn all_gone(data: &Path) {
    let data = data.to_str().unwrap();
    let began = Instant::now();
    loop {
        let left: Vec<_> = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
            .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
            .filter(|line| line.contains(data))
            .collect();
        if left.is_empty() {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{left:?}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

#[test]
fn a_platform_starts_serves_and_ends_and_starts_again() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    // The user of the database must be able to pass.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).unwrap();
    shell_in(&place.path().join("root"));
    place.write("tiny.toml", "name = \"tiny\"\nbase = { directory = \"root\" }\n");
    place.run(&["template", "build", "tiny.toml"]).expect_status(0);
    let dev = Dev::start(&place, "2");
    assert_eq!(dev.status("GET /v1/ready"), 200);
    assert_eq!(dev.status("POST /v1/sandboxes\n{\"template\": \"tiny\"}"), 201);
    assert_eq!(dev.children().len(), 5, "{:?}", dev.children());
    let database = dev.data.join("database");
    let list = ["admin", "--database-file", database.to_str().unwrap(), "node", "list", "--json"];
    let nodes = place.run(&list).expect_status(0).json();
    let states: Vec<_> = nodes.as_array().unwrap().iter().map(|node| &node["state"]).collect();
    assert_eq!(states, ["up", "up"]);
    // A second one would spoil the first one's data.
    let ran = place.command(&["dev", "--data"]).arg(&dev.data).env("PATH", search_path()).output();
    let ran = Ran::from(ran.unwrap());
    ran.expect_status(1).expect_words(&["another `belljar dev` is running", "hint: "]);
    let (key, data) = (dev.key.clone(), dev.data.clone());
    dev.signal(Signal::INT);
    let ran = dev.end();
    ran.expect_status(0);
    let order: Vec<_> =
        ran.stderr.lines().filter_map(|line| line.strip_prefix("ending ")).collect();
    assert_eq!(order, ["node-2", "node-1", "control", "nats", "postgres"], "{}", ran.stderr);
    assert!(!ran.stderr.contains("was killed"), "{}", ran.stderr);
    all_gone(&data);

    let again = Dev::start(&place, "1");
    assert_eq!(again.key, key, "what was made is kept");
    // Ready means its own node: the leases of the nodes before it have not all run out.
    assert_eq!(again.status("POST /v1/sandboxes\n{\"template\": \"tiny\"}"), 201);
    let nats = again.children().into_iter().find(|(_, line)| line.contains("nats-server"));
    kill_process(Pid::from_raw(nats.unwrap().0).unwrap(), Signal::KILL).unwrap();
    let ran = again.end();
    ran.expect_status(1).expect_words(&["nats died", "hint: its whole log is in"]);
    all_gone(&data);
}

#[test]
fn nothing_outlives_a_killed_one() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).unwrap();
    let dev = Dev::start(&place, "1");
    let data = dev.data.clone();
    dev.signal(Signal::KILL);
    dev.end();
    all_gone(&data);
}

#[test]
fn what_has_to_be_installed_is_said() {
    if Path::new("/usr/sbin/nats-server").exists() {
        return;
    }
    let place = Place::new();
    let mut command: Command = place.command(&["dev", "--data", "dev"]);
    let ran = Ran::from(command.env("PATH", place.path()).output().unwrap());
    ran.expect_status(1).expect_words(&["nats-server is not installed", "apt install nats-server"]);
    assert!(!place.path().join("dev").exists(), "nothing is begun that cannot be ended");
}

#[test]
fn a_port_that_is_taken_is_said_before_anything_starts() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let place = Place::new();
    let mut command = place.command(&["dev", "--data", "dev", "--listen", &address]);
    let ran = Ran::from(command.env("PATH", search_path()).output().unwrap());
    ran.expect_status(1).expect_words(&["cannot listen on", "hint: choose another port"]);
    assert!(!place.path().join("dev/postgres").exists());
}

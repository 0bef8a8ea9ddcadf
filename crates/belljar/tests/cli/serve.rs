//! `belljar serve`, from its first second on.

#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::dev::PATIENCE;
use crate::harness::Place;

const KEY: &str = "e2b_eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee";

/// A server that listens, and may not be warm yet.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(place: &Place) -> Self {
        place.write("keys", format!("{KEY} default\n"));
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(["--keys", "keys", "--data", "data"]);
        command.env("BELLJAR_STORE", belljar_testkit::store());
        command.env("BELLJAR_STATE", place.path().join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            Some(line.unwrap().strip_prefix("listening on http://")?.trim().to_owned())
        });
        let address = address.unwrap_or_else(|| panic!("it ended: {:?}", child.wait()));
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, address }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nhost: {}\r\nx-api-key: {KEY}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    #[track_caller]
    fn made(&self, path: &str, body: &str) -> Value {
        let (status, answer) = self.ask("POST", path, body);
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (Some(pid), Ok(None)) = (pid, self.child.try_wait()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// An app developer's first program: it does not wait for the server, and forks what it made.
#[test]
fn a_sandbox_of_the_first_second_can_be_forked() {
    if let Some(lacks) = belljar_testkit::lacking("python-data") {
        eprintln!("SKIPPED {}:{}: this test needs {lacks}", file!(), line!());
        return;
    }
    let place = Place::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).unwrap();
    let server = Server::start(&place);
    let (status, said) = server.ask("GET", "/v1/ready", "");
    // A busy host may have warmed up before this was asked.
    assert!(status == 200 || said["code"] == "warming_up", "{status} {said}");
    assert_eq!(server.ask("GET", "/v1/health", "").0, 200, "alive, ready or not");
    // A page, or the plain message that this executable was built without: no JSON.
    let console = if belljar_console::Console::embedded().is_empty() { 404 } else { 200 };
    assert_eq!(server.ask("GET", "/console", ""), (console, Value::Null));
    let made = server.made("/v1/sandboxes", "{\"template\": \"base\"}");
    let sandbox = format!("/v1/sandboxes/{}", made["id"].as_str().unwrap());
    let context = server.made(&format!("{sandbox}/contexts"), "{\"language\": \"python\"}");
    let cells = |sandbox: &str, context: &Value| {
        format!("{sandbox}/contexts/{}/cells", context["id"].as_str().unwrap())
    };
    let ran = server.made(&cells(&sandbox, &context), "{\"code\": \"x = 41\"}");
    assert_eq!(ran["end"]["origin"], "forked", "{ran}");
    let forks = server.made(&format!("{sandbox}/fork"), "{\"count\": 1}");
    let fork = format!("/v1/sandboxes/{}", forks["items"][0]["sandbox"]["id"].as_str().unwrap());
    let ran = server.made(&cells(&fork, &context), "{\"code\": \"print(x + 1)\"}");
    assert_eq!(ran["stdout"], "42\n", "{ran}");
    let began = Instant::now();
    while server.ask("GET", "/v1/ready", "").0 != 200 {
        assert!(began.elapsed() < PATIENCE, "it is never ready");
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
}

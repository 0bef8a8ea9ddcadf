//! The gateway as a process: driven over its socket, and gone when its node is.
//!
//! This program is the node and, started again under another name, the gateway.
#![expect(clippy::unwrap_used, reason = "a test, though with a `main` of its own")]

#[path = "process/charges.rs"]
mod charges;
#[path = "process/holds.rs"]
mod holds;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use belljar_domain::SandboxId;
use belljar_domain::network::{Policy, Reach, Reason, Row, Subject};
use belljar_peer_proto::gateway::{
    FromGateway, LONGEST, PROCESS, Session, ToGateway, decode, encode,
};
use belljar_sys::packet;
use libtest_mimic::{Arguments, Trial};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

struct Gateway {
    process: Child,
    socket: OwnedFd,
    rows: Vec<Row>,
    config: PathBuf,
    _folder: tempfile::TempDir,
}

impl Gateway {
    fn start() -> Self {
        Self::start_with("", None)
    }

    /// With settings, and with a charge log if there is a place for it.
    fn start_with(settings: &str, charges: Option<&Path>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("gateway.toml");
        fs::write(&config, settings).unwrap();
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let process = Command::new("/proc/self/exe")
            .arg0(PROCESS)
            .arg(&config)
            .arg("")
            .arg(charges.unwrap_or(Path::new("")))
            .stdin(Stdio::from(theirs))
            .spawn()
            .unwrap();
        let mut gateway = Self { process, socket: ours, rows: vec![], config, _folder: folder };
        assert_eq!(gateway.answer(), FromGateway::Ready);
        gateway
    }

    fn send(&self, message: &ToGateway, descriptors: &[OwnedFd]) {
        let descriptors: Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
        packet::send(&self.socket, &encode(message).unwrap(), &descriptors).unwrap();
    }

    fn receive(&self) -> FromGateway {
        let (packet, _) = packet::receive(&self.socket, LONGEST).unwrap();
        decode(&packet).unwrap()
    }

    /// The next answer; rows before it are kept.
    fn answer(&mut self) -> FromGateway {
        loop {
            match self.receive() {
                FromGateway::Rows { rows } => self.rows.extend(rows),
                FromGateway::ChargeLog { .. } => {}
                FromGateway::Whose { question, .. } => {
                    let belongs = belljar_peer_proto::gateway::Belongs::default();
                    self.send(&ToGateway::Belongs { question, belongs }, &[]);
                }
                answer => return answer,
            }
        }
    }

    /// Opens a sandbox whose connections are handed over one by one.
    fn open(&mut self) {
        let open = ToGateway::Open { sequence: 4, session: session(2, Policy::default()) };
        assert!(matches!(self.ask(&open, &[]), FromGateway::Opened { .. }));
    }

    /// Hands over a connection of that sandbox; what its client hears.
    fn connect(&self, text: &str) -> String {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let belongs = belljar_peer_proto::gateway::Belongs::default();
        let connection = ToGateway::Connection { sandbox: sandbox(2), belongs };
        self.send(&connection, &[theirs.into()]);
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        ask(ours, text)
    }

    fn ask(&mut self, message: &ToGateway, descriptors: &[OwnedFd]) -> FromGateway {
        self.send(message, descriptors);
        self.answer()
    }
}

fn sandbox(number: u8) -> SandboxId {
    SandboxId::from_random([number; 16])
}

fn session(number: u8, policy: Policy) -> Box<Session> {
    let subject = Subject {
        tenant: "tenant".to_owned(),
        sandbox: sandbox(number),
        run: None,
        turn: None,
        call: None,
        process: None,
    };
    Box::new(Session { subject, policy, operations: vec![], charged: None })
}

/// What a client hears that asks for this.
fn ask(mut stream: impl std::io::Read + std::io::Write, text: &str) -> String {
    stream.write_all(text.as_bytes()).unwrap();
    let mut said = vec![0; 64 << 10];
    let length = stream.read(&mut said).unwrap();
    String::from_utf8_lossy(&said[..length]).into_owned()
}

const BAD: &str = "GET http://bad.test/ HTTP/1.1\r\nhost: bad.test\r\n\r\n";
const LOOPBACK: &str = "CONNECT 127.0.0.1:9 HTTP/1.1\r\nhost: 127.0.0.1:9\r\n\r\n";

/// The row of one client, whose connection we say is of turn 3.
fn row_of_one(gateway: &mut Gateway, address: SocketAddr) -> Row {
    let client = std::thread::spawn(move || ask(TcpStream::connect(address).unwrap(), BAD));
    while gateway.rows.is_empty() {
        match gateway.receive() {
            FromGateway::Rows { rows } => gateway.rows.extend(rows),
            FromGateway::Whose { question, sandbox: whose, socket } => {
                assert!(whose == sandbox(1) && socket.inode > 0);
                let belongs = belljar_peer_proto::gateway::Belongs {
                    turn: Some(3),
                    ..belljar_peer_proto::gateway::Belongs::default()
                };
                gateway.send(&ToGateway::Belongs { question, belongs }, &[]);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(client.join().unwrap().starts_with("HTTP/1.1 403"));
    gateway.rows.remove(0)
}

fn serves_what_it_is_handed(gateway: &mut Gateway) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let open = ToGateway::Open { sequence: 1, session: session(1, Policy::default()) };
    let descriptors = [listener.into(), belljar_sys::diag::open().unwrap()];
    let FromGateway::Opened { sequence: 1, opened } = gateway.ask(&open, &descriptors) else {
        panic!("not opened");
    };
    assert!(opened.authority.starts_with("-----BEGIN CERTIFICATE-----"));
    // Only the gateway holds it from now on.
    drop(descriptors);
    // Whose it is is asked of us for a moment only: the row of a client that we were too
    // slow for does not say.
    let row = loop {
        let row = row_of_one(gateway, address);
        assert_eq!(row.reason, Reason::NoNetwork);
        if row.subject.turn.is_some() || row.sequence == 100 {
            break row;
        }
    };
    assert_eq!(row.subject.turn, Some(3));
    let again = ToGateway::Open { sequence: 2, session: session(1, Policy::default()) };
    assert!(matches!(gateway.ask(&again, &[]), FromGateway::Refused { sequence: 2, .. }));
    let close = ToGateway::Close { sequence: 3, sandbox: sandbox(1) };
    assert_eq!(gateway.ask(&close, &[]), FromGateway::Done { sequence: 3 });
    assert!(matches!(gateway.ask(&close, &[]), FromGateway::Refused { .. }));
}

fn serves_single_connections(gateway: &mut Gateway) {
    gateway.open();
    assert!(gateway.connect(BAD).starts_with("HTTP/1.1 403"));
}

fn takes_over_new_settings(gateway: &mut Gateway) {
    gateway.open();
    let policy = Policy { reach: Reach::Open, ..Policy::default() };
    let change = ToGateway::Change { sequence: 5, sandbox: sandbox(2), policy: policy.into() };
    assert_eq!(gateway.ask(&change, &[]), FromGateway::Done { sequence: 5 });
    assert!(gateway.connect(LOOPBACK).starts_with("HTTP/1.1 403"), "loopback is private");
    fs::write(&gateway.config, "[gateway]\nopening = [\"127.0.0.0/8\"]\n").unwrap();
    let said = gateway.connect(LOOPBACK);
    assert!(said.starts_with("HTTP/1.1 403"), "what is wrong is not taken over");
    fs::write(&gateway.config, "[gateway]\nopenings = [\"127.0.0.0/8\"]\n").unwrap();
    let began = Instant::now();
    // Nobody listens there, which is another answer than being refused.
    while !gateway.connect(LOOPBACK).starts_with("HTTP/1.1 502") {
        assert!(began.elapsed() < PATIENCE, "new settings are taken over");
    }
}

/// Requests that end just before; rows wait for others before they are sent.
fn says_every_row_before_it_is_done(gateway: &mut Gateway) {
    const ASKED: usize = 20;
    gateway.open();
    for _ in 0..ASKED {
        let said = gateway.connect(BAD);
        // Refused, or asked too fast: a row either way.
        assert!(said.starts_with("HTTP/1.1 4"), "{said}");
    }
    let finish = ToGateway::Finish { sequence: 7 };
    assert_eq!(gateway.ask(&finish, &[]), FromGateway::Done { sequence: 7 });
    assert_eq!(gateway.rows.len(), ASKED);
}

fn ends_with_its_node(gateway: Gateway) {
    let Gateway { mut process, socket, .. } = gateway;
    drop(socket);
    let began = Instant::now();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return;
        }
        assert!(began.elapsed() < PATIENCE, "the gateway outlives its node");
        std::thread::yield_now();
    }
}

/// A case with a gateway of its own, which ends with its node afterwards.
fn trial(name: &str, case: fn(&mut Gateway)) -> Trial {
    Trial::test(name, move || {
        let mut gateway = Gateway::start();
        case(&mut gateway);
        ends_with_its_node(gateway);
        Ok(())
    })
}

fn main() -> ExitCode {
    belljar_gateway::hook();
    let trials = vec![
        trial("serves_what_it_is_handed", serves_what_it_is_handed),
        trial("serves_single_connections", serves_single_connections),
        trial("takes_over_new_settings", takes_over_new_settings),
        trial("says_every_row_before_it_is_done", says_every_row_before_it_is_done),
        Trial::test("charges_what_a_killed_gateway_left", || {
            charges::of_a_killed_gateway();
            Ok(())
        }),
        Trial::test("tool_calls_wait_until_the_node_answers", || {
            holds::until_the_node_answers();
            Ok(())
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

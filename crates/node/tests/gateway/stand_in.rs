//! The other end of the line: says of every connection whose it is, and does
//! nothing else. What is tested is what the node tells it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, mpsc};

use belljar_domain::network::{Bytes, Decision, Kind, Reason, Row, Subject};
use belljar_engine::packet;
use belljar_peer_proto::gateway::{
    Belongs, FromGateway, LONGEST, Minted, Opened, Session, Socket, ToGateway, decode, encode,
};

struct StandIn {
    line: OwnedFd,
    questions: Mutex<(u64, HashMap<u64, mpsc::Sender<Belongs>>)>,
    sessions: Mutex<HashMap<String, Session>>,
}

/// Serves until the node is gone; not at all while its configuration is there, which
/// is what it says then, if anything.
pub(crate) fn run() {
    let config = std::env::args_os().nth(1).unwrap();
    let line = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let stand_in =
        Arc::new(StandIn { line, questions: Mutex::default(), sessions: Mutex::default() });
    if let Ok(why) = std::fs::read_to_string(&config) {
        if !why.is_empty() {
            stand_in.say(&FromGateway::Failed { why });
        }
        return;
    }
    stand_in.say(&FromGateway::Ready);
    while let Ok((packet, descriptors)) = packet::receive(&stand_in.line, LONGEST) {
        stand_in.take(decode(&packet).unwrap(), descriptors);
    }
}

impl StandIn {
    fn say(&self, message: &FromGateway) {
        let _ = packet::send(&self.line, &encode(message).unwrap(), &[]);
    }

    fn take(self: &Arc<Self>, message: ToGateway, descriptors: Vec<OwnedFd>) {
        match message {
            ToGateway::Open { sequence, session } => {
                let authority = format!("authority of {}\n", std::process::id());
                let mut descriptors = descriptors.into_iter();
                let sandbox = session.subject.sandbox.as_str().to_owned();
                self.sessions.lock().unwrap().insert(sandbox, (*session).clone());
                self.say(&FromGateway::Opened {
                    sequence,
                    opened: Opened { authority, otlp: None, git: Vec::new() },
                });
                let (Some(listener), Some(diagnosis)) = (descriptors.next(), descriptors.next())
                else {
                    return;
                };
                let (this, subject) = (self.clone(), session.subject);
                std::thread::spawn(move || this.accept(&listener.into(), &diagnosis, &subject));
            }
            ToGateway::Connection { sandbox, belongs } => {
                let stream = UnixStream::from(descriptors.into_iter().next().unwrap());
                stream.set_nonblocking(false).unwrap();
                let session = self.sessions.lock().unwrap().get(sandbox.as_str()).cloned();
                let (this, subject) = (self.clone(), session.unwrap().subject);
                std::thread::spawn(move || {
                    let mut line = String::new();
                    BufReader::new(&stream).read_line(&mut line).unwrap();
                    this.tell(&subject, belongs, line.trim());
                    let _ = (&stream).write_all(b"ok\n");
                });
            }
            ToGateway::Mint { sequence, sandbox, .. } => {
                let token = format!("token of {sandbox}");
                let minted = Minted { token, expires: 1, paths: [].into() };
                self.say(&FromGateway::Minted { sequence, minted });
            }
            ToGateway::Change { sequence, sandbox, policy } => {
                if policy.throttle.connections == 0 {
                    let why = "nobody could connect".to_owned();
                    return self.say(&FromGateway::Refused { sequence, why });
                }
                self.answer(sequence, sandbox.as_str(), "change");
            }
            ToGateway::Revoke { sequence, sandbox } => {
                self.answer(sequence, sandbox.as_str(), "revoke");
            }
            ToGateway::Renew { sequence, sandbox, .. } => {
                self.answer(sequence, sandbox.as_str(), "renew");
            }
            ToGateway::Close { sequence, sandbox } => {
                self.answer(sequence, sandbox.as_str(), "close");
            }
            ToGateway::SaveCassette { sequence, .. }
            | ToGateway::LoadCassette { sequence, .. }
            | ToGateway::RemoveCassette { sequence, .. }
            | ToGateway::Finish { sequence } => self.say(&FromGateway::Done { sequence }),
            ToGateway::Belongs { question, belongs } => {
                let asked = self.questions.lock().unwrap().1.remove(&question).unwrap();
                let _ = asked.send(belongs);
            }
            ToGateway::Budget { .. } => panic!("no slice was asked for"),
            ToGateway::Replay | ToGateway::Charged { .. } => panic!("there is no charge log"),
            ToGateway::Approval { .. } => panic!("no approval was asked for"),
        }
    }

    fn answer(&self, sequence: u64, sandbox: &str, what: &str) {
        let session = self.sessions.lock().unwrap().get(sandbox).cloned().unwrap();
        self.tell(&session.subject, Belongs::default(), what);
        self.say(&FromGateway::Done { sequence });
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener, diagnosis: &OwnedFd, subject: &Subject) {
        listener.set_nonblocking(false).unwrap();
        let diagnosis = Arc::new(diagnosis.try_clone().unwrap());
        while let Ok((stream, peer)) = listener.accept() {
            let local = stream.local_addr().unwrap();
            let (this, subject, diagnosis) = (self.clone(), subject.clone(), diagnosis.clone());
            std::thread::spawn(move || {
                let found = belljar_engine::diag::find(diagnosis.as_fd(), peer, local).unwrap();
                let found = found.unwrap();
                let (cgroup, inode, uid) = (found.cgroup, found.inode, found.uid);
                let socket = Socket { cgroup, inode, uid };
                let belongs = this.ask(&subject, socket);
                this.hear(&stream, &subject, belongs);
            });
        }
    }

    fn hear(&self, stream: &TcpStream, subject: &Subject, belongs: Belongs) {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        self.tell(subject, belongs, line.trim());
        let _ = (&*stream).write_all(b"ok\n");
    }

    fn ask(&self, subject: &Subject, socket: Socket) -> Belongs {
        let (asked, answer) = mpsc::channel();
        let question = {
            let mut questions = self.questions.lock().unwrap();
            questions.0 += 1;
            let question = questions.0;
            questions.1.insert(question, asked);
            question
        };
        self.say(&FromGateway::Whose { question, sandbox: subject.sandbox.clone(), socket });
        answer.recv().unwrap()
    }

    /// One row, whose path is what the client said.
    fn tell(&self, subject: &Subject, belongs: Belongs, said: &str) {
        let Belongs { run, turn, call, process } = belongs;
        let subject = Subject { run, turn, call, process, ..subject.clone() };
        let row = Row {
            sequence: 0,
            within: None,
            subject,
            kind: Kind::Connection,
            decision: Decision::Denied,
            reason: Reason::NoNetwork,
            host: None,
            port: None,
            address: None,
            method: None,
            path: Some(said.to_owned()),
            status: None,
            operation: None,
            charge_id: None,
            charge: None,
            bytes: Bytes::default(),
            began: 0,
            first_byte_micros: None,
            micros: 0,
        };
        self.say(&FromGateway::Rows { rows: vec![row] });
    }
}

//! The process itself: started, listened to, started again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use belljar_engine::packet;
use belljar_peer_proto::gateway::{FromGateway, LEASED_BUDGETS, LONGEST, PROCESS, decode};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use super::{GatewayError, GatewayOptions, Packet, Served, Shared, budgets, whose};

/// How long a process may take to be ready.
const START: Duration = Duration::from_secs(10);

/// How long nothing is tried after one that died young, and what young is.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const YOUNG: Duration = Duration::from_secs(10);

/// How long one may take to end that nobody needs any more.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How often a sandbox is opened again before it is left without a way out:
/// whatever holds the port inside may let go of it.
const REOPENINGS: u32 = 5;

/// A process that is ready. The packets that it is sent are those of `outbox`.
struct Running {
    socket: Arc<UnixStream>,
    packets: mpsc::UnboundedReceiver<Packet>,
    child: Child,
}

/// The process, ended when this is dropped.
struct Child {
    pid: u32,
    pidfd: OwnedFd,
    exited: oneshot::Receiver<io::Result<ExitStatus>>,
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}

/// Starts the process and a task that keeps one running for as long as anyone
/// holds the gateway. Answers when the first is ready.
pub(super) async fn keep(shared: &Arc<Shared>) -> Result<(), GatewayError> {
    let running = start(shared).await?;
    let weak = Arc::downgrade(shared);
    tokio::spawn(async move {
        let mut running = Some(running);
        let mut pause = FIRST_PAUSE;
        loop {
            let since = Instant::now();
            if let Some(running) = running.take() {
                serve(&weak, running).await;
            }
            let Some(shared) = weak.upgrade() else { return };
            pause = if since.elapsed() > YOUNG { FIRST_PAUSE } else { pause };
            drop(shared);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            let Some(shared) = weak.upgrade() else { return };
            match start(&shared).await {
                Ok(started) => {
                    running = Some(started);
                    tokio::spawn(reopen(shared));
                }
                Err(GatewayError::Failed(why)) => shared.line().failed = Some(why),
                Err(_) => {}
            }
        }
    });
    Ok(())
}

/// Starts one and waits until it is ready; from then on it can be asked.
async fn start(shared: &Arc<Shared>) -> Result<Running, GatewayError> {
    let (socket, mut child) = spawn(&shared.options).map_err(GatewayError::Start)?;
    let said = tokio::time::timeout(START, receive(&socket)).await;
    match said.map_err(|_| GatewayError::Silent(START))? {
        Ok(FromGateway::Ready) => {}
        Ok(FromGateway::Failed { why }) => return Err(GatewayError::Failed(why)),
        Ok(_) => return Err(GatewayError::Start(io::ErrorKind::InvalidData.into())),
        Err(error) => {
            let exited = tokio::time::timeout(LAST_WORDS, &mut child.exited).await;
            return Err(match exited {
                Ok(Ok(Ok(status))) => GatewayError::Ended(status),
                _ => GatewayError::Start(error),
            });
        }
    }
    let (outbox, packets) = mpsc::unbounded_channel();
    let mut line = shared.line();
    line.outbox = Some(outbox);
    line.pid = Some(child.pid);
    line.failed = None;
    drop(line);
    shared.replay_charges();
    Ok(Running { socket, packets, child })
}

/// Starts this executable again as the gateway.
fn spawn(options: &GatewayOptions) -> io::Result<(Arc<UnixStream>, Child)> {
    use std::os::unix::process::CommandExt as _;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut process = Command::new("/proc/self/exe")
        .arg0(PROCESS)
        .arg(&options.config)
        .arg(&options.data)
        .arg(&options.charges)
        .args(options.lessor.is_some().then_some(LEASED_BUDGETS))
        .env_clear()
        .envs(options.environment.0.iter().map(|(key, value)| (key, value)))
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        // Signals of the terminal are for the node, which ends it by its end.
        .process_group(0)
        .spawn()?;
    let pid = process.id();
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or(io::ErrorKind::InvalidData)?;
    let (reaped, exited) = oneshot::channel();
    let child = Child { pid, pidfd: pidfd_open(number, PidfdFlags::empty())?, exited };
    std::thread::Builder::new().name("gateway-reaper".into()).spawn(move || {
        let _ = reaped.send(process.wait());
    })?;
    let ours = std::os::unix::net::UnixStream::from(ours);
    ours.set_nonblocking(true)?;
    Ok((Arc::new(UnixStream::from_std(ours)?), child))
}

/// Passes packets both ways until the process is gone, or nobody needs it.
async fn serve(weak: &Weak<Shared>, running: Running) {
    let Running { socket, mut packets, mut child } = running;
    let writer = async {
        while let Some(packet) = packets.recv().await {
            if send(&socket, &packet).await.is_err() {
                return;
            }
        }
    };
    let reader = async {
        while let Ok(message) = receive(&socket).await {
            let Some(shared) = weak.upgrade() else { return };
            shared.take(message);
        }
    };
    // The writer ends when the last handle is dropped, for the outbox is there.
    tokio::select! {
        () = writer => {}
        () = reader => {}
    }
    let _ = rustix::net::shutdown(&*socket, rustix::net::Shutdown::Both);
    // It ends by itself when it sees that; what it has to put away it may.
    let _ = tokio::time::timeout(LAST_WORDS, &mut child.exited).await;
    if let Some(shared) = weak.upgrade() {
        let mut line = shared.line();
        if line.pid == Some(child.pid) {
            let failed = line.failed.take();
            *line = super::Line { failed, ..super::Line::default() };
        }
        drop(line);
        shared.approvals.clear();
        if let Some(lessor) = &shared.options.lessor {
            lessor.forfeited(shared.held_slices.forfeit());
        }
    }
}

async fn receive(socket: &UnixStream) -> io::Result<FromGateway> {
    loop {
        socket.readable().await?;
        let received = socket.try_io(Interest::READABLE, || packet::receive(socket, LONGEST));
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
            Ok((packet, _)) => {
                return decode(&packet).map_err(|_| io::ErrorKind::InvalidData.into());
            }
        }
    }
}

async fn send(socket: &UnixStream, packet: &Packet) -> io::Result<()> {
    let descriptors: Vec<_> = packet.descriptors.iter().map(AsFd::as_fd).collect();
    loop {
        socket.writable().await?;
        let send = || packet::send(socket, &packet.bytes, &descriptors);
        match socket.try_io(Interest::WRITABLE, send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

impl Shared {
    fn take(self: &Arc<Self>, message: FromGateway) {
        let sequence = match &message {
            FromGateway::Ready => return,
            FromGateway::Failed { why } => {
                self.line().failed = Some(why.clone());
                return;
            }
            FromGateway::Rows { .. } => {
                let FromGateway::Rows { rows } = message else { return };
                // Nobody need listen.
                let _ = self.rows.send(rows.into());
                return;
            }
            FromGateway::ChargeLog { report } => return self.note_charge_log(*report),
            FromGateway::Whose { question, sandbox, socket } => {
                return whose::answer(self, *question, sandbox, *socket);
            }
            FromGateway::Budget { .. } => {
                let FromGateway::Budget { question, request } = message else { return };
                return budgets::answer(self, question, request);
            }
            FromGateway::Approval { .. } => {
                let FromGateway::Approval { question, request } = message else { return };
                return self.approvals.add(self, question, *request);
            }
            FromGateway::ApprovalOver { question } => return self.approvals.forget(*question),
            FromGateway::Done { sequence }
            | FromGateway::Opened { sequence, .. }
            | FromGateway::Minted { sequence, .. }
            | FromGateway::Refused { sequence, .. } => *sequence,
        };
        if let Some(waiter) = self.line().waiting.remove(&sequence) {
            let _ = waiter.send(message);
        }
    }
}

/// Opens every sandbox again that is still there.
async fn reopen(shared: Arc<Shared>) {
    let all: Vec<_> = shared.served().values().cloned().collect();
    for served in all {
        let weak = Arc::downgrade(&shared);
        tokio::spawn(async move { reopen_one(&weak, &served).await });
    }
}

async fn reopen_one(weak: &Weak<Shared>, served: &Arc<Served>) {
    let mut pause = Duration::from_millis(100);
    for _ in 0..REOPENINGS {
        let (Some(shared), Some(machine)) = (weak.upgrade(), served.machine.upgrade()) else {
            return;
        };
        let id = machine.id();
        let is_served = || shared.served().get(id).is_some_and(|now| Arc::ptr_eq(now, served));
        if !is_served() {
            return;
        }
        if let Ok((_, way)) = shared.open(served, &machine).await {
            served.ledger.set_way(Some(way));
            // One that stands still just now is seen to when it goes on.
            let _ = served.trust().await;
            return;
        }
        drop((shared, machine));
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

//! The task that keeps one interpreter: passes cells in, takes events out,
//! watches its limits, and says why it ended.
//!
//! ```text
//!          run               done
//!   idle ───────► running ─────────► idle
//!                    │ time is up, output too long: interrupt, then kill
//!                    ▼
//!                  over ◄── stream ended, killed, out of memory
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use belljar_guest_proto::context::{FromContext, Parked, Reader, ToContext};
use belljar_guest_proto::{Exit, Request};
use belljar_model::{EndReason, Limits, Usage};
use belljar_sandbox::cgroup::CallGroup;
use belljar_sandbox::{Ended, Machine};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::CellOptions;
use super::cell::{CellEnd, CellError, CellEvent};
use crate::call::InputQueue;
use crate::counts::Counts;
use crate::ledger::Ledger;
use crate::link::{Channel, Incoming};
use crate::runtime::Language;
use crate::supervisor::remove_group;

/// What the owner asks for.
#[derive(Debug)]
pub(crate) enum Order {
    Run {
        /// Among the calls of the sandbox.
        number: u32,
        code: String,
        options: CellOptions,
        events: mpsc::Sender<CellEvent>,
    },
    Interrupt,
    Park {
        answer: oneshot::Sender<Parked>,
        released: oneshot::Receiver<()>,
    },
    /// Waits for the end of the cell that runs, and starts no other.
    Hold {
        answer: oneshot::Sender<u32>,
        released: oneshot::Receiver<()>,
    },
    End(oneshot::Sender<()>),
}

/// How long an interrupted cell may take to come to its end.
const GRACE: Duration = Duration::from_secs(2);
/// How often counters are read while a cell runs.
const LOOK: Duration = Duration::from_millis(100);
/// How long waking up may take.
const WAKE: Duration = Duration::from_secs(10);
/// How long the end of a process may take to be told after its stream ended.
const TOLD: Duration = Duration::from_secs(1);

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGSYS: i32 = 31;

/// An interpreter and what it is held to.
pub(crate) struct Actor {
    pub(super) channel: Channel,
    pub(super) machine: Arc<Machine>,
    pub(super) group: Option<CallGroup>,
    pub(super) limits: Limits,
    pub(super) ended: Option<oneshot::Receiver<Ended>>,
    pub(super) pidfd: Option<OwnedFd>,
    pub(super) reader: Reader,
    pub(super) input: InputQueue,
    /// Cells and calls that run in this node now.
    pub(super) busy: Arc<AtomicUsize>,
    pub(super) language: Language,
    pub(super) ledger: Arc<Ledger>,
    /// Its own number among the calls of the sandbox.
    pub(super) number: u32,
    /// What its environment said of the way out when it was born.
    pub(super) besides: Vec<(String, String)>,
    /// What its owner set in its environment.
    pub(super) given: BTreeMap<String, String>,
    /// How it ended, when the guest has told.
    pub(super) status: Option<Ended>,
}

/// What waits for the interpreter to be idle.
enum Turn {
    Cell(u32, String, CellOptions, mpsc::Sender<CellEvent>),
    Park(Parking),
    Hold(oneshot::Sender<u32>, oneshot::Receiver<()>),
}

/// An interpreter that holds still for somebody.
struct Parking {
    /// Until it has said what it holds.
    answer: Option<oneshot::Sender<Parked>>,
    released: oneshot::Receiver<()>,
}

/// Waits until whoever had it hold still is done.
async fn released(parking: &mut Option<Parking>) {
    match parking {
        Some(parking) => drop((&mut parking.released).await),
        None => std::future::pending().await,
    }
}

/// The cell that runs.
struct Cell {
    id: u64,
    events: mpsc::Sender<CellEvent>,
    started: Instant,
    deadline: Instant,
    cpu: Option<Duration>,
    next_look: Instant,
    before: Counts,
    output_bytes: u64,
    /// Why it was told to stop, and when that is over.
    stopping: Option<(EndReason, Instant)>,
}

impl Actor {
    pub(super) async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut waiting = VecDeque::new();
        let mut cell: Option<Cell> = None;
        let mut parking: Option<Parking> = None;
        let mut next_id = 0;
        let (exit, ask_end) = loop {
            if cell.is_none() && parking.is_none() {
                match waiting.pop_front() {
                    Some(Turn::Cell(number, code, options, events)) => {
                        next_id += 1;
                        self.ledger.begin_cell(self.number, number, &options.tag);
                        cell = Some(self.begin(next_id, &code, &options, events).await);
                    }
                    Some(Turn::Park(turn)) => {
                        self.say(&ToContext::Park).await;
                        parking = Some(turn);
                    }
                    Some(Turn::Hold(answer, released)) => {
                        let _ = answer.send(self.channel.number);
                        parking = Some(Parking { answer: None, released });
                    }
                    None => {}
                }
            }
            let wake = cell.as_ref().map(Cell::wake);
            tokio::select! {
                biased;
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    if let Some(cell) = &mut cell
                        && let Some(reason) = self.look(cell)
                    {
                        break (Some(reason), None);
                    }
                }
                order = orders.recv() => match order {
                    Some(Order::Run { number, code, options, events }) => {
                        waiting.push_back(Turn::Cell(number, code, options, events));
                    }
                    Some(Order::Interrupt) => if cell.is_some() { self.interrupt() },
                    Some(Order::Park { answer, released }) => {
                        waiting.push_back(Turn::Park(Parking { answer: Some(answer), released }));
                    }
                    Some(Order::Hold { answer, released }) => {
                        waiting.push_back(Turn::Hold(answer, released));
                    }
                    Some(Order::End(done)) => break (Some(EndReason::Killed), Some(done)),
                    // Nobody can ask for anything any more.
                    None => break (Some(EndReason::Killed), None),
                },
                () = released(&mut parking) => parking = None,
                incoming = self.channel.next() => {
                    let Ok(incoming) = incoming else { break (None, None) };
                    match self.take(incoming, &mut cell, &mut parking).await {
                        Taken::On => {}
                        Taken::Over(reason) => break (reason, None),
                    }
                }
            }
        };
        self.finish(exit, cell, waiting).await;
        if let Some(done) = ask_end {
            let _ = done.send(());
        }
    }

    /// Waits until it is awake. Answers what it could not do.
    pub(super) async fn awake(&mut self) -> Option<String> {
        let word = async {
            loop {
                match self.channel.next().await {
                    Ok(Incoming::Data(bytes)) => {
                        self.reader.push(&bytes);
                        let _ = self.channel.grant(bytes.len()).await;
                        while let Ok(Some(message)) = self.reader.next_message() {
                            if let FromContext::Awake { problem } = message {
                                return problem;
                            }
                        }
                    }
                    Ok(Incoming::Credit(bytes)) => self.input.grant(bytes),
                    Ok(Incoming::Exited(_) | Incoming::Eof) | Err(_) => {
                        return Some("it ended while it woke up".to_owned());
                    }
                    Ok(_) => {}
                }
            }
        };
        let word = tokio::time::timeout(WAKE, word).await;
        word.unwrap_or_else(|_| Some("it did not wake up".to_owned()))
    }

    async fn begin(
        &mut self,
        id: u64,
        code: &str,
        options: &CellOptions,
        events: mpsc::Sender<CellEvent>,
    ) -> Cell {
        self.busy.fetch_add(1, Ordering::Relaxed);
        let before = self.counts();
        let started = Instant::now();
        let cell = Cell {
            id,
            events,
            started,
            deadline: started + options.wall.unwrap_or(self.limits.wall),
            cpu: [options.cpu, self.limits.cpu].into_iter().flatten().min(),
            next_look: started + LOOK,
            before,
            output_bytes: 0,
            stopping: None,
        };
        let language = (self.language == Language::TypeScript).then_some("typescript");
        let env = self.environment(&options.env).await;
        self.say(&ToContext::Run { id, code, language, env: &env }).await;
        cell
    }

    /// What a cell finds in its environment beside what the interpreter has: one
    /// that is older than the way out learns of it here.
    async fn environment(&self, asked: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let now = self.ledger.variables(self.number).await;
        if now == self.besides {
            return asked.clone();
        }
        let unset = now.into_iter().filter(|(key, _)| !self.given.contains_key(key));
        let mut all: BTreeMap<_, _> = unset.collect();
        all.extend(asked.clone());
        all
    }

    fn counts(&self) -> Counts {
        Counts::now(&self.machine, self.group.as_ref(), &self.channel)
    }

    pub(super) async fn say(&mut self, message: &ToContext<'_>) {
        self.input.give(&self.language.encode(message));
        // A link that failed shows itself at the next receive.
        let _ = self.input.flush(&self.channel).await;
    }

    fn interrupt(&self) {
        // One that was forked is out of the guest's reach; one that is gone has
        // been told by its stream.
        if let Some(process) = &self.pidfd {
            let _ = rustix::process::pidfd_send_signal(process, rustix::process::Signal::INT);
            return;
        }
        let (link, call) = (self.channel.link().clone(), self.channel.number);
        tokio::spawn(async move {
            let _ = link.ask(Request::Signal { call, signal: SIGINT }).await;
        });
    }

    /// Looks at clock and counters. A reason ends the interpreter.
    fn look(&self, cell: &mut Cell) -> Option<EndReason> {
        let now = Instant::now();
        if let Some((reason, until)) = cell.stopping {
            return (now >= until).then_some(reason);
        }
        cell.next_look = now + LOOK;
        if now >= cell.deadline {
            self.stop(cell, EndReason::TimeoutWall);
            return None;
        }
        let used = self.counts().cpu_since(&cell.before);
        if cell.cpu.is_some_and(|limit| used >= limit) {
            self.stop(cell, EndReason::TimeoutCpu);
        }
        None
    }

    fn stop(&self, cell: &mut Cell, reason: EndReason) {
        cell.stopping = Some((reason, Instant::now() + GRACE));
        self.interrupt();
    }

    async fn take(
        &mut self,
        incoming: Incoming,
        cell: &mut Option<Cell>,
        parking: &mut Option<Parking>,
    ) -> Taken {
        match incoming {
            Incoming::Stdout(bytes) => self.pass(cell, CellEvent::Stdout(bytes)).await,
            Incoming::Stderr(bytes) => self.pass(cell, CellEvent::Stderr(bytes)).await,
            Incoming::Data(bytes) => {
                self.reader.push(&bytes);
                loop {
                    match self.reader.next_message() {
                        Ok(Some(message)) => {
                            if let Taken::Over(reason) = self.hear(message, cell, parking).await {
                                return Taken::Over(reason);
                            }
                        }
                        Ok(None) => break,
                        // It does not speak the protocol any more.
                        Err(_) => return Taken::Over(Some(EndReason::Policy)),
                    }
                }
                let _ = self.channel.grant(bytes.len()).await;
                Taken::On
            }
            Incoming::Credit(bytes) => {
                self.input.grant(bytes);
                let _ = self.input.flush(&self.channel).await;
                Taken::On
            }
            Incoming::Exited(exit) => {
                self.status = ended(exit);
                Taken::Over(self.reason_of(exit))
            }
            Incoming::Eof => Taken::Over(None),
            Incoming::Reply(_) | Incoming::Changed(_) => Taken::On,
        }
    }

    async fn hear(
        &mut self,
        message: FromContext,
        cell: &mut Option<Cell>,
        parking: &mut Option<Parking>,
    ) -> Taken {
        let event = match message {
            FromContext::Stdout { text } => CellEvent::Stdout(text.into_bytes()),
            FromContext::Stderr { text } => CellEvent::Stderr(text.into_bytes()),
            FromContext::Display(display) => CellEvent::Display(display),
            FromContext::Result { data, metadata, .. } => CellEvent::Result { data, metadata },
            FromContext::Error { name, value, traceback } => {
                CellEvent::Error(CellError { name, value, traceback })
            }
            FromContext::Done { id, ok, count } => {
                if let Some(done) = cell.take_if(|cell| cell.id == id) {
                    let now = self.counts();
                    // A process that the cell had started may have been killed for
                    // want of memory; the interpreter goes on.
                    let starved = now.oom_kills > done.before.oom_kills;
                    let came = if starved { EndReason::Oom } else { EndReason::Done };
                    let reason = done.stopping.map_or(came, |(reason, _)| reason);
                    let end = Conclusion { reason, ok, count, alive: true };
                    self.conclude(done, &now, end).await;
                }
                return Taken::On;
            }
            FromContext::Parked(parked) => {
                if let Some(answer) = parking.as_mut().and_then(|parking| parking.answer.take()) {
                    let _ = answer.send(parked);
                }
                return Taken::On;
            }
            FromContext::Ready { .. } | FromContext::Awake { .. } | FromContext::Unfit { .. } => {
                return Taken::On;
            }
        };
        self.show(cell, event).await
    }

    /// Shows what came outside of messages, and lets as much come again.
    async fn pass(&mut self, cell: &mut Option<Cell>, event: CellEvent) -> Taken {
        let size = size_of(&event);
        let taken = self.show(cell, event).await;
        let _ = self.channel.grant(size).await;
        taken
    }

    /// Passes an event on to whoever runs the cell.
    async fn show(&mut self, cell: &mut Option<Cell>, event: CellEvent) -> Taken {
        // Between cells there is nobody to show it to.
        let Some(cell) = cell else { return Taken::On };
        cell.output_bytes += size_of(&event) as u64;
        if cell.output_bytes > self.limits.output_bytes {
            return Taken::Over(Some(EndReason::Output));
        }
        // When nobody listens any more, the cell runs on all the same. One that
        // listens slowly holds the interpreter back, not its time.
        let room = tokio::time::timeout_at(cell.deadline + GRACE, cell.events.send(event));
        let _ = room.await;
        Taken::On
    }

    async fn conclude(&self, cell: Cell, now: &Counts, end: Conclusion) {
        self.ledger.end_cell(self.number);
        self.busy.fetch_sub(1, Ordering::Relaxed);
        let usage = Usage {
            wall: cell.started.elapsed(),
            cpu: now.cpu_since(&cell.before),
            peak_memory_bytes: now.peak_memory_bytes,
            written_bytes: now.written_since(&cell.before, self.channel.counted()),
            output_bytes: cell.output_bytes,
        };
        let Conclusion { reason, ok, count, alive } = end;
        let end = CellEnd { reason, ok, count, usage, alive };
        let _ = cell.events.send(CellEvent::End(end)).await;
    }

    /// Ends the interpreter and answers everyone who still waits.
    async fn finish(
        mut self,
        reason: Option<EndReason>,
        cell: Option<Cell>,
        waiting: VecDeque<Turn>,
    ) {
        let status = if reason.is_none() { self.told().await } else { None };
        self.kill().await;
        self.ledger.end(self.number);
        let reason = reason.unwrap_or_else(|| self.reason(status, cell.as_ref()));
        if let Some(cell) = cell {
            let reason = cell.stopping.map_or(reason, |(stopped, _)| stopped);
            let end = Conclusion { reason, ok: false, count: 0, alive: false };
            self.conclude(cell, &self.counts(), end).await;
        }
        for turn in waiting {
            if let Turn::Cell(_, _, _, events) = turn {
                let _ = events.send(CellEvent::End(CellEnd::lost(reason))).await;
            }
        }
        if let Some(group) = self.group.take() {
            remove_group(group).await;
        }
    }

    /// How it ended: who is told of that may hear it after its streams ended.
    async fn told(&mut self) -> Option<Ended> {
        if let Some(ended) = self.ended.take() {
            return tokio::time::timeout(TOLD, ended).await.ok().and_then(Result::ok);
        }
        let exit = async {
            loop {
                match self.channel.next().await {
                    Ok(Incoming::Exited(exit)) => return ended(exit),
                    Ok(_) => {}
                    Err(_) => return None,
                }
            }
        };
        match self.status {
            None => tokio::time::timeout(TOLD, exit).await.ok().flatten(),
            told => told,
        }
    }

    /// Without a filter, whoever died of its signal was sent that.
    fn is_filtered(&self) -> bool {
        self.machine.confinement().filter_kills
    }

    /// What a wait status alone says. One that was adopted has none here.
    fn reason_of(&self, exit: Exit) -> Option<EndReason> {
        match (exit.code, exit.signal) {
            (_, Some(SIGSYS)) if self.is_filtered() => Some(EndReason::Seccomp),
            (Some(_), _) => Some(EndReason::Exit),
            // A kill may have been for want of memory: the counters know.
            _ => None,
        }
    }

    /// Ends every process of the interpreter.
    async fn kill(&self) {
        if let Some(group) = &self.group {
            let _ = group.kill();
            return;
        }
        // A guest that keeps the groups itself is quick; one that is gone says so.
        let call = self.channel.number;
        let asked = self.channel.link().ask(Request::Signal { call, signal: SIGKILL });
        let _ = tokio::time::timeout(TOLD, asked).await;
    }

    /// Why the interpreter is gone, from what the kernel counted.
    fn reason(&self, status: Option<Ended>, cell: Option<&Cell>) -> EndReason {
        let now = self.counts();
        let before = cell.map(|cell| &cell.before);
        let refused = before.map_or(u64::MAX, |before| before.refused_processes);
        if now.oom_kills > before.map_or(0, |before| before.oom_kills)
            || self.machine.ran_out_of_memory()
        {
            EndReason::Oom
        } else if status == Some(Ended::Signaled(SIGSYS)) && self.is_filtered() {
            EndReason::Seccomp
        } else if now.refused_processes > refused {
            EndReason::Pids
        } else if now.disk.is_full {
            EndReason::Disk
        } else if status.is_some() {
            EndReason::Exit
        } else {
            EndReason::Lost
        }
    }
}

impl Cell {
    fn wake(&self) -> Instant {
        self.stopping.map_or_else(|| self.next_look.min(self.deadline), |(_, until)| until)
    }
}

/// How a cell ended, apart from what it used.
struct Conclusion {
    reason: EndReason,
    ok: bool,
    count: u64,
    alive: bool,
}

enum Taken {
    On,
    /// The interpreter is over; `None`: find out why.
    Over(Option<EndReason>),
}

fn ended(exit: Exit) -> Option<Ended> {
    exit.signal.map(Ended::Signaled).or(exit.code.map(Ended::Exited))
}

fn size_of(event: &CellEvent) -> usize {
    match event {
        CellEvent::Stdout(bytes) | CellEvent::Stderr(bytes) => bytes.len(),
        CellEvent::Display(display) => bundle_size(display.data.values()),
        CellEvent::Result { data, .. } => bundle_size(data.values()),
        CellEvent::Error(error) => error.traceback.iter().map(String::len).sum(),
        CellEvent::End(_) => 0,
    }
}

fn bundle_size<'a>(values: impl Iterator<Item = &'a serde_json::Value>) -> usize {
    values.map(|value| value.as_str().map_or(64, str::len)).sum()
}

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
//!
//! Nothing here waits for whoever reads a cell's events. An event that finds no room is kept,
//! and the interpreter is heard no further until there is room; orders, clock and counters are
//! looked at all the same. A cell that was interrupted is heard on for a while, since an
//! interpreter that cannot write does not come to its end.

mod end;
mod hear;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use belljar_domain::{EndReason, Limits};
use belljar_engine::cgroup::CallGroup;
use belljar_engine::{Ended, Machine};
use belljar_guest_proto::context::{FromContext, Parked, Reader, ToContext};
use belljar_guest_proto::{Request, WINDOW};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::CellOptions;
use super::cell::CellEvent;
use crate::call::InputQueue;
use crate::counts::Counts;
use crate::ledger::Ledger;
use crate::link::{Channel, Incoming, LinkError};
use crate::runtime::Language;

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

/// What is kept of an interrupted cell whose events are not read: all that its interpreter may
/// have under way, so that the interpreter is not held back from coming to its end.
const MAX_UNSENT_BYTES: usize = 2 * WINDOW as usize;
/// How long an interrupted cell may take to come to its end.
const GRACE: Duration = Duration::from_secs(2);
/// How often counters are read while a cell runs.
const LOOK: Duration = Duration::from_millis(100);
/// How long waking up may take.
const WAKE: Duration = Duration::from_secs(10);
/// How long the end of a process may take to be told after its stream ended.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_secs(1);

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
    /// Bytes taken that the guest has no new credit for.
    pub(super) owed: usize,
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

impl Parking {
    /// Returns true if nobody waits for it any more.
    fn is_given_up(&self) -> bool {
        self.answer.as_ref().is_some_and(oneshot::Sender::is_closed)
    }
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
    /// Events that found no room.
    unsent: VecDeque<CellEvent>,
    /// What the guest has sent, and was let send again, while there were any.
    unsent_bytes: usize,
    /// Whether it was interrupted: then what it still says is kept, to let it come to its end.
    interrupted: bool,
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
                        if turn.is_given_up() {
                            continue;
                        }
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
            if let Taken::Over(reason) = self.hear_all(&mut cell, &mut parking).await {
                break (reason, None);
            }
            if cell.is_none() && parking.is_none() && !waiting.is_empty() {
                continue;
            }
            let wake = cell.as_ref().map(Cell::wake);
            let unread = cell.as_ref().filter(|cell| !cell.unsent.is_empty());
            let unread = unread.map(|cell| cell.events.clone());
            let stalled = cell.as_ref().is_some_and(Cell::is_stalled);
            let broken = stalled.then(|| self.channel.link().broken());
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
                    Some(Order::Interrupt) => if let Some(cell) = &mut cell {
                        cell.interrupted = true;
                        self.interrupt();
                    },
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
                permit = room(unread.as_ref()), if unread.is_some() => {
                    let event = cell.as_mut().and_then(Cell::next_unsent);
                    // When nobody listens any more, the cell runs on all the same.
                    if let (Some(permit), Some(event)) = (permit, event) {
                        permit.send(event);
                    }
                }
                // Otherwise seen by who takes what comes.
                () = gone(broken), if stalled => break (None, None),
                incoming = self.channel.next(), if !stalled => {
                    let Ok(incoming) = incoming else { break (None, None) };
                    match self.take(incoming, &mut cell).await {
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
                        return Some("it ended during the wake-up".to_owned());
                    }
                    Ok(_) => {}
                }
            }
        };
        let word = tokio::time::timeout(WAKE, word).await;
        word.unwrap_or_else(|_| Some("it did not wake up in time".to_owned()))
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
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            interrupted: false,
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
        cell.interrupted = true;
        self.interrupt();
    }
}

impl Cell {
    fn wake(&self) -> Instant {
        self.stopping.map_or_else(|| self.next_look.min(self.deadline), |(_, until)| until)
    }

    /// Returns true if its interpreter is heard no further until somebody reads.
    fn is_stalled(&self) -> bool {
        let most = if self.interrupted { MAX_UNSENT_BYTES } else { 0 };
        !self.unsent.is_empty() && self.unsent_bytes >= most
    }

    fn next_unsent(&mut self) -> Option<CellEvent> {
        let event = self.unsent.pop_front();
        if self.unsent.is_empty() {
            self.unsent_bytes = 0;
        }
        event
    }
}

enum Taken {
    On,
    /// The interpreter is over; `None`: find out why.
    Over(Option<EndReason>),
}

/// Waits for room in a queue of events; `None` when nobody listens any more.
async fn room(events: Option<&mpsc::Sender<CellEvent>>) -> Option<mpsc::Permit<'_, CellEvent>> {
    events?.reserve().await.ok()
}

async fn gone(broken: Option<impl Future<Output = LinkError>>) {
    if let Some(broken) = broken {
        broken.await;
    }
}

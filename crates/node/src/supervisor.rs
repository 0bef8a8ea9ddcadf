//! Watches over one call until its end and says why it ended.
//!
//! ```text
//!           output, input          limit hit / kill asked
//!  running ───────────────► running ───────────► killing
//!     │                                             │
//!     │ main process exited                         │ exited, or 2 s
//!     ▼                                             ▼
//!  draining ── streams closed, or 250 ms ──────► ended
//! ```
//!
//! The reason is decided here from counters of a kernel, the wait status and our own
//! clock. What the code prints, or the status that it exits with, cannot pass
//! for a limit.

use std::sync::Arc;
use std::time::Duration;

use belljar_domain::{End, EndReason, Limits, Usage};
use belljar_engine::cgroup::CallGroup;
use belljar_engine::{Defence, Machine, Weakened};
use belljar_guest_proto::{Exit, Request};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::call::{Event, InputQueue, Order, Waiting};
use crate::command::Leftovers;
use crate::counts::Counts;
use crate::ledger::Ledger;
use crate::link::{Channel, Incoming};

/// What a call is held to.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) limits: Limits,
    pub(crate) leftovers: Leftovers,
    pub(crate) weakened: Weakened,
    /// Where the call is written down, and as which.
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) number: u32,
}

/// Counters of the sandbox as they were before the call could change them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    /// A call's time begins when it is asked for, not when we hear that it runs:
    /// on a busy host that may be later than its own first second.
    pub(crate) at: Instant,
    counts: Counts,
}

impl Before {
    pub(crate) fn now(machine: &Machine) -> Self {
        Self { at: Instant::now(), counts: Counts::before(machine) }
    }
}

/// How long streams may stay open after the main process has exited.
const DRAIN: Duration = Duration::from_millis(250);

/// How long a killed call may take to be reported dead.
const GRACE: Duration = Duration::from_secs(2);

/// How often counters are read: often at first, then seldom.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const SELDOM: Duration = Duration::from_millis(100);

const SIGSYS: i32 = 31;
const SIGKILL: i32 = 9;

pub(crate) struct Supervisor {
    channel: Channel,
    machine: Arc<Machine>,
    group: Group,
    limits: Limits,
    leftovers: Leftovers,
    weakened: Weakened,
    ledger: Arc<Ledger>,
    number: u32,
    started: Instant,
    before: Before,
    input: InputQueue,
    output_bytes: u64,
    /// Bytes taken that the guest has no new credit for.
    owed: usize,
    reason: Option<EndReason>,
    exit: Option<Exit>,
    eof: bool,
    /// When to stop waiting, once the call is ending.
    give_up: Option<Instant>,
    next_look: Instant,
    pause: Duration,
}

impl Supervisor {
    pub(crate) fn new(
        channel: Channel,
        machine: Arc<Machine>,
        group: Option<CallGroup>,
        terms: Terms,
        before: Before,
        given: Arc<Waiting>,
    ) -> Self {
        let started = Instant::now();
        let Terms { limits, leftovers, weakened, ledger, number } = terms;
        Self {
            channel,
            machine,
            group: Group { group, leftovers },
            limits,
            leftovers,
            weakened,
            ledger,
            number,
            started,
            before,
            input: InputQueue::new(given),
            output_bytes: 0,
            owed: 0,
            reason: None,
            exit: None,
            eof: false,
            give_up: None,
            next_look: started + FIRST_LOOK,
            pause: FIRST_LOOK,
        }
    }

    pub(crate) async fn run(
        &mut self,
        events: mpsc::Sender<Event>,
        mut orders: mpsc::UnboundedReceiver<Order>,
    ) {
        let mut waiting: Option<Event> = None;
        let mut orders_open = true;
        loop {
            if self.is_over() && waiting.is_none() {
                break;
            }
            let deadline = self.deadline();
            // Once the process is gone, a slow listener may take its time.
            let unread = waiting.is_some() && self.exit.is_some();
            tokio::select! {
                biased;
                () = sleep_until(deadline), if !unread => {
                    if !self.look() {
                        break;
                    }
                }
                order = orders.recv(), if orders_open => match order {
                    Some(order) => self.obey(order).await,
                    None => orders_open = false,
                },
                permit = events.reserve(), if waiting.is_some() => {
                    let size = waiting.as_ref().map_or(0, size_of_output);
                    // When nobody listens any more, the call runs on all the same.
                    if let (Ok(permit), Some(event)) = (permit, waiting.take()) {
                        permit.send(event);
                    }
                    self.consumed(size).await;
                }
                incoming = self.channel.next(), if waiting.is_none() => match incoming {
                    Ok(incoming) => waiting = self.take(incoming).await,
                    Err(_) => {
                        self.reason.get_or_insert(EndReason::Lost);
                        break;
                    }
                },
            }
        }
        // What had already come is still the call's output.
        while let Some(incoming) = self.channel.try_next() {
            if let Incoming::Exited(exit) = incoming {
                self.exit = Some(exit);
            } else if let Some(event) = self.take(incoming).await
                && events.send(event).await.is_err()
            {
                break;
            }
        }
        let end = self.end();
        // Before anyone hears of it: what connects later comes from what is left.
        self.ledger.end(self.number);
        let _ = events.send(Event::End(end)).await;
        self.put_group_away().await;
    }

    /// Throws away what processes write that outlive the call: nobody will ask
    /// for it, and a pipe that nobody reads would hold them up for ever.
    pub(crate) async fn throw_away(self) {
        // Of all it held, only the channel: a machine that is forgotten ends.
        let Self { mut channel, leftovers, mut owed, eof, .. } = self;
        if leftovers == Leftovers::Kill || eof {
            return;
        }
        while channel.grant(owed).await.is_ok() {
            owed = match channel.next().await {
                Ok(Incoming::Stdout(bytes) | Incoming::Stderr(bytes)) => bytes.len(),
                Ok(Incoming::Eof) | Err(_) => return,
                Ok(_) => 0,
            };
        }
    }

    fn is_over(&self) -> bool {
        self.exit.is_some() && self.eof
    }

    fn wall_deadline(&self) -> Instant {
        let longest = Duration::from_secs(86_400 * 366);
        self.started + self.limits.wall.min(longest)
    }

    fn deadline(&self) -> Instant {
        match self.give_up {
            Some(at) => at,
            None if self.keeps(Defence::WallTimer) => self.next_look.min(self.wall_deadline()),
            None => self.next_look,
        }
    }

    fn keeps(&self, defence: Defence) -> bool {
        self.weakened.keeps(defence)
    }

    /// Looks at clock and counters. `false`: no more waiting.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        if self.give_up.is_some_and(|at| now >= at) {
            return false;
        }
        if self.keeps(Defence::WallTimer) && now >= self.wall_deadline() {
            self.stop(EndReason::TimeoutWall);
            return true;
        }
        self.pause = (self.pause * 2).min(SELDOM);
        self.next_look = now + self.pause;
        if self.exit.is_none() {
            self.check_counters();
        }
        true
    }

    fn check_counters(&mut self) {
        let counts = self.counts();
        if self.is_out_of_cpu(&counts) {
            return self.stop(EndReason::TimeoutCpu);
        }
        if self.ran_out_of_memory(&counts) {
            return self.stop(EndReason::Oom);
        }
        if self.was_refused_processes(&counts) {
            self.stop(EndReason::Pids);
        }
    }

    fn counts(&self) -> Counts {
        Counts::now(&self.machine, self.group.as_ref(), &self.channel)
    }

    fn is_filtered(&self) -> bool {
        self.machine.confinement().filter_kills
    }

    fn is_out_of_cpu(&self, counts: &Counts) -> bool {
        let used = counts.cpu_since(&self.before.counts);
        self.keeps(Defence::CpuTimer) && self.limits.cpu.is_some_and(|limit| used >= limit)
    }

    fn ran_out_of_memory(&self, counts: &Counts) -> bool {
        counts.oom_kills > self.before.counts.oom_kills
    }

    fn was_refused_processes(&self, counts: &Counts) -> bool {
        counts.refused_processes > self.before.counts.refused_processes
    }

    /// Ends the call for `reason`, unless it is ending already.
    fn stop(&mut self, reason: EndReason) {
        if self.reason.is_none() && self.exit.is_none() {
            self.reason = Some(reason);
        }
        self.give_up.get_or_insert(Instant::now() + GRACE);
        self.kill_processes();
    }

    fn kill_processes(&self) {
        if self.group.as_ref().is_some_and(|group| group.kill().is_ok()) {
            return;
        }
        // The guest ends a group of its own as a whole. Without any, the process
        // group is the next best thing.
        let (link, call) = (self.channel.link().clone(), self.channel.number);
        tokio::spawn(async move {
            let _ = link.ask(Request::Signal { call, signal: SIGKILL }).await;
        });
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Kill => self.stop(EndReason::Killed),
            Order::Input(bytes) => self.input.push(&bytes),
            Order::EndInput => self.input.end(),
        }
        self.flush_input().await;
    }

    async fn flush_input(&mut self) {
        // A failed link shows itself at the next receive.
        let _ = self.input.flush(&self.channel).await;
    }

    /// Gives the guest back the credit of what was taken off its hands.
    async fn consumed(&mut self, bytes: usize) {
        if bytes > 0 && !self.eof {
            self.owed = self.owed.saturating_sub(bytes);
            let _ = self.channel.grant(bytes).await;
        }
        // What outlives the call may write for ever, and is not waited for: the
        // guest tells of an exit after all that was written before it.
        if self.exit.is_some() && self.leftovers == Leftovers::Kill {
            self.give_up = Some(Instant::now() + DRAIN);
        }
    }

    async fn take(&mut self, incoming: Incoming) -> Option<Event> {
        let event = match incoming {
            Incoming::Stdout(bytes) => Event::Stdout(bytes),
            Incoming::Stderr(bytes) => Event::Stderr(bytes),
            Incoming::Credit(bytes) => {
                self.input.grant(bytes);
                self.flush_input().await;
                return None;
            }
            Incoming::Exited(exit) => {
                self.exited(exit);
                return None;
            }
            Incoming::Eof => {
                self.eof = true;
                return None;
            }
            Incoming::Reply(_) | Incoming::Data(_) | Incoming::Changed(_) => return None,
        };
        self.owed += size_of_output(&event);
        self.output_bytes += size_of_output(&event) as u64;
        if self.output_bytes > self.limits.output_bytes && self.keeps(Defence::OutputCap) {
            self.stop(EndReason::Output);
            return None;
        }
        Some(event)
    }

    fn exited(&mut self, exit: Exit) {
        self.exit = Some(exit);
        let drained = Instant::now() + DRAIN;
        self.give_up = Some(self.give_up.map_or(drained, |at| at.min(drained)));
        if self.reason.is_none() && exit.code != Some(0) {
            self.machine.note_failure();
        }
        if self.leftovers == Leftovers::Kill && self.keeps(Defence::CallKill) {
            self.kill_processes();
        }
    }

    fn end(&self) -> End {
        let counts = self.counts();
        let exit = self.exit;
        let failed = exit.is_some_and(|exit| exit.code != Some(0));
        let reason = match self.reason {
            Some(reason) if reason != EndReason::Lost => reason,
            _ if self.ran_out_of_memory(&counts) => EndReason::Oom,
            Some(_) if self.machine.ran_out_of_memory() => EndReason::Oom,
            Some(lost) => lost,
            // Without a filter, somebody sent that signal.
            None if exit.is_some_and(|exit| exit.signal == Some(SIGSYS)) && self.is_filtered() => {
                EndReason::Seccomp
            }
            None if self.was_refused_processes(&counts) => EndReason::Pids,
            None if failed && counts.disk.is_full => EndReason::Disk,
            // On a busy host the kernel's own limit may come before our look.
            None if failed && self.is_out_of_cpu(&counts) => EndReason::TimeoutCpu,
            None if failed => EndReason::Exit,
            None if exit.is_some() => EndReason::Done,
            None => EndReason::Lost,
        };
        let waited_for = || Duration::from_micros(exit.map_or(0, |exit| exit.cpu_micros));
        End {
            reason,
            exit_code: exit.and_then(|exit| exit.code),
            signal: exit.and_then(|exit| exit.signal),
            usage: Usage {
                wall: self.before.at.elapsed(),
                cpu: match counts.cpu {
                    // Counted in ticks, where one process is counted in microseconds.
                    Some(_) if self.machine.is_watched() => {
                        counts.cpu_since(&self.before.counts).max(waited_for())
                    }
                    Some(_) => counts.cpu_since(&self.before.counts),
                    None => waited_for(),
                },
                peak_memory_bytes: counts.peak_memory_bytes,
                written_bytes: counts.written_since(&self.before.counts, self.channel.counted()),
                output_bytes: self.output_bytes,
            },
        }
    }

    /// Removes the call's group; what cannot be removed goes with the sandbox.
    async fn put_group_away(&mut self) {
        let kept = self.leftovers == Leftovers::Keep || !self.keeps(Defence::CallKill);
        let Some(group) = self.group.take() else { return };
        if kept && group.is_populated() == Some(true) {
            return;
        }
        remove_group(group).await;
    }
}

/// Ends what is left in a call's group and removes it; a group that cannot be
/// removed goes with the sandbox.
pub(crate) async fn remove_group(group: CallGroup) {
    let mut pause = Duration::from_micros(50);
    for _ in 0..200 {
        if group.remove().is_ok() {
            return;
        }
        // The dead leave their group a moment after they are reaped.
        let _ = group.kill();
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Ends and removes a group that nobody waits for.
pub(crate) fn discard_group(group: Option<CallGroup>) {
    if let Some(group) = group {
        let _ = group.kill();
        tokio::spawn(remove_group(group));
    }
}

fn size_of_output(event: &Event) -> usize {
    match event {
        Event::Stdout(bytes) | Event::Stderr(bytes) => bytes.len(),
        Event::End(_) => 0,
    }
}

/// The group of a call that may still run.
struct Group {
    group: Option<CallGroup>,
    leftovers: Leftovers,
}

impl std::ops::Deref for Group {
    type Target = Option<CallGroup>;

    fn deref(&self) -> &Self::Target {
        &self.group
    }
}

impl std::ops::DerefMut for Group {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A supervisor that is dropped before the end (the runtime stops) must
        // not leave code running.
        if let Some(group) = &self.group
            && self.leftovers == Leftovers::Kill
        {
            let _ = group.kill();
        }
    }
}

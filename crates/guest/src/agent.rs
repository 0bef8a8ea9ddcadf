//! The loop: what the host asks, what calls do, what ends.

mod requests;
mod still;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use belljar_guest_proto::{Exit, FromGuest, GENERATION, Hello, Reply, ToGuest};
use belljar_sys::process::WaitStatus;
use belljar_sys::{caps, process, signal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::boot::Booted;
use crate::call::Call;
use crate::confiner::Confiner;
use crate::dial::Dial;
use crate::groups::Groups;
use crate::listen::Listener;
use crate::rights::Rights;
use crate::transfer::{Incoming, Outgoing};
use crate::watch::Watch;
use crate::wire::Wire;

pub(crate) struct Agent {
    wire: Wire,
    signals: OwnedFd,
    /// Readable when the guest is told to end by a signal.
    orders: Option<OwnedFd>,
    /// Nothing runs before the host has said how it is confined.
    confiner: Option<Confiner>,
    rights: Rights,
    groups: Option<Groups>,
    own_kernel: bool,
    calls: BTreeMap<u32, Call>,
    outgoing: BTreeMap<u32, Outgoing>,
    incoming: BTreeMap<u32, Incoming>,
    watches: BTreeMap<u32, Watch>,
    dials: BTreeMap<u32, Dial>,
    listeners: BTreeMap<u32, Listener>,
    started: (i64, i64),
    /// Whether anything was asked for that the profile decides about.
    settled: bool,
    stillness: Stillness,
}

/// Whether the guest holds still to be put on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stillness {
    Serving,
    /// It will, when the frame in between is whole, and answer on this channel.
    Asked(u32),
    /// Nothing is sent unless it is asked for, and no call is read from.
    Still,
}

/// What a descriptor in the poll list belongs to.
enum Source {
    Wire,
    Signals,
    Orders,
    Report(u32),
    Stream,
    Watch(u32),
    Dial(u32),
    Listener(u32),
}

impl Agent {
    pub(crate) fn new(booted: Booted, orders: Option<OwnedFd>) -> io::Result<Self> {
        let Booted { stream, rights, groups, own_kernel } = booted;
        let signals = signal::descriptor(&[signal::CHILD])?;
        // The clock that files are stamped with, which ticks more coarsely.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        let mut wire = Wire::new(stream)?;
        wire.send(0, &FromGuest::Hello(hello()?));
        Ok(Self {
            wire,
            signals,
            orders,
            confiner: None,
            rights,
            groups,
            own_kernel,
            calls: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            watches: BTreeMap::new(),
            dials: BTreeMap::new(),
            listeners: BTreeMap::new(),
            started: (now.tv_sec, now.tv_nsec),
            settled: false,
            stillness: Stillness::Serving,
        })
    }

    /// Serves until the host closes the stream, or tells it to end.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let served = self.serve();
        // As pid 1 its own end takes everything along. Where it is not, it ends
        // what it can reach; a cgroup or the sweep after this does the rest.
        for call in self.calls.values() {
            let _ = signal::send(-call.pid, signal::KILL);
        }
        served
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            if self.stillness == Stillness::Serving {
                self.tell_counters();
                self.pump();
            }
            self.wire.flush()?;
            if !self.wait()? {
                return Ok(());
            }
        }
    }

    /// Moves everything that can move without waiting.
    fn pump(&mut self) {
        for (&channel, call) in &mut self.calls {
            call.pump_input(channel, &mut self.wire);
            call.pump_output(channel, &mut self.wire, self.groups.as_mut());
        }
        self.calls.retain(|_, call| !call.is_over());
        let wire = &mut self.wire;
        self.outgoing.retain(|&channel, file| !file.pump(channel, wire));
        self.dials.retain(|&channel, dial| {
            dial.pump(channel, wire);
            !dial.is_over()
        });
    }

    /// Waits for something to happen and takes it in. `false`: the end.
    fn wait(&mut self) -> io::Result<bool> {
        let ready = self.poll()?;
        let mut open = true;
        for source in ready {
            match source {
                Source::Wire => open &= self.receive()?,
                Source::Signals => self.reap()?,
                Source::Orders => open = false,
                Source::Report(channel) => self.finish_start(channel),
                Source::Watch(channel) => {
                    if let Some(watch) = self.watches.get_mut(&channel) {
                        watch.pump(channel, &mut self.wire);
                    }
                }
                Source::Dial(channel) => {
                    if let Some(dial) = self.dials.get_mut(&channel) {
                        dial.settle(channel, &mut self.wire);
                    }
                }
                Source::Listener(channel) => self.accept(channel),
                // The next pump reads and writes what is ready.
                Source::Stream => {}
            }
        }
        Ok(open)
    }

    fn poll(&self) -> io::Result<Vec<Source>> {
        let mut wire_flags = PollFlags::IN;
        if self.wire.wants_to_send() {
            wire_flags |= PollFlags::OUT;
        }
        let mut watched = vec![
            (Source::Wire, self.wire.as_fd(), wire_flags),
            (Source::Signals, self.signals.as_fd(), PollFlags::IN),
        ];
        if let Some(orders) = &self.orders {
            watched.push((Source::Orders, orders.as_fd(), PollFlags::IN));
        }
        let serving = self.stillness == Stillness::Serving;
        for (&channel, call) in self.calls.iter().filter(|_| serving) {
            if let Some(report) = &call.report {
                watched.push((Source::Report(channel), report.as_fd(), PollFlags::IN));
            }
            if call.disowned || (call.credit > 0 && self.wire.has_room()) {
                for stream in call.sources() {
                    watched.push((Source::Stream, stream.as_fd(), PollFlags::IN));
                }
            }
            if let (true, Some(stdin)) = (call.wants_input(), &call.stdin) {
                watched.push((Source::Stream, stdin.as_fd(), PollFlags::OUT));
            }
        }
        for (&channel, watch) in self.watches.iter().filter(|_| serving) {
            watched.push((Source::Watch(channel), watch.inotify.as_fd(), PollFlags::IN));
        }
        for (&channel, dial) in self.dials.iter().filter(|_| serving) {
            let flags = dial.interest(self.wire.has_room());
            if !flags.is_empty() {
                watched.push((Source::Dial(channel), dial.socket.as_fd(), flags));
            }
        }
        let room = self.has_room_for_dials();
        for (&channel, listener) in self.listeners.iter().filter(|_| serving && room) {
            if listener.is_awaited() {
                watched.push((Source::Listener(channel), listener.socket.as_fd(), PollFlags::IN));
            }
        }
        let mut fds: Vec<_> =
            watched.iter().map(|&(_, fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
        let busy = self.wire.has_room() && self.outgoing.values().any(Outgoing::is_ready);
        let wait = match (busy, self.groups.as_ref().and_then(Groups::next_look)) {
            _ if !serving => None,
            (true, _) => Some(Duration::ZERO),
            (false, next) => next.map(|next| next.saturating_duration_since(Instant::now())),
        };
        let wait = wait.map(|wait| Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        });
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let sources = watched.into_iter().zip(ready);
        Ok(sources.filter(|(_, ready)| *ready).map(|((source, ..), _)| source).collect())
    }

    /// Reads from the host. `false`: it has closed the stream.
    fn receive(&mut self) -> io::Result<bool> {
        let open = self.wire.receive()?;
        let mut decoder = std::mem::take(&mut self.wire.decoder);
        let broken = |_| io::Error::from(io::ErrorKind::InvalidData);
        while let Some((header, body)) = decoder.next_frame().map_err(broken)? {
            let message = ToGuest::decode(header, body).map_err(broken)?;
            self.take(header.channel, message)?;
        }
        self.wire.decoder = decoder;
        self.hold_still();
        Ok(open)
    }

    /// Passes on what the guest's own groups have counted, when it is time.
    fn tell_counters(&mut self) {
        let Some(groups) = &mut self.groups else { return };
        if groups.next_look().is_none_or(|next| next > Instant::now()) {
            return;
        }
        for (channel, counters) in groups.look() {
            // Nothing may come before the answer to the start.
            let heard = |call: &&Call| call.report.is_none() && !call.disowned;
            if self.calls.get(&channel).filter(heard).is_some() {
                self.wire.send(channel, &FromGuest::Counters(counters));
            }
        }
    }

    fn finish_start(&mut self, channel: u32) {
        let Some(call) = self.calls.get_mut(&channel) else { return };
        match call.read_report() {
            None => {}
            Some(Ok(())) => {
                let pid = u32::try_from(call.pid).unwrap_or(0);
                self.wire.send(channel, &FromGuest::Reply(Ok(Reply::Started { pid })));
                // What it begins with: the disk may have been written before.
                let counters = self.groups.as_mut().and_then(|groups| groups.refresh(channel));
                if let Some(counters) = counters {
                    self.wire.send(channel, &FromGuest::Counters(counters));
                }
            }
            Some(Err(failure)) => {
                self.calls.remove(&channel);
                if let Some(groups) = &mut self.groups {
                    groups.discard(channel);
                }
                self.wire.send(channel, &FromGuest::Reply(Err(failure)));
            }
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        let mut discarded = [0u8; 1024];
        while rustix::io::read(&self.signals, &mut discarded).is_ok_and(|count| count > 0) {}
        while let Some((pid, status, usage)) = process::reap_any()? {
            // What is not a call of ours is an orphan that some call left.
            let found = self.calls.iter_mut().find(|(_, call)| call.pid == pid);
            let Some((&channel, call)) = found else { continue };
            let (code, signal) = match status {
                WaitStatus::Exited(code) => (Some(code), None),
                WaitStatus::Signaled(signal) => (None, Some(signal)),
            };
            let groups = self.groups.as_mut();
            let counters = groups.and_then(|groups| groups.finish(channel, usage.max_rss_bytes));
            call.exit = Some(Exit {
                code,
                signal,
                cpu_micros: usage.cpu_micros,
                max_rss_bytes: usage.max_rss_bytes,
                counters,
            });
        }
        if let Some(groups) = &mut self.groups {
            groups.sweep();
        }
        Ok(())
    }
}

/// What the guest finds out about itself before it speaks.
fn hello() -> io::Result<Hello> {
    let (seccomp, no_new_privs) = process::confinement()?;
    Ok(Hello {
        generation: GENERATION,
        pid: std::process::id(),
        uid: rustix::process::getuid().as_raw(),
        capabilities: caps::effective()?.0,
        no_new_privs: no_new_privs == 1,
        seccomp: seccomp == 2,
    })
}

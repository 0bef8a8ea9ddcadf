//! The end of an interpreter, and why it came.

use std::collections::VecDeque;

use belljar_domain::EndReason;
use belljar_engine::Ended;
use belljar_guest_proto::{Exit, Request};

use super::hear::{Conclusion, deliver};
use super::{Actor, Cell, EXIT_STATUS_TIMEOUT, SIGKILL, SIGSYS, Turn};
use crate::context::cell::{CellEnd, CellEvent};
use crate::link::Incoming;
use crate::supervisor::remove_group;

impl Actor {
    /// Ends the interpreter and answers everyone who still waits.
    pub(super) async fn finish(
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
            self.conclude(cell, &self.counts(), end);
        }
        for turn in waiting {
            if let Turn::Cell(_, _, _, events) = turn {
                deliver(events, [CellEvent::End(CellEnd::lost(reason))]);
            }
        }
        if let Some(group) = self.group.take() {
            remove_group(group).await;
        }
    }

    /// How it ended: who is told of that may hear it after its streams ended.
    async fn told(&mut self) -> Option<Ended> {
        if let Some(ended) = self.ended.take() {
            return tokio::time::timeout(EXIT_STATUS_TIMEOUT, ended)
                .await
                .ok()
                .and_then(Result::ok);
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
            None => tokio::time::timeout(EXIT_STATUS_TIMEOUT, exit).await.ok().flatten(),
            told => told,
        }
    }

    /// Without a filter, whoever died of its signal was sent that.
    fn is_filtered(&self) -> bool {
        self.machine.confinement().filter_kills
    }

    /// What a wait status alone says. One that was adopted has none here.
    pub(super) fn reason_of(&self, exit: Exit) -> Option<EndReason> {
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
        let _ = tokio::time::timeout(EXIT_STATUS_TIMEOUT, asked).await;
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

pub(super) fn ended(exit: Exit) -> Option<Ended> {
    exit.signal.map(Ended::Signaled).or(exit.code.map(Ended::Exited))
}

//! Whose a connection is. The kernel says which group made its socket; which call
//! that group is, the sandbox's ledger knows.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::SandboxId;
use belljar_domain::network::Process;
use belljar_engine::Whereabouts;
use belljar_peer_proto::gateway::{Belongs, Socket, ToGateway};

use super::{Served, Shared};
use crate::ledger::Ledger;

pub(super) fn answer(shared: &Arc<Shared>, question: u64, sandbox: &SandboxId, socket: Socket) {
    let served = shared.served().get(sandbox).cloned();
    let whereabouts = served.as_ref().and_then(|served| served.machine.upgrade()?.whereabouts());
    let (Some(served), Some(whereabouts)) = (served, whereabouts) else {
        let belongs = Belongs::default();
        return shared.say(&ToGateway::Belongs { question, belongs });
    };
    let shared = shared.clone();
    // The kernel is asked by files, of as many processes as there are.
    tokio::task::spawn_blocking(move || {
        let belongs = find(&served, &whereabouts, socket);
        shared.say(&ToGateway::Belongs { question, belongs });
    });
}

fn find(served: &Served, whereabouts: &Whereabouts, socket: Socket) -> Belongs {
    let number = call_of(&served.ledger, whereabouts, socket.cgroup);
    let belongs = number.map(|number| served.ledger.describe(number)).unwrap_or_default();
    // Nobody holds a socket without a number any more.
    let holder = (socket.inode != 0).then(|| {
        // One at a time for each sandbox.
        let mut effort = served.effort.lock().unwrap_or_else(PoisonError::into_inner);
        whereabouts.holder(socket.inode, number, effort.now())
    });
    let holder = holder.flatten();
    let process = holder.map(|holder| Process { pid: holder.pid, name: holder.name });
    Belongs { process, ..belongs }
}

/// How much may be looked at to find the processes of one sandbox. Code could
/// have so many, and connect so often, that the host did nothing else.
#[derive(Debug)]
pub(super) struct Effort {
    left: u32,
    since: Instant,
}

/// In a second: a tenth of one core, about.
const EACH_SECOND: u32 = 50_000;

impl Effort {
    pub(super) fn new() -> Self {
        Self { left: EACH_SECOND, since: Instant::now() }
    }

    /// What is left of it now.
    fn now(&mut self) -> &mut u32 {
        if self.since.elapsed() >= Duration::from_secs(1) {
            *self = Self::new();
        }
        &mut self.left
    }
}

/// The number of the call that has the group.
fn call_of(ledger: &Ledger, whereabouts: &Whereabouts, group: u64) -> Option<u32> {
    if let Some(number) = ledger.call_of(group) {
        return Some(number);
    }
    // Of before anyone watched, or of one that nobody remembers.
    let calls = whereabouts.calls().ok()?;
    let (number, group) = calls.into_iter().find(|(_, id)| *id == group)?;
    ledger.note(group, number);
    Some(number)
}

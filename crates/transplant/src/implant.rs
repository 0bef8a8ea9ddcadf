//! Makes a waiting process a copy of the one that an image was taken of.
//!
//! First everything is planned, from what the process has and what it should
//! have; up to there it can be refused and goes on waiting. Once the first call
//! is made there is no way back: if a step fails then, the process is killed.

mod plan;
mod write;

use std::os::fd::{AsFd, BorrowedFd};

use crate::area::areas;
use crate::channel::{Lent, lend};
use crate::image::Image;
use crate::process::Process;
use crate::reference::Reference;
use crate::refusal::Refusal;
use crate::state;
use crate::stopped::{Call, Stopped};
use plan::Plan;

/// More than a process that has just been forked ever has.
const MAPPINGS: usize = 65_536;
const BRK: u64 = 12;
const GETRANDOM: u64 = 318;

/// Makes a waiting process a copy of the one that the image was taken of. It
/// goes on in the same wait for its next message, with its own descriptors,
/// names and rights.
///
/// When this fails with the process changed in part, the process is killed.
pub fn implant(image: &Image, process: &Process, reference: &Reference) -> Result<(), Refusal> {
    let mut stopped = Stopped::stop(process)?;
    stopped.check()?;
    if reference.mark()? != image.mark {
        return Err(Refusal::ReferenceRan);
    }
    let areas = areas(&stopped.files, MAPPINGS)?;
    let plan = Plan::new(image, &areas, &stopped, reference)
        .map_err(|refusal| process.explain(refusal))?;
    let future: Vec<(u64, u64)> =
        image.mappings.iter().map(|mapping| (mapping.start, mapping.end)).collect();
    stopped.set_up(&areas, &future)?;
    carry_out(&mut stopped, image, &plan, reference).map_err(|refusal| {
        let refusal = process.explain(refusal);
        process.kill();
        refusal
    })
}

fn carry_out(
    stopped: &mut Stopped<'_>,
    image: &Image,
    plan: &Plan,
    reference: &Reference,
) -> Result<(), Refusal> {
    let heap_end = image.state.heap_end;
    let brk = Call { name: "brk", number: BRK, arguments: [heap_end, 0, 0, 0, 0, 0] };
    // brk(2) does not fail; it answers where the heap ends then.
    if stopped.run(&[brk])?.first() != Some(&heap_end) {
        return Err(Refusal::Layout("the heap cannot end where it should".to_owned()));
    }
    if let Some(address) = plan.stack_start {
        // The kernel grows a stack for whoever touches it, itself included.
        let touch =
            Call { name: "getrandom", number: GETRANDOM, arguments: [address, 1, 1, 0, 0, 0] };
        stopped.run(&[touch]).map_err(|_| Refusal::Stack)?;
    }
    let files: Vec<BorrowedFd<'_>> = image.memories.iter().map(|memory| memory.as_fd()).collect();
    if files.is_empty() {
        stopped.run(&plan.calls(&[]))?;
    } else {
        match lend(stopped, &files, |numbers| plan.calls(numbers)) {
            Lent::Done => {}
            Lent::Never(refusal) | Lent::Halfway(refusal) => return Err(refusal),
        }
    }
    write::write(stopped, image, reference, &plan.writes)?;
    state::give(stopped, &image.state)?;
    stopped.tidy_up()?;
    if reference.mark()? != image.mark {
        return Err(Refusal::ReferenceRan);
    }
    let state = &image.state;
    stopped.become_like(&state.registers, state.mask, &state.extended)
}

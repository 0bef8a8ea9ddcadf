//! The same for a workbook, row by row.

use super::{BATCH, Batch, Taker, Wanted};
use crate::excel;
use crate::read::{Job, Profile, ReadError};
use crate::tree::ROOT;

pub(super) fn sheet(
    job: Job<'_>,
    profile: &Profile,
    wanted: &Wanted,
    sink: &mut dyn FnMut(Batch),
) -> Result<(), ReadError> {
    let Some(sheet) = &profile.sheet else { return Ok(()) };
    let ids = &profile.tree.node(ROOT).children;
    let mut taker = Taker::new(wanted);
    excel::rows(job, sheet, |row| {
        for (place, cell) in row {
            if let Some(id) = ids.get(*place)
                && wanted.nodes[*id as usize].is_on_the_way
            {
                cell.with_value(|value| taker.take(*id, &value));
            }
        }
        taker.end(ROOT);
        if taker.batch.len() >= BATCH {
            sink(std::mem::take(&mut taker.batch));
        }
    })?;
    sink(taker.batch);
    Ok(())
}

//! The second pass over a Parquet file: only the columns that are wanted are read.

use super::{BATCH, Batch, Taker, Wanted};
use crate::parquet::{Chunk, Leaf, Shown, Table, Target};
use crate::read::{Job, ReadError};
use crate::tree::{ROOT, Tree};

pub(super) fn columns(
    job: Job<'_>,
    wanted: &Wanted,
    sink: &mut dyn FnMut(Batch),
) -> Result<(), ReadError> {
    // The same columns get the same ids as in the first pass.
    let table = Table::open(job, &mut Tree::default())?;
    let mut taker = Taker::new(wanted);
    let single: Vec<&Leaf> = table
        .leaves
        .iter()
        .filter(|leaf| is(leaf, |place| !place.slots.is_empty(), wanted))
        .collect();
    let halves: Vec<(&Leaf, usize)> = table
        .leaves
        .iter()
        .filter_map(|leaf| match leaf.target {
            Target::Value(id) => Some((leaf, wanted.nodes.get(id as usize)?.part?)),
            Target::Key(_) => None,
        })
        .collect();
    for (group, _) in table.groups() {
        for leaf in &single {
            if let Some(chunk) = table.chunk(group, leaf) {
                whole(chunk, leaf, &mut taker, sink);
            }
            table.tell(job);
        }
        let chunks: Option<Vec<(Chunk, usize)>> =
            halves.iter().map(|(leaf, part)| Some((table.chunk(group, leaf)?, *part))).collect();
        if let Some(chunks) = chunks.filter(|chunks| !chunks.is_empty()) {
            side_by_side(chunks, &mut taker, sink);
            table.tell(job);
        }
    }
    sink(std::mem::take(&mut taker.batch));
    Ok(())
}

fn is(leaf: &Leaf, test: impl Fn(&super::Place) -> bool, wanted: &Wanted) -> bool {
    match leaf.target {
        Target::Value(id) => wanted.nodes.get(id as usize).is_some_and(test),
        Target::Key(_) => false,
    }
}

/// One column. What stopped the first pass in it stops this one.
fn whole(mut chunk: Chunk, leaf: &Leaf, taker: &mut Taker<'_>, sink: &mut dyn FnMut(Batch)) {
    let Target::Value(id) = leaf.target else { return };
    let mut each = |entry: crate::parquet::Entry<'_>| {
        if let Some(Shown::Value(value)) = entry.value {
            taker.take(id, &value);
        }
        if taker.batch.len() >= BATCH {
            sink(std::mem::take(&mut taker.batch));
        }
    };
    while chunk.next(&mut each).is_ok_and(|rows| rows > 0) {}
}

/// Columns that stand together: the same number of rows of each at a time. Halves of keys are
/// never in lists, so a row has one entry.
fn side_by_side(
    mut chunks: Vec<(Chunk, usize)>,
    taker: &mut Taker<'_>,
    sink: &mut dyn FnMut(Batch),
) {
    let mut hashes: Vec<Vec<Option<u64>>> = vec![Vec::new(); chunks.len()];
    loop {
        let mut rows = None;
        for ((chunk, _), hashes) in chunks.iter_mut().zip(&mut hashes) {
            hashes.clear();
            let read = chunk.next(&mut |entry| {
                hashes.push(match entry.value {
                    Some(Shown::Value(value)) => Some(value.hash()),
                    _ => None,
                });
            });
            let count = if read.is_ok_and(|rows| rows > 0) { hashes.len() } else { 0 };
            rows = Some(rows.map_or(count, |rows: usize| rows.min(count)));
        }
        let Some(rows) = rows.filter(|rows| *rows > 0) else { return };
        for row in 0..rows {
            taker.parts.fill(None);
            for ((_, part), hashes) in chunks.iter().zip(&hashes) {
                taker.parts[*part] = hashes.get(row).copied().flatten();
            }
            taker.end(ROOT);
        }
        if taker.batch.len() >= BATCH {
            sink(std::mem::take(&mut taker.batch));
        }
    }
}

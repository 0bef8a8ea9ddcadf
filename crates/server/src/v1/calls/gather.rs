//! Waits for a call's end, and keeps what it wrote.

use belljar_api::call as api;
use belljar_domain::{End, EndReason};
use belljar_node::{Capture, Captured};
use belljar_sandboxes::Stream;

use super::source::{Doing, Source};
use crate::v1::hint::Hints;
use crate::v1::output;

/// Output of each stream that is kept for who waits.
const KEPT: usize = 4 << 20;

pub(super) async fn gather(
    (id, number): (u32, u32),
    mut source: Source,
    encoding: api::Encoding,
    mut hints: Hints,
) -> api::Finished {
    let (mut stdout, mut stderr) = (Gathered::new(), Gathered::new());
    loop {
        match source.next().await {
            Doing::Output(stream, bytes) => {
                hints.push(&bytes);
                if stream == Stream::Stderr { stderr.push(&bytes) } else { stdout.push(&bytes) }
            }
            Doing::Omitted(amount) => {
                stdout.omit(amount.stdout);
                stderr.omit(amount.stderr);
            }
            Doing::Ended(end) => {
                return api::Finished {
                    id,
                    number,
                    stdout: output::captured(&stdout.finish(), encoding),
                    stderr: output::captured(&stderr.finish(), encoding),
                    end: ended(end, &hints),
                };
            }
        }
    }
}

/// The end of a call, with a hint if it failed.
pub(super) fn ended(end: End, hints: &Hints) -> api::CallEnd {
    let hint = (end.reason != EndReason::Done).then(|| hints.finish()).flatten();
    api::CallEnd { hint, ..end.into() }
}

/// One stream, of which a part may not have been kept by whoever tells it.
struct Gathered {
    before: Capture,
    omitted: u64,
    after: Option<Capture>,
}

impl Gathered {
    fn new() -> Self {
        Self { before: Capture::new(KEPT), omitted: 0, after: None }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.after.as_mut().unwrap_or(&mut self.before).push(bytes);
    }

    fn omit(&mut self, bytes: u64) {
        if bytes > 0 {
            self.omitted += bytes;
            self.after.get_or_insert_with(|| Capture::new(KEPT));
        }
    }

    fn finish(self) -> Captured {
        let mut before = self.before.finish();
        let Some(after) = self.after else { return before };
        let after = after.finish();
        let mut omitted = before.omitted + self.omitted + after.omitted;
        // One note in the middle: what stands beside another gap is left out.
        if before.omitted == 0 {
            before.head.append(&mut before.tail);
        } else {
            omitted += before.tail.len() as u64;
        }
        let tail = if after.omitted == 0 {
            [after.head, after.tail].concat()
        } else {
            omitted += after.head.len() as u64;
            after.tail
        };
        Captured { head: before.head, omitted, tail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_kept_or_counted() {
        let piece = vec![b'x'; KEPT / 4];
        for (first, omitted, last) in [(1, 0, 0), (3, 7, 2), (6, 1, 1), (1, 1, 6), (6, 5, 6)] {
            let mut gathered = Gathered::new();
            (0..first).for_each(|_| gathered.push(&piece));
            gathered.omit(omitted);
            (0..last).for_each(|_| gathered.push(&piece));
            let Captured { head, omitted: counted, tail } = gathered.finish();
            let all = (head.len() + tail.len()) as u64 + counted;
            assert_eq!(all, (first + last) * piece.len() as u64 + omitted);
            assert!(head.len() <= KEPT && tail.len() <= KEPT);
        }
    }
}

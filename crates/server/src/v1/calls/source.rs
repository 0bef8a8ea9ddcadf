//! Where what a call does comes from.

use std::sync::Arc;

use belljar_domain::{End, EndReason, Usage};
use belljar_sandboxes::{Amount, Following, Happened, Listening, Problem, Said, Stream, Told};

pub(super) enum Source {
    /// From the call itself.
    Live(Following),
    /// From what is written down of it.
    Kept(Listening<Said>),
}

/// What a call that runs does next.
pub(super) enum Doing {
    Output(Stream, Arc<[u8]>),
    /// So much was written here, and is not kept.
    Omitted(Amount),
    Ended(End),
}

impl Source {
    pub(super) async fn next(&mut self) -> Doing {
        let listening = match self {
            Self::Live(following) => {
                return match following.next().await {
                    Happened::Output(stream, bytes) => Doing::Output(stream, bytes),
                    Happened::Ended(end) => Doing::Ended(end.end),
                };
            }
            Self::Kept(listening) => listening,
        };
        loop {
            return match listening.next().await {
                Some(Told::Said(Said::Output(stream, bytes))) => Doing::Output(stream, bytes),
                Some(Told::Said(Said::Ended(end))) => Doing::Ended(end),
                Some(Told::Omitted(amount)) => Doing::Omitted(amount),
                Some(Told::Said(Said::Started { .. } | Said::Refused(_))) => continue,
                None => Doing::Ended(unseen()),
            };
        }
    }
}

/// Waits until a call has started, and answers its pid and its number.
pub(super) async fn started(listening: &mut Listening<Said>) -> Result<(u32, u32), Problem> {
    loop {
        match listening.next().await {
            Some(Told::Said(Said::Started { pid, number })) => return Ok((pid, number)),
            Some(Told::Said(Said::Refused(problem))) => return Err(problem),
            Some(Told::Said(Said::Output(..)) | Told::Omitted(_)) => {}
            // Its sandbox went to disk before anybody saw it run.
            Some(Told::Said(Said::Ended(_))) | None => return Err(Problem::gone()),
        }
    }
}

fn unseen() -> End {
    let (reason, usage) = (EndReason::Lost, Usage::default());
    End { reason, exit_code: None, signal: None, usage }
}

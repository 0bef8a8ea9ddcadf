//! Copies both ways until both ends have said all.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use belljar_domain::network::{Decision, Policy, Reason};
use belljar_egress::Destination;
use belljar_egress::client_hello::{After, Again, Hello, NotHello};
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::hello::{self, First};
use crate::log::Entry;
use crate::metered::Spent;
use crate::wire::{Ahead, Tally};

const BUFFER: usize = 32 << 10;
/// A tunnel in which nothing moves is closed after this.
const IDLE: Duration = Duration::from_secs(15 * 60);

/// Passes bytes on between a client and the world. A greeting of TLS among the
/// client's first bytes is held against the name that was asked for, and so is a
/// second one.
pub(super) async fn both<U>(
    inside: Ahead,
    upstream: U,
    (policy, to): (&Policy, &Destination),
    tally: &Arc<Tally>,
    entry: &mut Entry,
) where
    U: AsyncRead + AsyncWrite + Unpin,
{
    let (mut from_world, mut to_world) = tokio::io::split(upstream);
    let (mut from_inside, mut to_inside) = tokio::io::split(inside);
    let activity = Activity::new();
    let out = async {
        if let Some(First { mut bytes, again }) = hello::first(&mut from_inside, policy, to).await?
        {
            let end = again.as_ref().map_or(bytes.len(), |(end, _)| *end);
            let first = bytes.split_to(end);
            tally.count_out(first.len());
            to_world.write_all(&first).await.map_err(why)?;
            if let Some((_, again)) = again {
                let judge = |hello| hello::judge(policy, to, hello).map(drop);
                let ways = (&mut from_inside, &mut to_world);
                watched(ways, bytes, again, judge, &activity, |count| tally.count_out(count))
                    .await?;
            }
        }
        copy(&mut from_inside, &mut to_world, &activity, |count| tally.count_out(count)).await
    };
    let into = async {
        copy(&mut from_world, &mut to_inside, &activity, |count| tally.count_in(count)).await
    };
    let copied = async { tokio::try_join!(out, into).map(drop) };
    let ended = tokio::select! {
        ended = copied => ended,
        () = activity.until_idle() => Err(Reason::Ended),
    };
    match ended {
        // What broke after it was allowed is the tunnel's own affair.
        Ok(()) | Err(Reason::Ended) => {}
        Err(reason) => entry.decide(Decision::Denied, reason),
    }
}

fn why(error: io::Error) -> Reason {
    if error.get_ref().is_some_and(|inner| inner.is::<Spent>()) {
        Reason::BytesSpent
    } else {
        Reason::Ended
    }
}

/// Passes on what follows a greeting, until no second one can follow. What may be the beginning
/// of one is held back until it is judged.
async fn watched(
    (from, to): (&mut (impl AsyncRead + Unpin), &mut (impl AsyncWrite + Unpin)),
    mut held: BytesMut,
    mut again: Again,
    judge: impl Fn(Result<Hello, NotHello>) -> Result<(), Reason>,
    activity: &Activity,
    count: impl Fn(usize),
) -> Result<(), Reason> {
    let mut new = 0;
    loop {
        let fresh = held.get(new..).unwrap_or_default();
        let keep = match again.push(fresh) {
            Ok(After::More) => again.held(),
            Ok(After::Over) => 0,
            Ok(After::Hello(hello)) => {
                judge(Ok(hello))?;
                0
            }
            Err(error) => return judge(Err(error)),
        };
        let pass = held.split_to(held.len().saturating_sub(keep));
        if !pass.is_empty() {
            count(pass.len());
            to.write_all(&pass).await.map_err(why)?;
            activity.note();
        }
        if again.is_over() {
            return Ok(());
        }
        new = held.len();
        held.reserve(BUFFER);
        if from.read_buf(&mut held).await.map_err(why)? == 0 {
            // Nothing to a server either.
            return Ok(());
        }
        activity.note();
    }
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
    count: impl Fn(usize),
) -> Result<(), Reason> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await.map_err(why)?;
        if read == 0 {
            // The other way goes on until its own end.
            let _ = to.shutdown().await;
            return Ok(());
        }
        activity.note();
        count(read);
        let passed = buffer.get(..read).unwrap_or_default();
        to.write_all(passed).await.map_err(why)?;
        activity.note();
    }
}

/// When something moved last, in milliseconds since it began.
struct Activity {
    began: Instant,
    last: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self { began: Instant::now(), last: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn note(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    async fn until_idle(&self) {
        loop {
            let still = self.now().saturating_sub(self.last.load(Ordering::Relaxed));
            let left = IDLE.saturating_sub(Duration::from_millis(still));
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

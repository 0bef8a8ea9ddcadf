//! Passes a call's output on to who follows it, until its end.

use std::collections::VecDeque;
use std::sync::Arc;

use belljar_node::{Call, Event};
use tokio::sync::mpsc;

use super::process::{Order, Piece};
use super::{Process, ProcessEnd, Stream, lock};

/// A piece on its way, and who has not got it yet.
struct UnderWay {
    piece: Piece,
    to: VecDeque<mpsc::Sender<Piece>>,
}

/// Runs until the call has ended and everyone has its output.
pub(super) async fn drain(
    process: &Arc<Process>,
    mut call: Call,
    mut orders: mpsc::Receiver<Order>,
) -> ProcessEnd {
    let mut under_way: Option<UnderWay> = None;
    loop {
        // Orders are obeyed even while a slow follower holds everything up.
        let next = under_way.as_ref().and_then(|piece| piece.to.front().cloned());
        tokio::select! {
            biased;
            Some(order) = orders.recv() => obey(&call, order).await,
            permit = reserve(next.as_ref()), if next.is_some() => {
                if let Some(waiting) = &mut under_way {
                    waiting.to.pop_front();
                    // Who does not follow any more gets nothing.
                    if let Some(permit) = permit {
                        permit.send(waiting.piece.clone());
                    }
                }
            }
            event = call.next(), if next.is_none() => {
                let (stream, bytes) = match event {
                    Event::Stdout(bytes) if process.terminal => (Stream::Terminal, bytes),
                    Event::Stdout(bytes) => (Stream::Stdout, bytes),
                    Event::Stderr(bytes) => (Stream::Stderr, bytes),
                    Event::End(end) => return ProcessEnd::from(&end),
                };
                let to = lock(&process.followers).iter().flatten().cloned().collect();
                under_way = Some(UnderWay { piece: (stream, bytes.into()), to });
            }
        }
    }
}

async fn reserve(to: Option<&mpsc::Sender<Piece>>) -> Option<mpsc::Permit<'_, Piece>> {
    to?.reserve().await.ok()
}

async fn obey(call: &Call, order: Order) {
    let (done, answer) = match order {
        Order::Signal(signal, answer) => (call.signal(signal).await, answer),
        Order::Resize(size, answer) => (call.resize(size).await, answer),
    };
    let _ = answer.send(done.map_err(|error| error.to_string()));
}

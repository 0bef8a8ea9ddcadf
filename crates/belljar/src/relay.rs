//! Moves a call's output to where it belongs, and our input to the call.
//!
//! Writing to a pipe that nobody reads blocks. It is done on a thread of its
//! own, so that limits and Ctrl-C work all the same; a bounded queue between
//! makes the code inside wait as it would on the pipe itself.

use std::io::{self, Read as _, Write as _};

use belljar_domain::End;
use belljar_node::{Call, Capture, Captured, Event, NetworkSigns, Writer};
use tokio::sync::{mpsc, oneshot};

/// Chunks between the call and the writing thread.
const QUEUE: usize = 4;

/// Where output goes.
#[derive(Debug)]
pub(crate) enum Sink {
    /// To our own streams, as it comes.
    Live(Live),
    /// Into memory, the beginning and the end of each.
    Keep {
        stdout: Box<Capture>,
        stderr: Box<Capture>,
    },
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

#[derive(Debug)]
pub(crate) struct Live {
    queue: Option<mpsc::Sender<(Stream, Vec<u8>)>>,
    written: oneshot::Receiver<()>,
    /// Everything goes to standard error.
    only_stderr: bool,
}

/// What a sink says once the call is over.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// Everything was written.
    Whole,
    /// Whoever read our output has gone.
    ReaderGone,
    Kept {
        stdout: Captured,
        stderr: Captured,
    },
}

impl Sink {
    pub(crate) fn live() -> Self {
        Self::Live(Live::start(false))
    }

    pub(crate) fn standard_error() -> Self {
        Self::Live(Live::start(true))
    }

    pub(crate) fn keep(limit: usize) -> Self {
        let capture = || Box::new(Capture::new(limit));
        Self::Keep { stdout: capture(), stderr: capture() }
    }

    pub(crate) fn nothing() -> Self {
        Self::Nothing
    }

    /// Takes one piece; `false` when nobody wants more.
    async fn take(&mut self, stream: Stream, bytes: Vec<u8>) -> bool {
        match self {
            Self::Nothing => true,
            Self::Keep { stdout, stderr } => {
                match stream {
                    Stream::Stdout => stdout.push(&bytes),
                    Stream::Stderr => stderr.push(&bytes),
                }
                true
            }
            Self::Live(live) => live.take(stream, bytes).await,
        }
    }

    /// Waits until all is written.
    pub(crate) async fn finish(self) -> Delivered {
        match self {
            Self::Nothing => Delivered::Whole,
            Self::Keep { stdout, stderr } => {
                Delivered::Kept { stdout: stdout.finish(), stderr: stderr.finish() }
            }
            Self::Live(mut live) => {
                live.queue = None;
                match live.written.await {
                    Ok(()) => Delivered::Whole,
                    Err(_) => Delivered::ReaderGone,
                }
            }
        }
    }
}

impl Live {
    fn start(only_stderr: bool) -> Self {
        let (queue, mut waiting) = mpsc::channel::<(Stream, Vec<u8>)>(QUEUE);
        let (done, written) = oneshot::channel();
        std::thread::spawn(move || {
            while let Some((stream, bytes)) = waiting.blocking_recv() {
                let result = match stream {
                    Stream::Stdout => write(&mut io::stdout().lock(), &bytes),
                    Stream::Stderr => write(&mut io::stderr().lock(), &bytes),
                };
                if result.is_err() {
                    // Dropping `done` unsent says that the reader is gone.
                    return;
                }
            }
            let _ = done.send(());
        });
        Self { queue: Some(queue), written, only_stderr }
    }

    async fn take(&mut self, stream: Stream, bytes: Vec<u8>) -> bool {
        let stream = if self.only_stderr { Stream::Stderr } else { stream };
        match &self.queue {
            Some(queue) => queue.send((stream, bytes)).await.is_ok(),
            None => false,
        }
    }
}

fn write(to: &mut impl io::Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// Feeds the sink until the call has ended. A call whose output nobody reads
/// any more is ended, as a broken pipe would.
pub(crate) async fn to_the_end(call: &mut Call, sink: &mut Sink, signs: &mut NetworkSigns) -> End {
    loop {
        let (stream, bytes) = match call.next().await {
            Event::Stdout(bytes) => (Stream::Stdout, bytes),
            Event::Stderr(bytes) => (Stream::Stderr, bytes),
            Event::End(end) => return end,
        };
        signs.push(&bytes);
        if !sink.take(stream, bytes).await {
            call.kill();
        }
    }
}

/// Passes our standard input on until it ends. The thread is left behind when
/// the call ends first; nothing can wake it from a read.
pub(crate) fn feed(writer: Writer) {
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            // What the code does not read stays where it comes from.
            runtime.block_on(writer.ready());
            match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => writer.write(buffer[..count].to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        writer.close();
    });
}

/// Writes one piece to the terminal at once.
pub(crate) fn to_terminal(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

//! A TCP proxy that lies between two parts, and does to what passes what networks
//! do: delay it, lose it, or cut the connection at a chosen moment.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    serving: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    manner: Mutex<Manner>,
    /// Counts up to cut every connection that is open.
    cuts: watch::Sender<u64>,
    swallowed: AtomicU64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    #[default]
    Pass,
    /// Each piece, in either direction, waits for so long.
    Delay(Duration),
    /// Connections stay open, and nothing passes: the other side has vanished.
    Hold,
    /// What is asked arrives, and no answer comes back.
    LoseReplies,
    /// The first answer that contains this is not passed on; the connection ends
    /// instead. Then as usual.
    CutAtReply(Vec<u8>),
    /// Nobody gets in.
    Refuse,
}

impl Proxy {
    pub(crate) async fn start(listen: SocketAddr, upstream: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            manner: Mutex::default(),
            cuts: watch::Sender::new(0),
            swallowed: AtomicU64::new(0),
        });
        let serving = tokio::spawn({
            let shared = shared.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(pass(stream, shared.clone()));
                }
            }
        });
        Ok(Self { address, shared, serving: serving.abort_handle() })
    }

    pub(crate) fn behave(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }

    /// Ends every connection that is open.
    pub(crate) fn cut(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// How many answers were not passed on.
    pub(crate) fn swallowed(&self) -> u64 {
        self.shared.swallowed.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
        self.cut();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Asked,
    Answered,
}

impl Shared {
    fn manner(&self) -> Manner {
        self.manner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a piece is passed on; none: the connection ends.
    async fn judge(&self, way: Way, piece: &[u8]) -> Option<bool> {
        loop {
            match self.manner() {
                Manner::Pass | Manner::Refuse => return Some(true),
                Manner::Delay(time) => {
                    tokio::time::sleep(time).await;
                    return Some(true);
                }
                Manner::Hold => tokio::time::sleep(Duration::from_millis(20)).await,
                Manner::LoseReplies if way == Way::Answered => {
                    self.swallowed.fetch_add(1, Ordering::Relaxed);
                    return Some(false);
                }
                Manner::CutAtReply(text) if way == Way::Answered && contains(piece, &text) => {
                    self.swallowed.fetch_add(1, Ordering::Relaxed);
                    *self.manner.lock().unwrap_or_else(PoisonError::into_inner) = Manner::Pass;
                    return None;
                }
                Manner::LoseReplies | Manner::CutAtReply(_) => return Some(true),
            }
        }
    }
}

fn contains(piece: &[u8], text: &[u8]) -> bool {
    piece.windows(text.len()).any(|window| window == text)
}

async fn pass(client: TcpStream, shared: Arc<Shared>) -> Option<()> {
    if shared.manner() == Manner::Refuse {
        return None;
    }
    let mut cuts = shared.cuts.subscribe();
    let server = TcpStream::connect(shared.upstream).await.ok()?;
    let (mut client_reads, mut client_writes) = client.into_split();
    let (mut server_reads, mut server_writes) = server.into_split();
    let asked = async {
        let mut piece = vec![0; 64 << 10];
        loop {
            let count = client_reads.read(&mut piece).await.ok().filter(|&count| count > 0)?;
            if shared.judge(Way::Asked, &piece[..count]).await? {
                server_writes.write_all(&piece[..count]).await.ok()?;
            }
        }
    };
    let answered = async {
        let mut piece = vec![0; 64 << 10];
        loop {
            let count = server_reads.read(&mut piece).await.ok().filter(|&count| count > 0)?;
            if shared.judge(Way::Answered, &piece[..count]).await? {
                client_writes.write_all(&piece[..count]).await.ok()?;
            }
        }
    };
    // Either side's end is the connection's.
    let ended: Option<()> = tokio::select! {
        ended = asked => ended,
        ended = answered => ended,
        _ = cuts.changed() => None,
    };
    ended
}

//! Against servers of a few lines that count who connects.

use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

/// Only to end a test that hangs.
const LONG: Duration = Duration::from_secs(60);

const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nanswer";
const CHUNKS: &[u8] =
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nans\r\n3\r\nwer\r\n0\r\n\r\n";

/// Gives each connection so many answers, then closes it without a word. Tells
/// of every connection, and of every end of one.
async fn server(
    answer: &'static [u8],
    answers: usize,
) -> (Pool, mpsc::UnboundedReceiver<&'static str>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            sender.send("opened").unwrap();
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                for _ in 0..answers {
                    // Requests of these tests are short, and come alone.
                    if matches!(stream.read(&mut buffer).await, Ok(1..)) {
                        stream.write_all(answer).await.unwrap();
                    }
                }
                drop(stream);
                let _ = sender.send("closed");
            });
        }
    });
    (Pool::new("127.0.0.1", port, None, LONG).unwrap(), told)
}

async fn begin(pool: &Pool) -> Response<Reply> {
    let request = Request::get("http://upstream.test/path").body(Inner::default()).unwrap();
    pool.ask(request, LONG).await.unwrap()
}

async fn ask(pool: &Pool) {
    let body = begin(pool).await.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "answer");
}

#[tokio::test]
async fn a_connection_is_used_again_whatever_frames_its_answers() {
    for answer in [LENGTH, CHUNKS] {
        let (pool, mut told) = server(answer, 100).await;
        for _ in 0..5 {
            ask(&pool).await;
        }
        assert_eq!(told.recv().await, Some("opened"));
        assert!(told.try_recv().is_err(), "one connection is enough");
    }
}

#[tokio::test]
async fn one_that_the_server_closed_meanwhile_is_not_used() {
    let (pool, mut told) = server(LENGTH, 1).await;
    for _ in 0..5 {
        ask(&pool).await;
        assert_eq!(told.recv().await, Some("opened"));
        assert_eq!(told.recv().await, Some("closed"));
    }
}

#[tokio::test]
async fn an_answer_that_nobody_reads_to_its_end_closes_its_connection() {
    let (pool, mut told) = server(CHUNKS, 2).await;
    drop(begin(&pool).await);
    assert_eq!(told.recv().await, Some("opened"));
    assert_eq!(told.recv().await, Some("closed"));
    assert!(pool.shared.kept(|kept| kept.lines.is_empty()));
}

#[tokio::test]
async fn what_waits_for_too_long_is_closed() {
    let (pool, mut told) = server(LENGTH, 100).await;
    ask(&pool).await;
    assert_eq!(told.recv().await, Some("opened"));
    assert_eq!(pool.shared.kept(|kept| kept.lines.len()), 1);
    // From here on nobody waits for a socket, which a clock that is ahead would miss.
    tokio::time::pause();
    tokio::time::sleep(IDLE * 2).await;
    assert!(pool.shared.kept(|kept| kept.lines.is_empty()));
}

use std::net::Ipv4Addr;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;

async fn start() -> Hostile {
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    Hostile::start(address, Security::Plain, vec!["canary".to_owned()]).await.unwrap()
}

/// What comes before the end, or the first `most` bytes of it.
async fn ask(hostile: &Hostile, target: &str, most: u64) -> Vec<u8> {
    let mut stream = TcpStream::connect(hostile.address()).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut limited = stream.take(most);
    let _ = timeout(patience(target), limited.read_to_end(&mut answer)).await;
    answer
}

/// Silence is believed sooner than slowness.
fn patience(target: &str) -> Duration {
    if target == "/silent" { Duration::from_millis(300) } else { Duration::from_secs(20) }
}

#[tokio::test]
async fn controls_behave() {
    let hostile = start().await;
    let mut stream = TcpStream::connect(hostile.address()).await.unwrap();
    let first = b"POST /echo HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n\
                  6\r\ncanary\r\n0\r\n\r\nGET http://h/hello HTTP/1.1\r\nhost: h\r\n\r\n";
    stream.write_all(first).await.unwrap();
    let mut answer = vec![0; 4096];
    let mut text = String::new();
    while !text.ends_with("hello") {
        let read =
            timeout(Duration::from_secs(5), stream.read(&mut answer)).await.unwrap().unwrap();
        assert!(read > 0);
        text.push_str(&String::from_utf8_lossy(&answer[..read]));
    }
    assert!(text.contains("POST /echo HTTP/1.1\r\n") && text.contains("\r\n\r\ncanary"));
    let record = hostile.record().all();
    assert_eq!((record[0].body_bytes, &*record[0].watched), (6, &["canary".to_owned()][..]));
    assert_eq!((record[1].target.as_str(), record[1].watched.len()), ("http://h/hello", 0));
}

#[tokio::test]
async fn what_has_no_end_has_none() {
    let hostile = start().await;
    let paths = [
        "/endless-body",
        "/endless-body?length=1",
        "/endless-headers",
        "/flood",
        "/trailers?kb=0",
        "/chunk-extensions?kb=0",
    ];
    for path in paths {
        assert_eq!(ask(&hostile, path, 1 << 20).await.len(), 1 << 20, "{path}");
    }
}

#[tokio::test]
async fn what_is_counted_is_as_much_as_it_says() {
    let hostile = start().await;
    let count = |answer: &[u8], what: &str| String::from_utf8_lossy(answer).matches(what).count();
    let flood = ask(&hostile, "/flood?count=7", 1 << 20).await;
    assert_eq!((count(&flood, " 103 "), count(&flood, "after the flood")), (7, 1));
    assert_eq!(count(&ask(&hostile, "/trailers?kb=3", 1 << 20).await, "x-trailer"), 3);
    assert_eq!(count(&ask(&hostile, "/drip?ms=1&count=4", 1 << 20).await, "1\r\n.\r\n"), 4);
    let redirect = ask(&hostile, "/redirect?to=http://10.0.0.1/x&status=308", 1 << 20).await;
    assert_eq!(count(&redirect, "308 Elsewhere\r\nlocation: http://10.0.0.1/x\r\n"), 1);
    let bomb = ask(&hostile, "/gzip-bomb?mb=4", 1 << 20).await;
    assert!(bomb.len() < 1 << 16);
    assert!(ask(&hostile, "/silent", 1).await.is_empty());
    assert!(ask(&hostile, "/reset", 1).await.is_empty());
}

#[tokio::test]
async fn framing_is_written_as_it_stands() {
    let hostile = start().await;
    let both = ask(&hostile, "/framing/both", 1 << 20).await;
    assert_eq!(Some(&*both), framing::bytes("both"));
    let missing = ask(&hostile, "/framing/none-such", 1 << 20).await;
    assert!(missing.starts_with(b"HTTP/1.1 404 "));
}

#[tokio::test]
async fn an_early_answer_leaves_the_body_unread() {
    let hostile = start().await;
    let mut stream = TcpStream::connect(hostile.address()).await.unwrap();
    let head = b"POST /early HTTP/1.1\r\nhost: h\r\ncontent-length: 1000000\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut answer = [0; 15];
    timeout(Duration::from_secs(5), stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

#[tokio::test]
async fn what_is_placed_is_there_until_it_is_replaced() {
    let hostile = start().await;
    assert!(ask(&hostile, "/a.whl", 1 << 20).await.starts_with(b"HTTP/1.1 404 "));
    hostile.place("/a.whl", "text/html", b"0123456789");
    let whole = ask(&hostile, "/a.whl?x", 1 << 20).await;
    assert!(whole.starts_with(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"));
    assert!(whole.ends_with(b"\r\n\r\n0123456789"));
    let mut stream = TcpStream::connect(hostile.address()).await.unwrap();
    let part = b"GET /a.whl HTTP/1.1\r\nrange: bytes=2-4\r\nconnection: close\r\n\r\n";
    stream.write_all(part).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 206 ") && answer.ends_with("\r\n\r\n234"), "{answer}");
    hostile.place_raw("/a.whl", b"anything");
    assert_eq!(ask(&hostile, "/a.whl", 1 << 20).await, b"anything");
    assert!(ask(&hostile, "/echo/a.whl", 1 << 20).await.ends_with(b"close\r\n\r\n"));
}

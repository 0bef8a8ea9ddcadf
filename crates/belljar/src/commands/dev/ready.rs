//! Whether something answers yet.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(5);

pub(in crate::commands) async fn listens(address: SocketAddr) -> bool {
    matches!(timeout(PATIENCE, TcpStream::connect(address)).await, Ok(Ok(_)))
}

/// Whether a GET is answered with 200.
pub(in crate::commands) async fn answers(address: SocketAddr, path: &str) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut head = [0; "HTTP/1.1 200".len()];
        stream.read_exact(&mut head).await?;
        std::io::Result::Ok(head.ends_with(b" 200"))
    };
    matches!(timeout(PATIENCE, asked).await, Ok(Ok(true)))
}

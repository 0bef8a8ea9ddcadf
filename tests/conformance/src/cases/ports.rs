//! Connections from outside to ports inside: what a server in a sandbox needs to
//! be reached.

use std::io;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use belljar_domain::EndReason;
use belljar_node::{Call, Command, DialError, PortStream, Sandbox};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::fixture::Fixture;
use crate::random::Random;
use crate::verbs::{lossy, output, patience, python, until_printed};
use crate::{cases, same};

cases!["ports":
    a_server_is_reached_wherever_it_listens needs [OwnNetwork, Python],
    a_closed_port_says_so needs [OwnNetwork],
    ports_need_a_loopback_of_their_own,
    each_direction_ends_by_itself needs [OwnNetwork, Python],
    what_was_written_before_a_drop_arrives needs [OwnNetwork, Python],
    much_flows_both_ways_at_once needs [OwnNetwork, Python],
    a_reset_is_an_error needs [OwnNetwork, Python],
    a_connection_ends_with_its_sandbox needs [OwnNetwork, Python],
    many_connections_leave_nothing needs [OwnNetwork, Python, GuestProcess],
    a_slow_reader_holds_up_nobody_else needs [OwnNetwork, Python],
];

/// Listens on `address`, prints the port, and runs `handler` for each connection
/// `c` in a thread of its own.
async fn serve(sandbox: &Sandbox, address: &str, handler: &str) -> anyhow::Result<(Call, u16)> {
    let script = format!(
        "import socket, threading, struct\n\
         def handle(c):\n    {handler}\n    c.close()\n\
         s = socket.socket(socket.AF_INET6 if ':' in '{address}' else socket.AF_INET)\n\
         s.bind(('{address}', 0)); s.listen(64)\n\
         print('port', s.getsockname()[1], 'ready', flush=True)\n\
         while True: threading.Thread(target=handle, args=(s.accept()[0],)).start()"
    );
    let mut call = sandbox.start(&python(&script)).await?;
    let said = until_printed(&mut call, "ready").await?;
    let port = said.split_whitespace().nth(1).context("no port")?.parse()?;
    Ok((call, port))
}

async fn all(stream: &mut PortStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    Ok(bytes)
}

async fn a_server_is_reached_wherever_it_listens(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let bind = "import socket; socket.socket(socket.AF_INET6).bind(('::1', 0))";
    let v6 = sandbox.execute(&python(bind)).await?.end.reason == EndReason::Done;
    // Without IPv6 inside, nobody can listen on ::1; `::` takes IPv4 all the same.
    let addresses = ["127.0.0.1", "0.0.0.0", "::", "::1"];
    for address in addresses.into_iter().filter(|address| v6 || *address != "::1") {
        let (call, port) = serve(&sandbox, address, "c.sendall(b'<' + c.recv(99) + b'>')").await?;
        let mut stream = sandbox.dial(port).await.with_context(|| address.to_owned())?;
        stream.write_all(b"hello").await?;
        same!(lossy(&all(&mut stream).await?), "<hello>", "from {address}");
        call.kill();
    }
    Ok(())
}

async fn a_closed_port_says_so(f: &Fixture) -> anyhow::Result<()> {
    const ECONNREFUSED: i32 = 111;
    let sandbox = f.sandbox().await?;
    let Err(error) = sandbox.dial(4).await else { bail!("nobody listens there") };
    ensure!(error.is_port_closed(), "{error:?}");
    match error {
        DialError::Refused { source, .. } => {
            same!(source.raw_os_error(), Some(ECONNREFUSED), "the error");
        }
        other => bail!("{other:?}"),
    }
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

/// Without one, the host's own ports would be what is reached.
async fn ports_need_a_loopback_of_their_own(f: &Fixture) -> anyhow::Result<()> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let sandbox = f.sandbox().await?;
    let dialled = sandbox.dial(listener.local_addr()?.port()).await;
    match dialled {
        Err(DialError::Refused { .. }) => Ok(()),
        Err(other) => Err(other.into()),
        Ok(_) => bail!("a port of the host was reached"),
    }
}

async fn each_direction_ends_by_itself(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    // Answers only after it has seen the end of what it is sent.
    let late = "n = 0\n    while True:\n        b = c.recv(65536)\n        n += len(b)\n        \
        if not b: break\n    c.sendall(str(n).encode())";
    let (_late, port) = serve(&sandbox, "127.0.0.1", late).await?;
    let mut stream = sandbox.dial(port).await?;
    stream.write_all(&vec![7; 300_000]).await?;
    stream.shutdown().await?;
    same!(lossy(&all(&mut stream).await?), "300000", "after our end");
    // Ends its own direction first, and still listens.
    let early = "c.sendall(b'bye'); c.shutdown(socket.SHUT_WR)\n    print(c.recv(99), flush=True)";
    let (mut call, port) = serve(&sandbox, "127.0.0.1", early).await?;
    let mut stream = sandbox.dial(port).await?;
    same!(lossy(&all(&mut stream).await?), "bye", "before its end");
    stream.write_all(b"still here").await?;
    until_printed(&mut call, "still here").await?;
    Ok(())
}

async fn what_was_written_before_a_drop_arrives(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let count = "import time; time.sleep(0.2); n = 0\n    while True:\n        b = c.recv(65536)\n        \
        n += len(b)\n        if not b: break\n    print('got', n, 'bytes', flush=True)";
    let (mut call, port) = serve(&sandbox, "127.0.0.1", count).await?;
    let mut stream = sandbox.dial(port).await?;
    stream.write_all(&vec![7; 900_000]).await?;
    drop(stream);
    let said = until_printed(&mut call, "bytes").await?;
    same!(said.trim(), "got 900000 bytes", "after the drop");
    Ok(())
}

async fn much_flows_both_ways_at_once(f: &Fixture) -> anyhow::Result<()> {
    const MUCH: usize = 24 << 20;
    let sandbox = f.sandbox().await?;
    let echo =
        "while True:\n        b = c.recv(1 << 16)\n        if not b: break\n        c.sendall(b)";
    let (_call, port) = serve(&sandbox, "127.0.0.1", echo).await?;
    let stream = sandbox.dial(port).await?;
    let bytes = Random::bytes(5, MUCH);
    let (mut reader, mut writer) = tokio::io::split(stream);
    let sent = bytes.clone();
    let sender = tokio::spawn(async move {
        writer.write_all(&sent).await?;
        writer.shutdown().await
    });
    let mut back = Vec::with_capacity(MUCH);
    reader.read_to_end(&mut back).await?;
    sender.await??;
    ensure!(back == bytes, "{} bytes came back, or others", back.len());
    Ok(())
}

async fn a_reset_is_an_error(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let reset =
        "c.recv(1); c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))";
    let (_call, port) = serve(&sandbox, "127.0.0.1", reset).await?;
    let mut stream = sandbox.dial(port).await?;
    stream.write_all(b"x").await?;
    let read = tokio::time::timeout(patience(f), all(&mut stream)).await?;
    match read {
        Err(error) => same!(error.kind(), io::ErrorKind::ConnectionReset, "the error"),
        Ok(bytes) => bail!("an end after {} bytes", bytes.len()),
    }
    Ok(())
}

async fn a_connection_ends_with_its_sandbox(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let (_call, port) = serve(&sandbox, "127.0.0.1", "c.recv(1)").await?;
    let mut stream = sandbox.dial(port).await?;
    sandbox.destroy().await?;
    let read = tokio::time::timeout(patience(f), all(&mut stream)).await?;
    ensure!(read.is_err(), "it ended as if the server had closed it");
    ensure!(stream.write_all(b"x").await.is_err(), "it takes more");
    Ok(())
}

async fn many_connections_leave_nothing(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let (_call, port) = serve(&sandbox, "127.0.0.1", "c.sendall(c.recv(9))").await?;
    let pid = sandbox.pid();
    drop(sandbox.dial(port).await?);
    let before = crate::residue::descriptor_count(pid);
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(sandbox.dial(port).await?);
    }
    for stream in &mut open {
        stream.write_all(b"one").await?;
    }
    for stream in &mut open {
        same!(lossy(&all(stream).await?), "one", "an answer");
    }
    drop(open);
    crate::verbs::until("as before", patience(f), async || {
        Ok((crate::residue::descriptor_count(pid) <= before).then_some(()))
    })
    .await
}

async fn a_slow_reader_holds_up_nobody_else(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let flood = "while True: c.sendall(bytes(1 << 16))";
    let (_call, port) = serve(&sandbox, "127.0.0.1", flood).await?;
    let unread = sandbox.dial(port).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let quick = tokio::time::timeout(patience(f), async {
        same!(output(&sandbox, "echo alive").await?, "alive\n", "a call beside it");
        let mut other = sandbox.dial(port).await?;
        let mut some = vec![1; 4 << 20];
        other.read_exact(&mut some).await?;
        ensure!(some.iter().all(|&byte| byte == 0), "other bytes");
        anyhow::Ok(())
    });
    quick.await.context("held up")??;
    drop(unread);
    sandbox.execute(&Command::shell("true")).await?;
    Ok(())
}

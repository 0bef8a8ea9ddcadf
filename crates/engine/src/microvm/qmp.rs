//! The monitor's own protocol: JSON, a line for each message.
//!
//! The monitor may be in the hands of its guest, so nothing that it says is
//! kept, and no line may be long. Each command has an id, which the monitor repeats: the answer
//! to a command that nobody waited for any longer is not taken for that of another.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use belljar_sys::packet;
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// No answer of a monitor is longer.
const LONGEST: usize = 64 << 10;

/// How long a monitor may think about one thing.
const PATIENCE: Duration = Duration::from_secs(20);

/// A conversation with a monitor.
#[derive(Debug)]
pub(crate) struct Control {
    socket: UnixStream,
    buffer: Vec<u8>,
    /// The id of the last command.
    last_id: u64,
}

impl Control {
    /// Takes a monitor's greeting, and so finds out that it runs.
    pub(crate) async fn greet(socket: UnixStream) -> io::Result<Self> {
        let mut control = Self { socket, buffer: Vec::new(), last_id: 0 };
        let greeting = timeout(PATIENCE, control.message()).await??;
        if greeting.get("QMP").is_none() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        control.execute("qmp_capabilities", json!({})).await?;
        Ok(control)
    }

    pub(crate) async fn execute(&mut self, command: &str, with: Value) -> io::Result<Value> {
        self.execute_with(command, with, &[]).await
    }

    /// Sends a command, descriptors beside it, and waits for what it returns.
    pub(crate) async fn execute_with(
        &mut self,
        command: &str,
        with: Value,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        let mut line = json!({ "execute": command, "arguments": with, "id": id }).to_string();
        line.push('\n');
        let answered = async {
            self.send(line.as_bytes(), descriptors).await?;
            loop {
                let mut message = self.message().await?;
                if message.get("id").and_then(Value::as_u64) != Some(id) {
                    // An event, or an answer that came too late.
                    continue;
                }
                if let Some(answer) = message.get_mut("return") {
                    return Ok(answer.take());
                }
                if let Some(error) = message.get("error") {
                    let words = error.get("desc").and_then(Value::as_str).unwrap_or("no reason");
                    let words: String = words.chars().take(300).collect();
                    let text = format!("the virtual machine monitor refused `{command}`: {words}");
                    return Err(io::Error::other(text));
                }
            }
        };
        timeout(PATIENCE, answered).await?
    }

    async fn send(&self, line: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        loop {
            self.socket.writable().await?;
            let send = || packet::send(self.socket.as_fd(), line, descriptors);
            match self.socket.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return sent,
            }
        }
    }

    /// The next message, whatever it is.
    async fn message(&mut self) -> io::Result<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map_err(|_| io::ErrorKind::InvalidData.into());
            }
            if self.buffer.len() > LONGEST {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.socket.readable().await?;
            match self.socket.try_read_buf(&mut self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn events_are_passed_over_and_refusals_are_told() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let monitor = tokio::spawn(async move {
            theirs.write_all(b"{\"QMP\": {}}\n").await.unwrap();
            let mut asked = vec![0; 1000];
            for answer in [
                &b"{\"return\": {}, \"id\": 1}\n"[..],
                b"{\"event\": \"STOP\"}\n{\"return\": {\"status\": \"paused\"}, \"id\": 2}\n",
                b"{\"error\": {\"desc\": \"not now\"}, \"id\": 3}\n",
            ] {
                assert!(theirs.read(&mut asked).await.unwrap() > 0);
                theirs.write_all(answer).await.unwrap();
            }
        });
        let mut control = Control::greet(ours).await.unwrap();
        let answer = control.execute("query-status", json!({})).await.unwrap();
        assert_eq!(answer["status"], "paused");
        let error = control.execute("cont", json!({})).await.unwrap_err();
        assert!(error.to_string().contains("`cont`: not now"), "{error}");
        monitor.await.unwrap();
        let gone = control.execute("cont", json!({})).await.unwrap_err();
        assert!(matches!(gone.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe));
    }

    /// A monitor that answers each command when the test says so, as the command's id says.
    struct Scripted {
        stream: UnixStream,
        asked: Vec<u8>,
    }

    impl Scripted {
        async fn command(&mut self) -> Value {
            loop {
                if let Some(end) = self.asked.iter().position(|&byte| byte == b'\n') {
                    let line: Vec<u8> = self.asked.drain(..=end).collect();
                    return serde_json::from_slice(&line).unwrap();
                }
                let mut more = vec![0; 1000];
                let count = self.stream.read(&mut more).await.unwrap();
                assert!(count > 0, "no command came");
                self.asked.extend(&more[..count]);
            }
        }

        async fn answer(&mut self, command: &Value, answer: Value) {
            let mut reply = json!({ "return": answer });
            // As QEMU does: what had no id is answered without one.
            if let Some(id) = command.get("id") {
                reply["id"] = id.clone();
            }
            self.stream.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_is_not_taken_for_that_of_the_next_command() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let monitor = tokio::spawn(async move {
            let mut monitor = Scripted { stream: theirs, asked: Vec::new() };
            monitor.stream.write_all(b"{\"QMP\": {}}\n").await.unwrap();
            let capabilities = monitor.command().await;
            monitor.answer(&capabilities, json!({})).await;
            let late = monitor.command().await;
            assert_eq!(late["execute"], "ringbuf-read");
            let next = monitor.command().await;
            assert_eq!(next["execute"], "query-status");
            monitor.answer(&late, json!("printed long ago")).await;
            monitor.answer(&next, json!({ "status": "paused" })).await;
        });
        let mut control = Control::greet(ours).await.unwrap();
        let late = timeout(Duration::from_secs(2), control.execute("ringbuf-read", json!({})));
        assert!(late.await.is_err(), "it was answered in time");
        let status = control.execute("query-status", json!({})).await.unwrap();
        assert_eq!(status, json!({ "status": "paused" }));
        monitor.await.unwrap();
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_not_kept() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        tokio::spawn(async move {
            let _ = theirs.write_all(&vec![b'x'; LONGEST * 2]).await;
        });
        let error = Control::greet(ours).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}

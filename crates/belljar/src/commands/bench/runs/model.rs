//! The model that all runs ask: it answers in the dialect of Anthropic, after latencies like those
//! of a real one.
//!
//! It is this executable in a process of its own, so that its time on the CPU is told apart. A
//! latency follows from the seed, the run and the turn alone, so that two measurements wait for
//! the same answers. The answer of one turn is held back until all runs are alive.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::latency::latency;
use super::script::{Script, marker, run_of};
use crate::cli::BenchRuns;
use crate::open_files;
use crate::output::Printer;

/// The interval of the events that say that an answer is still to come.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// The head of an answer; its body is in chunks.
pub(in crate::commands::bench) const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    request-id: req_bench\r\ntransfer-encoding: chunked\r\n\r\n";
const MAX_REQUEST_BYTES: usize = 8 << 20;

/// A model that was started; it ends with this.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) address: SocketAddr,
    pub(super) pid: u32,
    child: Child,
    /// Its end tells the process to end.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

/// Time and answers of the model, by number of the run.
pub(super) type ModelTimes = BTreeMap<u32, ModelTime>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ModelTime {
    pub(super) answers: u32,
    pub(super) micros: u64,
}

impl Model {
    pub(super) fn start(options: &BenchRuns) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "runs", "--as-model"])
            .args(["--seed", &options.seed.to_string()])
            .args(["--turns", &options.turns.to_string()])
            .args(["--calls", &options.calls.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the model")?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("the model has no standard output")?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let address = line.trim().parse().context("the model did not print its address")?;
        Ok(Self { address, pid: child.id(), child, stdin, stdout })
    }

    /// Lets it give the answers that it holds back.
    pub(super) fn release(&mut self) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("the model has ended")?;
        Ok(writeln!(stdin, "go")?)
    }

    /// Ends it, and reads the times of the answers that it gave.
    pub(super) fn finish(mut self) -> anyhow::Result<ModelTimes> {
        drop(self.stdin.take());
        let mut times = ModelTimes::new();
        for line in (&mut self.stdout).lines() {
            let line = line?;
            let mut numbers = line.split(' ').map(str::parse::<u64>);
            let (Some(Ok(run)), Some(Ok(answers)), Some(Ok(micros))) =
                (numbers.next(), numbers.next(), numbers.next())
            else {
                anyhow::bail!("the model printed `{line}`");
            };
            let (run, answers) = (u32::try_from(run)?, u32::try_from(answers)?);
            times.insert(run, ModelTime { answers, micros });
        }
        Ok(times)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Server {
    script: Script,
    seed: u64,
    is_released: watch::Receiver<bool>,
    times: Mutex<ModelTimes>,
}

/// Is the model, until its standard input ends.
pub(super) async fn serve(options: &BenchRuns, printer: &Printer) -> anyhow::Result<()> {
    open_files::raise_limit();
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    printer.data(listener.local_addr()?)?;
    let (release, is_released) = watch::channel(false);
    let script = Script::of(options);
    let times = Mutex::default();
    let server = Arc::new(Server { script, seed: options.seed, is_released, times });
    let accepting = tokio::spawn(accept(listener, server.clone()));
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {
        release.send_replace(true);
    }
    accepting.abort();
    let times = server.times.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (run, ModelTime { answers, micros }) in times {
        printer.data(format_args!("{run} {answers} {micros}"))?;
    }
    Ok(())
}

async fn accept(listener: TcpListener, server: Arc<Server>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let server = server.clone();
        // A client that leaves in the middle was killed.
        tokio::spawn(async move { drop(converse(stream, &server).await) });
    }
}

async fn converse(mut stream: TcpStream, server: &Server) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(body) = request(&mut stream, &mut buffer).await? {
        let begin = Instant::now();
        let body: serde_json::Value = serde_json::from_slice(&body)?;
        let text = body["messages"].to_string();
        let run = run_of(&text).ok_or(io::ErrorKind::InvalidData)?;
        let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
        let turn = u32::try_from(turn).unwrap_or(u32::MAX);
        answer(&mut stream, server, run, turn).await?;
        let micros = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut times = server.times.lock().unwrap_or_else(PoisonError::into_inner);
        let time = times.entry(run).or_default();
        time.answers += 1;
        time.micros += micros;
    }
    Ok(())
}

async fn answer(stream: &mut TcpStream, server: &Server, run: u32, turn: u32) -> io::Result<()> {
    let events = server.script.events(run, turn);
    let (first, rest) = events.split_first().ok_or(io::ErrorKind::InvalidData)?;
    stream.write_all(format!("{HEAD}{}", chunk(first)).as_bytes()).await?;
    if turn == server.script.held_turn() {
        let mut is_released = server.is_released.clone();
        loop {
            tokio::select! {
                is_open = async { is_released.wait_for(|is| *is).await.is_ok() } => {
                    if is_open {
                        break;
                    }
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                () = tokio::time::sleep(PING_INTERVAL) => {
                    let ping = chunk("event: ping\ndata: {\"type\":\"ping\"}\n\n");
                    stream.write_all(ping.as_bytes()).await?;
                }
            }
        }
    }
    tokio::time::sleep(latency(server.seed, run, turn)).await;
    let rest: String = rest.iter().map(|event| chunk(event)).collect();
    stream.write_all(format!("{rest}0\r\n\r\n").as_bytes()).await
}

pub(in crate::commands::bench) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Reads the body of the next request; none: the client has closed the connection.
pub(in crate::commands::bench) async fn request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Vec<u8>>> {
    loop {
        if let Some((head, length)) = request_length(buffer)?
            && buffer.len() >= head + length
        {
            let body = buffer[head..head + length].to_vec();
            buffer.drain(..head + length);
            return Ok(Some(body));
        }
        if buffer.len() > MAX_REQUEST_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Length of the head of a request, and of its body; none: the head is not complete.
fn request_length(bytes: &[u8]) -> io::Result<Option<(usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| io::ErrorKind::InvalidData)?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let length = length.ok_or(io::ErrorKind::InvalidData)?;
    Ok(Some((end + 4, length)))
}

/// The question of a run; the model knows the run by it.
pub(super) fn question(run: u32) -> String {
    format!("How often was the counter of {} raised?", marker(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_body() {
        let request = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(request_length(request).unwrap(), Some((request.len() - 3, 3)));
        assert_eq!(request_length(b"POST / HTTP/1.1\r\nCont").unwrap(), None);
        assert!(request_length(b"POST / HTTP/1.1\r\nhost: a\r\n\r\n").is_err());
    }

    #[test]
    fn the_run_of_a_question_is_found() {
        assert_eq!(run_of(&question(17)), Some(17));
    }
}

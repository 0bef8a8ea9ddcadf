//! Calls: commands in a sandbox.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_api::Operation;
use belljar_api::call::{self as api, CallEnd, CallEvent, Chunk, Encoding, Omitted, User};
use bytes::Bytes;

use crate::cell::{is_repeated, millis};
use crate::error::{Error, Protocol};
use crate::events::Events;
use crate::key::Key;
use crate::sandbox::Sandbox;

/// A command to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments, or nothing when there is a script.
    pub argv: Vec<String>,
    /// For the sandbox's shell.
    pub script: Option<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    pub user: Option<User>,
    /// Content of its standard input, which then ends, unless it stays open.
    pub stdin: Option<String>,
    /// Keeps its standard input open for [`Sandbox::write_stdin`].
    pub stdin_open: bool,
    pub timeout: Option<Duration>,
    /// CPU time that it may use.
    pub cpu: Option<Duration>,
}

/// What a command says, to the byte. `End` comes last.
#[derive(Debug, Clone)]
pub enum CallSaid {
    Stdout(Bytes),
    Stderr(Bytes),
    /// So much was said here, and is not kept.
    Omitted(Omitted),
    End(CallEnd),
}

/// A command that is over.
#[derive(Debug, Clone)]
pub struct Ran {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub omitted: Omitted,
    pub end: CallEnd,
}

/// A command, heard from its beginning on. Dropped, it goes on: [`Sandbox::end_call`]
/// ends it, and so does its time limit.
#[derive(Debug)]
pub struct CallRun {
    events: Events<CallEvent>,
    id: u32,
    number: u32,
    is_repeated: bool,
    is_over: bool,
}

impl Command {
    pub fn script(script: impl Into<String>) -> Self {
        Self { script: Some(script.into()), ..Self::default() }
    }

    pub fn argv<A: Into<String>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    fn wish(&self, background: bool) -> Result<api::RunCall, Error> {
        let argv: Result<_, _> = self.argv.iter().map(|word| word.clone().try_into()).collect();
        Ok(api::RunCall {
            argv: argv?,
            script: self.script.clone().map(TryInto::try_into).transpose()?,
            env: self.env.clone(),
            cwd: self.cwd.clone().map(TryInto::try_into).transpose()?,
            user: self.user,
            stdin: self.stdin.clone(),
            stdin_open: self.stdin_open,
            timeout_ms: self.timeout.map(millis).transpose()?,
            cpu_ms: self.cpu.map(millis).transpose()?,
            background,
            output: Encoding::Base64,
        })
    }
}

impl Sandbox {
    /// Runs a command. With a key it is executed once, however often it is asked for:
    /// a repetition is told what was said so far, and what is still to come.
    pub async fn run(&self, command: &Command, key: Option<&Key>) -> Result<CallRun, Error> {
        let wish = command.wish(false)?;
        let asking = self.ask(Operation::RunCall).json(&wish)?.once(key).streamed();
        let answer = self.client.open(asking).await?;
        let is_repeated = is_repeated(&answer);
        let mut events = Events::new(answer.into_body());
        match events.next().await? {
            Some(CallEvent::Started { id, number }) => {
                Ok(CallRun { events, id, number, is_repeated, is_over: false })
            }
            _ => Err(Protocol::NotBegun.into()),
        }
    }

    /// Starts a command and leaves it alone: it may run as long as the sandbox.
    pub async fn start(&self, command: &Command, key: Option<&Key>) -> Result<api::Call, Error> {
        let wish = command.wish(true)?;
        self.client.value(self.ask(Operation::RunCall).json(&wish)?.once(key)).await
    }

    /// The calls that run.
    pub async fn calls(&self) -> Result<api::CallList, Error> {
        self.client.value(self.ask(Operation::ListCalls)).await
    }

    /// One call that runs, or ended within the last half minute.
    pub async fn call(&self, id: u32) -> Result<api::Call, Error> {
        self.client.value(self.ask_of(Operation::GetCall, &id.to_string())).await
    }

    /// Writes to the open standard input of a call, and closes it if nothing more is to come.
    pub async fn write_stdin(&self, id: u32, data: String, close: bool) -> Result<(), Error> {
        let wish = api::WriteStdin { data, encoding: Encoding::Text, close };
        let asking = self.ask_of(Operation::WriteStdin, &id.to_string()).json(&wish)?;
        self.client.nothing(asking).await
    }

    /// Ends a call and every process of it.
    pub async fn end_call(&self, id: u32) -> Result<(), Error> {
        self.client.nothing(self.ask_of(Operation::DeleteCall, &id.to_string())).await
    }
}

impl CallRun {
    /// Its main process's pid inside the sandbox.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What rows of its traffic call it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it was asked for before.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// What comes next; none after its end.
    pub async fn next(&mut self) -> Result<Option<CallSaid>, Error> {
        while !self.is_over {
            let said = match self.events.next().await?.ok_or(Error::SandboxGone)? {
                CallEvent::Started { .. } => continue,
                CallEvent::Stdout(chunk) => CallSaid::Stdout(bytes(chunk)?),
                CallEvent::Stderr(chunk) => CallSaid::Stderr(bytes(chunk)?),
                CallEvent::Omitted(omitted) => CallSaid::Omitted(omitted),
                CallEvent::End(end) => {
                    self.is_over = true;
                    CallSaid::End(end)
                }
            };
            return Ok(Some(said));
        }
        Ok(None)
    }

    /// Waits for its end, and keeps everything.
    pub async fn finish(mut self) -> Result<Ran, Error> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut omitted = Omitted::default();
        loop {
            match self.next().await?.ok_or(Error::SandboxGone)? {
                CallSaid::Stdout(bytes) => stdout.extend_from_slice(&bytes),
                CallSaid::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                CallSaid::Omitted(more) => omitted += more,
                CallSaid::End(end) => return Ok(Ran { stdout, stderr, omitted, end }),
            }
        }
    }
}

fn bytes(chunk: Chunk) -> Result<Bytes, Error> {
    match chunk.encoding {
        Encoding::Text => Ok(chunk.data.into()),
        Encoding::Base64 => Ok(STANDARD.decode(chunk.data).map_err(Protocol::Base64)?.into()),
    }
}

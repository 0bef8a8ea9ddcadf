//! What the template's Python does by itself, without anything of Belljar's
//! around the fork: a script in one sandbox that takes a turn when told to.

use std::time::Duration;

use anyhow::{Context as _, bail};
use belljar_domain::{Limits, Spec};
use belljar_node::{Call, Command, Event, Input, Sandbox, Writer};

use super::warmed::Warmed;

/// Forks a warm interpreter for each line that it reads, runs the cell in the
/// child, and prints how long the answer took and what it was.
///
/// Its arguments are the code that warms it up, more code of the kind, and the
/// cell. Frozen and with a shell, as a zygote is.
const FORKER: &str = "\
import contextlib, gc, io, json, os, sys, time
warm, setup, cell = sys.argv[1:]
names = {'__name__': '__main__'}
exec(compile(warm, '<warm>', 'exec'), names)
from IPython.core.interactiveshell import InteractiveShell
with contextlib.redirect_stdout(io.StringIO()):
    shell = InteractiveShell.instance(history_length=0)
    shell.run_cell('print(1)')
exec(compile(setup, '<setup>', 'exec'), names)
cell = compile(cell, '<cell>', 'exec')
gc.collect(); gc.disable(); gc.freeze()
print(json.dumps([0, '']), flush=True)
for _ in iter(sys.stdin.readline, ''):
    read, write = os.pipe()
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        gc.enable()
        sys.stdout = os.fdopen(write, 'w')
        exec(cell, names)
        sys.stdout.flush()
        os._exit(0)
    answer = os.read(read, 65536).decode()
    took = time.perf_counter() - start
    os.close(read); os.close(write); os.waitpid(child, 0)
    print(json.dumps([took, answer]), flush=True)
";

/// Starts an IPython kernel and has it print, as Jupyter does.
const KERNEL: &str = "\
import json, sys, time
from jupyter_client import KernelManager
for _ in iter(sys.stdin.readline, ''):
    start = time.perf_counter()
    manager = KernelManager()
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    shown = []
    def show(message):
        if message['msg_type'] == 'stream':
            shown.append(message['content']['text'])
    client.execute_interactive('import pandas; print(1)', output_hook=show, timeout=60)
    took = time.perf_counter() - start
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    print(json.dumps([took, ''.join(shown)]), flush=True)
";

/// A sandbox for scripts whose isolation is not to be felt: all cores, and
/// enough memory for what they hold.
pub(super) async fn sandbox(warmed: &Warmed) -> anyhow::Result<Sandbox> {
    let limits = Limits { cpu_millis: 64_000, ..warmed.spec.limits.clone() };
    let spec = Spec { limits, ..warmed.spec.clone() };
    Ok(warmed.node.create(&spec).await?)
}

/// A script that waits for its turn.
pub(super) struct Script {
    call: Call,
    input: Writer,
    output: Vec<u8>,
    complaints: Vec<u8>,
}

impl Script {
    /// Forks an interpreter that ran the template's warm code and `setup`.
    pub(super) async fn forker(
        sandbox: &Sandbox,
        warmed: &Warmed,
        setup: &str,
        cell: &str,
    ) -> anyhow::Result<Self> {
        let warm = warmed.template.warm.as_deref().unwrap_or_default();
        let mut script = Self::start(sandbox, warmed.script(FORKER, &[warm, setup, cell])).await?;
        script.line().await.context("the bare interpreter did not warm up")?;
        Ok(script)
    }

    /// Starts kernels; says why not when the template has none.
    pub(super) async fn kernels(
        sandbox: &Sandbox,
        warmed: &Warmed,
    ) -> anyhow::Result<Result<Self, String>> {
        let probe = warmed.script("import ipykernel, jupyter_client", &[]);
        if sandbox.execute(&probe).await?.end.exit_code != Some(0) {
            return Ok(Err("ipykernel is not in the template".to_owned()));
        }
        Ok(Ok(Self::start(sandbox, warmed.script(KERNEL, &[])).await?))
    }

    async fn start(sandbox: &Sandbox, command: Command) -> anyhow::Result<Self> {
        let call = sandbox.start(&Command { input: Input::Stream, ..command }).await?;
        let input = call.writer();
        Ok(Self { call, input, output: Vec::new(), complaints: Vec::new() })
    }

    /// How long a turn took, as the script saw it, and what was answered.
    pub(super) async fn turn(&mut self) -> anyhow::Result<(Duration, String)> {
        self.input.write(b"\n".to_vec());
        let line = self.line().await?;
        let (seconds, answer): (f64, String) =
            serde_json::from_str(&line).context("the script printed an unexpected line")?;
        Ok((Duration::try_from_secs_f64(seconds)?, answer))
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        loop {
            if let Some(end) = self.output.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.output.drain(..=end).collect();
                return Ok(String::from_utf8(line)?);
            }
            match self.call.next().await {
                Event::Stdout(bytes) => self.output.extend(bytes),
                Event::Stderr(bytes) => self.complaints.extend(bytes),
                Event::End(end) => {
                    let said = String::from_utf8_lossy(&self.complaints);
                    bail!("the script ended ({}): {}", end.reason, said.trim());
                }
            }
        }
    }
}

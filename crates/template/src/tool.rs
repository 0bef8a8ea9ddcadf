//! Runs the host's own package tools, with a deadline and a short environment.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("`{program}` is not installed on this host")]
    Missing { program: String },
    #[error("cannot run `{program}`")]
    Run { program: String, source: io::Error },
    #[error("`{program}` did not finish within {} s", limit.as_secs())]
    Timeout { program: String, limit: Duration },
    #[error("`{program}` ended with {status}; its last output was:\n{tail}")]
    Failed { program: String, status: ExitStatus, tail: String },
}

/// Which of our own environment a tool sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inherit {
    /// Path, proxies and certificates: for tools that run package scripts.
    Least,
    /// Also home and the tool's own settings, where mirrors are configured.
    Settings,
}

const LEAST: [&str; 9] = [
    "PATH",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "TZ",
];

const SETTINGS: [&str; 5] =
    ["HOME", "USER", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"];

const SETTING_PREFIXES: [&str; 5] = ["PIP_", "NPM_", "XDG_", "PYENV_", "NODE_"];

impl Inherit {
    fn keeps(self, name: &str) -> bool {
        let named = |list: &[&str]| list.iter().any(|known| known.eq_ignore_ascii_case(name));
        let upper = name.to_ascii_uppercase();
        named(&LEAST)
            || self == Self::Settings
                && (named(&SETTINGS) || SETTING_PREFIXES.iter().any(|p| upper.starts_with(p)))
    }
}

/// Runs a program to its end and hands out what it prints, both streams merged.
pub(crate) fn run(
    program: &str,
    arguments: &[OsString],
    inherit: Inherit,
    limit: Duration,
    output: &mut dyn FnMut(&[u8]),
) -> Result<(), ToolError> {
    let failed = |source| ToolError::Run { program: program.to_owned(), source };
    let (mut reader, writer) = io::pipe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("LC_ALL", "C.UTF-8");
    command.envs(std::env::vars_os().filter(|(n, _)| n.to_str().is_some_and(|n| inherit.keeps(n))));
    command.stdin(Stdio::null()).process_group(0);
    command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let mut child = command.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ToolError::Missing { program: program.to_owned() },
        _ => failed(source),
    })?;
    // The command holds the writing ends; with them the pipe would never end.
    drop(command);

    let mut tail = crate::progress::Lines::default();
    let mut feed = |bytes: &[u8]| {
        tail.feed(bytes, |_| {});
        output(bytes);
    };
    let waited = wait(&child, &mut reader, Instant::now() + limit, &mut feed);
    if !matches!(waited, Ok(true)) {
        // The whole group: package tools start helpers of their own.
        if let Some(group) = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
    let status = child.wait().map_err(failed)?;
    if !waited.map_err(failed)? {
        return Err(ToolError::Timeout { program: program.to_owned(), limit });
    }
    tail.flush(|_| {});
    if status.success() {
        Ok(())
    } else {
        Err(ToolError::Failed { program: program.to_owned(), status, tail: tail.tail() })
    }
}

/// Reads until the process is gone; `false` when the deadline came first.
///
/// The process counts, not the pipe: a helper left behind may hold that open.
fn wait(
    child: &std::process::Child,
    reader: &mut io::PipeReader,
    deadline: Instant,
    output: &mut dyn FnMut(&[u8]),
) -> io::Result<bool> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let process = pidfd_open(pid.ok_or(io::ErrorKind::InvalidInput)?, PidfdFlags::empty())?;
    let mut buffer = vec![0; 64 * 1024];
    let mut open = true;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut fds = [
            PollFd::new(&process, PollFlags::IN),
            PollFd::new(&*reader, if open { PollFlags::IN } else { PollFlags::empty() }),
        ];
        let count = if open { 2 } else { 1 };
        match poll(&mut fds[..count], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let exited = !fds[0].revents().is_empty();
        if open && !fds[1].revents().is_empty() {
            match reader.read(&mut buffer)? {
                0 => open = false,
                length => output(&buffer[..length]),
            }
        } else if exited {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::kill_process;

    use super::*;

    fn shell(script: &str, limit: Duration) -> (Result<(), ToolError>, String) {
        let mut output = Vec::new();
        let arguments = ["-c".into(), script.into()];
        let result = run("/bin/sh", &arguments, Inherit::Least, limit, &mut |bytes| {
            output.extend_from_slice(bytes);
        });
        (result, String::from_utf8(output).unwrap())
    }

    #[test]
    fn both_streams_are_read_and_a_failure_shows_its_last_lines() {
        let (result, output) = shell("echo out; echo err >&2; exit 3", Duration::from_secs(30));
        assert_eq!(output, "out\nerr\n");
        let Err(ToolError::Failed { tail, .. }) = result else { panic!("{result:?}") };
        assert_eq!(tail, "out\nerr");
    }

    #[test]
    fn a_tool_that_hangs_is_ended_with_its_helpers() {
        let (result, _) = shell("sleep 1000 & sleep 1000", Duration::from_millis(200));
        assert!(matches!(result, Err(ToolError::Timeout { .. })), "{result:?}");
    }

    #[test]
    fn a_helper_that_keeps_the_pipe_does_not_hold_up_the_end() {
        // It lives longer than anybody waits for the tool.
        let (result, output) = shell("sleep 600 & echo $!", Duration::from_secs(60));
        assert!(result.is_ok(), "{result:?}");
        let helper = Pid::from_raw(output.trim().parse().unwrap()).unwrap();
        kill_process(helper, Signal::KILL).unwrap();
    }

    #[test]
    fn keys_in_our_environment_stay_with_us() {
        for name in ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"] {
            assert!(!Inherit::Settings.keeps(name), "{name}");
        }
        assert!(Inherit::Settings.keeps("PIP_INDEX_URL") && !Inherit::Least.keeps("PIP_INDEX_URL"));
        assert!(
            Inherit::Least.keeps("HTTPS_PROXY") && Inherit::Settings.keeps("npm_config_registry")
        );
    }
}

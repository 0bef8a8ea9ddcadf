//! What to run in a sandbox.

use std::time::Duration;

use belljar_domain::{Attribution, User};
use belljar_guest_proto::PtySize;

/// A program with its surroundings. Paths, arguments and values are bytes, as
/// they are to the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub argv: Vec<Vec<u8>>,
    /// Added to the standard environment, later entries winning.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// The home directory when `None`.
    pub cwd: Option<Vec<u8>>,
    pub user: User,
    pub input: Input,
    pub pty: Option<PtySize>,
    /// Instead of the sandbox's own limit.
    pub wall: Option<Duration>,
    /// CPU time after which the call is ended, if the sandbox does not allow less.
    pub cpu: Option<Duration>,
    /// Output after which the call is ended, instead of the sandbox's own limit.
    pub output_bytes: Option<u64>,
    pub leftovers: Leftovers,
    pub tag: Tag,
}

/// What whoever asks for a call or a cell knows it by. Rows of what it reaches
/// outside bear it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tag {
    pub name: Option<String>,
    pub run: Option<String>,
    pub turn: Option<u32>,
}

impl From<&Attribution> for Tag {
    /// The call of a run is known by its execution id.
    fn from(attribution: &Attribution) -> Self {
        Self {
            name: attribution.call.as_ref().map(ToString::to_string),
            run: Some(attribution.run.to_string()),
            turn: Some(attribution.turn),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    Empty,
    Stream,
}

/// What becomes of processes that outlive the call's main one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftovers {
    /// They end with the call.
    Kill,
    /// They stay until the sandbox ends, still counted as this call's.
    Keep,
}

impl Command {
    pub fn new<T: Into<Vec<u8>>>(argv: impl IntoIterator<Item = T>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
            user: User::User,
            input: Input::Empty,
            pty: None,
            wall: None,
            cpu: None,
            output_bytes: None,
            leftovers: Leftovers::Kill,
            tag: Tag::default(),
        }
    }

    /// Runs `script` with the shell.
    pub fn shell(script: &str) -> Self {
        Self::new(["/bin/sh", "-c", script])
    }

    /// The whole environment: nothing of the host's, these few, what the sandbox
    /// has besides, then `env`.
    pub(crate) fn environment(
        &self,
        home: &str,
        temporary: &str,
        besides: &[(String, String)],
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let name = match self.user {
            User::User => "user",
            User::Root => "root",
        };
        let path = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
        let standard = [
            ("PATH", path),
            ("HOME", home),
            ("USER", name),
            ("LOGNAME", name),
            ("SHELL", "/bin/sh"),
            ("LANG", "C.UTF-8"),
            ("TMPDIR", temporary),
            ("TERM", if self.pty.is_some() { "xterm-256color" } else { "dumb" }),
        ];
        let mut all: Vec<(Vec<u8>, Vec<u8>)> =
            standard.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        all.extend(besides.iter().map(|(key, value)| (key.clone().into(), value.clone().into())));
        for (key, value) in &self.env {
            all.retain(|(known, _)| known != key);
            all.push((key.clone(), value.clone()));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_variables_replace_standard_ones() {
        let mut command = Command::new(["true"]);
        command.env = vec![(b"PATH".to_vec(), b"/bin".to_vec()), (b"A".to_vec(), b"1".to_vec())];
        let besides = [("A".to_owned(), "0".to_owned()), ("B".to_owned(), "2".to_owned())];
        let all = command.environment("/home/user", "/tmp", &besides);
        let paths: Vec<_> = all.iter().filter(|(key, _)| key == b"PATH").collect();
        assert_eq!(paths, [&(b"PATH".to_vec(), b"/bin".to_vec())]);
        assert!(all.contains(&(b"A".to_vec(), b"1".to_vec())));
        assert!(!all.contains(&(b"A".to_vec(), b"0".to_vec())));
        assert!(all.contains(&(b"B".to_vec(), b"2".to_vec())));
    }
}

//! The head of a push: which references change, from what, to what.
//!
//! The head is written anew from what was read here, so that the server cannot read it
//! otherwise. Capabilities that would say more than that (push options, signed pushes) are not
//! passed on, or refused.

use bytes::BytesMut;

use super::pktline::{self, Packet};

/// Of one push. More are no accident.
const MAX_UPDATES: usize = 32;
/// Bytes of a head.
pub(super) const MAX_HEAD: usize = 64 << 10;
const MAX_REF: usize = 200;
const ZERO: &str = "0000000000000000000000000000000000000000";

/// Capabilities that only say how the answer is written, or bind the server further.
const HARMLESS: [&str; 7] = [
    "report-status",
    "report-status-v2",
    "side-band-64k",
    "quiet",
    "atomic",
    "ofs-delta",
    "delete-refs",
];

/// A change of one reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) old: String,
    pub(super) new: String,
    pub(super) name: String,
}

/// All that the head says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Commands {
    /// Commits whose parents the client does not have, and the server may cut off.
    pub(super) shallow: Vec<String>,
    pub(super) updates: Vec<Update>,
    capabilities: Vec<String>,
}

/// The reason that a head is not forwarded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::operations) enum BadHead {
    #[error("the request is not in git's protocol")]
    Malformed,
    #[error("a push can change at most {MAX_UPDATES} references; push them one by one")]
    TooMany,
    #[error("push options are not allowed; push without `-o`")]
    Options,
    #[error("signed pushes are not allowed; push without `--signed`")]
    Certificate,
    #[error("only repositories with SHA-1 can be pushed to")]
    Format,
}

impl Update {
    pub(super) fn is_new(&self) -> bool {
        self.old == ZERO
    }

    pub(super) fn is_deletion(&self) -> bool {
        self.new == ZERO
    }

    /// The branch, if it is one.
    pub(super) fn branch(&self) -> Option<&str> {
        self.name.strip_prefix("refs/heads/")
    }
}

/// Reads a head packet by packet.
#[derive(Debug, Default)]
pub(super) struct Reader {
    commands: Commands,
    bytes: usize,
}

impl Reader {
    /// Takes packets out of the buffer; the commands once they are complete.
    pub(super) fn read(&mut self, buffer: &mut BytesMut) -> Result<Option<Commands>, BadHead> {
        loop {
            let before = buffer.len();
            let packet = pktline::take(buffer).map_err(|_| BadHead::Malformed)?;
            self.bytes += before - buffer.len();
            if self.bytes > MAX_HEAD {
                return Err(BadHead::TooMany);
            }
            match packet {
                None if self.bytes + buffer.len() > MAX_HEAD * 2 => return Err(BadHead::TooMany),
                None => return Ok(None),
                Some(Packet::Flush) => return Ok(Some(std::mem::take(&mut self.commands))),
                Some(Packet::Line(line)) => self.commands.add(&line)?,
            }
        }
    }
}

impl Commands {
    fn add(&mut self, line: &[u8]) -> Result<(), BadHead> {
        let text = std::str::from_utf8(line).map_err(|_| BadHead::Malformed)?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        if text.starts_with("push-cert") {
            return Err(BadHead::Certificate);
        }
        if let Some(object) = text.strip_prefix("shallow ") {
            let is_right = is_object(object) && self.updates.is_empty();
            if !is_right {
                return Err(BadHead::Malformed);
            }
            if self.shallow.len() == MAX_UPDATES {
                return Err(BadHead::TooMany);
            }
            self.shallow.push(object.to_owned());
            return Ok(());
        }
        // Servers read capabilities from every line that has a NUL. Clients write them once.
        let (command, capabilities) = match text.split_once('\0') {
            Some((command, capabilities)) if self.updates.is_empty() => (command, capabilities),
            Some(_) => return Err(BadHead::Malformed),
            None => (text, ""),
        };
        for capability in capabilities.split_ascii_whitespace() {
            self.allow(capability)?;
        }
        let mut words = command.splitn(3, ' ');
        let (Some(old), Some(new), Some(name)) = (words.next(), words.next(), words.next()) else {
            return Err(BadHead::Malformed);
        };
        let is_known = self.updates.iter().any(|update| update.name == name);
        if !is_object(old) || !is_object(new) || !is_reference(name) || is_known {
            return Err(BadHead::Malformed);
        }
        if self.updates.len() == MAX_UPDATES {
            return Err(BadHead::TooMany);
        }
        let update = Update { old: old.to_owned(), new: new.to_owned(), name: name.to_owned() };
        self.updates.push(update);
        Ok(())
    }

    fn allow(&mut self, capability: &str) -> Result<(), BadHead> {
        match capability {
            "push-options" => Err(BadHead::Options),
            "object-format=sha1" => Ok(()),
            other if other.starts_with("object-format=") => Err(BadHead::Format),
            other if HARMLESS.contains(&other) => {
                self.capabilities.push(other.to_owned());
                Ok(())
            }
            // Names of programs, and ids of their sessions.
            _ => Ok(()),
        }
    }

    pub(super) fn has(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }

    /// Returns true if a pack follows.
    pub(super) fn has_pack(&self) -> bool {
        self.updates.iter().any(|update| !update.is_deletion())
    }

    /// The head as it is forwarded.
    pub(super) fn written(&self) -> Vec<u8> {
        let mut head = Vec::new();
        for object in &self.shallow {
            pktline::line(&mut head, format!("shallow {object}").as_bytes());
        }
        for (at, Update { old, new, name }) in self.updates.iter().enumerate() {
            let capabilities = match at {
                0 => format!("\0 {}", self.capabilities.join(" ")),
                _ => String::new(),
            };
            pktline::line(&mut head, format!("{old} {new} {name}{capabilities}").as_bytes());
        }
        pktline::flush(&mut head);
        head
    }
}

fn is_object(text: &str) -> bool {
    text.len() == ZERO.len()
        && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Returns true for the name of a branch, without what stands before it in references.
pub(super) fn is_branch(name: &str) -> bool {
    is_reference(&format!("refs/heads/{name}"))
}

/// The names that git allows, without those that need quoting anywhere.
fn is_reference(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/+@#=,".contains(&byte);
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && !part.ends_with('.')
            && !part.ends_with(".lock")
    };
    name.starts_with("refs/")
        && name.len() <= MAX_REF
        && name.bytes().all(is_letter)
        && !name.contains("..")
        && name.split('/').all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn read(lines: &[String]) -> Result<Option<Commands>, BadHead> {
        let mut written = Vec::new();
        lines.iter().for_each(|line| pktline::line(&mut written, line.as_bytes()));
        pktline::flush(&mut written);
        written.extend_from_slice(b"PACK");
        let mut buffer = BytesMut::from(&written[..]);
        let read = Reader::default().read(&mut buffer);
        if read.is_ok() {
            assert_eq!(&buffer[..], b"PACK", "the pack is left alone");
        }
        read
    }

    fn first(name: &str, capabilities: &str) -> String {
        format!("{ONE} {TWO} {name}\0{capabilities}")
    }

    #[test]
    fn what_is_forwarded_is_written_anew() {
        let lines = [
            format!("shallow {TWO}"),
            first("refs/heads/a", " report-status side-band-64k agent=git/2 session-id=1 odd"),
            format!("{ZERO} {TWO} refs/heads/agent/b\n"),
        ];
        let commands = read(&lines).unwrap().unwrap();
        assert_eq!(commands.updates.len(), 2);
        assert!(commands.updates[1].is_new() && !commands.updates[0].is_new());
        assert_eq!(commands.updates[1].branch(), Some("agent/b"));
        let written = commands.written();
        let again = Reader::default().read(&mut BytesMut::from(&written[..]));
        assert_eq!(again, Ok(Some(commands)));
        assert!(!written.windows(3).any(|window| window == b"odd"));
    }

    /// GW-26/second: a second command, or more of the first, behind a byte that readers disagree
    /// about.
    #[test]
    fn nothing_hides_behind_the_first_command() {
        let nul = format!("{ZERO} {TWO} refs/heads/b\0push-options");
        let twice = format!("{ZERO} {TWO} refs/heads/a");
        let newline = format!("{ONE} {TWO} refs/heads/b\n{ONE} {TWO} refs/heads/main");
        for second in [nul, twice, newline, "x".into(), format!("shallow {ONE}")] {
            let lines = [first("refs/heads/a", " report-status"), second.clone()];
            assert_eq!(read(&lines), Err(BadHead::Malformed), "{second:?}");
        }
        assert_eq!(read(&[first("refs/heads/a", "push-options")]), Err(BadHead::Options));
        assert_eq!(read(&["push-cert\0 report-status".into()]), Err(BadHead::Certificate));
        assert_eq!(read(&[first("refs/heads/a", "object-format=sha256")]), Err(BadHead::Format));
        for name in ["HEAD", "refs/heads/a..b", "refs//heads/a", "refs/heads/.a", "refs/heads/a b"]
        {
            assert_eq!(read(&[first(name, "")]), Err(BadHead::Malformed), "{name}");
        }
    }

    #[test]
    fn a_head_is_bounded() {
        let many: Vec<_> = (0..40).map(|n| format!("{ZERO} {TWO} refs/heads/b{n}")).collect();
        assert_eq!(read(&many), Err(BadHead::TooMany));
        let mut endless = BytesMut::from(&b"fff0"[..]);
        endless.extend_from_slice(&vec![b'x'; MAX_HEAD * 2]);
        assert!(Reader::default().read(&mut endless).is_err());
    }
}

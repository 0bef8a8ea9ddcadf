//! The secret of control's: it seals the authorities that are kept in the database.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::{Digest as _, Sha256};

use crate::keys::{KeyError, random};
use crate::private_file::{self, PrivateFileError};

/// The reason control has no secret.
#[derive(Debug, thiserror::Error)]
pub enum ControlKeyError {
    #[error(transparent)]
    File(#[from] PrivateFileError),
    #[error("a line of the control key in `{0}` has fewer than {SHORTEST} characters")]
    Short(PathBuf),
    #[error("the control key in `{0}` is empty")]
    Empty(PathBuf),
    #[error("the control key in `{0}` is not text")]
    Text(PathBuf),
}

const SHORTEST: usize = 32;

/// The secrets that replicas of control share, newest first.
///
/// The first seals; each of them opens. So a new one is put before the old one in
/// every replica's file, and the old one is removed when nothing needs it any more.
#[derive(Clone)]
pub struct ControlKeys(Vec<[u8; 32]>);

impl ControlKeys {
    /// Reads the secrets from a file, one in each line.
    pub fn read(path: &Path) -> Result<Self, ControlKeyError> {
        let text = private_file::read(path)?;
        let text = String::from_utf8(text).map_err(|_| ControlKeyError::Text(path.to_owned()))?;
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            return Err(ControlKeyError::Empty(path.to_owned()));
        }
        if lines.iter().any(|line| line.len() < SHORTEST) {
            return Err(ControlKeyError::Short(path.to_owned()));
        }
        Ok(Self(lines.into_iter().map(derived).collect()))
    }

    /// Writes 256 random bits to a file that must not exist yet.
    pub fn create(path: &Path) -> io::Result<()> {
        let bits: [u8; 32] = random().map_err(io::Error::other)?;
        let text: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        private_file::create(path, format!("{text}\n").as_bytes())
    }

    /// A secret that is not read from a file.
    pub fn of(text: &str) -> Self {
        Self(vec![derived(text)])
    }

    /// Encrypts `plain`, bound to `context`.
    pub fn seal(&self, context: &[u8], plain: &[u8]) -> Result<Vec<u8>, KeyError> {
        let key = self.0.first().and_then(cipher).ok_or(KeyError::Length)?;
        let nonce: [u8; NONCE_LEN] = random()?;
        let mut text = plain.to_vec();
        let sealed = key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(context),
            &mut text,
        );
        sealed.map_err(|_| KeyError::Length)?;
        Ok([&nonce[..], &text].concat())
    }

    /// Decrypts what one of these secrets sealed for `context`.
    pub fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.0.iter().find_map(|key| open_with(key, context, sealed))
    }

    /// Returns true if the newest of these secrets sealed it for `context`.
    pub fn is_current(&self, context: &[u8], sealed: &[u8]) -> bool {
        self.0.first().is_some_and(|key| open_with(key, context, sealed).is_some())
    }
}

fn open_with(key: &[u8; 32], context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::assume_unique_for_key(nonce.try_into().ok()?);
    let mut text = text.to_vec();
    let plain = cipher(key)?.open_in_place(nonce, Aad::from(context), &mut text).ok()?;
    Some(plain.to_vec())
}

impl fmt::Debug for ControlKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlKeys([redacted])")
    }
}

fn derived(text: &str) -> [u8; 32] {
    Sha256::new().chain_update("belljar control key v1\0").chain_update(text).finalize().into()
}

fn cipher(key: &[u8; 32]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, key).ok().map(LessSafeKey::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_and_the_context_that_sealed_open() {
        let keys = ControlKeys::of("one");
        let sealed = keys.seal(b"context", b"plain").unwrap();
        assert_eq!(keys.open(b"context", &sealed).unwrap(), b"plain");
        assert_eq!(keys.open(b"other", &sealed), None);
        assert_eq!(ControlKeys::of("two").open(b"context", &sealed), None);
        let mut changed = sealed.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(keys.open(b"context", &changed), None);
        assert_eq!(keys.open(b"context", &sealed[..5]), None);
    }

    #[test]
    fn older_line_still_opens_while_the_first_seals() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.key");
        ControlKeys::create(&path).unwrap();
        let old = ControlKeys::read(&path).unwrap();
        let sealed = old.seal(b"", b"plain").unwrap();
        let text = String::from_utf8(private_file::read(&path).unwrap()).unwrap();
        let new = "n".repeat(40);
        private_file::write(&path, format!("{new}\n{text}").as_bytes()).unwrap();
        let both = ControlKeys::read(&path).unwrap();
        assert_eq!(both.open(b"", &sealed).unwrap(), b"plain");
        assert!(old.is_current(b"", &sealed) && !both.is_current(b"", &sealed));
        let sealed = both.seal(b"", b"plain").unwrap();
        assert_eq!(old.open(b"", &sealed), None);
        assert_eq!(ControlKeys::of(&new).open(b"", &sealed).unwrap(), b"plain");
        private_file::write(&path, b"short").unwrap();
        assert!(matches!(ControlKeys::read(&path), Err(ControlKeyError::Short(_))));
    }
}

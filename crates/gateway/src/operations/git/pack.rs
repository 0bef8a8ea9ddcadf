//! Reads the commits of a pack while it passes, to see whether a branch only moves forward.
//!
//! A push says from which commit to which a branch goes. Nothing in it says whether the old commit
//! is still part of the new history; a server allows both. All commits between the two are in the
//! pack, unless the server has them already. So the old commit must be found among the ancestors
//! of the new one in the pack itself. What cannot be shown is refused.
//!
//! Ids are computed here from what the commits say, so a pack cannot lie about its commits.

use std::collections::{HashMap, HashSet};

use bytes::{Buf as _, Bytes};
use flate2::Decompress;
use sha1::{Digest as _, Sha1};

use super::source::inflate;

/// Bytes of commits, and of deltas between them, that are kept of one pack.
pub(super) const MAX_KEPT: usize = 8 << 20;
/// Bytes that a kept commit takes besides its content: its allocation, its entry by id, and its
/// entry by offset. The tables double as they grow.
const COMMIT_OVERHEAD: usize = 320 + 64;
/// Bytes of all objects of one pack, unpacked, and their proportion to the longest pack.
const MAX_UNPACKED: u64 = 8 << 30;
const MAX_RATIO: u64 = 8;
/// Work for an object besides its bytes, as if it had so many more.
const OBJECT_WORK: usize = 4 << 10;
const MAX_OBJECTS: u32 = 4_000_000;
/// The check sum at a pack's end.
pub(super) const TRAILER: usize = 20;
const COMMIT: u8 = 1;
const OFFSET_DELTA: u8 = 6;
const REFERENCE_DELTA: u8 = 7;

type Id = [u8; 20];

/// Something that is no pack, or more than is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::operations) enum BadPack {
    #[error("the pack cannot be read")]
    Malformed,
    #[error("the pack has too many or too large commits or files to check; push it in parts")]
    TooMuch,
}

/// A reader of one pack.
#[derive(Debug)]
pub(super) struct Pack {
    state: State,
    /// The beginning of what is not complete.
    buffer: Vec<u8>,
    /// Bytes read of the pack.
    at: u64,
    objects_left: u32,
    unpacked: u64,
    most_unpacked: u64,
    /// Bytes read, unpacked and made since [`Pack::take_work`].
    work: usize,
    inflate: Decompress,
    kept: usize,
    commits: HashMap<Id, Bytes>,
    offsets: HashMap<u64, Id>,
}

#[derive(Debug)]
enum State {
    Head,
    ObjectHead,
    Object(Object),
    Trailer,
}

/// An object that is being unpacked.
#[derive(Debug)]
struct Object {
    from: u64,
    size: u64,
    seen: u64,
    keeps: Keeps,
    content: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Keeps {
    Nothing,
    Commit,
    /// The difference to this commit.
    DeltaOf(Id),
}

impl Default for Pack {
    fn default() -> Self {
        Self {
            state: State::Head,
            buffer: Vec::new(),
            at: 0,
            objects_left: 0,
            unpacked: 0,
            most_unpacked: MAX_UNPACKED,
            work: 0,
            inflate: Decompress::new(true),
            kept: 0,
            commits: HashMap::new(),
            offsets: HashMap::new(),
        }
    }
}

impl Pack {
    /// A reader of a pack that has `most` bytes at most.
    pub(super) fn new(most: u64) -> Self {
        let most_unpacked = most.saturating_mul(MAX_RATIO).min(MAX_UNPACKED);
        Self { most_unpacked, ..Self::default() }
    }

    /// Returns the work done since the last call, in bytes.
    pub(super) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    /// Reads the next bytes. One byte can mean work for a thousand.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), BadPack> {
        self.work += bytes.len();
        while !bytes.is_empty() {
            match &self.state {
                State::Head | State::ObjectHead | State::Trailer => {
                    let Some((&first, rest)) = bytes.split_first() else { break };
                    self.buffer.push(first);
                    self.at += 1;
                    bytes = rest;
                    self.step()?;
                }
                State::Object(_) => {
                    let taken = self.unpack(bytes)?;
                    self.at += taken as u64;
                    bytes.advance(taken);
                }
            }
        }
        Ok(())
    }

    /// Returns true if exactly one pack was read, to its end.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Trailer) && self.buffer.len() == TRAILER
    }

    /// Returns true if `old` is shown to be an ancestor of `new`. Commits in `shallow` have no
    /// parents for the server.
    pub(super) fn shows(&self, old: &str, new: &str, shallow: &[String]) -> bool {
        let (Some(old), Some(new)) = (id(old.as_bytes()), id(new.as_bytes())) else { return false };
        let shallow: HashSet<Id> = shallow.iter().filter_map(|cut| id(cut.as_bytes())).collect();
        let mut known = HashSet::new();
        let mut next = vec![new];
        while let Some(commit) = next.pop() {
            if commit == old {
                return true;
            }
            if known.insert(commit)
                && !shallow.contains(&commit)
                && let Some(content) = self.commits.get(&commit)
            {
                next.extend(parents(content));
            }
        }
        false
    }

    /// One more byte is in the buffer.
    fn step(&mut self) -> Result<(), BadPack> {
        match self.state {
            State::Head if self.buffer.len() < 12 => {}
            State::Head => {
                let mut head = &*self.buffer;
                if head.get_u32() != u32::from_be_bytes(*b"PACK") || head.get_u32() != 2 {
                    return Err(BadPack::Malformed);
                }
                self.objects_left = head.get_u32();
                if self.objects_left > MAX_OBJECTS {
                    return Err(BadPack::TooMuch);
                }
                self.buffer.clear();
                self.begin_next();
            }
            State::ObjectHead => self.object_head()?,
            State::Trailer if self.buffer.len() > TRAILER => return Err(BadPack::Malformed),
            State::Trailer | State::Object(_) => {}
        }
        Ok(())
    }

    fn begin_next(&mut self) {
        self.state = if self.objects_left == 0 { State::Trailer } else { State::ObjectHead };
    }

    /// Begins an object once its head is complete.
    fn object_head(&mut self) -> Result<(), BadPack> {
        let from = self.at - self.buffer.len() as u64;
        let mut head = &*self.buffer;
        let Some((kind, size)) = kind_and_size(&mut head)? else { return Ok(()) };
        let base = match kind {
            1..=4 => None,
            OFFSET_DELTA => {
                let Some(back) = offset(&mut head)? else { return Ok(()) };
                let base = from.checked_sub(back).ok_or(BadPack::Malformed)?;
                self.offsets.get(&base).copied()
            }
            REFERENCE_DELTA => {
                let Some(base) = head.first_chunk::<20>() else { return Ok(()) };
                Some(*base).filter(|base| self.commits.contains_key(base))
            }
            _ => return Err(BadPack::Malformed),
        };
        let keeps = match (kind, base) {
            (COMMIT, _) => Keeps::Commit,
            (_, Some(base)) => Keeps::DeltaOf(base),
            (_, None) => Keeps::Nothing,
        };
        if keeps != Keeps::Nothing && size > MAX_KEPT as u64 {
            return Err(BadPack::TooMuch);
        }
        self.unpacked = self.unpacked.saturating_add(size);
        if self.unpacked > self.most_unpacked {
            return Err(BadPack::TooMuch);
        }
        self.work += OBJECT_WORK;
        self.buffer.clear();
        self.inflate.reset(true);
        self.state = State::Object(Object { from, size, seen: 0, keeps, content: Vec::new() });
        Ok(())
    }

    /// Unpacks some of an object; returns the number of bytes that it took.
    fn unpack(&mut self, bytes: &[u8]) -> Result<usize, BadPack> {
        let State::Object(object) = &mut self.state else { return Ok(0) };
        let before = object.content.len();
        let taken = inflate(&mut self.inflate, bytes, &mut object.content);
        let taken = taken.map_err(|_| BadPack::Malformed)?;
        let unpacked = object.content.len() - before;
        self.work += unpacked;
        object.seen += unpacked as u64;
        if object.seen > object.size {
            return Err(BadPack::Malformed);
        }
        if object.keeps == Keeps::Nothing {
            object.content.clear();
        }
        if taken.is_end {
            if object.seen != object.size {
                return Err(BadPack::Malformed);
            }
            let State::Object(object) = std::mem::replace(&mut self.state, State::ObjectHead)
            else {
                return Err(BadPack::Malformed);
            };
            self.keep(object)?;
            self.objects_left -= 1;
            self.begin_next();
        }
        Ok(taken.bytes)
    }

    fn keep(&mut self, object: Object) -> Result<(), BadPack> {
        let content = match object.keeps {
            Keeps::Nothing => return Ok(()),
            Keeps::Commit => object.content,
            Keeps::DeltaOf(base) => {
                let base = self.commits.get(&base).ok_or(BadPack::Malformed)?;
                apply(base, &object.content)?
            }
        };
        self.work += content.len();
        self.kept = self.kept.saturating_add(content.len() + COMMIT_OVERHEAD);
        if self.kept > MAX_KEPT {
            return Err(BadPack::TooMuch);
        }
        let mut hash = Sha1::new();
        hash.update(format!("commit {}\0", content.len()));
        hash.update(&content);
        let id: Id = hash.finalize().into();
        self.offsets.insert(object.from, id);
        // Without its spare capacity, which is far larger than most commits.
        self.commits.insert(id, content.into_boxed_slice().into());
        Ok(())
    }
}

/// The kind of an object and its size; none: there is more to come.
fn kind_and_size(head: &mut &[u8]) -> Result<Option<(u8, u64)>, BadPack> {
    let Some((&first, rest)) = head.split_first() else { return Ok(None) };
    *head = rest;
    let (kind, mut size, mut byte) = ((first >> 4) & 7, u64::from(first & 15), first);
    let mut shift = 4;
    while byte & 0x80 != 0 {
        let Some((&next, rest)) = head.split_first() else { return Ok(None) };
        *head = rest;
        if shift > 53 {
            return Err(BadPack::Malformed);
        }
        size |= u64::from(next & 0x7f) << shift;
        shift += 7;
        byte = next;
    }
    Ok(Some((kind, size)))
}

/// The distance back to the base of a delta; none: there is more to come.
fn offset(head: &mut &[u8]) -> Result<Option<u64>, BadPack> {
    let mut back: u64 = 0;
    for count in 0.. {
        let Some((&byte, rest)) = head.split_first() else { return Ok(None) };
        *head = rest;
        if count > 8 {
            return Err(BadPack::Malformed);
        }
        back = (back << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
        back += 1;
    }
    Ok(Some(back))
}

/// A size as it stands in a delta.
fn delta_size(delta: &mut &[u8]) -> Result<usize, BadPack> {
    let mut size: u64 = 0;
    for shift in (0..56).step_by(7) {
        let (&byte, rest) = delta.split_first().ok_or(BadPack::Malformed)?;
        *delta = rest;
        size |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(size).map_err(|_| BadPack::Malformed);
        }
    }
    Err(BadPack::Malformed)
}

/// The object that a delta makes of its base.
fn apply(base: &[u8], mut delta: &[u8]) -> Result<Vec<u8>, BadPack> {
    if delta_size(&mut delta)? != base.len() {
        return Err(BadPack::Malformed);
    }
    let size = delta_size(&mut delta)?;
    if size > MAX_KEPT {
        return Err(BadPack::TooMuch);
    }
    let mut made = Vec::with_capacity(size);
    while let Some((&word, rest)) = delta.split_first() {
        delta = rest;
        let piece = if word & 0x80 == 0 {
            let piece = delta.get(..usize::from(word)).filter(|piece| !piece.is_empty());
            let piece = piece.ok_or(BadPack::Malformed)?;
            delta.advance(piece.len());
            piece
        } else {
            let mut number = |bits: std::ops::Range<u32>| -> Result<usize, BadPack> {
                let mut sum = 0;
                for (place, bit) in bits.enumerate() {
                    if word & (1 << bit) != 0 {
                        let (&byte, rest) = delta.split_first().ok_or(BadPack::Malformed)?;
                        delta = rest;
                        sum |= usize::from(byte) << (8 * place);
                    }
                }
                Ok(sum)
            };
            let from = number(0..4)?;
            let length = match number(4..7)? {
                0 => 0x10000,
                length => length,
            };
            base.get(from..).and_then(|rest| rest.get(..length)).ok_or(BadPack::Malformed)?
        };
        if made.len() + piece.len() > size {
            return Err(BadPack::Malformed);
        }
        made.extend_from_slice(piece);
    }
    if made.len() == size { Ok(made) } else { Err(BadPack::Malformed) }
}

/// The parents that a commit names, in its head alone: its message may say anything.
fn parents(commit: &[u8]) -> impl Iterator<Item = Id> + '_ {
    let lines = commit.split(|byte| *byte == b'\n');
    let after_tree = lines.skip(1);
    after_tree.map_while(|line| line.strip_prefix(b"parent ")).filter_map(id)
}

/// An id of forty digits.
fn id(text: &[u8]) -> Option<Id> {
    let mut id = Id::default();
    if text.len() != 2 * id.len() {
        return None;
    }
    for (byte, digits) in id.iter_mut().zip(text.chunks_exact(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(id)
}

#[cfg(test)]
mod tests;

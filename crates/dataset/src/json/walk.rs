//! From tokens to paths.

use super::{Scanner, Stop};
use crate::column::Value;
use crate::limits;
use crate::tree::{Id, ROOT, Tree};

/// Walks values of one file, or of one part of it, into a tree.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) scanner: Scanner<'a>,
    pub(crate) tree: Tree,
    /// NaN and infinities, and where the first one is.
    pub(crate) not_finite: Option<(u64, u64)>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(scanner: Scanner<'a>) -> Self {
        Self { scanner, tree: Tree::default(), not_finite: None }
    }

    /// One value, into the root.
    pub(crate) fn value(&mut self) -> Result<(), Stop> {
        self.value_at(ROOT, 0)
    }

    fn value_at(&mut self, id: Id, depth: usize) -> Result<(), Stop> {
        match self.scanner.need()? {
            b'"' => {
                self.scanner.advance();
                let text = self.scanner.text()?;
                self.tree.add(id, Value::Text(text));
            }
            b'0'..=b'9' => self.number(id)?,
            b'-' if self.scanner.word(b"-Infinity") => self.count_not_finite(id),
            b'-' => self.number(id)?,
            b'{' => self.object(id, depth)?,
            b'[' => self.array(id, depth)?,
            b't' if self.scanner.word(b"true") => self.tree.node_mut(id).counts.trues += 1,
            b'f' if self.scanner.word(b"false") => self.tree.node_mut(id).counts.falses += 1,
            b'n' if self.scanner.word(b"null") => self.tree.node_mut(id).counts.nulls += 1,
            b'N' if self.scanner.word(b"NaN") => self.count_not_finite(id),
            b'I' if self.scanner.word(b"Infinity") => self.count_not_finite(id),
            _ => return Err(Stop::Invalid),
        }
        Ok(())
    }

    fn number(&mut self, id: Id) -> Result<(), Stop> {
        let (number, digits) = self.scanner.number()?;
        if number.value().is_finite() {
            self.tree.add(id, Value::Number(number, digits));
        } else {
            self.count_not_finite(id);
        }
        Ok(())
    }

    fn count_not_finite(&mut self, id: Id) {
        self.tree.node_mut(id).counts.not_finite += 1;
        let first = self.not_finite.get_or_insert((0, self.scanner.window.offset()));
        first.0 += 1;
    }

    fn object(&mut self, id: Id, depth: usize) -> Result<(), Stop> {
        if depth == limits::DEPTH {
            return self.too_deep();
        }
        self.scanner.advance();
        let object = self.tree.begin_object(id);
        let mut place = 0;
        if self.scanner.need()? == b'}' {
            self.scanner.advance();
            return Ok(());
        }
        loop {
            match self.key(id, object, &mut place)? {
                Some(child) => self.value_at(child, depth + 1)?,
                None => self.scanner.skip()?,
            }
            match self.scanner.need()? {
                b',' => self.scanner.advance(),
                b'}' => {
                    self.scanner.advance();
                    return Ok(());
                }
                _ => return Err(Stop::Invalid),
            }
            self.scanner.need()?;
        }
    }

    /// A key with its colon, to where its value belongs. The child at `place`
    /// comes next if this object is like the one before.
    #[inline]
    fn key(&mut self, id: Id, object: u64, place: &mut usize) -> Result<Option<Id>, Stop> {
        let text = self.scanner.window.rest();
        if let Some((child, length)) = self.tree.spelled(id, *place, text) {
            self.scanner.window.at += length;
            self.tree.stands(child, object);
            *place += 1;
            return Ok(Some(child));
        }
        self.other_key(id, object, place)
    }

    fn other_key(&mut self, id: Id, object: u64, place: &mut usize) -> Result<Option<Id>, Stop> {
        self.scanner.expect(b'"')?;
        let found = match self.scanner.text()? {
            key if key.is_whole => self.tree.child(id, key.head, object),
            _ => {
                self.tree.cut.keys += 1;
                None
            }
        };
        self.scanner.expect(b':')?;
        Ok(found.map(|(child, at)| {
            *place = at + 1;
            child
        }))
    }

    fn array(&mut self, id: Id, depth: usize) -> Result<(), Stop> {
        if depth == limits::DEPTH {
            return self.too_deep();
        }
        self.scanner.advance();
        self.tree.node_mut(id).counts.arrays += 1;
        let mut length = 0;
        let result = self.items(id, depth, &mut length);
        self.tree.node_mut(id).lengths.add(length);
        result
    }

    fn items(&mut self, id: Id, depth: usize, length: &mut u64) -> Result<(), Stop> {
        if self.scanner.need()? == b']' {
            self.scanner.advance();
            return Ok(());
        }
        let item = self.tree.item(id);
        loop {
            match item {
                Some(item) => self.value_at(item, depth + 1)?,
                None => {
                    self.tree.cut.keys += 1;
                    self.scanner.skip()?;
                }
            }
            *length += 1;
            match self.scanner.need()? {
                b',' => self.scanner.advance(),
                b']' => {
                    self.scanner.advance();
                    return Ok(());
                }
                _ => return Err(Stop::Invalid),
            }
        }
    }

    fn too_deep(&mut self) -> Result<(), Stop> {
        self.tree.cut.deep += 1;
        self.scanner.skip()
    }
}

//! The second pass: the values of a few paths, and nothing else.

mod columns;
mod sheet;

use std::io;
use std::ops::Range;

use crate::column::Value;
use crate::csv::{self, Cells, End, Typed};
use crate::describe::Format;
use crate::hash;
use crate::json::{Lines, Scanner, Stop};
use crate::limits;
use crate::number::COMMA_BYTES;
use crate::read::{Job, Profile, ReadError, in_blocks, skip_mark, to_first_line};
use crate::tree::{Id, ROOT, Tree};
use crate::window::Window;

/// How a value is changed before it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mend {
    Nothing,
    Trim,
    Lower,
    /// Leading zeros go.
    Unpad,
    /// Only the digits at its end stay.
    Digits,
}

/// What to take out of one file. A slot gets the hashes of one column, or of
/// two that stand together.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// By the tree's ids.
    nodes: Vec<Place>,
    parts: usize,
    /// Whether a hash is taken: it has to have as many zeros at its end.
    mask: u64,
}

#[derive(Debug, Clone, Default)]
struct Place {
    /// Whether anything at or below it is wanted.
    is_on_the_way: bool,
    slots: Vec<(u32, Mend)>,
    /// Where its hash waits for the other half.
    part: Option<usize>,
    /// When an object of it ends: two halves, and the slot of both.
    pairs: Vec<(usize, usize, u32)>,
}

impl Wanted {
    pub(crate) fn new(tree: &Tree, mask: u64) -> Self {
        Self { nodes: vec![Place::default(); tree.len()], parts: 0, mask }
    }

    pub(crate) fn add(&mut self, id: Id, mend: Mend, slot: u32) {
        self.nodes[id as usize].slots.push((slot, mend));
    }

    pub(crate) fn add_pair(&mut self, table: Id, halves: [Id; 2], slot: u32) {
        let [first, second] = halves.map(|half| {
            let parts = &mut self.parts;
            *self.nodes[half as usize].part.get_or_insert_with(|| {
                *parts += 1;
                *parts - 1
            })
        });
        self.nodes[table as usize].pairs.push((first, second, slot));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.iter().all(|place| place.slots.is_empty() && place.pairs.is_empty())
    }

    fn find_ways(&mut self, tree: &Tree, id: Id) -> bool {
        let node = tree.node(id);
        let below = node.children.iter().copied().chain(node.item);
        let is_below = below.fold(false, |any, child| self.find_ways(tree, child) | any);
        let place = &mut self.nodes[id as usize];
        place.is_on_the_way = is_below || !place.slots.is_empty() || place.part.is_some();
        place.is_on_the_way
    }
}

/// Slots and hashes, in batches, in the file's order.
type Batch = Vec<(u32, u64)>;

/// How many hashes are kept back before they are handed on.
const BATCH: usize = 1 << 16;

pub(crate) fn extract(
    job: Job<'_>,
    profile: &Profile,
    mut wanted: Wanted,
    mut sink: impl FnMut(Batch),
) -> Result<(), ReadError> {
    wanted.find_ways(&profile.tree, ROOT);
    let result = match profile.format {
        Format::Json => {
            let mut window = Window::new(job, 0, None);
            skip_mark(&mut window);
            let mut walk = Walk::new(Scanner::new(window, Lines::Any), &profile.tree, &wanted);
            walk.sink = Some(&mut sink);
            // What stopped the first pass stops this one.
            let _ = walk.value(ROOT, 0);
            walk.finish().map(drop)
        }
        Format::JsonLines => {
            let block = |range| lines(job, range, &profile.tree, &wanted);
            in_blocks(job, block, &mut sink)
        }
        Format::Csv => table(job, profile, &wanted, &mut sink),
        Format::Parquet => return columns::columns(job, &wanted, &mut sink),
        Format::Excel => return sheet::sheet(job, profile, &wanted, &mut sink),
    };
    result.map_err(|error| job.io(error))
}

fn lines(job: Job<'_>, range: Range<u64>, tree: &Tree, wanted: &Wanted) -> io::Result<Batch> {
    let window = Window::new(job, range.start, None);
    let mut walk = Walk::new(Scanner::new(window, Lines::One), tree, wanted);
    let mut goes_on = to_first_line(&mut walk.scanner.window, &range);
    while goes_on && walk.scanner.window.offset() < range.end {
        let line = walk.scanner.window.offset();
        let result = if walk.scanner.peek().is_some() { walk.value(ROOT, 0) } else { Ok(()) };
        if result.is_err() {
            walk.scanner.window.seek(line);
        }
        goes_on = walk.scanner.window.next_line();
    }
    walk.finish()
}

fn table(
    job: Job<'_>,
    profile: &Profile,
    wanted: &Wanted,
    sink: &mut dyn FnMut(Batch),
) -> io::Result<()> {
    let Some(mut dialect) = profile.dialect else { return Ok(()) };
    let mut window = Window::new(job, 0, None);
    skip_mark(&mut window);
    let mut cells = Cells::new(window, dialect.delimiter);
    let mut scratch = Tree::default();
    // The same names get the same ids as in the first pass.
    let columns = csv::header(&mut cells, &mut dialect, &mut scratch);
    let mut taker = Taker::new(wanted);
    let mut place = 0;
    loop {
        let (cell, end) = cells.next();
        if let Some(Some(id)) = columns.get(place)
            && wanted.nodes[*id as usize].is_on_the_way
        {
            let mut usual = [0; COMMA_BYTES];
            let has_commas = profile.tree.node(*id).has_commas;
            let commas = if has_commas { Some(&mut usual) } else { None };
            if let Some(Typed::Value(value)) = csv::value(&cell, commas) {
                taker.take(*id, &value);
            }
        }
        place += 1;
        if end == End::Cell {
            continue;
        }
        taker.end(ROOT);
        place = 0;
        if taker.batch.len() >= BATCH || end == End::File {
            sink(std::mem::take(&mut taker.batch));
        }
        if end == End::File {
            return cells.window.finish().map(drop);
        }
    }
}

/// Hashes on their way into a batch.
#[derive(Debug)]
pub(crate) struct Taker<'a> {
    wanted: &'a Wanted,
    pub(crate) batch: Batch,
    parts: Vec<Option<u64>>,
    scratch: Vec<u8>,
}

impl<'a> Taker<'a> {
    pub(crate) fn new(wanted: &'a Wanted) -> Self {
        let parts = vec![None; wanted.parts];
        Self { wanted, batch: Vec::new(), parts, scratch: Vec::new() }
    }

    pub(crate) fn take(&mut self, id: Id, value: &Value<'_>) {
        let place = &self.wanted.nodes[id as usize];
        let plain = value.hash();
        for &(slot, mend) in &place.slots {
            let hash =
                if mend == Mend::Nothing { plain } else { mended(value, mend, &mut self.scratch) };
            if hash & self.wanted.mask == 0 {
                self.batch.push((slot, hash));
            }
        }
        if let Some(part) = place.part {
            self.parts[part] = Some(plain);
        }
    }

    /// An object has ended.
    pub(crate) fn end(&mut self, id: Id) {
        for &(first, second, slot) in &self.wanted.nodes[id as usize].pairs {
            if let (Some(first), Some(second)) = (self.parts[first], self.parts[second]) {
                let hash = hash::pair(first, second);
                if hash & self.wanted.mask == 0 {
                    self.batch.push((slot, hash));
                }
            }
        }
        if !self.wanted.nodes[id as usize].pairs.is_empty() {
            self.parts.fill(None);
        }
    }
}

fn mended(value: &Value<'_>, mend: Mend, scratch: &mut Vec<u8>) -> u64 {
    let text = value.shown();
    let trimmed = text.trim_ascii();
    match mend {
        Mend::Nothing => hash::of(text),
        Mend::Trim => hash::of(trimmed),
        Mend::Lower => {
            scratch.clear();
            scratch.extend(trimmed.iter().map(u8::to_ascii_lowercase));
            hash::of(scratch)
        }
        Mend::Unpad => hash::of(unpadded(trimmed)),
        Mend::Digits => {
            let from =
                trimmed.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
            match &trimmed[from..] {
                [] => hash::of(trimmed),
                digits => hash::of(unpadded(digits)),
            }
        }
    }
}

fn unpadded(text: &[u8]) -> &[u8] {
    let zeros = text.iter().take_while(|&&byte| byte == b'0').count();
    &text[zeros.min(text.len().saturating_sub(1))..]
}

struct Walk<'a> {
    scanner: Scanner<'a>,
    tree: &'a Tree,
    taker: Taker<'a>,
    sink: Option<&'a mut dyn FnMut(Batch)>,
}

impl<'a> Walk<'a> {
    fn new(scanner: Scanner<'a>, tree: &'a Tree, wanted: &'a Wanted) -> Self {
        Self { scanner, tree, taker: Taker::new(wanted), sink: None }
    }

    fn finish(mut self) -> io::Result<Batch> {
        if let Some(sink) = &mut self.sink {
            sink(std::mem::take(&mut self.taker.batch));
        }
        self.scanner.window.finish()?;
        Ok(self.taker.batch)
    }

    fn value(&mut self, id: Id, depth: usize) -> Result<(), Stop> {
        if !self.taker.wanted.nodes[id as usize].is_on_the_way || depth == limits::DEPTH {
            return self.scanner.skip();
        }
        match self.scanner.need()? {
            b'"' => {
                self.scanner.advance();
                let text = self.scanner.text()?;
                self.taker.take(id, &Value::Text(text));
                Ok(())
            }
            b'0'..=b'9' => {
                let (number, digits) = self.scanner.number()?;
                self.taker.take(id, &Value::Number(number, digits));
                Ok(())
            }
            b'{' => self.object(id, depth),
            b'[' => self.array(id, depth),
            _ => self.negative_or_word(id),
        }
    }

    fn negative_or_word(&mut self, id: Id) -> Result<(), Stop> {
        if self.scanner.need()? == b'-' && !self.scanner.word(b"-Infinity") {
            let (number, digits) = self.scanner.number()?;
            self.taker.take(id, &Value::Number(number, digits));
            return Ok(());
        }
        self.scanner.skip()
    }

    fn object(&mut self, id: Id, depth: usize) -> Result<(), Stop> {
        self.scanner.advance();
        let mut place = 0;
        if self.scanner.need()? == b'}' {
            self.scanner.advance();
            return Ok(());
        }
        loop {
            match self.key(id, place)? {
                Some((child, at)) => {
                    place = at + 1;
                    self.value(child, depth + 1)?;
                }
                None => self.scanner.skip()?,
            }
            match self.scanner.need()? {
                b',' => self.scanner.advance(),
                b'}' => break,
                _ => return Err(Stop::Invalid),
            }
            self.scanner.need()?;
        }
        self.scanner.advance();
        self.taker.end(id);
        self.flush();
        Ok(())
    }

    /// A key with its colon: the child that it leads to, and its place. The one
    /// at `expected` is tried first.
    #[inline]
    fn key(&mut self, id: Id, expected: usize) -> Result<Option<(Id, usize)>, Stop> {
        if let Some((child, length)) = self.tree.spelled(id, expected, self.scanner.window.rest()) {
            self.scanner.window.at += length;
            return Ok(Some((child, expected)));
        }
        self.scanner.expect(b'"')?;
        let found = match self.scanner.text()? {
            key if key.is_whole => self.tree.find(id, key.head),
            _ => None,
        };
        self.scanner.expect(b':')?;
        Ok(found)
    }

    fn flush(&mut self) {
        if let Some(sink) = &mut self.sink
            && self.taker.batch.len() >= BATCH
        {
            sink(std::mem::take(&mut self.taker.batch));
        }
    }

    fn array(&mut self, id: Id, depth: usize) -> Result<(), Stop> {
        let Some(item) = self.tree.node(id).item else { return self.scanner.skip() };
        self.scanner.advance();
        if self.scanner.need()? == b']' {
            self.scanner.advance();
            return Ok(());
        }
        loop {
            self.value(item, depth + 1)?;
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
}

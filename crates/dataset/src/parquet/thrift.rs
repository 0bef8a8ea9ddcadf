//! As much of Thrift's compact protocol as footers need.
//!
//! Everything is read from a slice, and every step takes at least one byte of
//! it: what a footer claims to hold costs nothing until it is there.

/// Deeper structures are no footer's.
const DEEPEST: u32 = 24;

/// What kind of value comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    True,
    False,
    Byte,
    Int,
    Double,
    Binary,
    List,
    Map,
    Struct,
}

impl Kind {
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::True,
            2 => Self::False,
            3 => Self::Byte,
            4..=6 => Self::Int,
            7 => Self::Double,
            8 => Self::Binary,
            9 | 10 => Self::List,
            11 => Self::Map,
            12 => Self::Struct,
            _ => return None,
        })
    }
}

#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    depth: u32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, depth: 0 }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn int(&mut self) -> Option<i64> {
        let raw = self.varint()?;
        // Zigzag: the sign is the lowest bit.
        Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    pub(super) fn count(&mut self) -> Option<u64> {
        u64::try_from(self.int()?).ok()
    }

    pub(super) fn binary(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    /// How many items follow, and of which kind.
    pub(super) fn list(&mut self) -> Option<(u64, Kind)> {
        let head = self.byte()?;
        let kind = Kind::of(head & 0xf)?;
        let count = match head >> 4 {
            15 => self.varint()?,
            few => u64::from(few),
        };
        Some((count, kind))
    }

    /// Calls `each` with the number and kind of each field; it says whether it
    /// took the value.
    pub(super) fn structure(
        &mut self,
        mut each: impl FnMut(&mut Self, i16, Kind) -> Option<bool>,
    ) -> Option<()> {
        self.deeper(|reader| {
            let mut number = 0i16;
            loop {
                let head = reader.byte()?;
                if head == 0 {
                    return Some(());
                }
                number = match head >> 4 {
                    0 => i16::try_from(reader.int()?).ok()?,
                    delta => number.checked_add(i16::from(delta))?,
                };
                let kind = Kind::of(head & 0xf)?;
                if !each(reader, number, kind)? {
                    reader.skip(kind)?;
                }
            }
        })
    }

    fn deeper<T>(&mut self, inside: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let done = inside(self);
        self.depth -= 1;
        done
    }

    /// A value of a list takes a byte even where a field's would not.
    fn skip_item(&mut self, kind: Kind) -> Option<()> {
        match kind {
            Kind::True | Kind::False => self.byte().map(drop),
            kind => self.skip(kind),
        }
    }

    pub(super) fn skip(&mut self, kind: Kind) -> Option<()> {
        match kind {
            Kind::True | Kind::False => Some(()),
            Kind::Byte => self.byte().map(drop),
            Kind::Int => self.varint().map(drop),
            Kind::Double => {
                self.rest = self.rest.get(8..)?;
                Some(())
            }
            Kind::Binary => self.binary().map(drop),
            Kind::List => self.deeper(|reader| {
                let (count, kind) = reader.list()?;
                (0..count).try_for_each(|_| reader.skip_item(kind))
            }),
            Kind::Map => self.deeper(|reader| {
                let count = reader.varint()?;
                if count == 0 {
                    return Some(());
                }
                let kinds = reader.byte()?;
                let (key, value) = (Kind::of(kinds >> 4)?, Kind::of(kinds & 0xf)?);
                (0..count).try_for_each(|_| {
                    reader.skip_item(key)?;
                    reader.skip_item(value)
                })
            }),
            Kind::Struct => self.structure(|_, _, _| Some(false)),
        }
    }
}

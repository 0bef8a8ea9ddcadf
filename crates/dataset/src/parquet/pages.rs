//! Pages, looked at before they are decoded.
//!
//! Decoders take memory for as many values as a page's header claims, and trust some lengths.
//! What a page cannot hold is refused here.

use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::ColumnDescriptor;

/// The largest dictionary, once it is decoded.
const MAX_DICTIONARY_BYTES: usize = 32 << 20;
/// The most items that a page of a list may have: they are decoded at once if they are one row's.
const MAX_LIST_ITEMS: u32 = 1 << 24;

pub(super) struct Checked<P> {
    inner: P,
    limits: Limits,
}

/// What a column's pages can hold.
#[derive(Debug, Clone, Copy)]
struct Limits {
    physical: Type,
    length: usize,
    max_def: i16,
    max_rep: i16,
}

impl<P> Checked<P> {
    pub(super) fn new(inner: P, column: &ColumnDescriptor) -> Self {
        let length = usize::try_from(column.type_length()).unwrap_or_default();
        let (max_def, max_rep) = (column.max_def_level(), column.max_rep_level());
        Self {
            inner,
            limits: Limits { physical: column.physical_type(), length, max_def, max_rep },
        }
    }
}

impl Limits {
    /// The bytes that a value takes at least where it is written plainly, and those that it takes
    /// decoded.
    fn sizes(&self) -> (usize, usize) {
        match self.physical {
            Type::BOOLEAN => (0, 1),
            Type::INT32 | Type::FLOAT => (4, 4),
            Type::INT64 | Type::DOUBLE => (8, 8),
            Type::INT96 => (12, 12),
            Type::BYTE_ARRAY => (4, 40),
            Type::FIXED_LEN_BYTE_ARRAY => (self.length.max(1), 40),
        }
    }

    fn check(&self, page: &Page) -> Option<()> {
        match page {
            Page::DictionaryPage { buf, num_values, .. } => {
                let (plain, decoded) = self.sizes();
                let count = *num_values as usize;
                let fits = plain > 0
                    && count.checked_mul(plain)? <= buf.len()
                    && count.checked_mul(decoded)? <= MAX_DICTIONARY_BYTES;
                fits.then_some(())
            }
            Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                ..
            } => {
                // Levels as bits were given up before there were lists.
                let is_plain = |max, encoding: &Encoding| max == 0 || *encoding == Encoding::RLE;
                let fits = is_plain(self.max_def, def_level_encoding)
                    && is_plain(self.max_rep, rep_level_encoding);
                fits.then_some(())?;
                self.data(buf, *num_values, *encoding, None)
            }
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let levels = def_levels_byte_len.checked_add(*rep_levels_byte_len)? as usize;
                (levels <= buf.len() && num_nulls <= num_values).then_some(())?;
                self.data(buf, *num_values, *encoding, Some(levels))
            }
        }
    }

    /// `levels` is where the values begin; none: not known yet.
    fn data(
        &self,
        buf: &[u8],
        values: u32,
        encoding: Encoding,
        levels: Option<usize>,
    ) -> Option<()> {
        if self.max_rep > 0 && values > MAX_LIST_ITEMS {
            return None;
        }
        let is_delta = matches!(
            encoding,
            Encoding::DELTA_BINARY_PACKED
                | Encoding::DELTA_LENGTH_BYTE_ARRAY
                | Encoding::DELTA_BYTE_ARRAY
        );
        if !is_delta {
            return Some(());
        }
        let start = match levels {
            Some(start) => start,
            None => self.levels(buf)?,
        };
        (count_of_deltas(buf.get(start..)?)? <= u64::from(values)).then_some(())
    }

    /// Where the values of a page begin whose levels have their length before them.
    fn levels(&self, buf: &[u8]) -> Option<usize> {
        let mut at = 0usize;
        for max in [self.max_rep, self.max_def] {
            if max > 0 {
                let length = u32::from_le_bytes(*buf.get(at..)?.first_chunk()?);
                at = at.checked_add(4)?.checked_add(length as usize)?;
            }
        }
        Some(at)
    }
}

/// How many numbers a sequence of differences claims to have: the third in its header.
fn count_of_deltas(data: &[u8]) -> Option<u64> {
    if data.is_empty() {
        return Some(0);
    }
    let mut bytes = data.iter();
    let mut number = || {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = bytes.next()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    };
    let (_block, _minis) = (number()?, number()?);
    number()
}

impl<P: PageReader> PageReader for Checked<P> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.inner.get_next_page()?;
        match &page {
            Some(page) if self.limits.check(page).is_none() => {
                Err(ParquetError::General("the page claims what it cannot hold".to_owned()))
            }
            _ => Ok(page),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.inner.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.inner.at_record_boundary()
    }
}

impl<P: PageReader> Iterator for Checked<P> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

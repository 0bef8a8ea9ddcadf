//! One column of one row group, entry by entry.

use std::sync::Arc;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::cell::{Cell, Scratch, Show, Shown};
use super::layout::Leaf;
use super::pages::Checked;
use super::source::Source;

/// How many rows are decoded at once.
const BATCH: u64 = 1024;

/// A value, or what is in its place: the levels say how far down the path something is there.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) rep: i16,
    pub(crate) def: i16,
    pub(crate) value: Option<Shown<'a>>,
}

pub(crate) struct Chunk {
    reader: ColumnReader,
    cell: Cell,
    max_def: i16,
    /// Rows that are still to be read.
    rows: u64,
    /// Entries that the chunk may still have.
    entries: u64,
    levels: Levels,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Levels {
    def: Vec<i16>,
    rep: Vec<i16>,
}

impl Chunk {
    /// None if nothing can be read: it is encrypted, not within the file, or of an unknown codec.
    pub(super) fn open(
        source: &Source,
        meta: &ColumnChunkMetaData,
        leaf: &Leaf,
        rows: u64,
    ) -> Option<Self> {
        let column = meta.column_descr_ptr();
        let starts = [Some(meta.data_page_offset()), meta.dictionary_page_offset()];
        let is_sound = starts.iter().flatten().all(|start| *start >= 0)
            && meta.compressed_size() >= 0
            && meta.file_path().is_none()
            && (column.max_def_level(), column.max_rep_level()) == (leaf.def, leaf.rep);
        if !is_sound {
            return None;
        }
        let total = usize::try_from(rows).ok()?;
        let pages = SerializedPageReader::new(Arc::new(source.again()), meta, total, None).ok()?;
        let pages = Checked::new(pages, &column);
        Some(Self {
            max_def: column.max_def_level(),
            reader: get_column_reader(column, Box::new(pages)),
            cell: leaf.cell,
            rows,
            entries: u64::try_from(meta.num_values()).ok()?,
            levels: Levels::default(),
            scratch: Scratch::default(),
        })
    }

    /// Hands on the next rows, and says how many there were; 0 at the end.
    pub(crate) fn next(&mut self, each: &mut dyn FnMut(Entry<'_>)) -> Result<u64> {
        let most = usize::try_from(self.rows.min(BATCH)).unwrap_or_default();
        if most == 0 {
            return Ok(0);
        }
        let Self { reader, cell, max_def, levels, scratch, .. } = self;
        let batch = Batch { cell: *cell, max_def: *max_def, most, levels, scratch, each };
        let (records, entries) = match reader {
            ColumnReader::BoolColumnReader(reader) => batch.read(reader),
            ColumnReader::Int32ColumnReader(reader) => batch.read(reader),
            ColumnReader::Int64ColumnReader(reader) => batch.read(reader),
            ColumnReader::Int96ColumnReader(reader) => batch.read(reader),
            ColumnReader::FloatColumnReader(reader) => batch.read(reader),
            ColumnReader::DoubleColumnReader(reader) => batch.read(reader),
            ColumnReader::ByteArrayColumnReader(reader) => batch.read(reader),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => batch.read(reader),
        }?;
        self.rows = self.rows.saturating_sub(records);
        // Pages that hold more than the footer says would make the bound on values void.
        self.entries = self
            .entries
            .checked_sub(entries)
            .ok_or_else(|| ParquetError::General("more values than there should be".to_owned()))?;
        Ok(records)
    }

    /// Returns true if every row was there.
    pub(crate) fn is_whole(&self) -> bool {
        self.rows == 0
    }

    /// Texts that are not UTF-8.
    pub(crate) fn not_utf8(&self) -> u64 {
        self.scratch.not_utf8
    }
}

struct Batch<'a> {
    cell: Cell,
    max_def: i16,
    most: usize,
    levels: &'a mut Levels,
    scratch: &'a mut Scratch,
    each: &'a mut dyn FnMut(Entry<'_>),
}

impl Batch<'_> {
    /// Returns how many rows and entries there were.
    fn read<T: DataType>(self, reader: &mut ColumnReaderImpl<T>) -> Result<(u64, u64)>
    where
        T::T: Show,
    {
        let Self { cell, max_def, most, levels, scratch, each } = self;
        let Levels { def, rep } = levels;
        def.clear();
        rep.clear();
        let mut values: Vec<T::T> = Vec::new();
        let (records, _, entries) = reader.read_records(most, Some(def), Some(rep), &mut values)?;
        let mut values = values.iter();
        for place in 0..entries {
            let def = def.get(place).copied().unwrap_or(max_def);
            let rep = rep.get(place).copied().unwrap_or_default();
            let value = if def == max_def { values.next() } else { None };
            let value = value.map(|value| value.show(cell, scratch));
            each(Entry { rep, def, value });
        }
        Ok((records as u64, entries as u64))
    }
}

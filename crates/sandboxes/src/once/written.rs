//! Calls of a sandbox that is on disk, on disk beside it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::call::Said;
use super::log::{Amount, Log, Piece, Stored};
use super::recorded::Recorded;
use super::{Entry, Kept, Once, Table};
use crate::contexts::Output;

/// All that is known of a sandbox's keys, the oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct WrittenCalls {
    calls: Vec<WrittenCall>,
}

impl WrittenCalls {
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct WrittenCall {
    key: String,
    request: [u8; 32],
    said: WrittenLog,
}

#[derive(Debug, Serialize, Deserialize)]
enum WrittenLog {
    Cell(Pieces<Output>),
    Call(Pieces<Said>),
}

#[derive(Debug, Serialize, Deserialize)]
struct Pieces<T> {
    pieces: Vec<Stored<T>>,
    said: Amount,
    next: u64,
}

impl<T: Piece> Pieces<T> {
    fn of(recorded: &Recorded<T>) -> Self {
        recorded.look(|log| Self {
            pieces: log.pieces().cloned().collect(),
            said: log.said(),
            next: log.next(),
        })
    }

    fn log(self, last: T) -> Log<T> {
        let Self { pieces, said, next } = self;
        Log::restored(pieces, said, next, last)
    }
}

impl Once {
    pub(crate) fn written(&self) -> WrittenCalls {
        let table = self.lock();
        let known = table.order.iter().filter_map(|key| Some((key, table.known.get(key)?)));
        let calls = known.map(|(key, Entry { request, kept })| WrittenCall {
            key: key.clone(),
            request: *request,
            said: match kept {
                Kept::Cell(cell) => WrittenLog::Cell(Pieces::of(cell)),
                Kept::Call(call) => WrittenLog::Call(Pieces::of(call)),
            },
        });
        WrittenCalls { calls: calls.collect() }
    }

    /// What an earlier server wrote. Calls that had not ended then ended unseen.
    pub(crate) fn restored(written: WrittenCalls, generation: Option<u64>) -> Self {
        let mut table = Table { generation, order: VecDeque::new(), ..Table::default() };
        for WrittenCall { key, request, said } in written.calls {
            let kept = match said {
                WrittenLog::Cell(pieces) => Kept::Cell(Recorded::new(pieces.log(Output::Gone))),
                WrittenLog::Call(pieces) => Kept::Call(Recorded::new(pieces.log(Said::lost()))),
            };
            table.order.push_back(key.clone());
            table.known.insert(key, Entry { request, kept });
        }
        Self { table: table.into() }
    }
}

/// Bytes as base 64, which JSON has room for.
pub(super) mod bytes {
    use std::sync::Arc;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[u8]>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map(Arc::from).map_err(D::Error::custom)
    }
}

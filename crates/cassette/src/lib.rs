#![doc = include_str!("../README.md")]
// One panic here is the end of more than one request.
#![warn(clippy::indexing_slicing, clippy::string_slice)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::string_slice,
        reason = "a test that panics has failed"
    )
)]

mod blob;
mod diff;
mod digest;
mod index;
mod json;
mod limits;
mod matching;
mod miss;
mod pieces;
mod play;
mod record;
mod redact;
mod request;
mod store;
mod transfer;
mod url;
mod verify;

pub use blob::{Blob, BlobError};
pub use diff::{Changed, Changes, DiffError, Part, Side};
pub use digest::{Digest, InvalidDigest};
pub use index::{Answered, Asked, End, Entry, IndexError};
pub use limits::Limits;
pub use matching::Matching;
pub use miss::{Difference, Miss, Nearest, What};
pub use pieces::{Piece, Pieces};
pub use play::{After, NotPlayed, PlayError, Playback, Played, Player};
pub use record::{Begun, Exchange, RecordError, Recorder};
pub use redact::{Names, PLACEHOLDER, Redactor, Secret, UnfitSecret};
pub use request::{Request, RequestError};
pub use store::{Store, StoreError, Summary, Tenant};
pub use transfer::TransferError;
pub use url::{InvalidUrl, Url};
pub use verify::{Problem, Report};

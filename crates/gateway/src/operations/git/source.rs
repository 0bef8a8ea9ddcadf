//! The body of a request, unpacked and bounded, as it comes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::http::HeaderMap;
use ::http::header::CONTENT_ENCODING;
use bytes::{Buf as _, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use http_body::{Body as _, Frame, SizeHint};

use crate::body::Inner;
use crate::operations::refuse::Refusal;

/// Unpacked bytes after which a piece is complete.
const PIECE: usize = 64 << 10;
/// Bytes read and unpacked before other tasks of the thread have their turn.
pub(super) const MAX_WORK: usize = 1 << 20;
/// Of a member of gzip: its head without any option, and its end.
const HEAD: usize = 10;
const END: usize = 8;

/// A body that is read piece by piece.
#[derive(Debug)]
pub(super) struct Source {
    body: Inner,
    gunzip: Option<Gunzip>,
    packed: Bytes,
    /// Bytes read and unpacked since the task last yielded.
    work: usize,
    most: u64,
    left: u64,
}

/// The reason that there is no next piece.
#[derive(Debug)]
pub(super) enum SourceError {
    /// More than the operation takes.
    TooLarge(u64),
    /// Not what its encoding says.
    Packed,
    Body(io::Error),
}

impl From<SourceError> for Refusal {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::TooLarge(most) => Self::TooLarge(most),
            SourceError::Packed => Self::Invalid("the body is not in gzip".to_owned()),
            SourceError::Body(_) => Self::Gone,
        }
    }
}

impl Source {
    /// `most` bounds what is unpacked, which is all that goes on.
    pub(super) fn new(headers: &HeaderMap, body: Inner, most: u64) -> Result<Self, Refusal> {
        let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
        let gunzip = match (encodings.next(), encodings.next()) {
            (None, _) => None,
            (Some(one), None) if one == "identity" => None,
            (Some(one), None) if one == "gzip" || one == "x-gzip" => Some(Gunzip::default()),
            _ => return Err(Refusal::Invalid("the body has an unknown encoding".to_owned())),
        };
        Ok(Self { body, gunzip, packed: Bytes::new(), work: 0, most, left: most })
    }

    /// The bytes that are still to come, if that is known.
    pub(super) fn length(&self) -> Option<u64> {
        if self.gunzip.is_some() { None } else { self.body.size_hint().exact() }
    }

    pub(super) async fn next(&mut self) -> Option<Result<Bytes, SourceError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Reads what is left, so that the client has sent all before it is answered.
    pub(super) async fn drain(&mut self) {
        while matches!(self.next().await, Some(Ok(_))) {}
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, SourceError>>> {
        loop {
            if let Some(gunzip) = &mut self.gunzip
                && !self.packed.is_empty()
            {
                if self.work >= MAX_WORK {
                    self.work = 0;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                let before = self.packed.len();
                let unpacked = gunzip.unpack(&mut self.packed);
                self.work += before - self.packed.len();
                match unpacked {
                    Ok(empty) if empty.is_empty() => continue,
                    Ok(bytes) => {
                        self.work += bytes.len();
                        return Poll::Ready(Some(self.count(bytes.into())));
                    }
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(SourceError::Body(error)))),
                None => {
                    let is_whole = self.gunzip.as_ref().is_none_or(Gunzip::is_over);
                    let error = (!is_whole).then_some(Err(SourceError::Packed));
                    return Poll::Ready(error);
                }
            };
            let Ok(data) = frame.into_data() else { continue };
            if self.gunzip.is_some() {
                self.packed = data;
            } else if !data.is_empty() {
                return Poll::Ready(Some(self.count(data)));
            }
        }
    }

    fn count(&mut self, bytes: Bytes) -> Result<Bytes, SourceError> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or(SourceError::TooLarge(self.most))?;
        Ok(bytes)
    }
}

/// As the body of a request, whose reader has a bound of its own.
impl http_body::Body for Source {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = ready!(self.get_mut().poll_next(context));
        Poll::Ready(next.map(|next| match next {
            Ok(bytes) => Ok(Frame::data(bytes)),
            Err(SourceError::Body(error)) => Err(error),
            Err(_) => Err(io::ErrorKind::InvalidData.into()),
        }))
    }

    fn size_hint(&self) -> SizeHint {
        self.length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Unpacks one member of gzip as git writes it. Its check sum is not looked at: all of it goes on
/// unpacked, and packs have one of their own.
#[derive(Debug)]
struct Gunzip {
    head: Vec<u8>,
    inflate: Decompress,
    is_inflated: bool,
    end: usize,
}

impl Default for Gunzip {
    fn default() -> Self {
        let inflate = Decompress::new(false);
        Self { head: Vec::with_capacity(HEAD), inflate, is_inflated: false, end: 0 }
    }
}

impl Gunzip {
    fn is_over(&self) -> bool {
        self.is_inflated && self.end == END
    }

    /// Unpacks one piece, which may leave some of `packed` for the next.
    fn unpack(&mut self, packed: &mut Bytes) -> Result<Vec<u8>, SourceError> {
        let missing = packed.len().min(HEAD - self.head.len());
        self.head.extend_from_slice(packed.get(..missing).unwrap_or_default());
        packed.advance(missing);
        if self.head.len() == HEAD && !self.head.starts_with(&[0x1f, 0x8b, 8, 0]) {
            return Err(SourceError::Packed);
        }
        let mut unpacked = Vec::new();
        while !packed.is_empty() && !self.is_inflated && unpacked.len() < PIECE {
            let taken = inflate(&mut self.inflate, packed, &mut unpacked)?;
            self.is_inflated = taken.is_end;
            packed.advance(taken.bytes);
        }
        if self.is_inflated {
            self.end += packed.len();
            packed.clear();
        }
        // Servers do not agree on what follows the end.
        if self.end > END { Err(SourceError::Packed) } else { Ok(unpacked) }
    }
}

/// One step of [`inflate`].
pub(super) struct Taken {
    pub(super) bytes: usize,
    pub(super) is_end: bool,
}

/// Inflates some of `packed` onto `unpacked`.
pub(super) fn inflate(
    inflate: &mut Decompress,
    packed: &[u8],
    unpacked: &mut Vec<u8>,
) -> Result<Taken, SourceError> {
    unpacked.reserve(32 << 10);
    let (before, written) = (inflate.total_in(), unpacked.len());
    let status = inflate.decompress_vec(packed, unpacked, FlushDecompress::None);
    let status = status.map_err(|_| SourceError::Packed)?;
    let bytes = usize::try_from(inflate.total_in() - before).map_err(|_| SourceError::Packed)?;
    let is_end = status == Status::StreamEnd;
    // Without progress it would never end.
    if bytes == 0 && unpacked.len() == written && !is_end {
        return Err(SourceError::Packed);
    }
    Ok(Taken { bytes, is_end })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    async fn read(body: Vec<u8>, most: u64) -> Result<Vec<u8>, SourceError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, "gzip".parse().unwrap());
        let mut source = Source::new(&headers, Inner::Whole(body.into()), most).unwrap();
        let mut all = Vec::new();
        while let Some(piece) = source.next().await {
            all.extend_from_slice(&piece?);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn gzip_is_unpacked() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(read(packed(&text), 1 << 20).await.unwrap(), text);
        assert_eq!(read(packed(b""), 10).await.unwrap(), b"");
    }

    /// GW-28/gzip: few bytes that become many, and bytes behind the end.
    #[tokio::test]
    async fn what_is_unpacked_is_bounded() {
        let bomb = packed(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000);
        assert!(matches!(read(bomb, 1 << 20).await, Err(SourceError::TooLarge(_))));
        let mut more = packed(b"0000");
        more.extend_from_slice(&packed(b"0000"));
        assert!(matches!(read(more, 100).await, Err(SourceError::Packed)));
        let mut cut = packed(b"0000");
        cut.pop();
        assert!(matches!(read(cut, 100).await, Err(SourceError::Packed)));
        assert!(matches!(read(b"0000".to_vec(), 100).await, Err(SourceError::Packed)));
    }

    /// GW-28/turns: few bytes that become many leave other tasks their turn.
    #[test]
    fn unpacking_yields() {
        const SIZE: usize = 64 << 20;
        let bomb = packed(&vec![0; SIZE]);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, "gzip".parse().unwrap());
        let mut source = Source::new(&headers, Inner::Whole(bomb.into()), u64::MAX).unwrap();
        let mut context = Context::from_waker(std::task::Waker::noop());
        let (mut sum, mut turns) = (0, 0);
        loop {
            match source.poll_next(&mut context) {
                Poll::Ready(Some(piece)) => {
                    let piece = piece.unwrap();
                    assert!(piece.len() <= 2 * PIECE);
                    sum += piece.len();
                }
                Poll::Ready(None) => break,
                Poll::Pending => turns += 1,
            }
        }
        assert_eq!(sum, SIZE);
        assert!(turns >= 32, "{turns}");
    }

    #[test]
    fn other_encodings_are_refused() {
        for encoding in ["br", "gzip, gzip", "deflate"] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_ENCODING, encoding.parse().unwrap());
            assert!(Source::new(&headers, Inner::Empty, 1).is_err(), "{encoding}");
        }
    }
}

//! Bodies in chunks.

use super::*;

/// What is in a body, and how many of the bytes are it.
fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, bool), BadChunk> {
    let mut chunked = Chunked::default();
    let (mut data, mut used) = (vec![], 0);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() && !chunked.is_done() {
            let progress = chunked.advance(rest)?;
            data.extend_from_slice(&rest[progress.skip..progress.skip + progress.data]);
            used += progress.skip + progress.data;
            rest = &rest[progress.skip + progress.data..];
            assert_eq!(progress.done, chunked.is_done());
        }
    }
    Ok((data, used, chunked.is_done()))
}

#[test]
fn a_body_is_put_together_however_it_arrives() {
    let next = "GET / HTTP/1.1\r\n";
    for (text, want) in [
        ("0\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "hello!"),
        ("00A\r\n0123456789\r\n000\r\n\r\n", "0123456789"),
        ("a;x=\"y z\";q\r\n0123456789\r\n0;last\r\n\r\n", "0123456789"),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
        ("1\r\na\r\n0\r\nX-Sum: 1\r\nX-Other:\r\n\r\n", "a"),
    ] {
        for rest in ["", next] {
            let whole = format!("{text}{rest}");
            for pieces in splits(whole.as_bytes()) {
                let want = (want.as_bytes().to_vec(), text.len(), true);
                assert_eq!(decode(&pieces), Ok(want), "{pieces:?}");
            }
        }
    }
}

#[test]
fn an_unfinished_body_is_not_done() {
    let whole = b"5;x\r\nhello\r\n0\r\nA: b\r\n\r\n";
    for end in 0..whole.len() {
        let (_, used, done) = decode(&[&whole[..end]]).unwrap();
        assert_eq!((used, done), (end, false));
    }
}

#[test]
fn bodies_with_two_readings_are_refused_however_they_arrive() {
    let long_size = "f".repeat(16);
    let trailer = BadChunk::Trailer;
    for (text, want) in [
        ("\r\n", BadChunk::Size),
        (";x\r\n", BadChunk::Size),
        (" 5\r\nhello", BadChunk::Size),
        ("5 \r\nhello", BadChunk::Size),
        ("5 ;x\r\nhello", BadChunk::Size),
        ("+5\r\nhello", BadChunk::Size),
        ("-1\r\nhello", BadChunk::Size),
        ("0x5\r\nhello", BadChunk::Size),
        ("5_0\r\nhello", BadChunk::Size),
        ("g\r\n", BadChunk::Size),
        ("5\nhello", BadChunk::Size),
        (&long_size, BadChunk::Size),
        ("0000000000000005\r\nhello", BadChunk::Size),
        ("5\rhello", BadChunk::End),
        ("5\r\r\nhello", BadChunk::End),
        ("5\r\nhello0\r\n\r\n", BadChunk::End),
        ("5\r\nhello\n0\r\n\r\n", BadChunk::End),
        ("5\r\nhello\r0\r\n\r\n", BadChunk::End),
        ("5\r\nhello!\r\n0\r\n\r\n", BadChunk::End),
        ("5;a\nb\r\nhello", BadChunk::Extension),
        ("5;a\0\r\nhello", BadChunk::Extension),
        ("5;\u{e9}\r\nhello", BadChunk::Extension),
        ("5;a\rb\r\nhello", BadChunk::End),
        ("0\r\n\n", trailer(Malformed::LineEnd)),
        ("0\r\n\r\r\n", trailer(Malformed::LineEnd)),
        ("0\r\nA: b\n\r\n", trailer(Malformed::LineEnd)),
        ("0\r\nA: b\rc\r\n\r\n", trailer(Malformed::LineEnd)),
        ("0\r\nA : b\r\n\r\n", trailer(Malformed::FieldName)),
        ("0\r\nA: b\r\n c\r\n\r\n", trailer(Malformed::Fold)),
        ("0\r\nGET / HTTP/1.1\r\n\r\n", trailer(Malformed::FieldName)),
        ("0\r\nA: \0\r\n\r\n", trailer(Malformed::Control)),
    ] {
        for pieces in splits(text.as_bytes()) {
            assert_eq!(decode(&pieces), Err(want), "{pieces:?}");
        }
    }
}

#[test]
fn what_is_not_data_is_bounded() {
    let extension = |size: usize| format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(size));
    assert!(decode(&[extension(4 << 10).as_bytes()]).is_ok());
    let refused = decode(&[extension((4 << 10) + 1).as_bytes()]);
    assert_eq!(refused, Err(BadChunk::Extension));
    // The bound is the body's, not the chunk's.
    let many = "1;xyz\r\na\r\n".repeat(2000);
    assert_eq!(decode(&[many.as_bytes()]), Err(BadChunk::Extension));
    let trailers = format!("0\r\n{}\r\n", "A: bcd\r\n".repeat(1100));
    assert_eq!(decode(&[trailers.as_bytes()]), Err(BadChunk::LongTrailer));
    let fields = format!("0\r\n{}\r\n", "A: b\r\n".repeat(MOST_FIELDS + 1));
    let refused = decode(&[fields.as_bytes()]);
    assert_eq!(refused, Err(BadChunk::Trailer(Malformed::TooManyFields)));
}

#[test]
fn what_is_written_can_be_read() {
    for length in [1, 9, 10, 15, 16, 255, 4096, 45_056, 1 << 20] {
        let data = vec![b'x'; length];
        let head = chunk_head(length);
        assert_eq!(&*head, format!("{length:x}\r\n").as_bytes());
        let body = [&*head, &data, CHUNK_END, LAST_CHUNK].concat();
        assert_eq!(decode(&[&body]), Ok((data, body.len(), true)));
    }
    assert_eq!(&*chunk_head(usize::MAX), b"ffffffffffffffff\r\n");
    assert_eq!(&*chunk_head(0), b"0\r\n");
}

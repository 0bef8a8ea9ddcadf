//! Reading requests.
//!
//! The JSON is that of protocol buffers: names in camel case or as in the
//! schema, `null` means absent, numbers may be strings, bytes are base64 of
//! either alphabet, and what is unknown is ignored.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{Buf as _, BytesMut};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Deserializer};
use serde_json::Value;

use super::{COMPRESSED, Code, END, Error, LARGEST, MESSAGE};

/// For how long, and how far, a request is read on after all that is wanted of it.
const REST: Duration = Duration::from_secs(30);
const MOST_REST: usize = 1 << 20;

/// The one message of a unary call.
pub(crate) async fn unary<T: DeserializeOwned>(body: Body) -> Result<T, Error> {
    let bytes = axum::body::to_bytes(body, LARGEST).await;
    let bytes = bytes.map_err(|error| match error.into_inner().downcast_ref() {
        Some(http_body_util::LengthLimitError { .. }) => too_large(),
        None => Error::invalid("the request could not be read to its end"),
    })?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return decode(b"{}");
    }
    decode(&bytes)
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let wrong = |error| Error::invalid(format!("cannot read the message: {error}"));
    let mut value: Value = serde_json::from_slice(bytes).map_err(wrong)?;
    // Serde would take a list for a message, field by field.
    if !value.is_object() {
        return Err(Error::invalid("cannot read the message: it is no object"));
    }
    drop_nulls(&mut value);
    serde_json::from_value(value).map_err(wrong)
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn too_large() -> Error {
    let message = format!("a message has at most {LARGEST} bytes");
    Error::new(Code::ResourceExhausted, message)
}

/// Messages of a stream, as they arrive.
pub(crate) struct Messages {
    body: BodyDataStream,
    buffer: BytesMut,
}

impl Messages {
    pub(crate) fn new(body: Body) -> Self {
        Self { body: body.into_data_stream(), buffer: BytesMut::new() }
    }

    /// The next message; `None` at the end.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        if !self.fill(5).await? {
            return Ok(None);
        }
        let flag = self.buffer.get_u8();
        let length = self.buffer.get_u32() as usize;
        if length > LARGEST {
            return Err(too_large());
        }
        if !self.fill(length).await? {
            return Err(Error::invalid("the stream ended in the middle of a message"));
        }
        let message = self.buffer.split_to(length);
        match flag {
            MESSAGE => decode(&message).map(Some),
            END => Ok(None),
            flag if flag & COMPRESSED != 0 => {
                Err(Error::new(Code::Unimplemented, "messages must not be compressed"))
            }
            _ => Err(Error::invalid("an envelope has a flag that means nothing")),
        }
    }

    /// The only message of a request that has one.
    ///
    /// The rest of the request, which may be nothing but its end, is read by and by. A
    /// connection is closed when an answer ends before its request does; what then still
    /// comes resets it, and the client loses what it has not read yet.
    pub(crate) async fn only<T: DeserializeOwned>(mut self) -> Result<T, Error> {
        let message = self.next().await?;
        let message = message.ok_or_else(|| Error::invalid("the request has no message"))?;
        tokio::spawn(tokio::time::timeout(REST, self.read_out()));
        Ok(message)
    }

    async fn read_out(mut self) {
        let mut left = MOST_REST;
        while let Some(Ok(bytes)) = self.body.next().await {
            left = match left.checked_sub(bytes.len()) {
                Some(left) => left,
                None => return,
            };
        }
    }

    /// Reads on until so many bytes are there; `false`: nothing more came.
    async fn fill(&mut self, count: usize) -> Result<bool, Error> {
        while self.buffer.len() < count {
            match self.body.next().await {
                Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                Some(Err(_)) => {
                    return Err(Error::invalid("the request could not be read to its end"));
                }
                None if self.buffer.is_empty() => return Ok(false),
                None => {
                    return Err(Error::invalid("the stream ended in the middle of a message"));
                }
            }
        }
        Ok(true)
    }
}

/// A number, or a string of its digits.
pub(crate) fn number<'de, D: Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    let wrong = serde::de::Error::custom;
    match Value::deserialize(input)? {
        Value::String(digits) => digits.parse().map_err(|_| wrong("this is no number")),
        value => {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(|| wrong("this is no number"))
        }
    }
}

pub(crate) fn bytes<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<u8>>, D::Error> {
    let text = String::deserialize(input)?;
    let standard: String = text
        .trim_end_matches('=')
        .chars()
        .map(|letter| match letter {
            '-' => '+',
            '_' => '/',
            other => other,
        })
        .collect();
    let decoded = STANDARD_NO_PAD.decode(standard);
    decoded.map(Some).map_err(|_| serde::de::Error::custom("this is not base64"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Sample {
        #[serde(deserialize_with = "number")]
        pid: u32,
        #[serde(deserialize_with = "bytes")]
        stdin: Option<Vec<u8>>,
        #[serde(alias = "watcher_id", rename = "watcherId")]
        watcher_id: String,
    }

    #[test]
    fn json_is_read_as_protocol_buffers_write_it() {
        let sample: Sample = decode(br#"{"pid":"7","stdin":"_-8=","watcher_id":"w"}"#).unwrap();
        let want = Sample { pid: 7, stdin: Some(vec![0xff, 0xef]), watcher_id: "w".into() };
        assert_eq!(sample, want);
        let sample: Sample = decode(br#"{"pid":7,"watcherId":"w","new":{"x":null}}"#).unwrap();
        assert_eq!((sample.pid, sample.watcher_id.as_str()), (7, "w"));
        assert_eq!(decode::<Sample>(br#"{"pid":null,"stdin":null}"#).unwrap(), Sample::default());
        for wrong in ["", "[]", r#"{"pid":-1}"#, r#"{"pid":"x"}"#, r#"{"stdin":"*"}"#] {
            assert!(decode::<Sample>(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    fn body(chunks: &[&'static [u8]]) -> Body {
        let chunks: Vec<_> = chunks.iter().map(|chunk| Ok::<_, Infallible>(*chunk)).collect();
        Body::from_stream(stream::iter(chunks))
    }

    #[tokio::test]
    async fn messages_are_read_however_they_are_cut() {
        let chunks: [&[u8]; 4] = [b"\0\0", b"\0\0\x09{\"pid\"", b":3}\0\0\0\0\x02", b"{}"];
        let mut messages = Messages::new(body(&chunks));
        let first: Sample = messages.next().await.unwrap().unwrap();
        assert_eq!(first.pid, 3);
        assert_eq!(messages.next::<Sample>().await.unwrap(), Some(Sample::default()));
        assert_eq!(messages.next::<Sample>().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_request_that_ends_after_its_answer_does_not_end_the_connection() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        let answer = async |body: Body| match Messages::new(body).only::<Sample>().await {
            Ok(sample) => sample.pid.to_string(),
            Err(error) => error.message,
        };
        let router = axum::Router::new().route("/", axum::routing::post(answer));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(axum::serve(listener, router).into_future());
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        for pid in ["3", "4"] {
            let head = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
            let message = format!("e\r\n\0\0\0\0\x09{{\"pid\":{pid}}}\r\n");
            client.write_all(format!("{head}{message}").as_bytes()).await.unwrap();
            let mut said = Vec::new();
            while !said.ends_with(format!("\r\n\r\n{pid}").as_bytes()) {
                let count = client.read_buf(&mut said).await.unwrap();
                assert_ne!(count, 0, "{}", String::from_utf8_lossy(&said));
            }
            // Only now the request ends.
            client.write_all(b"0\r\n\r\n").await.unwrap();
        }
    }

    #[tokio::test]
    async fn what_is_cut_short_too_long_or_compressed_is_refused() {
        for (bytes, code) in [
            (&b"\0\0\0\0\x09{}"[..], Code::InvalidArgument),
            (b"\0\0", Code::InvalidArgument),
            (b"\0\xff\xff\xff\xff", Code::ResourceExhausted),
            (b"\x01\0\0\0\x02{}", Code::Unimplemented),
            (b"\x08\0\0\0\x02{}", Code::InvalidArgument),
        ] {
            let mut messages = Messages::new(body(&[bytes]));
            let error = messages.next::<Sample>().await.unwrap_err();
            assert_eq!(error.code, code, "{bytes:?}");
        }
    }
}

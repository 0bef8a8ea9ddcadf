//! Requests, read leniently: what comes through a gateway is looked at as it is.

use anyhow::{Context as _, bail};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::Asked;
use crate::record::digest;
use crate::script::holds;

const MAX_HEAD: usize = 1 << 20;
const MAX_BODY: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) struct Head {
    raw: Vec<u8>,
    method: String,
    target: String,
    version: String,
    fields: Vec<(String, String)>,
}

impl Head {
    /// Reads up to the empty line; `None` if the client said nothing more. What
    /// comes after it stays in `buffer`.
    pub(crate) async fn read(
        stream: &mut (impl AsyncRead + Unpin),
        buffer: &mut Vec<u8>,
    ) -> anyhow::Result<Option<Self>> {
        loop {
            if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let rest = buffer.split_off(end + 4);
                let raw = std::mem::replace(buffer, rest);
                return Self::parse(raw).map(Some);
            }
            if buffer.len() > MAX_HEAD {
                bail!("the head never ends");
            }
            if stream.read_buf(buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn parse(raw: Vec<u8>) -> anyhow::Result<Self> {
        let text = String::from_utf8_lossy(&raw).into_owned();
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().splitn(3, ' ').map(str::to_owned);
        let mut word = || words.next().context("the first line is too short");
        let (method, target, version) = (word()?, word()?, word()?);
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let fields = lines.filter_map(field).collect();
        Ok(Self { raw, method, target, version, fields })
    }

    /// Reads the body that belongs to this head.
    pub(crate) async fn body(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
        buffer: &mut Vec<u8>,
    ) -> anyhow::Result<Vec<u8>> {
        if self.field("transfer-encoding").is_some() {
            return chunks(stream, buffer).await;
        }
        let length = self.field("content-length").map_or(Ok(0), str::parse::<u64>)?;
        take(stream, buffer, length).await
    }

    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The path, without the origin that a target of a proxy begins with.
    pub(crate) fn path(&self) -> &str {
        let target = match self.target.split_once("://") {
            Some((scheme, rest)) if !scheme.starts_with('/') => {
                rest.find('/').map_or("/", |at| &rest[at..])
            }
            _ => &self.target,
        };
        target.split('?').next().unwrap_or_default()
    }

    /// The path, or what it lies below where a name may follow.
    pub(crate) fn kind(&self) -> &str {
        let below =
            |kind: &&str| self.path().strip_prefix(*kind).is_some_and(|name| name.starts_with('/'));
        ["/echo", "/drip"].into_iter().find(below).unwrap_or_else(|| self.path())
    }

    /// Whether the client wants no other answer after this one.
    pub(crate) fn closes(&self) -> bool {
        self.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// The first and the last byte that are wanted, where a request says so plainly.
    pub(crate) fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.field("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }

    pub(crate) fn query(&self, key: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    pub(crate) fn number(&self, key: &str, default: u64) -> u64 {
        self.query(key).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    pub(crate) fn asked(&self, body: &[u8], watch: &[String]) -> Asked {
        let came =
            |text: &&String| holds(&self.raw, text.as_bytes()) || holds(body, text.as_bytes());
        Asked {
            method: self.method.clone(),
            target: self.target.clone(),
            version: self.version.clone(),
            headers: self.fields.iter().map(|(name, _)| name.clone()).collect(),
            body_bytes: body.len() as u64,
            body_digest: digest(body),
            watched: watch.iter().filter(came).cloned().collect(),
            ..Asked::default()
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

async fn chunks(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = line(stream, buffer).await?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).context("a chunk without a size")?;
        if size == 0 {
            while !self::line(stream, buffer).await?.is_empty() {}
            return Ok(body);
        }
        body.extend(take(stream, buffer, size).await?);
        take(stream, buffer, 2).await?;
    }
}

async fn line(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> anyhow::Result<String> {
    loop {
        if let Some(end) = buffer.windows(2).position(|window| window == b"\r\n") {
            let rest = buffer.split_off(end + 2);
            let line = std::mem::replace(buffer, rest);
            return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
        }
        if buffer.len() > MAX_HEAD || stream.read_buf(buffer).await? == 0 {
            bail!("a line without an end");
        }
    }
}

async fn take(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    length: u64,
) -> anyhow::Result<Vec<u8>> {
    let length = usize::try_from(length.min(MAX_BODY))?;
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            bail!("the body ends early");
        }
    }
    let rest = buffer.split_off(length);
    Ok(std::mem::replace(buffer, rest))
}

/// A plain answer.
pub(crate) fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

//! Checks a whole cassette.

use std::collections::HashMap;
use std::fmt;

use belljar_domain::network::CassetteId;
use serde::Serialize;

use crate::blob::BlobError;
use crate::index::{Asked, header};
use crate::json::Json;
use crate::pieces::Pieces;
use crate::redact::Form;
use crate::store::Tenant;
use crate::{Digest, StoreError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    pub exchanges: usize,
    /// Different ones.
    pub blobs: usize,
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Which exchange, from 0.
    pub number: usize,
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exchange {}: {}", self.number, self.what)
    }
}

impl Tenant {
    /// Reads everything that a cassette names. An index that cannot be read is
    /// an error; everything else is a problem of one exchange.
    pub fn verify(&self, name: &CassetteId) -> Result<Report, StoreError> {
        let _tenant = self.hold()?;
        let index = self.read(name)?;
        let mut checked = HashMap::new();
        let mut problems = Vec::new();
        for (number, entry) in index.entries.iter().enumerate() {
            let mut report = |what: String| problems.push(Problem { number, what });
            let mut is_sound = true;
            for blob in entry.blobs() {
                let found: &Option<String> = checked.entry(blob).or_insert_with(|| {
                    self.blobs.check(&blob).err().map(|error| error.to_string())
                });
                if let Some(what) = found {
                    is_sound = false;
                    report(what.clone());
                }
            }
            if !is_sound {
                continue;
            }
            if let Err(error) = Pieces::open(&entry.answer, &self.blobs) {
                report(error.to_string());
            }
            match self.is_honest(&entry.request) {
                Ok(true) => {}
                Ok(false) => report("the request is not what the index says of it".to_owned()),
                Err(error) => report(error.to_string()),
            }
        }
        Ok(Report { exchanges: index.entries.len(), blobs: checked.len(), problems })
    }

    /// Whether the index tells a request's canonical form as it is.
    pub(crate) fn is_honest(&self, asked: &Asked) -> Result<bool, BlobError> {
        let form = Form::of(header(&asked.headers, "content-type"));
        let Some(blob) = asked.body.filter(|_| form == Form::Json || asked.json.is_some()) else {
            return Ok(asked.json.is_none());
        };
        let body = self.blobs.get(&blob, self.limits.held_bytes as u64)?;
        let json = Json::parse(&body).filter(|_| form == Form::Json);
        Ok(json.map(|json| Digest::of(json.canonical().as_bytes())) == asked.json)
    }
}

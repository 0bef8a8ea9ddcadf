//! What the host writes down about a sandbox that it puts on disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use belljar_domain::Spec;
use belljar_guest_proto::GENERATION;
use serde::{Deserialize, Serialize};

use crate::context::{Context, ContextOptions};
use crate::copy::SaveError;
use crate::link::Link;
use crate::runtime::Language;

const NAME: &str = "record.json";
const VERSION: u16 = 1;

/// A record longer than this is none of ours.
const LONGEST: u64 = 16 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    version: u16,
    /// Of the guest that is in there.
    generation: u16,
    spec: Spec,
    /// Channels from this number on are new.
    pub(crate) next_channel: u32,
    pub(crate) contexts: Vec<Kept>,
}

/// A context whose interpreter is in the saved memory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) id: u32,
    pub(crate) channel: u32,
    #[serde(with = "by_name")]
    language: Language,
    interpreter: PathBuf,
    cwd: Option<String>,
    env: BTreeMap<String, String>,
    pub(crate) version: String,
    pub(crate) note: Option<String>,
}

impl Kept {
    pub(crate) fn new(context: &Context, channel: u32) -> Self {
        let ContextOptions { language, interpreter, cwd, env } = context.options().clone();
        let (version, note) = (context.facts().version, context.note());
        Self { id: context.id(), channel, language, interpreter, cwd, env, version, note }
    }

    pub(crate) fn options(&self) -> ContextOptions {
        let Self { language, interpreter, cwd, env, .. } = self.clone();
        ContextOptions { language, interpreter, cwd, env }
    }
}

impl Record {
    pub(crate) fn new(spec: &Spec, link: &Link, contexts: Vec<Kept>) -> Self {
        let next_channel = link.next_channel();
        Self {
            version: VERSION,
            generation: GENERATION,
            spec: spec.clone(),
            next_channel,
            contexts,
        }
    }

    /// Writes it safely to the disk: with it, the directory is complete.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        let mut file = File::create_new(dir.join(NAME))?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        File::open(dir)?.sync_all()
    }

    pub(crate) fn read(dir: &Path) -> Result<Self, SaveError> {
        let path = dir.join(NAME);
        let failed = |source| SaveError::Read { path: path.clone(), source };
        let not_one = || SaveError::NotACheckpoint { path: path.clone() };
        let found = std::fs::metadata(&path).map_err(failed)?.len();
        if found > LONGEST {
            return Err(not_one());
        }
        let text = std::fs::read(&path).map_err(failed)?;
        let record: Self = serde_json::from_slice(&text).map_err(|_| not_one())?;
        if record.version != VERSION {
            return Err(SaveError::Version { path, version: record.version });
        }
        if record.generation != GENERATION {
            return Err(SaveError::Guest { path, generation: record.generation });
        }
        Ok(record)
    }

    /// Returns true if it can come back as `spec`. Memory, disk and processors are as they
    /// were saved, and root gets no more rights; the rest may be changed.
    pub(crate) fn fits(&self, spec: &Spec, dir: &Path) -> Result<(), SaveError> {
        let shape = |spec: &Spec| {
            let limits = &spec.limits;
            (limits.memory_bytes, limits.disk_bytes, limits.cpu_millis)
        };
        let same = self.spec.tier == spec.tier
            && self.spec.root == spec.root
            && self.spec.disk == spec.disk
            && self.spec.data == spec.data
            && spec.profile <= self.spec.profile
            && shape(&self.spec) == shape(spec);
        if same { Ok(()) } else { Err(SaveError::Another { path: dir.to_owned() }) }
    }
}

mod by_name {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use crate::runtime::Language;

    pub(super) fn serialize<S: Serializer>(language: &Language, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(language.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Language, D::Error> {
        let name = String::deserialize(from)?;
        Language::named(&name).ok_or_else(|| D::Error::custom("an unknown language"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_domain::{Limits, RootFs, Tier};

    fn record() -> Record {
        let root = RootFs { layers: vec!["/layer".into()], binds: Vec::new() };
        let kept = Kept {
            id: 3,
            channel: 7,
            language: Language::JavaScript,
            interpreter: "/usr/bin/node".into(),
            cwd: None,
            env: BTreeMap::new(),
            version: "20".into(),
            note: Some("mine".into()),
        };
        Record {
            version: VERSION,
            generation: GENERATION,
            spec: Spec::new(Tier::GVISOR, root),
            next_channel: 9,
            contexts: vec![kept],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempdir();
        record().write(&dir).unwrap();
        let read = Record::read(&dir).unwrap();
        assert_eq!(read.contexts[0].options().language, Language::JavaScript);
        assert_eq!((read.next_channel, read.contexts[0].channel), (9, 7));
        assert!(record().write(&dir).is_err(), "a record is never written over");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn another_version_and_another_guest_are_refused() {
        for (version, generation) in [(VERSION + 1, GENERATION), (VERSION, GENERATION - 1)] {
            let dir = tempdir();
            Record { version, generation, ..record() }.write(&dir).unwrap();
            assert!(Record::read(&dir).is_err());
            std::fs::remove_dir_all(dir).unwrap();
        }
    }

    #[test]
    fn it_comes_back_as_what_it_was() {
        let (record, dir) = (record(), Path::new("/x"));
        assert!(record.fits(&record.spec, dir).is_ok());
        let weaker = Spec { tier: Tier::Jail, ..record.spec.clone() };
        assert!(record.fits(&weaker, dir).is_err());
        let limits = Limits { memory_bytes: 1 << 20, ..Limits::default() };
        assert!(record.fits(&Spec { limits, ..record.spec.clone() }, dir).is_err());
    }

    fn tempdir() -> PathBuf {
        let random: [u8; 8] = crate::random::bytes().unwrap();
        let name = format!("belljar-record-{:016x}", u64::from_le_bytes(random));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        dir
    }
}

//! Notifications about the words of models, between replicas of control.
//!
//! `NOTIFY` stores nothing, and a replica that is away misses what was said.

use belljar_domain::RunId;
use serde_json::{Value, json};
use sqlx::postgres::PgListener;

use crate::Store;
use crate::error::StoreError;

const CHANNEL: &str = "belljar_run_words";

/// A note of one replica to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordNote {
    /// The replica that sent it.
    pub origin: String,
    pub tenant: String,
    pub run: RunId,
    /// Turn, characters before, and words; none: the sender follows the run.
    pub said: Option<(u32, u64, String)>,
}

impl WordNote {
    fn to_text(&self) -> String {
        let said = self.said.as_ref();
        json!({
            "origin": self.origin,
            "tenant": self.tenant,
            "run": self.run.as_str(),
            "said": said.map(|(turn, from, text)| json!({ "turn": turn, "from": from, "text": text })),
        })
        .to_string()
    }

    /// None: another version wrote it, or something else did.
    fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let word = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let said = match value.get("said").filter(|said| !said.is_null()) {
            None => None,
            Some(said) => {
                let number = |name: &str| said.get(name).and_then(Value::as_u64);
                let text = said.get("text").and_then(Value::as_str)?;
                Some((u32::try_from(number("turn")?).ok()?, number("from")?, text.to_owned()))
            }
        };
        Some(Self {
            origin: word("origin")?,
            tenant: word("tenant")?,
            run: word("run")?.parse().ok()?,
            said,
        })
    }
}

impl Store {
    /// Sends a note to every replica that listens. It must fit into 8,000 bytes.
    pub async fn notify_words(&self, note: &WordNote) -> Result<(), StoreError> {
        sqlx::query("select pg_notify($1, $2)")
            .bind(CHANNEL)
            .bind(note.to_text())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Hears notes until the database cannot be reached. Takes one connection.
    pub async fn hear_words(&self, mut hear: impl FnMut(WordNote)) -> Result<(), StoreError> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen(CHANNEL).await?;
        loop {
            let heard = listener.recv().await?;
            if let Some(note) = WordNote::read(heard.payload()) {
                hear(note);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let follows = WordNote {
            origin: "1-a".into(),
            tenant: "acme".into(),
            run: RunId::from_bits([1; 16]),
            said: None,
        };
        let said = WordNote { said: Some((3, 7, "Grün\u{1}".into())), ..follows.clone() };
        for note in [follows, said] {
            assert_eq!(WordNote::read(&note.to_text()), Some(note));
        }
        assert_eq!(WordNote::read("{}"), None);
        assert_eq!(WordNote::read("hello"), None);
    }
}

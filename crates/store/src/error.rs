//! What can go wrong with the database itself.

/// Why a question was not answered, or a change may not have been made.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("invalid database address")]
    Url(#[source] sqlx::Error),
    #[error("database query failed")]
    Database(#[from] sqlx::Error),
    /// Two changes met; the same one again will do.
    #[error("conflict with a concurrent change")]
    Contended(#[source] sqlx::Error),
    #[error("there is no tenant `{0}`, or it is closed")]
    UnknownTenant(String),
    #[error("cannot seal a secret")]
    NotSealed,
    #[error("a row has the unknown value `{value}` for {what}")]
    Unreadable { what: &'static str, value: String },
}

impl StoreError {
    /// Whether the same request may be sent again at once.
    pub fn is_worth_repeating(&self) -> bool {
        matches!(self, Self::Contended(_))
    }

    /// Whether the tables are not there, or older than what was asked: somebody has
    /// to call [`crate::Store::migrate`] first.
    pub fn wants_migration(&self) -> bool {
        // PostgreSQL's undefined_table and undefined_column.
        let Self::Database(error) = self else { return false };
        let code = error.as_database_error().and_then(|error| error.code());
        matches!(code.as_deref(), Some("42P01" | "42703"))
    }

    /// Returns true if a text holds what PostgreSQL cannot store, such as U+0000.
    pub fn is_unstorable_text(&self) -> bool {
        // PostgreSQL's character_not_in_repertoire and untranslatable_character.
        let Self::Database(error) = self else { return false };
        let code = error.as_database_error().and_then(|error| error.code());
        matches!(code.as_deref(), Some("22021" | "22P05"))
    }

    /// Whether a value breaks a rule of its column, such as how names are written.
    pub fn breaks_a_rule(&self) -> bool {
        let Self::Database(error) = self else { return false };
        error.as_database_error().is_some_and(|error| error.is_check_violation())
    }
}

/// Why the tables are not what this version needs.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("the database was made by a newer version")]
    Newer(#[source] sqlx::migrate::MigrateError),
    #[error("the database schema was changed by another program")]
    Changed(#[source] sqlx::migrate::MigrateError),
    #[error("database migration failed")]
    Failed(#[source] sqlx::migrate::MigrateError),
}

/// Serialization failures and deadlocks are nobody's fault.
pub(crate) fn of(error: sqlx::Error) -> StoreError {
    let code =
        error.as_database_error().and_then(|error| error.code().map(|code| code.into_owned()));
    match code.as_deref() {
        Some("40001" | "40P01") => StoreError::Contended(error),
        _ => StoreError::Database(error),
    }
}

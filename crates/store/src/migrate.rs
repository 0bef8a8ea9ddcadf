//! Forward only: a migration that was released is never edited, and none undoes
//! another.

use std::borrow::Cow;

use sqlx::SqlStr;
use sqlx::migrate::{MigrateError as Cause, Migration, MigrationType, Migrator};
use sqlx::postgres::PgPool;

use crate::error::MigrateError;

const ALL: &[(i64, &str, &str)] = &[
    (1, "who", include_str!("../migrations/0001_who.sql")),
    (2, "where", include_str!("../migrations/0002_where.sql")),
    (3, "what", include_str!("../migrations/0003_what.sql")),
    (4, "platform", include_str!("../migrations/0004_platform.sql")),
    (5, "charges", include_str!("../migrations/0005_charges.sql")),
    (6, "runs", include_str!("../migrations/0006_runs.sql")),
    (7, "node identity", include_str!("../migrations/0007_node_identity.sql")),
    (8, "bounded charges", include_str!("../migrations/0008_bounded_charges.sql")),
    (9, "forgotten nodes", include_str!("../migrations/0009_forgotten_nodes.sql")),
    (10, "run figures", include_str!("../migrations/0010_run_figures.sql")),
    (11, "node limits", include_str!("../migrations/0011_node_limits.sql")),
    (12, "operation caps", include_str!("../migrations/0012_operation_caps.sql")),
    (13, "attributed rows", include_str!("../migrations/0013_attributed_rows.sql")),
    (14, "ledger", include_str!("../migrations/0014_ledger.sql")),
    (15, "budgets", include_str!("../migrations/0015_budgets.sql")),
    (16, "webhooks", include_str!("../migrations/0016_webhooks.sql")),
    (17, "run quotas", include_str!("../migrations/0017_run_quotas.sql")),
    (19, "workflows", include_str!("../migrations/0019_workflows.sql")),
    (20, "runs alive", include_str!("../migrations/0020_runs_alive.sql")),
    (21, "stored bytes", include_str!("../migrations/0021_stored_bytes.sql")),
    (22, "run indexes", include_str!("../migrations/0022_run_indexes.sql")),
    (24, "run approvals", include_str!("../migrations/0024_run_approvals.sql")),
    (25, "stored templates", include_str!("../migrations/0025_stored_templates.sql")),
    (26, "kept answers", include_str!("../migrations/0026_kept_answers.sql")),
];

pub(crate) async fn all(pool: &PgPool) -> Result<(), MigrateError> {
    let migrations = ALL.iter().map(|&(number, name, sql)| {
        Migration::new(
            number,
            Cow::Borrowed(name),
            MigrationType::Simple,
            SqlStr::from_static(sql),
            false,
        )
    });
    let migrator = Migrator::with_migrations(migrations.collect());
    migrator.run(pool).await.map_err(|error| match error {
        Cause::VersionMissing(_) | Cause::VersionTooNew(..) => MigrateError::Newer(error),
        Cause::VersionMismatch(_) | Cause::Dirty(_) => MigrateError::Changed(error),
        _ => MigrateError::Failed(error),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::ALL;

    /// Readers of a table would wait for an index that is built after it was altered: both locks
    /// last until the end of the migration.
    #[test]
    fn new_indexes_are_not_built_in_a_migration_that_alters_their_table() {
        for (number, _, sql) in ALL.iter().filter(|(number, ..)| *number >= 20) {
            let lines = || sql.lines().map(str::trim);
            let altered = lines().filter_map(|line| line.strip_prefix("alter table "));
            for table in altered.filter_map(|rest| rest.split_whitespace().next()) {
                let is_built = |line: &str| {
                    line.starts_with("create index") && line.contains(&format!(" on {table} "))
                };
                assert!(!lines().any(is_built), "migration {number} alters and indexes {table}");
            }
        }
    }

    /// A file that is not listed would never be run.
    #[test]
    fn every_file_is_listed_once_in_order() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let mut files = BTreeSet::new();
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "sql") {
                let name = path.file_name().unwrap().to_str().unwrap();
                let number: i64 = name.split('_').next().unwrap().parse().unwrap();
                files.insert((number, fs::read_to_string(&path).unwrap()));
            }
        }
        let listed: Vec<_> = ALL.iter().map(|(number, _, sql)| (*number, *sql)).collect();
        let files: Vec<_> = files.iter().map(|(number, sql)| (*number, sql.as_str())).collect();
        assert!(listed == files, "migrations/ and `ALL` differ");
    }
}

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

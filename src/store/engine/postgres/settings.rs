//! How an engine over PostgreSQL is opened.

use super::owner::Owner;
use super::url::PostgresUrl;

/// How an engine is opened.
pub struct PostgresSettings {
    /// Where the store is.
    pub url: PostgresUrl,
    /// The names of all tables.
    pub tables: Vec<&'static str>,
    /// The schema of its tables, which is created if there is none. `None` is the default of the
    /// user.
    pub schema: Option<String>,
    /// The text by which the key of the store is recognized. `None`: it is not compared, and a new
    /// store is not founded.
    pub key_check: Option<String>,
    /// Whether a store that is not founded is refused.
    pub must_exist: bool,
    /// What fills the store, which must be empty, or not completed by the same before. Nothing else
    /// can open it until [`Postgres::complete`](super::Postgres::complete). `None`: it is used.
    pub filling: Option<String>,
    /// Who owns the store while it is open: nobody else can write then. `None`: several engines
    /// write to it.
    pub owner: Option<Owner>,
    /// What is done wrong on purpose, to prove that a check would notice.
    pub control: Option<Control>,
}

impl PostgresSettings {
    /// Returns settings for these tables, without an owner.
    pub fn new(url: PostgresUrl, tables: Vec<&'static str>) -> Self {
        PostgresSettings {
            url,
            tables,
            schema: None,
            key_check: None,
            must_exist: false,
            filling: None,
            owner: None,
            control: None,
        }
    }
}

/// What an engine does wrong on purpose: the negative controls of the conformance suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Transactions are not validated at their commit.
    RepeatableRead,
    /// An attempt whose commit was not answered runs again, whatever became of that commit.
    RepeatUnanswered,
    /// The owner never changes its beat, as if it were paused.
    Silent,
}

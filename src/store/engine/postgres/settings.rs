//! How an engine over PostgreSQL is opened.

use super::membership::{Node, Owner};
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
    /// The text by which the key of the store is recognized. `None`: it is not compared, and no
    /// store is created.
    pub key_check: Option<String>,
    /// Whether a store that does not exist yet is refused.
    pub must_exist: bool,
    /// What fills the store, which must be empty, or not completed by the same before. Nothing else
    /// can open it until [`Postgres::complete`](super::Postgres::complete). `None`: it is used.
    pub filling: Option<String>,
    /// The node that this is of the store: it may have the lease, and is notified of the commits of other
    /// nodes.
    pub node: Option<Node>,
    /// Who has the store to itself while it is open: nobody else can write then.
    pub owner: Option<Owner>,
    /// What is done wrong on purpose, to prove that a check would notice.
    pub control: Option<Control>,
}

impl PostgresSettings {
    /// Returns settings for these tables, of neither a node nor an owner.
    pub fn new(url: PostgresUrl, tables: Vec<&'static str>) -> Self {
        PostgresSettings {
            url,
            tables,
            schema: None,
            key_check: None,
            must_exist: false,
            node: None,
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
    /// The heartbeat is never changed, as if the process were paused.
    Silent,
    /// Notifications of other nodes are ignored.
    Deaf,
    /// What other nodes have not notified of is not looked for.
    Blind,
    /// The heartbeat is never changed, and the background work goes on without the lease.
    Unfenced,
}

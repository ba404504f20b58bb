//! The flag `--store` of commands that also work on a store in PostgreSQL.

use clap::Args;

use super::common::Common;
use super::failure::Failure;
use super::output;
use super::serve_store::this_process;
use crate::app::shared_store::{SharedStore, key_outside};
use crate::store::engine::postgres::{Node, PostgresUrl};

/// The flag `--store`.
#[derive(Args, Clone)]
pub struct StoreFlag {
    /// A store in PostgreSQL, in place of a data directory: postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(long, value_name = "URL", env = "ROADSTEAD_STORE", hide_env_values = true)]
    store: Option<String>,
}

impl StoreFlag {
    /// Returns the URL, if it is given.
    pub fn url(&self) -> Result<Option<PostgresUrl>, Failure> {
        self.store.as_deref().map(super::store_check::url).transpose()
    }

    /// Opens the store to read it, while servers run or not, if it is given.
    pub fn open_to_read(&self, common: &Common) -> Result<Option<SharedStore>, Failure> {
        let Some(url) = self.url()? else { return Ok(None) };
        let key = key_outside(common.data_dir().key_source())?;
        Ok(Some(SharedStore::open_to_read(url, key, None, &output::progress)?))
    }

    /// Comes to the store as a server of this release does, beside those that run, if it is given.
    /// `what` says to others who that is.
    pub fn open(&self, common: &Common, what: &str) -> Result<Option<SharedStore>, Failure> {
        let Some(url) = self.url()? else { return Ok(None) };
        let key_source = common.data_dir().key_source().clone();
        let node = Node::new(env!("CARGO_PKG_VERSION"), &this_process(what)).without_lease();
        Ok(Some(SharedStore::open(url, &key_source, node, true, &output::progress)?))
    }
}

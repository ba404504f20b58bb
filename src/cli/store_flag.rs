//! The flag `--store` of commands that also work on a store in PostgreSQL. A program without it has no
//! such flag.

use clap::Args;

use super::common::Common;
use super::failure::Failure;
use crate::store::Store;

#[cfg(feature = "postgres")]
use super::{output, serve_store::this_process};
#[cfg(feature = "postgres")]
use crate::app::shared_store::{SharedStore, key_outside};
#[cfg(feature = "postgres")]
use crate::store::engine::postgres::{Node, PostgresUrl};

/// The flag `--store`.
#[derive(Args, Clone)]
pub struct StoreFlag {
    /// A store in PostgreSQL, in place of a data directory: postgres://USER:PASSWORD@HOST/DATABASE
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "URL", env = "ROADSTEAD_STORE", hide_env_values = true)]
    store: Option<String>,
}

#[cfg(feature = "postgres")]
impl StoreFlag {
    /// Returns the URL, if it is given.
    pub fn url(&self) -> Result<Option<PostgresUrl>, Failure> {
        self.store.as_deref().map(super::store_check::url).transpose()
    }

    /// Whether it is given.
    pub fn is_given(&self) -> Result<bool, Failure> {
        Ok(self.url()?.is_some())
    }

    /// Opens the store to read it, while servers run or not, if it is given.
    pub fn open_to_read(&self, common: &Common) -> Result<Option<Store>, Failure> {
        let Some(url) = self.url()? else { return Ok(None) };
        let key = key_outside(common.data_dir().key_source())?;
        Ok(Some(SharedStore::open_to_read(url, key, None, &output::progress)?.store))
    }

    /// Comes to the store as a server of this release does, beside those that run, if it is given.
    /// `what` says to others who that is.
    pub fn open(&self, common: &Common, what: &str) -> Result<Option<Store>, Failure> {
        let Some(url) = self.url()? else { return Ok(None) };
        let key_source = common.data_dir().key_source().clone();
        let node = Node::new(env!("CARGO_PKG_VERSION"), &this_process(what)).without_lease();
        Ok(Some(SharedStore::open(url, &key_source, node, true, &output::progress)?.store))
    }
}

#[cfg(not(feature = "postgres"))]
impl StoreFlag {
    /// Whether it is given.
    pub fn is_given(&self) -> Result<bool, Failure> {
        Ok(false)
    }

    /// There is none.
    pub fn open_to_read(&self, _: &Common) -> Result<Option<Store>, Failure> {
        Ok(None)
    }

    /// There is none.
    pub fn open(&self, _: &Common, _: &str) -> Result<Option<Store>, Failure> {
        Ok(None)
    }
}

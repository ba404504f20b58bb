//! The installation that a command works on, while its server runs or not: a data directory, or a store
//! in PostgreSQL.

use clap::Args;

use super::common::{Common, init_logging};
use super::failure::Failure;
use super::store_flag::StoreFlag;
use crate::app::DataDir;
use crate::app::control::{self, ControlResponse, Request};
use crate::store::Store;

/// Flags that name it.
#[derive(Args)]
pub struct Installation {
    #[command(flatten)]
    pub store: StoreFlag,

    #[command(flatten)]
    pub common: Common,
}

impl Installation {
    /// Initializes logging to stderr.
    pub fn init_logging(&self) {
        init_logging(&self.common);
    }

    /// Whether to print JSON.
    pub fn json(&self) -> bool {
        self.common.json
    }

    /// The data directory, which may not exist.
    pub fn data_dir(&self) -> DataDir {
        self.common.data_dir()
    }

    /// The data directory.
    ///
    /// # Errors
    /// There is none.
    pub fn existing_dir(&self) -> Result<DataDir, Failure> {
        let dir = self.data_dir();
        dir.require_exists()?;
        Ok(dir)
    }

    /// Opens the store in PostgreSQL to read it, if one is named.
    pub fn shared_to_read(&self) -> Result<Option<Store>, Failure> {
        self.store.open_to_read(&self.common)
    }

    /// Has the running server do something, or does it in its place; over PostgreSQL beside it. `what` says
    /// to other servers who that is, and `expected` takes the reply.
    pub fn have_done<T, E>(
        &self,
        what: &str,
        request: &Request,
        expected: impl FnOnce(ControlResponse) -> Option<T>,
        here: impl FnOnce(&Store) -> Result<T, E>,
    ) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        if let Some(store) = self.store.open(&self.common, what)? {
            let done = here(&store);
            store.close();
            return Ok(done?);
        }
        let dir = self.existing_dir()?;
        match asked(&dir, request, &mut |_| {}, expected)? {
            Some(done) => Ok(done),
            None => Ok(here(&dir.open()?)?),
        }
    }
}

/// Asks the server that runs over a data directory, which may send parts before its reply; `None` if none
/// runs.
///
/// # Errors
/// What the server says, or its reply is not the expected one.
pub fn asked<T>(
    dir: &DataDir,
    request: &Request,
    part: &mut dyn FnMut(ControlResponse),
    expected: impl FnOnce(ControlResponse) -> Option<T>,
) -> Result<Option<T>, Failure> {
    match control::ask(dir, request, part).map_err(Failure::io("the control socket"))? {
        None => Ok(None),
        Some(ControlResponse::Failed(why)) => Err(Failure::Failed(why)),
        Some(reply) => expected(reply).map(Some).ok_or_else(Failure::unexpected_reply),
    }
}

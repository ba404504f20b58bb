//! What a running server says about itself, for `roadstead doctor` and `roadstead config show`.

use serde::{Deserialize, Serialize};

use crate::api::SystemTls;
use crate::base::{Id, Result, Time};
use crate::resources::organizations;
use crate::resources::organizations::moving::unfinished_import;
use crate::store::{KnownDamage, Store};

/// Where the value of a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingSource {
    /// A flag on the command line.
    Flag,
    /// An environment variable.
    Variable,
    Default,
    /// It has no value.
    Unset,
}

/// A setting of `roadstead serve`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    pub flag: String,
    /// Its environment variable.
    pub variable: Option<String>,
    /// Its value, several separated by commas; of a secret only that there is one.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: SettingSource,
}

/// What was known of a server when it started.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Startup {
    pub version: String,
    pub settings: Vec<Setting>,
    /// How many files it may open.
    pub open_files: u64,
}

/// What a server says about itself.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    /// What was known when it started.
    pub startup: Startup,
    /// What its store says.
    pub store: StoreStatus,
    /// Panics since the start; a server of an earlier version does not count them.
    #[serde(default)]
    pub panics: u64,
    /// Its certificate, if it speaks TLS.
    #[serde(default)]
    pub tls: Option<SystemTls>,
}

/// What a store says about itself.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreStatus {
    /// Whether there is an organization.
    pub is_set_up: bool,
    /// The time of the newest id that is known to be stored.
    pub newest_id_at: Option<Time>,
    /// The slug of the organization whose import is not finished.
    pub unfinished_import: Option<String>,
    /// Damage that was found since the store was opened.
    #[serde(default)]
    pub damage: Option<KnownDamage>,
}

/// Returns what a store says about itself.
pub fn store_status(store: &Store) -> Result<StoreStatus> {
    Ok(StoreStatus {
        is_set_up: store.read_now(Id::NIL, organizations::has_any_user)?,
        newest_id_at: store.newest_id_at()?,
        unfinished_import: store.read_now(Id::NIL, unfinished_import)?.map(|slug| slug.to_string()),
        damage: store.known_damage(),
    })
}

//! How the product is offered: routes, typed requests, lists, and the document made from them.

mod action;
mod calls;
mod extra;
pub mod ledger;
pub mod openapi;
pub mod read;
mod request;
mod route;
mod scope;
mod special;

pub use action::{
    Action, Answer, Bound, CallingRead, CallingWrite, HashAction, Look, Reading, Taken, TakenPart,
    WaitAction, WatchAction, Watched, Work, Writing,
};
pub use calls::{Asked, Calls, Known, Outcome, Search};
pub use extra::OrgRequired;
pub use read::Input;
pub use request::{At, Empty, OrgSlug, Parts, PathPart, Raw, Removed, Req, Who};
pub use route::{Method, Route, Shape};
pub use scope::{Locate, Named, Place, Scope};

use crate::outbox::{Job, Sweep};
use crate::store::TableInfo;

/// What a resource brings: everything about it is registered by this one value.
pub struct Resource {
    /// Its routes.
    pub routes: fn() -> Vec<Route>,
    /// Its tables.
    pub tables: &'static [TableInfo],
    /// What it does after a commit.
    pub jobs: &'static [Job],
    /// What it does again and again.
    pub sweeps: &'static [Sweep],
}

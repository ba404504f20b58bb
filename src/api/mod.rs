//! How the product is offered: routes, typed requests, lists, and the document made from them.

mod action;
mod calls;
mod extra;
pub mod ledger;
pub mod openapi;
pub mod read;
mod request;
mod resource;
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
pub use resource::{Check, Metric, Resource};
pub use route::{Method, Route, Shape};
pub use scope::{Locate, Named, Place, Scope};

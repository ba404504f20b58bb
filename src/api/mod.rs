//! How the product is offered: routes, typed requests, lists, the document made from them, and
//! their execution for a caller.

mod action;
mod calls;
pub mod execute;
mod extra;
pub mod ledger;
pub mod op;
pub mod openapi;
mod output;
pub mod read;
mod request;
mod resource;
mod route;
mod scope;

pub use action::{
    Action, Bound, CallTime, ConditionalWaitAction, ContentVersion, DownloadAction, HashAction,
    Look, Offset, Piece, Reading, Taken, TakenPage, WaitAction, Work, Writing,
};
pub use calls::{Asked, Calls, Known, Outcome, Search};
pub use extra::OrgRequired;
pub use output::{Answer, Deleted, Empty, Output, ResourceRef};
pub use read::Input;
pub use request::{Args, PathParam, PathParams, Raw, Req, Who};
pub use resource::{Check, Metric, Resource};
pub use route::{Method, Route};
pub use scope::{Locate, OrgHint, OrgSlugMode, Place, Scope};

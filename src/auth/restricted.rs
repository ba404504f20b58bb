//! What may be restricted to admins and whoever has a grant
//! (reference: identity-and-rights, "Restricted resources").
//!
//! Such a thing is stored as [`Restricted`], and so comes out of the store closed: it is opened for
//! a caller, or shown in a list that leaves out what they may not see. A check cannot be forgotten.

use std::collections::BTreeSet;

use bincode::{Decode, Encode};

use super::access::{Access, Caller};
use super::records::{GRANTS_BY_RESOURCE, Grant, Granted, ResourceType};
use crate::base::{Error, Id, Result};
use crate::store::{Key, Order, Page, PageRequest, Record, Reference, Source, View};

/// What may be restricted.
pub trait Restrictable: Clone + Send + Sync + 'static {
    /// What grants call its kind.
    const KIND: ResourceType;
    /// Its id.
    fn id(&self) -> Id<Self>;
    /// Who may use it.
    fn access(&self) -> Access;
    /// Whether anybody may read it, without a credential.
    fn is_public(&self) -> bool {
        false
    }
}

/// Something that has to be opened for a caller.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Restricted<T>(T);

impl<T: Restrictable> Restricted<T> {
    /// As it is stored.
    pub fn new(thing: T) -> Self {
        Restricted(thing)
    }

    /// Its id.
    pub fn id(&self) -> Id<T> {
        self.0.id()
    }

    /// Whether anybody may read it, without a credential.
    pub fn is_public(&self) -> bool {
        self.0.is_public()
    }

    /// Opens it for the use of a member. Admins may use everything.
    ///
    /// # Errors
    /// 403 if it is restricted and the caller has no grant.
    pub fn open(self, view: &View, caller: &Caller) -> Result<T> {
        caller.require_access(view, T::KIND, self.id().cast(), self.0.access())?;
        Ok(self.0)
    }

    /// The same; none if the caller may not use it.
    ///
    /// # Errors
    /// If the store fails.
    pub fn open_if_usable(self, view: &View, caller: &Caller) -> Result<Option<T>> {
        let usable = caller.may_use(view, T::KIND, self.id().cast(), self.0.access())?;
        Ok(usable.then_some(self.0))
    }

    /// Opens it to be read: a public one by anybody.
    ///
    /// # Errors
    /// As [`open`](Self::open); 404 for somebody who is not of its organization.
    pub fn open_to_read(self, view: &View, caller: Option<&Caller>) -> Result<T> {
        match caller {
            _ if self.is_public() => Ok(self.0),
            Some(caller) => self.open(view, caller),
            None => Err(Error::not_found()),
        }
    }

    /// What is in it, for indexes, jobs and upkeep: nobody is shown what comes of it.
    pub fn without_caller(&self) -> &T {
        &self.0
    }
}

/// The grants for such a thing, which go with it.
pub const fn grants_for<T: Restrictable>() -> Reference<Grant, Restricted<T>>
where
    Restricted<T>: Record,
{
    Reference::cascade(
        &["resource_id"],
        |thing: &Restricted<T>| (T::KIND, thing.id()).to_bytes(),
        |grant: &Grant, _| {
            let is_one = grant.resource_type == T::KIND;
            is_one.then(|| grant.resource_id.to_bytes()).into_iter().collect()
        },
    )
    .by(&GRANTS_BY_RESOURCE)
    .deferred()
}

/// Which things of a kind a caller may hear of: those they may use, and public ones.
struct Visible {
    is_admin: bool,
    granted: BTreeSet<Id<Granted>>,
}

impl Visible {
    fn to<T: Restrictable>(view: &View, caller: &Caller) -> Result<Self> {
        Ok(Visible { is_admin: caller.is_admin(), granted: caller.granted(view, T::KIND)? })
    }

    fn has<T: Restrictable>(&self, thing: &T) -> bool {
        self.is_admin
            || thing.access() == Access::Organization
            || thing.is_public()
            || self.granted.contains(&thing.id().cast())
    }
}

/// PageRequest of the list of things that a caller may hear of, those that `wanted` wants, newest first.
///
/// # Errors
/// 400 for a position of another list, or if the store fails.
pub fn visible_page<T: Restrictable>(
    view: &View,
    caller: &Caller,
    part: &PageRequest,
    wanted: impl Fn(&T) -> bool,
) -> Result<Page<T>>
where
    Restricted<T>: Record,
{
    let visible = Visible::to::<T>(view, caller)?;
    let keep = |Restricted(thing): &Restricted<T>| wanted(thing) && visible.has(thing);
    let page = view.page(Source::TABLE, &(), Order::Descending, part, keep)?;
    Ok(page.map(|Restricted(thing)| thing))
}

/// The ids of all things that a caller may hear of, for lists of what belongs to them. There must
/// be few of their kind.
///
/// # Errors
/// If the store fails.
pub fn visible_ids<T: Restrictable>(view: &View, caller: &Caller) -> Result<BTreeSet<Id<T>>>
where
    Restricted<T>: Record,
{
    let visible = Visible::to::<T>(view, caller)?;
    let all: Vec<Restricted<T>> = view.all(Source::TABLE, &())?;
    let all = all.into_iter().filter(|Restricted(thing)| visible.has(thing));
    Ok(all.map(|thing| thing.id()).collect())
}

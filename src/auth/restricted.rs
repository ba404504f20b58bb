//! Resources that can be restricted to admins and users with a grant
//! (reference: identity-and-rights, "Restricted resources").
//!
//! Such a resource is stored as [`Restricted`] and can be read only by opening it for a caller, or
//! through a list filtered for one. So no operation can forget the check.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use bincode::{Decode, Encode};
use serde_json::Value;

use super::basis::{Access, AccessBasis};
use super::caller::Caller;
use super::records::{GRANTS_BY_RESOURCE, Grant, Granted, ResourceType};
use crate::base::{Error, Exporting, Id, Importing, Portable, Result, Time};
use crate::store::{
    AnyIndex, Export, Index, Key, ListSource, Order, Page, PageRequest, Record, Reference, Tx, View,
};

/// A resource that can be restricted, by its own access or by that of the resource that it belongs to.
pub trait Restrictable: Clone + Send + Sync + 'static {
    /// The type in grants of the resource that decides who may use it.
    const KIND: ResourceType;
    /// Its id.
    fn id(&self) -> Id<Self>;
    /// The resource that decides: itself, or the one that it belongs to; `None` if it belongs to none,
    /// so that every member may use it.
    fn guard(&self) -> Option<Id<Granted>> {
        Some(self.id().cast())
    }
    /// Who may use the resource that decides.
    fn access(&self, view: &View) -> Result<Access>;
    /// Whether it may be read without a credential.
    fn is_public(&self) -> bool {
        false
    }
}

/// A resource that must be opened for a caller.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Restricted<T>(T);

impl<T: Portable> Portable for Restricted<T> {
    fn to_json(&self, out: &mut Exporting) -> Value {
        self.0.to_json(out)
    }
    fn from_json(value: Value, input: &Importing) -> std::result::Result<Self, String> {
        T::from_json(value, input).map(Restricted)
    }
}

impl<T: Restrictable> Restricted<T> {
    /// Wraps a resource to store it.
    pub fn new(thing: T) -> Self {
        Restricted(thing)
    }

    /// Its id.
    pub fn id(&self) -> Id<T> {
        self.0.id()
    }

    /// Whether it may be read without a credential.
    pub fn is_public(&self) -> bool {
        self.0.is_public()
    }

    /// Opens it for use by a member. Admins may use every resource.
    ///
    /// # Errors
    /// 403 if it is restricted and the caller has no grant.
    pub fn open(self, view: &View, caller: &Caller) -> Result<T> {
        if let Some(guard) = self.0.guard() {
            caller.require_access(view, T::KIND, guard, self.0.access(view)?)?;
        }
        Ok(self.0)
    }

    /// Opens it for use by a member; `None` if it is restricted and the caller has no grant.
    pub fn open_if_usable(self, view: &View, caller: &Caller) -> Result<Option<T>> {
        let usable = match self.0.guard() {
            Some(guard) => caller.is_allowed(view, T::KIND, guard, self.0.access(view)?)?,
            None => true,
        };
        Ok(usable.then_some(self.0))
    }

    /// Why a caller may use it; `None` if they may not. The same rule opens it.
    pub fn basis(&self, view: &View, caller: &Caller) -> Result<Option<AccessBasis>> {
        match self.0.guard() {
            Some(guard) => caller.basis(view, T::KIND, guard, self.0.access(view)?),
            None => Ok(Some(AccessBasis::Open)),
        }
    }

    /// Opens it for reading; a public resource for every client.
    ///
    /// # Errors
    /// As [`open`](Self::open); 404 for a client outside of its organization.
    pub fn open_to_read(self, view: &View, caller: Option<&Caller>) -> Result<T> {
        match caller {
            _ if self.is_public() => Ok(self.0),
            Some(caller) => self.open(view, caller),
            None => Err(Error::no_such("resource").missing(self.id().to_bytes())),
        }
    }

    /// Opens it without a caller, for indexes, jobs and maintenance. The result must not reach a
    /// client.
    pub fn without_caller(&self) -> &T {
        &self.0
    }

    /// Keeps what was written about it hidden after its deletion; called when it is removed.
    pub fn remember_deleted(&self, tx: &mut Tx) -> Result<()> {
        if self.0.access(&tx.view())? == Access::Organization {
            return Ok(());
        }
        remember_deleted(tx, self.id())
    }
}

/// Keeps what was written about something restricted hidden from all but admins, now that it is
/// deleted.
pub fn remember_deleted<T: ?Sized>(tx: &mut Tx, id: Id<T>) -> Result<()> {
    tx.put(&DeletedRestricted { id: id.cast(), deleted_at: tx.now(), in_log: true })
}

crate::base::portable! {
/// A restricted resource that was deleted. Its grants are gone with it, so that only admins see what
/// is still stored about it: entries of the log, as long as they are kept, and deployments.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeletedRestricted {
    /// The resource.
    pub id: Id<Granted>,
    /// When it was deleted.
    pub deleted_at: Time,
    /// Whether the log may still have entries about it.
    pub in_log: bool,
}
}

/// Deleted resources by time, as long as the log may have entries about them.
pub static DELETED_IN_LOG: Index<DeletedRestricted, Time> =
    Index::non_unique("restricted_deleted.in_log", |gone| gone.in_log.then_some(gone.deleted_at));

/// Deleted resources by time.
static DELETED_BY_TIME: Index<DeletedRestricted, Time> =
    Index::non_unique("restricted_deleted.by_time", |gone| Some(gone.deleted_at));

impl Record for DeletedRestricted {
    const TABLE: &'static str = "restricted_deleted";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&DELETED_IN_LOG, &DELETED_BY_TIME];
    type Key = Id<Granted>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// Returns the deleted resources of all types about which the log has nothing for a caller: none for
/// admins.
pub fn hidden_deleted_ids(view: &View, caller: &Caller) -> Result<BTreeSet<Id<Granted>>> {
    let mut hidden = BTreeSet::new();
    if caller.is_admin() {
        return Ok(hidden);
    }
    view.for_each(&DELETED_IN_LOG, &(), Order::Ascending, |gone: DeletedRestricted| {
        hidden.insert(gone.id);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(hidden)
}

/// Whether a resource was restricted when it was deleted.
pub fn was_restricted<T: ?Sized>(view: &View, deleted: Id<T>) -> Result<bool> {
    view.has::<DeletedRestricted>(&deleted.cast())
}

/// Returns the restricted resources of all types that were deleted at or after `from`.
pub fn restricted_deleted_since(view: &View, from: Time) -> Result<Vec<Id<Granted>>> {
    let mut deleted = Vec::new();
    let end = Time::from_millis(i64::MAX);
    view.entries(&DELETED_BY_TIME, &from, &end, Order::Ascending, |_, id| {
        deleted.push(id);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(deleted)
}

/// Returns the ids of the resources of a type that a caller may not use: none for admins. Reads all
/// resources of the type, so there must be few.
pub fn hidden_ids<T: Restrictable>(view: &View, caller: &Caller) -> Result<BTreeSet<Id<Granted>>>
where
    Restricted<T>: Record,
{
    let mut hidden = BTreeSet::new();
    if caller.is_admin() {
        return Ok(hidden);
    }
    let granted = caller.granted(view, T::KIND)?;
    view.for_each(ListSource::TABLE, &(), Order::Ascending, |Restricted(thing): Restricted<T>| {
        let id = thing.id().cast();
        if thing.access(view)? == Access::Restricted && !granted.contains(&id) {
            hidden.insert(id);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(hidden)
}

/// The reference from grants to a restricted resource: deleting it deletes its grants.
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

/// The resources of a type that a caller sees.
struct Visible<'a> {
    view: View<'a>,
    is_admin: bool,
    /// Whether public ones count, which can be read without being used.
    with_public: bool,
    granted: BTreeSet<Id<Granted>>,
    /// Whether what a resource decides about is visible; for those that decide about several.
    decided: RefCell<BTreeMap<Id<Granted>, bool>>,
    /// The first error; a filter cannot return one.
    failed: RefCell<Result<()>>,
}

impl<'a> Visible<'a> {
    /// Those that the caller may use, and public ones.
    fn to<T: Restrictable>(view: &View<'a>, caller: &Caller) -> Result<Self> {
        Ok(Visible {
            view: *view,
            is_admin: caller.is_admin(),
            with_public: true,
            granted: caller.granted(view, T::KIND)?,
            decided: RefCell::default(),
            failed: RefCell::new(Ok(())),
        })
    }

    fn has<T: Restrictable>(&self, thing: &T) -> bool {
        let Some(guard) = thing.guard().filter(|_| !self.is_admin) else { return true };
        if self.with_public && thing.is_public() || self.granted.contains(&guard) {
            return true;
        }
        if let Some(decided) = self.decided.borrow().get(&guard) {
            return *decided;
        }
        let is_open = match thing.access(&self.view) {
            Ok(access) => access == Access::Organization,
            Err(error) => {
                *self.failed.borrow_mut() = Err(error);
                false
            }
        };
        // Most decide about themselves alone.
        if guard != thing.id().cast() {
            self.decided.borrow_mut().insert(guard, is_open);
        }
        is_open
    }

    /// Returns what a list filtered by it found.
    fn done<L>(self, list: L) -> Result<L> {
        self.failed.into_inner().map(|()| list)
    }
}

/// Returns a page of the resources that are visible to a caller and `wanted`, newest first.
///
/// # Errors
/// 400 for a position of another list, or if the store fails.
pub fn visible_page<T: Restrictable>(
    view: &View,
    caller: &Caller,
    page: &PageRequest,
    wanted: impl Fn(&T) -> bool,
) -> Result<Page<T>>
where
    Restricted<T>: Record,
{
    visible_page_of(view, caller, ListSource::TABLE, &(), page, wanted)
}

/// Does the same as [`visible_page`], and turns each resource into an item that shows more than its
/// record, as [`View::page_map`] does.
///
/// # Errors
/// As [`visible_page`], and those of `expand`.
pub fn visible_page_map<T: Restrictable, I>(
    view: &View,
    caller: &Caller,
    page: &PageRequest,
    wanted: impl Fn(&T) -> bool,
    expand: impl Fn(&View, T) -> Result<I>,
) -> Result<Page<I>>
where
    Restricted<T>: Record,
{
    visible_page_map_of(view, caller, ListSource::TABLE, &(), page, (wanted, expand))
}

/// Does the same as [`visible_page`] for those whose key in `source` begins with `prefix`.
///
/// # Errors
/// As [`visible_page`].
pub fn visible_page_of<T: Restrictable>(
    view: &View,
    caller: &Caller,
    source: impl Into<ListSource<Restricted<T>>>,
    prefix: &impl Key,
    page: &PageRequest,
    wanted: impl Fn(&T) -> bool,
) -> Result<Page<T>>
where
    Restricted<T>: Record,
{
    visible_page_map_of(view, caller, source, prefix, page, (wanted, |_: &View, thing| Ok(thing)))
}

/// Does the same as [`visible_page_map`] for those whose key in `source` begins with `prefix`.
///
/// # Errors
/// As [`visible_page_map`].
pub fn visible_page_map_of<T: Restrictable, I>(
    view: &View,
    caller: &Caller,
    source: impl Into<ListSource<Restricted<T>>>,
    prefix: &impl Key,
    page: &PageRequest,
    (wanted, expand): (impl Fn(&T) -> bool, impl Fn(&View, T) -> Result<I>),
) -> Result<Page<I>>
where
    Restricted<T>: Record,
{
    let visible = Visible::to::<T>(view, caller)?;
    let keep = |Restricted(thing): &Restricted<T>| wanted(thing) && visible.has(thing);
    let expand = |view: &View, Restricted(thing): Restricted<T>| expand(view, thing);
    let page = view.page_map(source, prefix, Order::Descending, page, keep, expand)?;
    visible.done(page)
}

/// Returns the ids of all resources that a caller may use, for lists of what belongs to them. Reads
/// all resources of the type, so there must be few.
pub fn usable_ids<T: Restrictable>(view: &View, caller: &Caller) -> Result<BTreeSet<Id<T>>>
where
    Restricted<T>: Record,
{
    let visible = Visible { with_public: false, ..Visible::to::<T>(view, caller)? };
    let all: Vec<Restricted<T>> = view.all(ListSource::TABLE, &())?;
    let all = all.into_iter().filter(|Restricted(thing)| visible.has(thing));
    let all = all.map(|thing| thing.id()).collect();
    visible.done(all)
}

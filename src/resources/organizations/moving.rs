//! An organization that is exported into a file, or arrives from one: its members, and how far its
//! import is (reference: moving).
//!
//! An import writes the organization's records in steps, of which nobody sees anything until it is
//! published: the organization and its members are written last, in one transaction. The record of an
//! unfinished import says where to go on after a crash.

use std::collections::{BTreeSet, HashMap};

use bincode::{Decode, Encode};

use crate::api::Resource;
use crate::api::audit::{SystemAction, audit_system};
use crate::auth::{
    AddressProof, BY_ORG, BY_SLUG, Membership, Organization, Role, User, find_person,
    is_vouched_for, keep_installation_admins,
};
use crate::base::{Email, Error, HttpUrl, Id, Importing, Name, Result, Slug, Time, portable};
use crate::store::{Export, Org, Record, TableInfo, Tx, View, codec, no_upgrade};

pub(super) const RESOURCE: Resource = Resource {
    tables: &[TableInfo::of::<OrganizationImport>(), TableInfo::of::<ImportProgress>()],
    ..Resource::EMPTY
};

/// An organization that arrives has at most 500 members: they are written in one transaction, and kept
/// in one record until then.
pub const MAX_MEMBERS: usize = 500;

// ── Records ──────────────────────────────────────────────────────────────────

portable! {
/// A member of an organization, as it is exported: without a password.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct MovedMember {
    /// The user's id in the file.
    pub user: Id<User>,
    /// Whether it is a service account of the organization.
    is_service: bool,
    pub email: Email,
    name: Name,
    image: Option<HttpUrl>,
    created_at: Time,
    role: Role,
    email_verified: bool,
    joined_at: Time,
}
}

/// The import that is not finished; there is at most one.
#[derive(Clone, Debug, Encode, Decode)]
pub struct OrganizationImport {
    /// The organization as it will be here.
    pub organization: Organization,
    slug_in_file: Slug,
    /// The hash of the file.
    digest: [u8; 32],
    /// The installation that exported it.
    source: String,
    members: Vec<ArrivingMember>,
}

/// A member who arrives.
#[derive(Clone, Debug, Encode, Decode)]
struct ArrivingMember {
    member: MovedMember,
    /// The user here who has the same address; none if the user is to be created.
    known: Option<Id<User>>,
}

impl ArrivingMember {
    fn user(&self) -> Id<User> {
        self.known.unwrap_or(self.member.user)
    }
}

impl Record for OrganizationImport {
    const TABLE: &'static str = "imports";
    const EXPORT: Export<Self> = Export::LeftOut("of this installation, until it is finished");
    const ORG_SCOPED: bool = false;
    const VERSION: u8 = 2;
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("organization.id", "it is created at the end of the import"),
        ("organization.updated_by", "history: who changed it may have left"),
        ("members.member.user", "an id in the file, which need not exist here"),
        ("members.known", "accounts of people are not deleted"),
    ];
    type Key = ();
    fn key(&self) {}
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(codec::decode_body::<OrganizationImportV1>(body)?.into()),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

/// An import as stored in version 1, whose organization did not say who changed it. Its fields never change.
#[derive(Decode)]
struct OrganizationImportV1 {
    organization: OrganizationV1,
    slug_in_file: Slug,
    digest: [u8; 32],
    source: String,
    members: Vec<ArrivingMember>,
}

#[derive(Decode)]
struct OrganizationV1 {
    id: Id<Org>,
    slug: Slug,
    name: Name,
    created_at: Time,
    updated_at: Time,
}

impl From<OrganizationImportV1> for OrganizationImport {
    fn from(old: OrganizationImportV1) -> Self {
        let OrganizationImportV1 { organization, slug_in_file, digest, source, members } = old;
        let OrganizationV1 { id, slug, name, created_at, updated_at } = organization;
        let organization =
            Organization { id, slug, name, created_at, updated_at, updated_by: None };
        OrganizationImport { organization, slug_in_file, digest, source, members }
    }
}

/// How far the import is.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct ImportProgress {
    /// Records of the file that are written.
    pub done: u64,
    /// Whether the organization is there.
    pub published: bool,
}

impl Record for ImportProgress {
    const TABLE: &'static str = "imports.progress";
    const EXPORT: Export<Self> = Export::LeftOut("of this installation, until it is finished");
    const ORG_SCOPED: bool = false;
    type Key = ();
    fn key(&self) {}
}

// ── Exporting ────────────────────────────────────────────────────────────────

/// Returns the members of the view's organization, in the order in which they joined.
pub fn moved_members(view: &View) -> Result<Vec<MovedMember>> {
    let memberships: Vec<Membership> = view.all(&BY_ORG, &view.org())?;
    let moved = memberships.into_iter().map(|membership| {
        let user: User = view.fetch(&membership.user)?;
        Ok(MovedMember {
            user: user.id,
            is_service: user.service_of.is_some(),
            email: user.email,
            name: user.name,
            image: user.image.and_then(|url| HttpUrl::parse(url).ok()).filter(is_https),
            created_at: user.created_at,
            role: membership.role,
            email_verified: membership.email_verified,
            joined_at: membership.joined_at,
        })
    });
    moved.collect()
}

// ── Importing ────────────────────────────────────────────────────────────────

/// An organization to import.
#[derive(Clone)]
pub struct ArrivingOrganization {
    /// As it is in the file.
    pub organization: Organization,
    /// Another slug for it.
    pub slug: Option<Slug>,
    pub members: Vec<MovedMember>,
    /// The hash of the file.
    pub digest: [u8; 32],
    /// The installation that exported it.
    pub source: String,
    /// Whether members may be accounts here whose address nobody has proved.
    pub accepts_unproved: bool,
}

fn unfinished(view: &View) -> Result<Option<(OrganizationImport, ImportProgress)>> {
    let Some(import) = view.get::<OrganizationImport>(&())? else { return Ok(None) };
    Ok(Some((import, view.fetch(&())?)))
}

/// Returns the slug of the organization whose import is not finished, if there is one.
pub fn unfinished_import(view: &View) -> Result<Option<Slug>> {
    Ok(unfinished(view)?.map(|(import, _)| import.organization.slug))
}

/// Returns the import that is not finished, and how far it is.
///
/// # Errors
/// 409 if there is none; if the store fails.
pub fn current_import(view: &View) -> Result<(OrganizationImport, ImportProgress)> {
    unfinished(view)?.ok_or_else(|| Error::conflict("no_import", "no import is unfinished"))
}

impl OrganizationImport {
    /// Returns what differs here from the file.
    pub fn importing(&self) -> Importing {
        let known = self.members.iter().filter_map(|arriving| {
            arriving.known.map(|known| (arriving.member.user.uuid(), known.uuid()))
        });
        let slug = (self.slug_in_file != self.organization.slug)
            .then(|| (self.slug_in_file.to_string(), self.organization.slug.to_string()));
        Importing { ids: known.collect::<HashMap<_, _>>(), slug }
    }
}

/// Begins an import, or returns how far the one of the same file is.
///
/// # Errors
/// 409 if another import is unfinished, the organization, its slug or the id of a user is there
/// already, or an account that nobody has proved would be a member; 400 if the members contradict each other.
pub fn begin_import(tx: &mut Tx, arriving: &ArrivingOrganization) -> Result<ImportProgress> {
    let ArrivingOrganization { organization, slug, members, digest, source, .. } = arriving;
    let slug = slug.clone().unwrap_or_else(|| organization.slug.clone());
    if let Some((old, progress)) = unfinished(&tx.view())? {
        if old.digest == *digest && old.organization.slug == slug {
            if !progress.published && !arriving.accepts_unproved {
                refuse_unproved(&tx.view(), members)?;
            }
            return Ok(progress);
        }
        return Err(Error::conflict(
            "import_unfinished",
            format!(
                "an import of the organization {} is unfinished; repeat it with its file, or remove \
                 what it has written with `roadstead import --undo`",
                old.organization.slug
            ),
        ));
    }
    if tx.find(&BY_SLUG, &slug)?.is_some() {
        return Err(Error::conflict(
            "organization_slug_taken",
            format!("there is an organization {slug} already; choose another slug with --as"),
        ));
    }
    if tx.get::<Organization>(&organization.id)?.is_some() {
        let message = "this organization is there already, perhaps with another slug";
        return Err(Error::conflict("organization_exists", message));
    }
    check_members(members)?;
    if !arriving.accepts_unproved {
        refuse_unproved(&tx.view(), members)?;
    }
    let members = members.iter().map(|member| arriving_member(tx, member));
    let mut import = OrganizationImport {
        organization: Organization { slug, ..organization.clone() },
        slug_in_file: organization.slug.clone(),
        digest: *digest,
        source: source.clone(),
        members: members.collect::<Result<_>>()?,
    };
    if let Some(by) = organization.updated_by {
        let found = import.members.iter().find(|arriving| arriving.member.user == by);
        import.organization.updated_by = Some(found.map_or(by, ArrivingMember::user));
    }
    let progress = ImportProgress::default();
    tx.insert(&import)?;
    tx.insert(&progress)?;
    Ok(progress)
}

fn check_members(members: &[MovedMember]) -> Result<()> {
    let wrong = |what: &str| Err(Error::invalid_at("member", what));
    if members.len() > MAX_MEMBERS {
        return wrong("there are more than 500");
    }
    let ids: BTreeSet<_> = members.iter().map(|member| member.user).collect();
    let emails: BTreeSet<_> = members.iter().map(|member| member.email.as_str()).collect();
    if ids.len() < members.len() || emails.len() < members.len() {
        return wrong("a user is there twice");
    }
    if !members.iter().any(|member| member.role == Role::Owner) {
        return wrong("there is no owner");
    }
    if !members.iter().filter_map(|member| member.image.as_ref()).all(is_https) {
        return wrong("image: must be an https URL");
    }
    Ok(())
}

/// Whether a picture may be shown to others, who must not fetch it in clear text.
fn is_https(url: &HttpUrl) -> bool {
    url.to_ascii_lowercase().starts_with("https:")
}

/// Refuses to make members of accounts that anybody may have made in the name of whom they meet.
fn refuse_unproved(view: &View, members: &[MovedMember]) -> Result<()> {
    let mut unproved = Vec::new();
    for member in members {
        if let Some(user) = find_person(view, &member.email)?
            && !is_vouched_for(view, &user)?
        {
            unproved.push(member.email.as_str());
        }
    }
    if unproved.is_empty() {
        return Ok(());
    }
    Err(Error::conflict(
        "address_unproved",
        format!(
            "nobody has proved the addresses of these accounts, which the import would make members: \
             {}; print each person a link with `roadstead reset-password`, or repeat the import with \
             --accept-unproved if you know who has them",
            unproved.join(", ")
        ),
    ))
}

fn arriving_member(tx: &Tx, member: &MovedMember) -> Result<ArrivingMember> {
    let known = find_person(&tx.view(), &member.email)?.map(|user| user.id);
    if known.is_none() && tx.get::<User>(&member.user)?.is_some() {
        return Err(Error::conflict(
            "user_exists",
            format!("the user {} is there already with another address", member.user),
        ));
    }
    Ok(ArrivingMember { member: member.clone(), known })
}

/// Notes that so many more records of the file are written; `first` is the number of the first.
///
/// # Errors
/// 409 if these are not the next.
pub fn advance_import(tx: &mut Tx, first: u64, records: u64) -> Result<()> {
    let (_, old) = current_import(&tx.view())?;
    if old.done != first {
        let message = format!("the next record of the import is {}", old.done);
        return Err(Error::conflict("import_order", message));
    }
    tx.replace(&old, &ImportProgress { done: first + records, ..old.clone() })
}

/// Writes the organization with its members: from then on they see it.
///
/// # Errors
/// 409 if its slug or the address of a new user was taken meanwhile.
pub fn publish_import(tx: &mut Tx) -> Result<()> {
    let (import, progress) = current_import(&tx.view())?;
    let OrganizationImport { organization, slug_in_file, source, members, .. } = &import;
    keep_installation_admins(tx)?;
    tx.insert(organization)?;
    for arriving in members {
        let member = &arriving.member;
        if arriving.known.is_none() {
            tx.insert(&User {
                id: member.user,
                service_of: member.is_service.then_some(organization.id),
                email: member.email.clone(),
                name: member.name.clone(),
                image: member.image.as_ref().map(ToString::to_string),
                password: None,
                session_generation: 0,
                created_at: member.created_at,
                // It has no password yet: who sets one proves the address by how they got the link.
                proof: AddressProof::Unproved,
                keys_from: None,
            })?;
        }
        tx.insert(&Membership {
            user: arriving.user(),
            org: organization.id,
            role: member.role,
            email_verified: member.email_verified,
            joined_at: member.joined_at,
        })?;
    }
    let resource_id = &organization.id.to_string();
    let detail = &format!("{slug_in_file} of the installation {source}");
    let action = "organization.import";
    audit_system(tx, SystemAction { action, resource_id, detail, cause: "command line" })?;
    tx.replace(&progress, &ImportProgress { published: true, ..progress.clone() })
}

/// What an import has done with the members.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedMembers {
    /// Those who had an account here.
    pub known: Vec<Email>,
    /// Those whose account was created, without a password.
    pub created: Vec<Email>,
}

/// Ends an import whose records are all written.
///
/// # Errors
/// 409 if the organization is not published.
pub fn finish_import(tx: &mut Tx) -> Result<ImportedMembers> {
    let (import, progress) = current_import(&tx.view())?;
    if !progress.published {
        return Err(Error::conflict("import_order", "the organization is not published"));
    }
    forget(tx, &import, &progress)?;
    let people = import.members.into_iter().filter(|arriving| !arriving.member.is_service);
    let (known, created): (Vec<_>, Vec<_>) = people.partition(|arriving| arriving.known.is_some());
    let emails =
        |members: Vec<ArrivingMember>| members.into_iter().map(|one| one.member.email).collect();
    Ok(ImportedMembers { known: emails(known), created: emails(created) })
}

/// Forgets an import whose records are deleted.
///
/// # Errors
/// 409 if the organization is published.
pub fn cancel_import(tx: &mut Tx) -> Result<()> {
    let (import, progress) = current_import(&tx.view())?;
    forget(tx, &import, &progress)
}

fn forget(tx: &mut Tx, import: &OrganizationImport, progress: &ImportProgress) -> Result<()> {
    tx.remove(import)?;
    tx.remove(progress)
}

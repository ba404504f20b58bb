//! stub
use crate::auth::*;
use crate::base::*;
use crate::store::*;
pub struct Founding {
    pub slug: Slug,
    pub name: Name,
    pub email: Email,
    pub user_name: Name,
    pub password_hash: Option<String>,
    pub api_key: Option<Name>,
}
pub struct Founded {
    pub organization: Organization,
    pub user: User,
    pub key: Option<(ApiKey, String)>,
}
pub fn any_user(view: &View) -> Result<bool> {
    Ok(view.count::<User>(Source::TABLE, &(), 1)? > 0)
}
pub fn all(view: &View) -> Result<Vec<Id<Org>>> {
    Ok(view.all::<Organization>(Source::TABLE, &())?.into_iter().map(|o| o.id).collect())
}
pub fn note_uses(tx: &mut Tx, due: &[(Id<ApiKey>, Time)]) -> Result<()> {
    for (key, at) in due {
        tx.put(&KeyUse { key: *key, at: *at })?;
    }
    Ok(())
}
pub fn new_setup_token(_: &mut Tx) -> Result<Option<String>> {
    Ok(Some("x".into()))
}
pub fn found(tx: &mut Tx, f: &Founding) -> Result<Founded> {
    let organization = Organization {
        id: tx.new_id(),
        slug: f.slug.clone(),
        name: f.name.clone(),
        created_at: tx.now(),
        updated_at: tx.now(),
    };
    tx.insert(&organization)?;
    let user = User {
        id: tx.new_id(),
        email: f.email.clone(),
        name: f.user_name.clone(),
        image: None,
        password: f.password_hash.clone(),
        created_at: tx.now(),
    };
    tx.insert(&user)?;
    tx.insert(&Membership {
        user: user.id,
        org: organization.id,
        role: Role::Owner,
        email_verified: true,
        joined_at: tx.now(),
    })?;
    let text = key_text(tx.random());
    let key = ApiKey {
        id: tx.new_id(),
        hash: key_hash(&text).unwrap(),
        org: organization.id,
        user: user.id,
        name: f.user_name.clone(),
        start: text[..8].into(),
        approve_as: true,
        created_at: tx.now(),
        expires_at: None,
        announced: Announced::Nothing,
    };
    tx.insert(&key)?;
    Ok(Founded { organization, user, key: Some((key, text)) })
}
#[derive(
    Clone, Debug, bincode::Encode, bincode::Decode, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    id: Id<Note>,
    body: Body,
    created_at: Time,
}
impl Record for Note {
    const TABLE: &'static str = "notes";
    type Key = Id<Note>;
    fn key(&self) -> Self::Key {
        self.id
    }
}
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct NewNote {
    body: Body,
}
impl crate::api::Input for NewNote {}
use crate::api::*;
fn create(tx: &mut Tx, req: &Req<(), NewNote>) -> Result<Note> {
    let n = Note { id: tx.new_id(), body: req.input.body.clone(), created_at: tx.now() };
    tx.insert(&n)?;
    Ok(n)
}
fn show(view: &View, req: &Req<Id<Note>>) -> Result<Note> {
    view.fetch(&req.at)
}
fn list(view: &View, req: &Req) -> Result<Page<Note>> {
    view.page(Source::TABLE, &(), Order::Descending, &req.part, |_: &Note| true)
}
fn remove(tx: &mut Tx, req: &Req<Id<Note>>) -> Result<Removed> {
    let n: Note = tx.fetch(&req.at)?;
    tx.remove(&n)?;
    Ok(Removed::new(n.id))
}
pub const RESOURCE: Resource = Resource {
    routes: || {
        vec![
            Route::get("/notes/{id}", Rule::Member, "note.show", show),
            Route::list("/notes", Rule::Member, "note.list", list),
            Route::post("/notes", Rule::Member, "note.create", create),
            Route::delete("/notes/{id}", Rule::Admin, "note.remove", remove),
        ]
    },
    tables: &[TableInfo::of::<Note>()],
    jobs: &[],
    sweeps: &[],
};

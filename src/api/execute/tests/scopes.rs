//! What a key with scopes may call.

use super::*;
use crate::auth::{ApiKey, KeyAccess, KeyScope, key_hash, key_text};

/// A key of the member, with this access.
async fn key(fixture: &Fixture, access: KeyAccess) -> RawCredential {
    let (store, org) = (&fixture.executor.store, fixture.org);
    let made = store.write(Id::NIL, move |tx| {
        let user = tx.view().all::<User>(ListSource::TABLE, &())?[0].id;
        let text = key_text(tx.random());
        let hash = key_hash(&text).expect("it is a key");
        tx.insert(&ApiKey {
            id: tx.new_id(),
            hash,
            org,
            user,
            created_by: user,
            name: Name::from_trusted("k".into()),
            start: text[..8].into(),
            approve_as: false,
            access: access.clone(),
            created_at: tx.now(),
            expires_at: None,
            next_notice_at: None,
            taken_over_at: None,
            replaces: None,
            replaced_by: None,
            replaced_at: None,
        })?;
        Ok(RawCredential::Key(hash))
    });
    made.await.unwrap()
}

#[tokio::test]
async fn a_route_that_declares_no_scope_takes_keys_with_full_access_alone() {
    let fixture = Fixture::new().await;
    let scopes = vec![KeyScope::parse("tool:read").unwrap()];
    let (full, read) = (KeyAccess::Full, KeyAccess::Read);
    for (access, is_let_in) in [(full, true), (read, false), (KeyAccess::Scopes(scopes), false)] {
        let credential = key(&fixture, access).await;
        let with = |request: &mut Request| request.credential = credential.clone();
        let made = fixture.call("note.create", &[], json!({"text": "a"}), with).await;
        if is_let_in {
            made.unwrap();
        } else {
            assert_eq!(refusal(made), (Kind::Forbidden, "scope_missing"));
        }
        // What every client may read, every key may.
        fixture.call("shelf.list", &[], json!({"shelf": "open"}), with).await.unwrap();
    }
    assert_eq!(fixture.notes(), 1);
    let refused = fixture.audited().into_iter().filter(|(.., end)| *end == AuditOutcome::Refused);
    assert_eq!(refused.count(), 2);
}

//! Listings: who sees what of them, and finding them.

use serde_json::{Value, json};

use super::*;
use crate::api::Principal;
use crate::base::Kind;
use crate::resources::agents::tests as agent;
use crate::resources::testing::{Fixture, args};
use crate::store::{ListSource, PageRequest};

/// The public key of the first test vector of BIP-340.
pub const KEY: &str = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";
/// That of the second.
pub const OTHER_KEY: &str = "dff1d77f2a671c5f36183726db2341be58feae1da2deced843240f7b502ba659";

/// Lists the agent `scribe`, which is made if need be, as somebody.
pub fn make_as(fixture: &Fixture, who: &Principal, more: Value) -> Result<Value> {
    let scribe = json!({"stableKey": "scribe", "name": "Scribe"});
    let _ = agent::make_as(fixture, who, scribe);
    let mut body = json!({"stableKey": "scribe", "handle": "scribe@acme.test", "pubkey": KEY,
        "displayName": "Scribe"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = fixture.write_as(who, create, (), Fixture::input(body)?)?;
    Ok(json!(made))
}

/// The same as the owner of `acme`.
pub fn make(fixture: &Fixture, more: Value) -> Result<Value> {
    make_as(fixture, &fixture.owner, more)
}

/// Changes a listing as somebody.
pub fn patch_as(fixture: &Fixture, who: &Principal, id: &Value, patch: Value) -> Result<Value> {
    let patched = fixture.write_as(who, update, id_of(id), Fixture::input(patch)?)?;
    Ok(json!(patched))
}

/// A listing as somebody sees it.
pub fn shown(fixture: &Fixture, who: &Principal, listing: &Value) -> Result<Value> {
    fixture.read_as(who, get, id_of(listing), ()).map(|listing| json!(listing))
}

fn delete_as(fixture: &Fixture, who: &Principal, listing: &Value) -> Result<Deleted> {
    fixture.write_as(who, delete, id_of(listing), ())
}

fn id_of(listing: &Value) -> Id<Listing> {
    Id::parse(listing["id"].as_str().unwrap())
}

fn code<T>(result: Result<T>) -> &'static str {
    result.err().expect("it is refused").code()
}

/// A page of a search as somebody.
fn page(fixture: &Fixture, who: &Principal, query: Value, page: PageRequest) -> Page<Value> {
    let args = crate::api::Args { page, ..args((), Fixture::input(query).unwrap()) };
    let Principal::Caller(caller) = who else { panic!() };
    let found = fixture.store.read_now(caller.org, |view| list(view, &Req::new(&args, who)));
    found.unwrap().map(|listing| json!(listing))
}

/// The handles that a search finds, newest first.
fn found(fixture: &Fixture, who: &Principal, query: Value) -> Vec<String> {
    let request = PageRequest { limit: 50, after: None };
    let handle = |listing: Value| listing["handle"].as_str().unwrap().to_string();
    page(fixture, who, query, request).items.into_iter().map(handle).collect()
}

const OWNERS_FIELDS: [&str; 4] = ["contactPolicy", "cardState", "updatedBy", "verificationHistory"];

#[test]
fn a_listing_has_defaults_and_its_owners_see_all_of_it() {
    let fixture = Fixture::new();
    let made = make(&fixture, json!({})).unwrap();
    let expected = json!({
        "id": made["id"], "stableKey": "scribe", "handle": "scribe@acme.test", "pubkey": KEY,
        "displayName": "Scribe", "description": null, "skills": [], "visibility": "organization",
        "verified": false, "createdAt": "2026-01-15T12:00:00.000Z",
        "updatedAt": "2026-01-15T12:00:00.000Z", "contactPolicy": "open", "cardState": "draft",
        "updatedBy": made["updatedBy"], "verificationHistory": [],
    });
    assert_eq!(made, expected);
    assert_eq!(shown(&fixture, &fixture.member, &made).unwrap(), expected);
    fixture.assert_sound();
}

#[test]
fn others_see_a_public_listing_without_what_is_the_owners() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let more = json!({"visibility": "public", "contactPolicy": "closed", "cardState": "stale",
        "description": "Writes.", "skills": ["writing"]});
    let made = make(&fixture, more).unwrap();
    let mut expected = made.clone();
    for field in OWNERS_FIELDS {
        expected.as_object_mut().unwrap().remove(field).unwrap();
    }
    assert_eq!(shown(&fixture, &eve, &made).unwrap(), expected);
    let request = PageRequest { limit: 50, after: None };
    assert_eq!(page(&fixture, &eve, json!({}), request).items, [expected]);
    assert_eq!(found(&fixture, &eve, json!({"mine": true})), [""; 0]);
}

#[test]
fn a_listing_that_one_may_not_see_or_write_is_as_if_it_did_not_exist() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let hidden = make(&fixture, json!({})).unwrap();
    let public = json!({"handle": "b@acme.test", "visibility": "public"});
    let public = make(&fixture, public).unwrap();
    let unknown = json!({"id": uuid::Uuid::from_u128(1).to_string()});
    let missing = shown(&fixture, &eve, &unknown).unwrap_err();
    assert_eq!((missing.kind(), missing.code()), (Kind::NotFound, "not_found"));
    let errors = [
        shown(&fixture, &eve, &hidden).err(),
        patch_as(&fixture, &eve, &hidden, json!({"displayName": "E"})).err(),
        patch_as(&fixture, &eve, &public, json!({"displayName": "E"})).err(),
        delete_as(&fixture, &eve, &hidden).err(),
        delete_as(&fixture, &eve, &public).err(),
    ];
    for error in errors {
        let error = error.expect("it is refused");
        assert_eq!((error.kind(), error.message()), (Kind::NotFound, missing.message()));
    }
    assert_eq!(found(&fixture, &eve, json!({})), ["b@acme.test"]);
    // Hidden again, it is gone for others at once.
    patch_as(&fixture, &fixture.owner, &public, json!({"visibility": "organization"})).unwrap();
    assert_eq!(shown(&fixture, &eve, &public).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(found(&fixture, &eve, json!({})), [""; 0]);
    assert_eq!(found(&fixture, &fixture.member, json!({})), ["b@acme.test", "scribe@acme.test"]);
    fixture.assert_sound();
}

#[test]
fn a_handle_is_unique_in_its_organization_alone() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let made = make(&fixture, json!({"handle": "a@Acme.Test"})).unwrap();
    assert_eq!(made["handle"], "a@acme.test");
    assert_eq!(code(make(&fixture, json!({"handle": "a@acme.test"}))), "handle_taken");
    let other = make(&fixture, json!({"handle": "b@acme.test"})).unwrap();
    let taken = patch_as(&fixture, &fixture.owner, &other, json!({"handle": "a@acme.test"}));
    assert_eq!(code(taken), "handle_taken");
    make_as(&fixture, &eve, json!({"handle": "a@acme.test"})).unwrap();
    delete_as(&fixture, &fixture.owner, &made).unwrap();
    patch_as(&fixture, &fixture.owner, &other, json!({"handle": "a@acme.test"})).unwrap();
    fixture.assert_sound();
}

#[test]
fn a_listing_is_of_an_agent_and_ends_with_it() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let unknown = make(&fixture, json!({"stableKey": "nobody"})).unwrap_err();
    assert_eq!(unknown.kind(), Kind::NotFound);
    // An agent of another organization is none.
    assert_eq!(
        make_as(&fixture, &eve, json!({"stableKey": "x"})).unwrap_err().kind(),
        Kind::NotFound
    );
    let more = |n: usize| {
        json!({"handle": format!("a{n}@acme.test"), "visibility": "public",
        "description": "word ".repeat(50), "skills": ["one", "two"]})
    };
    let made: Vec<_> = (0..300).map(|n| make(&fixture, more(n)).unwrap()).collect();
    fixture.write(agent::remove, "scribe".to_string(), ()).unwrap();
    fixture.complete_removals();
    assert_eq!(shown(&fixture, &fixture.owner, &made[0]).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(found(&fixture, &eve, json!({})), [""; 0]);
    let left = |view: &View| view.count::<PublicListingTerm>(ListSource::TABLE, &(), 9);
    assert_eq!(fixture.store.read_now(fixture.org, left).unwrap(), 0);
    fixture.assert_sound();
}

#[test]
fn an_organization_has_at_most_1000_listings_on_a_domain() {
    let fixture = Fixture::new();
    let made = make(&fixture, json!({"handle": "b@elsewhere.test"})).unwrap();
    let model: Listing =
        fixture.store.read_now(fixture.org, |view| view.fetch(&id_of(&made))).unwrap();
    let fill = move |tx: &mut Tx| {
        for n in 0..MAX_LISTINGS_OF_DOMAIN {
            let handle = Handle::parse(format!("a{n}@acme.test")).unwrap();
            let profile = ListingProfile { handle, ..model.profile.clone() };
            save(tx, None, &Listing { id: tx.new_id(), profile, ..model.clone() })?;
        }
        Ok(())
    };
    fixture.store.write_blocking(fixture.org, fill).unwrap();
    assert_eq!(code(make(&fixture, json!({}))), "domain_listings_full");
    let moved = patch_as(&fixture, &fixture.owner, &made, json!({"handle": "b@acme.test"}));
    assert_eq!(code(moved), "domain_listings_full");
    let only = found(&fixture, &fixture.owner, json!({"handle": "a7@acme.test"}));
    patch_as(&fixture, &fixture.owner, &made, json!({"displayName": "B"})).unwrap();
    assert_eq!(only, ["a7@acme.test"]);
}

// ── Search ───────────────────────────────────────────────────────────────────

#[test]
fn a_search_finds_words_of_name_handle_skills_and_description() {
    let fixture = Fixture::new();
    make(
        &fixture,
        json!({"displayName": "Release Scribe", "skills": ["Technical Writing", "git"],
        "description": "Drafts notes, in British English."}),
    )
    .unwrap();
    make(&fixture, json!({"handle": "paul@acme.test", "displayName": "Paul"})).unwrap();
    let hits = |query: Value| found(&fixture, &fixture.member, query).len();
    for (query, expected) in [
        (json!({}), 2),
        (json!({"q": ""}), 2),
        (json!({"q": " - "}), 2),
        (json!({"q": "release"}), 1),
        (json!({"q": "SCRIBE release"}), 1),
        (json!({"q": "notes english writing"}), 1),
        (json!({"q": "note"}), 0),
        (json!({"q": "release paul"}), 0),
        (json!({"q": "acme"}), 2),
        (json!({"q": "paul@acme.test"}), 1),
        (json!({"skill": "technical writing"}), 1),
        (json!({"skill": "GIT", "q": "scribe"}), 1),
        (json!({"skill": "writing"}), 0),
        (json!({"skill": ""}), 0),
        (json!({"handle": "scribe@ACME.test"}), 1),
        (json!({"handle": "scribe@acme.test", "skill": "git", "q": "notes"}), 1),
        (json!({"handle": "paul@acme.test", "skill": "git"}), 0),
        (json!({"handle": "scribe"}), 0),
        (json!({"mine": true}), 2),
        (json!({"mine": false}), 2),
    ] {
        assert_eq!(hits(query.clone()), expected, "{query}");
    }
    let words = |count: usize| -> String { (0..count).map(|n| format!("w{n} ")).collect() };
    assert_eq!(hits(json!({"q": words(16)})), 0);
    let long = Fixture::input::<ListingSearch>(json!({"q": words(17)})).err().unwrap();
    assert_eq!(long.issues()[0].path, "q");
}

#[test]
fn a_changed_listing_is_found_by_what_it_is_now() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let made = make(&fixture, json!({"description": "old", "visibility": "public"})).unwrap();
    fixture.pass_secs(60);
    let patch = json!({"description": "new", "skills": ["editing"], "handle": "ed@acme.test"});
    let patched = patch_as(&fixture, &fixture.owner, &made, patch).unwrap();
    assert_eq!(patched["updatedAt"], "2026-01-15T12:01:00.000Z");
    for who in [&eve, &fixture.member] {
        for query in [json!({"q": "old"}), json!({"handle": "scribe@acme.test"})] {
            assert_eq!(found(&fixture, who, query), [""; 0]);
        }
        for query in [json!({"q": "new"}), json!({"skill": "editing"})] {
            assert_eq!(found(&fixture, who, query), ["ed@acme.test"]);
        }
    }
    fixture.pass_secs(60);
    let same = patch_as(&fixture, &fixture.owner, &made, json!({"description": "new"})).unwrap();
    assert_eq!(same["updatedAt"], patched["updatedAt"], "nothing changed");
    delete_as(&fixture, &fixture.owner, &made).unwrap();
    assert_eq!(found(&fixture, &eve, json!({})), [""; 0]);
    fixture.assert_sound();
}

#[test]
fn name_handle_and_skills_are_found_after_any_description() {
    let fixture = Fixture::new();
    let description: String = (0..1500).map(|n| format!("w{n} ")).collect();
    let skills: Vec<_> = (0..50).map(|n| format!("skill {n}")).collect();
    make(&fixture, json!({"description": description, "skills": skills})).unwrap();
    for query in [json!({"q": "scribe w0"}), json!({"skill": "skill 49"}), json!({"q": "w100"})] {
        assert_eq!(found(&fixture, &fixture.member, query.clone()).len(), 1, "{query}");
    }
    assert_eq!(found(&fixture, &fixture.member, json!({"q": "w1499"})).len(), 0);
}

#[test]
fn words_without_accents_displace_no_word_of_a_description() {
    let fixture = Fixture::new();
    let described = |count: usize| -> String { (0..count).map(|n| format!("é{n} ")).collect() };
    make(&fixture, json!({"displayName": "Zoë", "description": described(200)})).unwrap();
    for (q, expected) in [("zoe é0 é199", 1), ("e0", 1), ("e199", 0), ("é200", 0)] {
        let hits = found(&fixture, &fixture.member, json!({"q": q}));
        assert_eq!(hits.len(), expected, "{q}");
    }
    fixture.assert_sound();
}

/// Listings of two organizations with words of a small vocabulary, pages of every size, against a
/// scan of all of them.
#[test]
fn pages_of_a_search_are_those_of_a_scan() {
    const WORDS: [&str; 4] = ["red", "green", "blue", "grey"];
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let mut state: u32 = 7;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    // Own and public, newest first: handle, words, whether `acme` sees it and owns it.
    let mut all: Vec<(String, u32, bool, bool)> = Vec::new();
    for n in 0..60 {
        let (bits, is_own, is_public) = (random(16), random(2) == 0, random(2) == 0);
        let words = WORDS.iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
        let words: Vec<_> = words.map(|(_, word)| *word).collect();
        let visibility = if is_public { "public" } else { "organization" };
        let handle = format!("a{n}@acme.test");
        let body = json!({"handle": handle, "description": words.join(" "), "displayName": "x",
            "visibility": visibility});
        make_as(&fixture, if is_own { &fixture.owner } else { &eve }, body).unwrap();
        all.insert(0, (handle, bits, is_own || is_public, is_own));
    }
    for (asked, mine) in (0..16).flat_map(|bits| [(bits, false), (bits, true)]) {
        let words = WORDS.iter().enumerate().filter(|(bit, _)| asked & (1 << bit) != 0);
        let words: Vec<_> = words.map(|(_, word)| *word).collect();
        let hits = all.iter().filter(|(_, bits, sees, owns)| {
            bits & asked == asked && if mine { *owns } else { *sees }
        });
        let expected: Vec<_> = hits.map(|(handle, ..)| handle.clone()).collect();
        for limit in [1, 3, 50] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let query = json!({"q": words.join(" "), "mine": mine});
                let next = page(&fixture, &fixture.member, query, PageRequest { limit, after });
                assert!(next.items.len() <= limit);
                let handle = |one: Value| one["handle"].as_str().unwrap().to_string();
                found.extend(next.items.into_iter().map(handle));
                after = next.next;
                if after.is_none() {
                    break;
                }
                assert!(found.len() < expected.len(), "a next page has something");
            }
            assert_eq!(found, expected, "{words:?} {mine} {limit}");
        }
    }
    fixture.assert_sound();
}

#[test]
fn a_page_whose_look_ups_are_used_up_is_continued_by_the_next() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    // Two frequent words that occur together once, in the oldest listing.
    for n in 0..20 {
        let word = ["red green", "red", "green"][if n == 0 { 0 } else { 1 + n % 2 }];
        let who = if n % 3 == 0 { &fixture.owner } else { &eve };
        let body = json!({"handle": format!("a{n}@acme.test"), "description": word,
            "visibility": "public"});
        make_as(&fixture, who, body).unwrap();
    }
    let terms = ["green", "red"].map(|term| vec![term.to_string()]);
    let (mut pages, mut hits, mut after) = (0, Vec::new(), None);
    loop {
        let request = PageRequest { limit: 50, after };
        let merged = |view: &View| search::within(view, &terms, false, &request, 7);
        let page = fixture.store.read_now(fixture.org, merged).unwrap();
        hits.extend(page.items);
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
        assert!(pages < 100, "it comes to an end");
    }
    assert!(matches!(hits[..], [Hit::Own(_)]), "{hits:?}");
    assert!(pages > 2, "{pages}");
    let forged = PageRequest { limit: 1, after: Some(vec![1]) };
    let refused = |view: &View| search(view, &terms, false, &forged).map(|_| ());
    let error = fixture.store.read_now(fixture.org, refused).unwrap_err();
    assert_eq!(error.issues()[0].path, "cursor");
}

/// Makes all listings as version 0.1 had them.
fn make_earlier(fixture: &Fixture) {
    make_form(fixture, TermForm::Earlier);
}

fn make_form(fixture: &Fixture, term_form: TermForm) {
    let write = move |tx: &mut Tx| {
        for old in tx.all::<Listing>(ListSource::TABLE, &())? {
            save(tx, Some(&old), &Listing { term_form, ..old.clone() })?;
        }
        Ok(())
    };
    fixture.store.write_blocking(fixture.org, write).unwrap();
}

/// Does a step of the sweep; returns whether another one follows.
fn fold_step(fixture: &Fixture, settings: &mut RetentionSettings) -> bool {
    let own = settings.clone();
    match fixture.store.write_blocking(fixture.org, move |tx| fold_terms(tx, &own)).unwrap() {
        SweepProgress::Clean => false,
        SweepProgress::More => true,
        SweepProgress::MoreBehind(position) => {
            settings.behind = Some(position);
            true
        }
    }
}

/// Does a round of the sweep; returns the number of its steps.
fn fold_all(fixture: &Fixture) -> usize {
    let mut settings = RetentionSettings::default();
    1 + (0..100).position(|_| !fold_step(fixture, &mut settings)).expect("it ends")
}

#[test]
fn listings_of_version_0_1_are_found_as_before_and_then_as_others() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    let texts = ["Die Straße ΟΔΟΣ", "un café crème", "soft\u{ad}ware", "plain words"];
    for (n, text) in texts.iter().enumerate() {
        let handle = format!("a{n}@acme.test");
        let more = json!({"handle": handle, "description": text, "visibility": "public",
            "skills": ["Größe"]});
        make(&fixture, more).unwrap();
    }
    for n in 0..20 {
        make(&fixture, json!({"handle": format!("b{n}@acme.test"), "description": "é"})).unwrap();
    }
    make_earlier(&fixture);
    fixture.assert_sound();
    let count = |who: &Principal, query: Value| found(&fixture, who, query).len();
    let words = |who: &Principal, q: &str| count(who, json!({"q": q}));
    let as_before = ["straße", "STRAßE die", "οδος", "ΟΔΟΣ", "café", "CAFÉ crème", "plain", "soft"];
    let new = ["strasse", "cafe", "creme cafe", "software", "οδοσ"];
    let check = |is_new: bool| {
        for who in [&fixture.owner, &eve] {
            for q in as_before.iter().filter(|q| !is_new || **q != "soft") {
                assert_eq!(words(who, q), 1, "{q}");
            }
            assert_eq!(count(who, json!({"skill": "GRÖSSE"})), if is_new { 4 } else { 0 });
            assert_eq!(count(who, json!({"skill": "größe"})), 4);
            for q in new {
                assert_eq!(words(who, q), usize::from(is_new), "{q} {is_new}");
            }
        }
    };
    check(false);
    let (mut steps, mut settings) = (1, RetentionSettings::default());
    while fold_step(&fixture, &mut settings) {
        fixture.assert_sound();
        steps += 1;
    }
    assert_eq!(steps, 2);
    check(true);
    fixture.assert_sound();
    let before =
        fixture.store.read_now(fixture.org, |view| view.all::<Listing>(ListSource::TABLE, &()));
    assert!(before.unwrap().iter().all(|listing| listing.term_form == TermForm::NEWEST));
    // What a listing of either form is found by goes with it.
    make_earlier(&fixture);
    fixture.write(agent::remove, "scribe".to_string(), ()).unwrap();
    fixture.complete_removals();
    let left = |view: &View| view.count::<PublicListingTerm>(ListSource::TABLE, &(), 9);
    assert_eq!(fixture.store.read_now(fixture.org, left).unwrap(), 0);
    let left = |view: &View| view.count::<ListingTerm>(ListSource::TABLE, &(), 9);
    assert_eq!(fixture.store.read_now(fixture.org, left).unwrap(), 0);
    fixture.assert_sound();
}

#[test]
fn texts_without_blanks_are_found_by_two_characters_and_earlier_ones_once_they_are_folded() {
    let fixture = Fixture::new();
    let (_, eve) = fixture.other_org("globex");
    for (n, (name, description)) in [
        ("翻译助手", "把文件从日文翻译成中文。"),
        ("AI助手2号", "議事録を作成します"),
        ("猫", "만조는 정오입니다"),
        ("น้ำขึ้น", "plain words"),
    ]
    .iter()
    .enumerate()
    {
        let more = json!({"handle": format!("a{n}@acme.test"), "displayName": name,
            "description": description, "skills": ["検索"], "visibility": "public"});
        make(&fixture, more).unwrap();
    }
    let check = |form: TermForm| {
        let is_new = form == TermForm::NEWEST;
        for who in [&fixture.owner, &eve] {
            let words = |q: &str| found(&fixture, who, json!({"q": q})).len();
            for q in ["翻译助手", "AI助手2号", "猫", "plain", "議事録を作成します"]
            {
                assert_eq!(words(q), 1, "{q} {form:?}");
            }
            assert_eq!(words("検索"), 4);
            for (q, count) in [
                ("助手", 2),
                ("ai", 1),
                ("AI助手", 1),
                ("日文", 1),
                ("中文 助手", 1),
                ("議事録", 1),
                ("만조", 1),
                ("ขึ้น", 1),
                ("録", 1),
            ] {
                assert_eq!(words(q), if is_new { count } else { 0 }, "{q} {form:?}");
            }
            for q in ["手助", "文中", "日助", "助手3", "録事"] {
                assert_eq!(words(q), 0, "{q} {form:?}");
            }
        }
        fixture.assert_sound();
    };
    check(TermForm::NEWEST);
    for form in [TermForm::Folded, TermForm::Earlier] {
        make_form(&fixture, form);
        check(form);
        assert_eq!(fold_all(&fixture), 1);
        check(TermForm::NEWEST);
    }
}

#[test]
fn listings_that_cannot_be_folded_do_not_stop_the_others() {
    const DAMAGED: usize = 2 * FOLDED_AT_ONCE + 1;
    let fixture = Fixture::new();
    for n in 0..DAMAGED + 9 {
        let handle = format!("a{n}@acme.test");
        make(&fixture, json!({"handle": handle, "description": "Straße"})).unwrap();
        fixture.pass_secs(1);
    }
    make_earlier(&fixture);
    // Of the oldest ones a row of the index is missing.
    let spoil = |tx: &mut Tx| {
        let mut oldest: Vec<Listing> = tx.all(&EARLIER_TERMS, &())?;
        oldest.truncate(DAMAGED);
        for listing in oldest {
            let row: ListingTerm = tx.fetch(&("straße".to_string(), listing.id))?;
            tx.remove(&row)?;
        }
        Ok(())
    };
    fixture.store.write_blocking(fixture.org, spoil).unwrap();
    let left = || fixture.store.read_now(fixture.org, |view| (EARLIER.read)(view)).unwrap();
    for _ in 0..2 {
        // 42 listings, and then the 33 that are left.
        assert_eq!(fold_all(&fixture), 3);
        assert_eq!(left(), DAMAGED as u64);
    }
    let damage = fixture.store.known_damage().expect("it is noted");
    assert!(damage.first.contains("cannot be folded"), "{damage:?}");
    assert_eq!(found(&fixture, &fixture.owner, json!({"q": "strasse"})).len(), 9);
}

#[test]
fn folding_more_than_one_step_may_change_takes_more_steps_and_is_no_damage() {
    let fixture = Fixture::new();
    let words = (0..300).map(|n| format!("straße{n} ")).collect::<String>();
    for n in 0..FOLDED_AT_ONCE + 1 {
        let handle = format!("a{n}@acme.test");
        make(&fixture, json!({"handle": handle, "description": words})).unwrap();
    }
    make_earlier(&fixture);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut settings = RetentionSettings::default();
    loop {
        let own = settings.clone();
        // As the sweep runs: within a small budget first.
        let step = fixture.store.write(fixture.org, move |tx| fold_terms(tx, &own));
        match runtime.block_on(step).unwrap() {
            SweepProgress::Clean => break,
            SweepProgress::More => panic!("it says behind what"),
            SweepProgress::MoreBehind(position) => settings.behind = Some(position),
        }
    }
    assert_eq!(fixture.store.read_now(fixture.org, |view| (EARLIER.read)(view)).unwrap(), 0);
    assert_eq!(fixture.store.known_damage(), None);
    fixture.assert_sound();
}

//! Where texts are filled in for inputs.

use super::super::asking::fill;
use super::super::cases::{CaseRun, InputCase};
use super::super::running::CaseBatch;
use super::*;
use crate::api::BatchEnd;
use crate::base::{Slug, StringMap};

/// So many inputs, without values.
fn inputs(count: usize) -> Vec<InputCase> {
    let input = |n: usize| InputCase {
        name: Slug::parse(format!("n{n}")).unwrap(),
        variables: StringMap::new(),
        message: None,
        expect: Expectation::default(),
    };
    (0..count).map(input).collect()
}

fn provider(fixture: &Fixture) -> LlmProvider {
    let id = judge_at(fixture, "http://a.test");
    fixture.store.read_now(fixture.org, |view| view.fetch(&id)).unwrap()
}

fn how<'a>(provider: &'a LlmProvider, values: &'a StringMap) -> CaseRun<'a> {
    CaseRun { provider, model: None, values, scorers: &[], max_usd: 1.0 }
}

#[test]
fn long_texts_are_filled_in_where_nobody_waits_for_it() {
    let fixture = Fixture::new();
    let (provider, values) = (provider(&fixture), StringMap::new());
    let text = "x".repeat(64 * 1024);
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    for (count, is_light) in [(3, true), (50, false)] {
        let cases = inputs(count);
        let run = |view: &View| fill(view, &how(&provider, &values), &cases, &[&text], |_| {});
        let light = runtime.block_on(fixture.store.read_light(fixture.org, None, run));
        assert_eq!(light.is_some(), is_light, "{count}");
        fixture.store.read_now(fixture.org, run).unwrap();
    }
}

#[test]
fn inputs_begin_one_by_one_until_there_is_no_other() {
    let fixture = Fixture::new();
    let (provider, values) = (provider(&fixture), StringMap::new());
    let how = how(&provider, &values);
    let begin = |view: &View| CaseBatch::new(view, &how, &inputs(2), &["Hello."]);
    let mut batch = fixture.store.read_now(fixture.org, begin).unwrap();
    assert!(batch.is_to_begin());
    assert_eq!([batch.begin(), batch.begin(), batch.begin()], [Some(0), Some(1), None]);
    assert_eq!(batch.results(BatchEnd::Late).stop, Some(Stop::Seconds));
    assert_eq!(
        batch.results(BatchEnd::Whole),
        CaseResults { answers: vec![None, None], ..CaseResults::default() }
    );
}

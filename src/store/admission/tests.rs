//! Who is admitted when, and what is left of those who leave.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::yield_now;

use super::*;

const LIMITS: AdmissionLimits = AdmissionLimits {
    admitted: 1,
    admitted_of_one: [usize::MAX; 2],
    waiting: 100,
    waiting_of_one: [50; 2],
    wait: Duration::from_secs(3600),
    refusal: || Error::busy("overloaded", "too many; try again", 5),
};

async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
    timeout(Duration::ZERO, future).await.ok()
}

/// Those that ask, by their names, each having asked once.
struct Asking<'a>(Vec<(&'static str, Pending<'a>)>);

type Pending<'a> = std::pin::Pin<Box<dyn Future<Output = Result<Permit<u8>>> + 'a>>;

impl<'a> Asking<'a> {
    async fn ask(&mut self, admission: &'a Admission<u8>, name: &'static str, keys: [u8; 2]) {
        let mut pending: Pending = Box::pin(admission.enter(keys, 0));
        assert!(soon(&mut pending).await.is_none(), "{name} waits");
        self.0.push((name, pending));
    }

    /// Those that are admitted now, with their permits.
    async fn admitted(&mut self) -> Vec<(&'static str, Permit<u8>)> {
        let (mut admitted, mut waiting) = (Vec::new(), Vec::new());
        for (name, mut pending) in self.0.drain(..) {
            match soon(&mut pending).await {
                Some(permit) => admitted.push((name, permit.unwrap())),
                None => waiting.push((name, pending)),
            }
        }
        self.0 = waiting;
        admitted
    }

    /// The order in which all are admitted, one at a time.
    async fn order(&mut self, held: Permit<u8>) -> Vec<&'static str> {
        let (mut order, mut held) = (Vec::new(), Some(held));
        while held.take().is_some() {
            let mut admitted = self.admitted().await;
            assert!(admitted.len() < 2);
            held = admitted.pop().map(|(name, permit)| {
                order.push(name);
                permit
            });
        }
        order
    }
}

fn assert_idle<K: Copy + Eq + Hash>(admission: &Admission<K>) {
    let state = admission.0.lock();
    assert_eq!((state.admitted, state.bytes, state.waiting.len()), (0, 0, 0));
    assert!(state.sharers.iter().all(HashMap::is_empty), "those without anything are forgotten");
}

#[tokio::test]
async fn a_person_of_many_organizations_and_an_organization_of_many_have_one_turn_in_a_round() {
    let of_person: fn(u8) -> [u8; 2] = |organization| [1, organization];
    let of_organization: fn(u8) -> [u8; 2] = |person| [person, 1];
    for many in [of_person, of_organization] {
        let admission = Admission::new(LIMITS);
        let held = admission.enter([9, 9], 0).await.unwrap();
        let mut asking = Asking(Vec::new());
        for (n, name) in [(11, "a1"), (12, "a2"), (13, "a3"), (14, "a4")] {
            asking.ask(&admission, name, many(n)).await;
        }
        asking.ask(&admission, "b1", [20, 20]).await;
        asking.ask(&admission, "b2", [20, 20]).await;
        assert_eq!(asking.order(held).await, ["a1", "b1", "a2", "b2", "a3", "a4"]);
        assert_idle(&admission);
    }
}

#[tokio::test]
async fn those_of_an_organization_take_turns_each_keeps_its_order_and_newcomers_wait_for_theirs() {
    let admission = Admission::new(LIMITS);
    let held = admission.enter([9, 9], 0).await.unwrap();
    let mut asking = Asking(Vec::new());
    for (person, name) in [(11, "a1"), (11, "a2"), (12, "b1"), (12, "b2")] {
        asking.ask(&admission, name, [person, 1]).await;
    }
    asking.ask(&admission, "c1", [20, 2]).await;
    drop(held);
    drop(asking.admitted().await);
    let mut next = asking.admitted().await;
    assert_eq!(next.len(), 1, "c1 has had its turn");
    // What is admitted is no turn that was waited for.
    asking.ask(&admission, "d1", [30, 3]).await;
    let (_, held) = next.pop().unwrap();
    assert_eq!(asking.order(held).await, ["b1", "d1", "a2", "b2"]);
    assert_idle(&admission);
}

#[tokio::test]
async fn neither_a_person_nor_an_organization_takes_all_places() {
    for many in [(|n| [1, n]) as fn(u8) -> [u8; 2], |n| [n, 1]] {
        let admission = Admission::new(LIMITS);
        let _held = admission.enter([0, 0], 0).await.unwrap();
        let mut waiting = Vec::new();
        let mut fill = async |keys: &dyn Fn(u8) -> [u8; 2]| {
            for n in 2..=200 {
                let mut pending = Box::pin(admission.enter(keys(n), 0));
                match soon(&mut pending).await {
                    None => waiting.push(pending),
                    Some(refused) => {
                        assert_eq!(refused.err().unwrap().message(), "too many; try again");
                        return usize::from(n) - 2;
                    }
                }
            }
            usize::MAX
        };
        assert_eq!(fill(&many).await, 50);
        assert_eq!(fill(&|n| [n, n]).await, 50, "the others have the rest");
    }
}

#[tokio::test]
async fn bytes_are_bounded_and_one_large_request_may_wait_alone() {
    let admission = Admission::new(LIMITS);
    let _held = admission.enter([0, 0], 0).await.unwrap();
    let may_wait = async |keys, bytes| {
        let mut pending = Box::pin(admission.enter(keys, bytes));
        soon(&mut pending).await.is_none().then_some(pending)
    };
    let huge = may_wait([1, 1], 2 * MAX_BYTES).await.expect("nothing else waits");
    assert!(may_wait([2, 2], 1).await.is_none());
    drop(huge);
    let _large = may_wait([1, 1], MAX_BYTES_OF_ONE).await.expect("its place is free again");
    assert!(may_wait([1, 2], 1).await.is_none(), "of the person");
    assert!(may_wait([2, 1], 1).await.is_none(), "of the organization");
    assert!(may_wait([2, 2], MAX_BYTES_OF_ONE + 1).await.is_none(), "over all");
    assert!(may_wait([2, 2], MAX_BYTES_OF_ONE).await.is_some());
}

#[tokio::test]
async fn a_person_and_an_organization_leave_something_to_the_others() {
    let limits = AdmissionLimits { admitted: 3, admitted_of_one: [1, 2], ..LIMITS };
    let admission = Admission::new(limits);
    let first = admission.enter([1, 9], 0).await.unwrap();
    let mut asking = Asking(Vec::new());
    asking.ask(&admission, "of the same person", [1, 8]).await;
    let second = admission.enter([2, 9], 0).await.unwrap();
    asking.ask(&admission, "of the same organization", [3, 9]).await;
    let third = soon(admission.enter([4, 7], 0)).await.unwrap().unwrap();
    asking.ask(&admission, "last", [5, 5]).await;
    drop(third);
    assert_eq!(asking.admitted().await.pop().unwrap().0, "last");
    drop(second);
    let held = asking.admitted().await.pop().unwrap();
    assert_eq!(held.0, "of the same organization");
    drop(first);
    assert_eq!(asking.admitted().await.pop().unwrap().0, "of the same person");
    drop(held);
    assert_idle(&admission);
}

#[tokio::test]
async fn one_that_ends_admits_all_that_waited_for_its_keys() {
    let limits = AdmissionLimits { admitted: 3, admitted_of_one: [1, 1], ..LIMITS };
    let admission = Admission::new(limits);
    let held = admission.enter([1, 1], 0).await.unwrap();
    let mut asking = Asking(Vec::new());
    asking.ask(&admission, "of its person", [1, 2]).await;
    asking.ask(&admission, "of its organization", [2, 1]).await;
    drop(held);
    assert_eq!(asking.admitted().await.len(), 2);
    assert_idle(&admission);
}

#[tokio::test]
async fn who_leaves_gives_its_place_back_at_once_and_its_turn_to_the_next() {
    let limits = AdmissionLimits { waiting: 2, ..LIMITS };
    let admission = Admission::new(limits);
    let held = admission.enter([1, 1], 0).await.unwrap();
    let mut asking = Asking(Vec::new());
    asking.ask(&admission, "leaves", [2, 2]).await;
    asking.ask(&admission, "stays", [3, 3]).await;
    assert!(admission.enter([4, 4], 0).await.is_err(), "two wait already");
    drop(asking.0.remove(0));
    asking.ask(&admission, "comes", [4, 4]).await;
    assert_eq!(asking.order(held).await, ["stays", "comes"]);
    assert_idle(&admission);
}

#[tokio::test]
async fn a_permit_that_its_waiter_never_took_goes_to_the_next() {
    let admission = Admission::new(LIMITS);
    let held = admission.enter([1, 1], 0).await.unwrap();
    let mut asking = Asking(Vec::new());
    for (key, name) in [(2, "first"), (3, "second"), (4, "third")] {
        asking.ask(&admission, name, [key, key]).await;
    }
    // The first has the permit in its channel, and leaves without having looked.
    drop(held);
    drop(asking.0.remove(0));
    let admitted = asking.admitted().await;
    assert_eq!(admitted[0].0, "second");
    drop(asking);
    drop(admitted);
    assert_idle(&admission);
}

#[tokio::test]
async fn who_waits_too_long_is_refused_and_has_left() {
    let limits = AdmissionLimits { wait: Duration::from_millis(50), ..LIMITS };
    let admission = Admission::new(limits);
    let held = admission.enter([1, 1], 0).await.unwrap();
    let refused = admission.enter([2, 2], 7).await.err().unwrap();
    assert_eq!((refused.code(), refused.retry_after_secs()), ("overloaded", Some(5)));
    assert_eq!(admission.0.lock().waiting.len(), 0);
    drop(held);
    assert_idle(&admission);
}

/// Many threads enter, wait, leave at any point and come back: the limits hold at every moment, and all
/// that waits in the end is admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_limit_is_exceeded_and_no_permit_lost_whoever_leaves_when() {
    let limits = AdmissionLimits { admitted: 3, admitted_of_one: [1, 2], waiting: 1000, ..LIMITS };
    let limits = AdmissionLimits { waiting_of_one: [1000; 2], ..limits };
    let admission = Arc::new(Admission::new(limits));
    let inside: Arc<[[AtomicUsize; 4]; 2]> = Arc::default();
    let tasks = (0..16_u32).map(|task| {
        let (admission, inside) = (admission.clone(), inside.clone());
        tokio::spawn(async move {
            let mut seed = task.wrapping_mul(2_654_435_761) | 1;
            for _ in 0..500 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let keys = [(seed >> 8) as u8 % 4, (seed >> 16) as u8 % 4];
                let mut pending = Box::pin(admission.enter(keys, 1));
                let permit = if (seed >> 24).is_multiple_of(3) {
                    let looked = soon(&mut pending).await;
                    yield_now().await;
                    drop(pending);
                    looked
                } else {
                    Some(pending.await)
                };
                let Some(permit) = permit else { continue };
                let permit = permit.unwrap();
                for (at, key) in keys.into_iter().enumerate() {
                    let before = inside[at][usize::from(key)].fetch_add(1, Ordering::SeqCst);
                    assert!(before < limits.admitted_of_one[at]);
                }
                yield_now().await;
                for (at, key) in keys.into_iter().enumerate() {
                    inside[at][usize::from(key)].fetch_sub(1, Ordering::SeqCst);
                }
                drop(permit);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_idle(&admission);
}
